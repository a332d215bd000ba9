"""``metrics.jsonl``: one Record a line, in the order of the steps."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Required, TypedDict

from metasym.storage.atomic import open_own
from metasym.storage.described import Count, described
from metasym.storage.json_files import parse, storable
from metasym.storage.plain_files import open_plain, read_plain
from metasym.types import MetasymError, Record

NAME = "metrics.jsonl"
_FLUSH_SECONDS = 1.0


class StoredRecord(TypedDict, total=False):
    """A line of the file: a Record, in which null stands for NaN and infinity."""

    step: Required[Count]
    outer_loss: float | None
    inner_loss_before: float | None
    inner_loss_after: float | None
    gradient_norm: float | None
    step_sizes: dict[str, float | None]
    steps_per_second: float | None
    skipped_tasks: Count
    validation: float | None
    validation_seconds: float | None


class StoredRecords(NamedTuple):
    """What the file holds."""

    records: list[StoredRecord]
    torn: bool
    """Whether a half-written last line was left out: the run was killed, or is writing it now."""


def read_records(path: Path, *, up_to: int | None = None) -> StoredRecords:
    """The records in the file (of ``up_to`` steps at most), each checked; none where the file is missing."""
    if not path.exists():
        return StoredRecords([], False)
    try:
        lines = read_plain(path).split(b"\n")
    except OSError as error:
        raise MetasymError(
            f"{path}: expected records of training, found {error.strerror}",
            about=str(path),
            found=error.strerror,
        ) from None
    tail = lines.pop()  # empty where the last line is whole
    found: list[StoredRecord] = []
    for number, line in enumerate(lines[:up_to], 1):
        try:
            value = parse(line)
        except ValueError:
            raise MetasymError(
                f"{path}: expected a record on line {number}, found {_shown(line)}",
                about=f"{path}: line {number}",
                found=line,
            ) from None
        found.append(described(value, StoredRecord, f"{path}, line {number}"))
    return StoredRecords(found, bool(tail))


def _shown(line: bytes) -> str:
    text = line[:40].decode("utf-8", "replace").strip()
    return repr(text) if text else "an empty one"


def cut_back(path: Path, step: int) -> None:
    """Drop the lines after that of ``step``, a half-written last one included; a missing file stays missing.

    The lines up to a checkpoint's step were on the disk before the checkpoint: a bad one there means that
    something else changed the file, which is refused rather than cut.
    """
    if not path.exists():
        return
    end, last = 0, 0
    found: int | None = None
    with open_plain(path) as file:
        for line in file:
            found = _step(line)
            if found is None or found > step or (last > 0 and found != last + 1):
                break
            end, last = end + len(line), found
    begins_later = last == 0 and found == step + 1  # an older file was moved away at this checkpoint
    if last != step and not begins_later:
        raise MetasymError(
            f"{path}: expected the records up to step {step}, found good ones up to {last}; "
            "move the file away to resume without it",
            about=str(path),
            found=last,
        )
    with open(path, "r+b", opener=open_own) as file:
        file.truncate(end)


def _step(line: bytes) -> int | None:
    """The step of a whole line; ``None`` for a damaged one."""
    try:
        step = parse(line)["step"] if line.endswith(b"\n") else None
    except (ValueError, KeyError, TypeError):
        return None
    return step if isinstance(step, int) else None


class MetricsFile:
    """Appends Records; they are on the disk after :meth:`sync`, and other programs see them within a second."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._writing():
            self._file = open(path, "a", encoding="utf-8", buffering=1 << 16, opener=open_own)  # noqa: SIM115
        self._flushed = time.monotonic()

    def write(self, record: Record) -> None:
        """Append one line."""
        values = record.as_dict()
        try:
            line = json.dumps(values, allow_nan=False)
        except ValueError:
            line = json.dumps(storable(values))
        with self._writing():
            self._file.write(line + "\n")
            if time.monotonic() - self._flushed >= _FLUSH_SECONDS:
                self._file.flush()
                self._flushed = time.monotonic()

    def sync(self) -> None:
        """Write all lines to the disk."""
        with self._writing():
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Write what is left and close the file."""
        with self._writing():
            self._file.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise MetasymError(
                f"{self._path}: expected to write records, found {error.strerror}",
                about=str(self._path),
                found=error.strerror,
            ) from None
