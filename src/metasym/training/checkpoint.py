"""Checkpoint files: written atomically, verified before use, the previous one always kept."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict, TypeVar

from torch import Tensor

from metasym.argument_types import checked
from metasym.learners.base import Learner
from metasym.storage.atomic import read_bytes, write_atomically
from metasym.storage.described import Count, described
from metasym.storage.file_names import CONFIG, CURRENT, PREVIOUS
from metasym.storage.json_files import storable
from metasym.storage.locks import remove_abandoned
from metasym.storage.same_run import check_same_run
from metasym.storage.serialization import CheckpointError, pack, unpack

AnyLearner = TypeVar("AnyLearner", bound=Learner)


class LearnerFile(TypedDict):
    """What a file of :func:`save` holds."""

    learner: dict[str, Any]
    describe: dict[str, Any]


class BestFile(TypedDict):
    """The learner at the validation that went best."""

    value: float
    step: Count
    state: dict[str, Any]


class _NumpyKey(TypedDict):
    key: list[Count]
    pos: Count


class _NumpyState(TypedDict):
    bit_generator: str
    state: _NumpyKey
    has_gauss: int
    gauss: float


class RandomFile(TypedDict):
    """The global random generators of one process."""

    torch: Tensor
    cuda: Tensor | None
    python: tuple[int, tuple[Count, ...], float | None]
    numpy: _NumpyState


class TrainingFile(LearnerFile):
    """What a checkpoint of a training holds."""

    step: Count
    run: dict[str, Any]
    optimizer: dict[str, Any]
    scheduler: dict[str, Any] | None
    best: BestFile | None
    average: NotRequired[dict[str, Any] | None]
    """The average of the outer parameters, by their names in the learner; older files have none."""
    recovered: NotRequired[list[Count]]
    """The steps at which the caller went back to an earlier state, because training diverged."""
    unfinished: NotRequired[dict[str, Any] | None]
    """The Record of a step whose validation was interrupted, and is made again on resuming."""
    random: list[RandomFile]
    computed_by: NotRequired[dict[str, str]]
    """Which engine and kernels took the steps; older files do not say."""


def read_training(path: Path) -> dict[str, Any]:
    """The state in a training's checkpoint; it fits :class:`TrainingFile`."""
    return training_state(read_bytes(path), str(path))


def training_state(data: bytes, name: str) -> dict[str, Any]:
    """The state in the bytes of a training's checkpoint; ``name`` is what errors call the file."""
    state = unpack(data, name)
    if "run" not in state:
        raise CheckpointError(
            f"{name}: expected a training checkpoint, found a saved learner",
            about=name,
            found="a saved learner",
        )
    described(state, TrainingFile, name, error=CheckpointError)
    return state


def learner_state(path: Path) -> dict[str, Any]:
    """The state in a file of :func:`save` or in a training's checkpoint."""
    state = unpack(read_bytes(path), str(path))
    described(state, TrainingFile if "run" in state else LearnerFile, str(path), error=CheckpointError)
    return state


@checked
def save(learner: Learner, path: str | os.PathLike[str]) -> None:
    """Write all that the learner has meta-learned (model, step sizes, ...) to a file, atomically.

    Args:
        learner: A trained learner.
        path: A safetensors file.
    """
    write_atomically(Path(path), pack({"learner": learner.state_dict(), "describe": learner.describe()}))


@checked
def load(path: str | os.PathLike[str], learner: AnyLearner, *, best: bool = True) -> AnyLearner:
    """Put a stored state into ``learner``, in place, and return it. Executes no code.

    Args:
        path: A file of :func:`save`, or a training checkpoint.
        learner: A learner made as the stored one was.
        best: From a training checkpoint, take the parameters with the best validation, where it holds any. False
            takes the latest (their average, in a run with ``average=``).

    Returns:
        The same ``learner``.

    Example:
        >>> import tempfile, torch, metasym as ms
        >>> path = tempfile.mkdtemp() + "/learner.safetensors"
        >>> ms.save(ms.MAML(torch.nn.Linear(3, 1)), path)
        >>> type(ms.load(path, ms.MAML(torch.nn.Linear(3, 1)))).__name__
        'MAML'
    """
    stored = learner_state(Path(path))
    check_learner(learner, stored, str(path), method_only=True)
    latest = {**stored["learner"], **(stored.get("average") or {})}
    chosen = stored["best"]["state"] if best and stored.get("best") else latest
    learner.load_state_dict(chosen)
    return learner


