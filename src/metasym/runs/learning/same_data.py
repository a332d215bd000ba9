"""Whether all processes of a run have read the same data."""

from __future__ import annotations

from metasym.tasks.task_file import TaskFile
from metasym.training.distributed import Ranks
from metasym.types import MetasymError


def same_on_every_rank(ranks: Ranks, file: TaskFile) -> TaskFile:
    """The file, which every rank has read; with other data, their gradients would be added up without a word."""
    seen = ranks.gather([file.x_crc, file.y_crc, list(file.x.shape), list(file.y.shape)])

    def compare() -> None:
        other = next((rank for rank, one in enumerate(seen) if one != seen[0]), None)
        if other is not None:
            raise MetasymError(
                f"{file.path}: expected the same data on every rank, found other data on rank {other} than on rank 0",
                about=str(file.path),
                found=other,
            )

    ranks.on_main(compare)
    return file
