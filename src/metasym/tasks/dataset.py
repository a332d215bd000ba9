"""One data set: rows of inputs and outputs, from arrays, an ``.npz`` archive or a table."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from metasym.errors import asked, option_name
from metasym.storage.plain_files import open_plain
from metasym.tasks.npz import DAMAGED, damage
from metasym.tasks.plain_facts import LARGEST_SIZE, TABLES
from metasym.tasks.reading import check_archive
from metasym.tasks.row_sample import RowSample, Sampled, sampled_rows
from metasym.tasks.table_files import read_columns
from metasym.tasks.task_file import check_not_tiny
from metasym.types import MetasymError

Array = npt.NDArray[np.float64]
LEAST_EXAMPLES = 20
MOST_EXAMPLES = 10_000
"""Of more examples a random sample is kept: models are fitted to 1,500, and what is held out is compared with all."""
MOST_IN_TASKS = 1_000_000
"""Examples of all tasks of a family; of more a random sample of its tasks is kept."""
_BLOCK = 2**20
"""Numbers that are checked at once."""
CONSTANT = 1e-12
"""Columns whose deviation is no more than this part of their largest number are constant but for rounding."""


@dataclass(frozen=True, eq=False)
class DataSet:
    """Examples of one function: ``x [examples, n]`` and ``y [examples, m]``, float64; labels as one-hot rows."""

    x: Array
    y: Array
    classes: int
    """How many labels there are; 0 for regression."""
    x_shape: tuple[int, ...]
    """The shape of one example's x, as the user has it."""
    y_shape: tuple[int, ...]
    input_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    sampled: Sampled | None = None
    """What these examples are a sample of; None: they are all."""

    def describe(self) -> dict[str, Any]:
        """Plain types, for ``config.json``: enough to recognise the same data."""
        return {
            "x": {"shape": [len(self.x), *self.x_shape], "crc32": zlib.crc32(self.x.tobytes())},
            "y": {"shape": [len(self.y), *self.y_shape], "crc32": zlib.crc32(self.y.tobytes())},
            "classes": self.classes,
            "input_names": list(self.input_names),
            "output_names": list(self.output_names),
            **({} if self.sampled is None else {"sampled": self.sampled.as_dict()}),
        }


