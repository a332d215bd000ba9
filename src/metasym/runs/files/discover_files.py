"""What the files of ``metasym discover`` may hold, compared with it when they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
from torch import Tensor

from metasym.storage.atomic import read_bytes
from metasym.storage.described import Count, Number, Score, Seed, described
from metasym.storage.serialization import CheckpointError, unpack
from metasym.verdicts.discovery_reasons import AnyDiscoveryReason
from metasym.verdicts.outcomes import Outcome
from metasym.verdicts.verdict import Status

COMMAND = "discover"
Sign = Annotated[int, msgspec.Meta(ge=-1, le=1)]
Pair = Annotated[list[Score], msgspec.Meta(min_length=2, max_length=2)]


class OptionsFile(TypedDict, total=False):
    """What was asked for."""

    seed: Seed
    test: Number
    tolerance: Number
    continuous: bool
    finite: bool
    group: str | None


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
    defect_upper: Score
    beta: Score
    beta_ci: Pair
    tested_on: Count
    inputs: list[Count]
    order: NotRequired[Count]
    dimension: NotRequired[Count]
    outputs: NotRequired[list[Count]]
    output_generators: NotRequired[list[list[list[Number]]]]
    defect: NotRequired[Score]
    centre: NotRequired[list[Number]]
    rows_upper: NotRequired[Score]
    input_names: NotRequired[list[str]]
    output_names: NotRequired[list[str]]
    words: NotRequired[str]


class RefusedFile(TypedDict):
    """What is not claimed: the space that was searched, and the reasons, each with its numbers and ``words``."""

    kind: Literal["finite", "continuous"]
    what: str
    outcome: Outcome
    reasons: list[AnyDiscoveryReason]
    words: str


class AnswerFile(TypedDict):
    """About a group that was asked about: status, defect, bound, what breaks it, and in one line."""

    text: str
    name: str
    order: Count
    status: Status
    refuted: bool
    defect: Score
    defect_upper: Score
    tested_on: Count
    reasons: list[AnyDiscoveryReason]
    words: str


class VerdictFile(TypedDict):
    """The verdict with its reasons, and in one line."""

    status: Status
    reasons: list[AnyDiscoveryReason]
    words: str


class StageFile(TypedDict):
    """What one search found, kept for a run that is killed."""

    claims: list[ClaimFile]
    refused: list[RefusedFile]
    polynomials: NotRequired[list[list[list[Number]]]]
    pairs: NotRequired[list[list[list[Number]]]]
    supports: NotRequired[list[list[list[Count]]]]


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
    logarithms: NotRequired[Tensor]


class AveragedFile(TypedDict):
    """A fitted function, averaged over a finite group."""

    inner: FunctionFile
    sources: Tensor
    signs: Tensor
    targets: Tensor
    target_signs: Tensor


class SortedFile(TypedDict):
    """A fitted function that sees the inputs of each orbit in ascending order."""

    inner: FunctionFile
    orbits: list[list[Count]]


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


def read_model(path: Path) -> dict[str, Any]:
    """The state in ``model.safetensors``."""
    state = unpack(read_bytes(path), str(path))
    kinds = {"family": FamilyFile, "orbits": SortedFile, "inner": AveragedFile, "factors": PolynomialFile}
    kind = next((kinds[key] for key in kinds if key in state), FunctionFile)
    described(state, kind, str(path), error=CheckpointError)
    return state
