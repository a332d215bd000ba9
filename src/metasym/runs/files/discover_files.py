"""What the files of ``metasym discover`` may hold, compared with it when they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
from torch import Tensor

from metasym.runs.files.result_files import CONFIG, RESULT
from metasym.storage.atomic import read_bytes
from metasym.storage.described import Count, Number, Scalar, Score, Seed, described
from metasym.storage.json_files import read_json
from metasym.storage.serialization import CheckpointError, unpack

COMMAND = "discover"
MODEL = "model.safetensors"
Sign = Annotated[int, msgspec.Meta(ge=-1, le=1)]
Pair = Annotated[list[Score], msgspec.Meta(min_length=2, max_length=2)]


class OptionsFile(TypedDict, total=False):
    """What was asked for."""

    seed: Seed
    test: Number
    tolerance: Number
    continuous: bool
    finite: bool


class DiscoveredData(TypedDict):
    """Where the data came from; what else describes them is compared as it stands."""

    path: str


class DiscoverConfig(TypedDict):
    """``config.json``."""

    command: Literal["discover"]
    data: DiscoveredData
    options: OptionsFile


class MoveFile(TypedDict):
    """A generator of a finite group: input i goes to ``inputs[i]`` with a sign, outputs likewise."""

    inputs: list[Count]
    input_signs: list[Sign]
    outputs: NotRequired[list[Count]]
    output_signs: NotRequired[list[Sign]]


class ClaimFile(TypedDict):
    """One claim; a continuous symmetry has a dimension and matrices, a finite one an order and moves."""

    kind: Literal["finite", "continuous"]
    name: str
    generators: list[list[list[Number]] | MoveFile]
    violation_upper: Score
    beta: Score
    beta_ci: Pair
    inputs: list[Count]
    order: NotRequired[Count]
    dimension: NotRequired[Count]
    outputs: NotRequired[list[Count]]
    output_generators: NotRequired[list[list[list[Number]]]]


class StageFile(TypedDict):
    """What one search found, kept for a run that is killed."""

    claim: ClaimFile | None
    more: NotRequired[list[ClaimFile]]
    reason: str
    polynomials: NotRequired[list[list[list[Number]]]]
    pairs: NotRequired[list[list[list[Number]]]]
    supports: NotRequired[list[list[list[Count]]]]


class RefusedFile(TypedDict):
    """What was looked at and is not claimed."""

    kind: str
    what: str
    reason: str


class ScoresFile(TypedDict):
    """A model's error on examples that took no part."""

    metric: Literal["mse", "accuracy"]
    mean: Score
    ci95: Score
    relative: Score


class DiscoverResult(TypedDict):
    """``result.json``."""

    command: Literal["discover"]
    verdict: str
    symmetries: list[ClaimFile]
    refused: list[RefusedFile]
    plain: ScoresFile
    symmetric: ScoresFile | None
    examples: Count
    held_out: Count
    family: bool
    notes: list[str]
    seconds: Score
    peak_memory_mb: Score
    command_line: str
    commit: str | None
    versions: dict[str, Scalar]
    config: DiscoverConfig


class FeaturesFile(TypedDict):
    """The invariants that a model is made of."""

    quadratic: Tensor
    linear: Tensor
    middle: Tensor
    spread: Tensor
    lengths: list[Count]
    cosines: list[Annotated[list[Count], msgspec.Meta(min_length=3, max_length=3)]]


class FunctionFile(TypedDict):
    """A fitted function in ``model.safetensors``."""

    centre: Tensor
    scale: Tensor
    used: Tensor
    inputs: Tensor
    weights: Tensor
    mean: Tensor
    offset: Tensor
    unit: Tensor
    features: FeaturesFile | None
    kernel: list[tuple[Literal["rbf", "square", "cube"], Count, Count, Number, Number]]
    widths: list[Tensor]
    shape: list[Count]
    turn: NotRequired[Tensor]


class AveragedFile(TypedDict):
    """A fitted function, averaged over a finite group."""

    inner: FunctionFile
    sources: Tensor
    signs: Tensor
    targets: Tensor
    target_signs: Tensor


class PolynomialFile(TypedDict):
    """A polynomial: each row of ``factors`` names the inputs of a monomial, filled up with one that stands for 1."""

    centre: Tensor
    scale: Tensor
    used: Tensor
    factors: Tensor
    weights: Tensor
    offset: Tensor
    shape: list[Count]


class FamilyFile(TypedDict):
    """The model of a family."""

    family: Literal[True]
    kernel: tuple[Number, Number, Number]
    sigma_0: Number
    noise: Number
    centre: Tensor
    scale: Number
    unit: Number
    elements: list[Annotated[list[Tensor], msgspec.Meta(min_length=4, max_length=4)]]


def is_discovered(folder: Path) -> bool:
    """Whether the folder holds a run of ``metasym discover``."""
    if not (folder / CONFIG).is_file():
        return False
    return read_json(folder / CONFIG, "the config of a run").get("command") == COMMAND


def read_discover_config(folder: Path) -> dict[str, Any]:
    """``config.json`` of a run."""
    return read_json(folder / CONFIG, "the config of a run", DiscoverConfig)


def read_discovered(folder: Path) -> dict[str, Any]:
    """``result.json`` of a finished run."""
    return read_json(folder / RESULT, "a result of metasym discover", DiscoverResult)


def read_model(path: Path) -> dict[str, Any]:
    """The state in ``model.safetensors``."""
    state = unpack(read_bytes(path), str(path))
    kinds = {"family": FamilyFile, "inner": AveragedFile, "factors": PolynomialFile}
    kind = next((kinds[key] for key in kinds if key in state), FunctionFile)
    described(state, kind, str(path), error=CheckpointError)
    return state