def dataset(
    x: Any,
    y: Any,
    *,
    where: str = "discover",
    labels: bool | None = None,
    names: tuple[str, ...] = (),
    outputs: tuple[str, ...] = (),
    seed: int = 0,
) -> DataSet:
    """Checked examples: ``x [examples, ...]`` of finite numbers, ``y [examples, ...]`` of numbers or of labels.

    Whole numbers ``y [examples]`` are labels unless ``labels`` says otherwise. All numbers are checked; of more than
    ``MOST_EXAMPLES`` examples a random sample by ``seed`` is kept.
    """
    inputs, targets = _numbers(x, "x", where), _numbers(y, "y", where)
    shapes = f"x {list(inputs.shape)} and y {list(targets.shape)}"
    if inputs.ndim < 2 or targets.ndim < 1 or len(inputs) != len(targets):
        raise MetasymError(
            f"{where}: expected x [examples, features] and y [examples, ...] with as many rows, found {shapes}",
            about=f"{where}: x, y",
            found=(tuple(inputs.shape), tuple(targets.shape)),
        )
    if 0 in inputs.shape or 0 in targets.shape[1:]:
        raise MetasymError(
            f"{where}: expected at least one number per example, found {shapes}",
            about=f"{where}: x, y",
            found=(tuple(inputs.shape), tuple(targets.shape)),
        )
    if len(inputs) < LEAST_EXAMPLES:
        raise MetasymError(
            f"{where}: expected at least {LEAST_EXAMPLES} examples to fit and to test on, found {len(inputs)}",
            about=f"{where}: examples",
            found=len(inputs),
        )
    total = len(inputs)
    rows = sampled_rows(total, MOST_EXAMPLES, seed)
    if rows is not None:
        inputs, targets = inputs[rows], targets[rows]
    sampled = None if rows is None else Sampled(len(rows), total, seed)
    whole = targets.ndim == 1 and targets.dtype.kind in "iub"
    is_labels = whole if labels is None else labels
    shape = tuple(int(size) for size in targets.shape[1:])
    classes = 0
    if is_labels:
        if targets.ndim != 1:
            raise MetasymError(
                f"{where}: expected labels y [examples], found {list(targets.shape)}",
                about=f"{where}: y",
                found=tuple(targets.shape),
            )
        values, places = np.unique(targets, return_inverse=True)
        classes = len(values)
        if not 2 <= classes <= max(2, len(targets) // 4):
            raise MetasymError(
                f"{where}: expected labels of 2 to {max(2, len(targets) // 4)} classes, found {classes}; numbers to "
                f"predict are floats, or {asked('labels', False)}",
                about=f"{where}: classes",
                found=classes,
            )
        encoded = np.eye(classes)[places]
    else:
        encoded = targets.reshape(len(targets), -1).astype(np.float64)
        if not _varies(encoded):
            raise MetasymError(
                f"{where}: expected y that varies, found a constant", about=f"{where}: y", found="a constant"
            )
    flat = inputs.reshape(len(inputs), -1).astype(np.float64)
    if not _varies(flat):
        raise MetasymError(
            f"{where}: expected x that varies, found constants", about=f"{where}: x", found="constants"
        )
    shown = tuple(int(s) for s in inputs.shape[1:])
    own = () if classes else outputs  # one-hot rows are classes, not columns
    return DataSet(flat, encoded, classes, shown, shape, names, own, sampled=sampled)


def read_dataset(
    path: str | os.PathLike[str],
    *,
    inputs: str | None = None,
    outputs: str | None = None,
    labels: bool | None = None,
    tasks: bool | None = None,
    seed: int = 0,
) -> DataSet | Family:
    """One data set in a file: ``x`` and ``y`` of an ``.npz``, or columns of a ``.csv``, ``.tsv`` or ``.parquet``.

    Arrays of an ``.npz`` that begin with ``[tasks, examples]`` are a family, unless ``tasks`` says otherwise. Of a
    large file a random sample by ``seed`` is kept; a table is read a part at a time.
    """
    file = Path(path)
    if file.suffix.lower() in TABLES:
        sample = RowSample(MOST_EXAMPLES, seed)
        x, y, names, outs = read_columns(file, inputs, outputs, labels=bool(labels), sample=sample)
        found = dataset(x, y, where=str(file), labels=labels, names=names)
        sampled = None if sample.seen == len(x) else Sampled(len(x), sample.seen, seed)
        return replace(found, output_names=outs, sampled=sampled)
    for name, value in (("inputs", inputs), ("outputs", outputs)):
        if value is not None:
            raise MetasymError(
                f"expected {asked(name)} only for a table ({', '.join(TABLES)}), found it with {file.name}",
                about=option_name(name),
                found=file.name,
            )
    check_archive(file)
    arrays = read_arrays(file)
    if is_family(arrays["x"], arrays["y"]) if tasks is None else tasks:
        return family(arrays["x"], arrays["y"], where=str(file), seed=seed)
    return dataset(arrays["x"], arrays["y"], where=str(file), labels=labels, seed=seed)


@dataclass(frozen=True, eq=False)
class Family:
    """Functions of a family: ``x [tasks, examples, n]`` and ``y [tasks, examples, m]``, float64."""

    x: Array
    y: Array
    sampled: Sampled | None = None
    """What these tasks are a sample of; None: they are all."""

    def describe(self) -> dict[str, Any]:
        """Plain types, for ``config.json``."""
        return {
            "family": True,
            "x": {"shape": list(self.x.shape), "crc32": zlib.crc32(self.x.tobytes())},
            "y": {"shape": list(self.y.shape), "crc32": zlib.crc32(self.y.tobytes())},
            **({} if self.sampled is None else {"sampled": self.sampled.as_dict()}),
        }


def is_family(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> bool:
    """Whether arrays look like tasks: ``[tasks, examples, ...]`` in front of both."""
    return x.ndim >= 3 and y.ndim >= 3 and x.shape[:2] == y.shape[:2]


def family(x: Any, y: Any, *, where: str = "discover", seed: int = 0) -> Family:
    """Checked tasks of a family: inputs and outputs of an example are flattened; of very many a random sample."""
    inputs, targets = _numbers(x, "x", where), _numbers(y, "y", where)
    if not is_family(inputs, targets) or 0 in inputs.shape or 0 in targets.shape:
        raise MetasymError(
            f"{where}: expected a family x [tasks, examples, ...] and y [tasks, examples, ...], found "
            f"x {list(inputs.shape)} and y {list(targets.shape)}",
            about=f"{where}: x, y",
            found=(tuple(inputs.shape), tuple(targets.shape)),
        )
    tasks, examples = inputs.shape[:2]
    rows = sampled_rows(tasks, max(1, MOST_IN_TASKS // examples), seed)
    if rows is not None:
        inputs, targets = inputs[rows], targets[rows]
    front = inputs.shape[:2]
    if not all(_varies(value.reshape(front[0] * front[1], -1)) for value in (inputs, targets)):
        raise MetasymError(
            f"{where}: expected x and y that vary, found constants", about=f"{where}: x, y", found="constants"
        )
    return Family(
        inputs.reshape(*front, -1).astype(np.float64),
        targets.reshape(*front, -1).astype(np.float64),
        None if rows is None else Sampled(len(rows), tasks, seed, "tasks"),
    )


def read_arrays(file: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays ``x`` and ``y`` of an ``.npz`` file, or one line that says what is wrong with it."""
    want = f"{file}: expected an .npz file with arrays x and y, or a table ({', '.join(TABLES)})"
    try:
        with open_plain(file) as stream, np.load(stream, allow_pickle=False) as archive:
            if not hasattr(archive, "files"):
                raise MetasymError(
                    f"{want}, found a single array (numpy.save)", about=str(file), found="a single array"
                )
            missing = [name for name in ("x", "y") if name not in archive.files]
            if missing:
                there = ", ".join(archive.files) or "no arrays"
                raise MetasymError(
                    f"{want}, found no {' and no '.join(missing)} among: {there}",
                    about=str(file),
                    found=tuple(archive.files),
                )
            return {name: np.asarray(archive[name]) for name in ("x", "y")}
    except MetasymError:
        raise
    except OSError as error:
        raise MetasymError(
            f"{want}, found {error.strerror or 'another kind of file'}", about=str(file), found=error.strerror
        ) from None
    except DAMAGED as error:
        raise MetasymError(f"{want}, found {damage(error)}", about=str(file), found=damage(error)) from None


def _varies(values: npt.NDArray[Any]) -> bool:
    """Whether some column of ``values [rows, columns]`` varies beyond rounding: 0.1, 0.1, ... deviate by 1e-17."""
    return bool((values.std(0) > CONSTANT * np.abs(values).max(0)).any())


def _numbers(value: Any, name: str, where: str) -> npt.NDArray[Any]:
    try:
        found = np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)
    except (TypeError, ValueError) as error:
        raise MetasymError(
            f"{where}: expected {name} to be an array of numbers, found {error}",
            about=f"{where}: {name}",
            found=str(error),
        ) from None
    if found.dtype.kind not in "fiub":
        raise MetasymError(
            f"{where}: expected {name} to be an array of real numbers, found {found.dtype}",
            about=f"{where}: {name}",
            found=str(found.dtype),
        )
    if found.dtype.kind != "f" or not found.ndim:
        return found
    bad, row, largest, by_column = 0, -1, 0.0, np.zeros(1)
    for first, part in _parts(found):
        wrong = ~np.isfinite(part)
        if wrong.any():
            row = first + int(np.argwhere(wrong)[0][0]) if row < 0 else row
            bad += int(wrong.sum())
        elif part.size:
            largest = max(largest, float(np.abs(part).max()))
            columns = part.reshape(-1, found.shape[-1] if found.ndim > 1 else 1)
            by_column = np.maximum(by_column, np.abs(columns).max(0))
    if bad:
        raise MetasymError(
            f"{where}: expected finite numbers, found {bad} NaN or infinite in {name}, the first in row {row}",
            about=f"{where}: {name}",
            found=(bad, row),
        )
    if largest > LARGEST_SIZE:
        raise MetasymError(
            f"{where}: expected numbers whose squares are finite, found larger ones in {name}",
            about=f"{where}: {name}",
            found=largest,
        )
    check_not_tiny(where, name, by_column)
    return found


def _parts(values: npt.NDArray[Any]) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Some rows at a time, with the number of their first: what is made of them stays small."""
    step = max(1, _BLOCK * len(values) // max(1, values.size))
    for first in range(0, len(values), step):
        yield first, values[first : first + step]
