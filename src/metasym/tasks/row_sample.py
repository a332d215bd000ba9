"""A random sample of rows, drawn while they are read: what is kept never grows with the file.

Every row has a random key, made of the seed and its number; the rows with the smallest keys are kept, in their order.
Which rows these are depends on neither the size of the blocks nor the kind of file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from metasym.tasks.sampling import mix

_SAMPLE = 31
_BLOCK = 2**16
Rows = npt.NDArray[np.int64]
Block = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Sampled:
    """That data are a sample of others."""

    rows: int
    of: int
    seed: int
    unit: str = "rows"

    def __str__(self) -> str:
        return f"fitted on a random sample of {self.rows:,} of {self.of:,} {self.unit}, seed {self.seed}"

    def as_dict(self) -> dict[str, int]:
        """Plain types, for ``config.json``."""
        return {"rows": self.rows, "of": self.of, "seed": self.seed}


def _keys(seed: int, first: int, count: int) -> Rows:
    """The random keys of ``count`` rows from number ``first`` on."""
    return mix(seed, _SAMPLE, torch.arange(first, first + count)).numpy()


def sampled_rows(count: int, most: int, seed: int) -> Rows | None:
    """The numbers of ``most`` of ``count`` rows, in order; None where that is all of them."""
    if count <= most:
        return None
    sample = RowSample(most, seed)
    for first in range(0, count, _BLOCK):
        sample.add({"row": np.arange(first, min(first + _BLOCK, count))})
    return np.asarray(sample.columns()["row"])


class RowSample:
    """Up to ``most`` of the rows of all blocks that are added; ``most`` None keeps all."""

    def __init__(self, most: int | None = None, seed: int = 0) -> None:
        self.most, self.seed = most, seed
        self.seen = 0
        self._blocks: list[dict[str, npt.NDArray[Any]]] = []
        self._keys: list[Rows] = []

    def add(self, block: Block) -> None:
        """Take the columns of the next rows, all of one length."""
        count = len(next(iter(block.values())))
        keys = _keys(self.seed, self.seen, count) if self.most is not None else np.zeros(0, np.int64)
        self.seen += count
        self._blocks.append(dict(block))
        self._keys.append(keys)
        # Twice as many may wait: what is kept is then copied once in as many rows as it has.
        if self.most is not None and sum(map(len, self._keys)) > 2 * self.most:
            self._thin()

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The columns of the rows that are kept, in their order; empty where nothing was added."""
        if self.most is not None and sum(map(len, self._keys)) > self.most:
            self._thin()
        names = self._blocks[0] if self._blocks else {}
        return {name: np.concatenate([block[name] for block in self._blocks]) for name in names}

    def _thin(self) -> None:
        assert self.most is not None
        keys = np.concatenate(self._keys)
        kept = np.sort(np.argpartition(keys, self.most)[: self.most])
        names = self._blocks[0]
        joined = {name: np.concatenate([block[name] for block in self._blocks])[kept] for name in names}
        self._blocks, self._keys = [joined], [keys[kept]]