def check_learner(
    learner: Learner, stored: Mapping[str, Any], name: str, *, method_only: bool = False
) -> None:
    """Refuse state of another learner, or of a model with other names, shapes or types of tensors."""
    expected, found = learner.describe(), stored.get("describe", {})
    if method_only:
        expected, found = {"method": expected.get("method")}, {"method": found.get("method")}
    check_settings(expected, found, name)
    _check_tensors(learner, stored["learner"], name)
    if stored.get("best") is not None:
        _check_tensors(learner, stored["best"]["state"], f"{name}: best.state")
    if stored.get("average") is not None:
        _check_tensors(learner, {**stored["learner"], **stored["average"]}, f"{name}: average")


def _check_tensors(learner: Learner, other: Mapping[str, Any], name: str) -> None:
    own = learner.state_dict()
    for key in [*own, *other]:
        if key not in other or key not in own:
            raise CheckpointError(
                f"{name}: expected {'a tensor' if key in own else 'no tensor'} {key}, "
                f"found {'none' if key in own else 'one'}: a checkpoint of another model",
                about=f"{name}: {key}",
                found=None if key in own else _kind(other[key]),
            )
        if _kind(own[key]) != _kind(other[key]):
            raise CheckpointError(
                f"{name}: expected {key} to be {_kind(own[key])}, found {_kind(other[key])}: "
                "a checkpoint of another model",
                about=f"{name}: {key}",
                found=_kind(other[key]),
            )


def check_settings(expected: Any, found: Any, name: str) -> None:
    """Refuse a checkpoint of another run."""
    check_same_run(expected, found, name, "a checkpoint of a run", error=CheckpointError)


def _kind(value: Any) -> str:
    if not isinstance(value, Tensor):
        return type(value).__name__
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"


class Checkpoints:
    """The checkpoints of one training run: the current one and the one before it, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.current = folder / CURRENT
        self.previous = folder / PREVIOUS

    def open(self, *, resume: bool, check: Callable[[dict[str, Any], str], None]) -> bytes | None:
        """The bytes to resume from, verified and accepted by ``check(state, name)``; ``None``: a fresh start.

        The folder must exist and be locked. Leftovers of killed runs are removed. Where the newest checkpoint
        cannot be used, the error names the older one if that one can be; nothing is moved or deleted.
        """
        found = [path for path in (self.current, self.previous) if path.exists()]
        if found and not resume:
            raise CheckpointError(
                f"{self.folder}: expected a folder without a run, found {found[0].name}; "
                "resume that run or choose another folder",
                about=str(self.folder),
                found=found[0].name,
            )
        remove_abandoned(self.folder, self.current.name)
        if not found:
            return None
        try:
            return self._verified(found[0], check)
        except CheckpointError as error:
            raise CheckpointError(
                f"{error}{self._older(found[1:], check)}", about=error.about, found=error.found
            ) from None

    def write(self, state: dict[str, Any]) -> None:
        """Make ``state`` the current checkpoint and keep the previous one."""
        write_atomically(self.current, pack(state), keep=self.previous)

    def write_settings(self, settings: dict[str, Any]) -> None:
        """Write ``config.json`` for readers of the folder, unless the program has put one there itself."""
        path = self.folder / CONFIG
        if not path.exists():
            text = json.dumps(storable(settings), indent=1, default=str)
            write_atomically(path, f"{text}\n".encode(), what="the settings")

    def _verified(self, path: Path, check: Callable[[dict[str, Any], str], None]) -> bytes:
        data = read_bytes(path)
        check(training_state(data, str(path)), str(path))
        return data

    def _older(self, paths: list[Path], check: Callable[[dict[str, Any], str], None]) -> str:
        for path in paths:
            with contextlib.suppress(CheckpointError):
                step = unpack(self._verified(path, check), str(path))["step"]
                return f"; the one before it is good: {path} (step {step}), rename it to {CURRENT} to go on"
        return ""
