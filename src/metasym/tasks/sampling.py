"""Seeds for tasks, and episodes from any task family.

Every random choice belongs to a (seed, step, position) triple, not to the state of a running
generator: a resumed run, a run on four processes and a run in chunks then draw the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from metasym.types import Batch, Episode, MetasymError, Tasks

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _splitmix(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """One round of the SplitMix64 finaliser on uint64 values: a bijection that scatters all bits."""
    z = state + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def mix(*parts: int | Tensor) -> Tensor:
    """Scatter whole numbers (scalars or int64 tensors, broadcast together) into seeds ``[...]``, int64 >= 0.

    The result depends on the values and their order only: the same on every machine.
    """
    arrays = [
        np.asarray(p.numpy() if isinstance(p, Tensor) else p, dtype=np.int64).astype(np.uint64) for p in parts
    ]
    state: npt.NDArray[np.uint64] = np.zeros((), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for a in arrays:
            state = _splitmix(np.asarray(state ^ a, dtype=np.uint64))
    return torch.from_numpy(np.asarray(state >> np.uint64(1)).astype(np.int64))


def seeded(seed: int) -> torch.Generator:
    """A CPU generator that starts at ``seed``."""
    generator = torch.Generator()
    generator.manual_seed(seed)
    return generator


def stack(episodes: Sequence[Episode]) -> Episode:
    """Episodes of single tasks, stacked along a new leading dimension."""
    try:
        return Episode(
            Batch(torch.stack([e.support.x for e in episodes]), torch.stack([e.support.y for e in episodes])),
            Batch(torch.stack([e.query.x for e in episodes]), torch.stack([e.query.y for e in episodes])),
            torch.stack([torch.as_tensor(e.ids, dtype=torch.int64) for e in episodes]),
        )
    except RuntimeError as error:
        raise MetasymError(
            f"expected episodes of equal shapes in one step, found tasks that differ: {error}"
        ) from None


def sample(tasks: Tasks, ids: Tensor, seed: int) -> Episode:
    """The episodes of tasks ``ids [tasks]``; what is drawn for each depends on its id and ``seed``."""
    seeds = mix(seed, ids)
    batched = getattr(tasks, "episodes", None)
    if batched is not None:
        return cast(Episode, batched(ids, seeds))
    return stack(
        [tasks.episode(index, seeded(s)) for index, s in zip(ids.tolist(), seeds.tolist(), strict=True)]
    )
