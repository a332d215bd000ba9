"""One door for every kind of tasks: npz archives and tables, data frames and arrays."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metasym.errors import asked, option_name
from metasym.storage.system import available_memory
from metasym.tasks.npz import read_npz
from metasym.tasks.plain_facts import TABLES
from metasym.tasks.task_file import Reading, TaskFile
from metasym.types import MetasymError

if TYPE_CHECKING:
    from metasym.tasks.streamed import Processes

_FRAMES = (".pkl", ".pickle", ".feather", ".h5", ".hdf5", ".json", ".xlsx", ".xls", ".arrow", ".orc")
"""Files that data frames are kept in."""


def read_tasks(
    path: str | os.PathLike[str],
    reading: Reading | None = None,
    *,
    memory: int | None = None,
    processes: Processes | None = None,
) -> TaskFile:
    """The tasks in a file: ``.csv``, ``.tsv`` and ``.parquet`` are tables, everything else is an ``.npz`` archive.

    A folder, or a pattern such as ``data/*.parquet``, is many Parquet files, whose rows need not fit into memory;
    each of the ``processes`` reads its share. An error says in one line what is wrong with the file. ``memory`` is
    how many bytes may be used; by default, those that are free.
    """
    file, wishes = Path(path), reading or Reading()
    free = available_memory() if memory is None else memory
    try:
        kind = file.suffix.lower()
        if kind in TABLES or file.is_dir() or glob.has_magic(str(file)):
            found = _rows(file, kind, wishes, processes, free)
            if found is not None:
                return found
        check_archive(file)
        _refuse_flags_of_tables(file, wishes)
        return read_npz(file, wishes, free)
    except MemoryError:
        raise MetasymError(
            f"{file}: expected tasks that fit into memory, found no room for {file.stat().st_size / 1e6:,.0f} MB of "
            "them: keep fewer tasks, or store them with numpy.savez, uncompressed, so that they can stay on the disk",
            about=str(file),
            found=file.stat().st_size,
        ) from None


def _rows(file: Path, kind: str, wishes: Reading, processes: Processes | None, free: int) -> TaskFile | None:
    """Tasks in rows: of a table, or of many; None for what is neither. An archive needs none of what is imported."""
    from metasym.tasks.many_rows import ParquetFiles, is_many, many_files
    from metasym.tasks.streaming import stream_tasks
    from metasym.tasks.table_files import read_table

    if is_many(file):
        return stream_tasks(many_files(file), wishes, processes, memory=free)
    if kind == ".parquet" and (many := ParquetFiles(file, [file])).beyond(free):
        return stream_tasks(many, wishes, processes, memory=free)
    return read_table(file, wishes, free) if kind in TABLES else None


def check_archive(file: Path) -> None:
    """Refuse a file of another kind than can be read, by its suffix; what has none may be an archive."""
    kind = file.suffix.lower()
    if kind in ("", ".npz", *TABLES):
        return
    instead = "ms.learn(frame, ...) takes a data frame as it is, " if kind in _FRAMES else ""
    raise MetasymError(
        f"{file}: expected an archive .npz or a table {', '.join(TABLES)}, found {kind}: {instead}"
        "frame.to_parquet(path) or numpy.savez(path, x=x, y=y) writes one that can be read",
        about=str(file),
        found=kind,
    )


def tasks_in(
    x: Any,
    y: Any = None,
    reading: Reading | None = None,
    *,
    blocks: Any = None,
    processes: Processes | None = None,
) -> TaskFile:
    """The tasks in a file (its path), in a data frame, a pyarrow data set, or in arrays ``[tasks, examples, ...]``.

    ``blocks [tasks]`` says which tasks of arrays belong together.
    """
    wishes = reading or Reading()
    if isinstance(x, TaskFile):
        return x
    if y is None and isinstance(x, str | os.PathLike):
        return read_tasks(x, wishes, processes=processes)
    from metasym.tasks.arrays_of_tasks import tasks_of_arrays
    from metasym.tasks.frames import Frame, is_frame
    from metasym.tasks.many_rows import ArrowDataset, is_dataset
    from metasym.tasks.streaming import stream_tasks
    from metasym.tasks.table_files import tasks_of_table

    if y is None and is_dataset(x):
        return stream_tasks(ArrowDataset(x), wishes, processes)
    if y is None and is_frame(x):
        return tasks_of_table(Frame(x), wishes, available_memory())
    if y is None:
        raise MetasymError(
            f"expected arrays x and y, a data frame, or the path of a file, found {type(x).__name__} alone",
            about="x",
            found=type(x).__name__,
        )
    if is_frame(x) and wishes.task is not None:
        raise MetasymError(
            "expected y to be left out with a frame, whose outputs= names its columns, found both",
            about="y",
            found="both",
        )
    return tasks_of_arrays(x, y, wishes, blocks)


def _refuse_flags_of_tables(file: Path, reading: Reading) -> None:
    for flag in ("task", "inputs", "outputs", "blocks"):
        if getattr(reading, flag) is not None:
            raise MetasymError(
                f"expected {asked(flag)} only for a table ({', '.join(TABLES)}), found it with {file.name}",
                about=f"{file}: {option_name(flag)}",
                found=file.name,
            )
