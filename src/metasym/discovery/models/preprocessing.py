"""A data set made ready for the search: parts for finding and for certifying, inputs in comparable units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from metasym.discovery.algebra.vector_fields import Array, conjugated
from metasym.discovery.claim_thresholds import SPLIT
from metasym.discovery.models.shared_units import Coordinates, coordinates
from metasym.tasks.dataset import CONSTANT, DataSet
from metasym.types import MetasymError

MOST_FITTED = 1500
"""Training examples that models are fitted to: their cost grows with the cube."""


class Scaling(Protocol):
    """How a fitted function's inputs and outputs relate to the data's."""

    @property
    def place(self) -> Coordinates: ...  # noqa: D102
    @property
    def inputs(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def offset(self) -> Array: ...  # noqa: D102
    @property
    def unit(self) -> float: ...  # noqa: D102


@dataclass(frozen=True, eq=False)
class Scaled:
    """A scaling that is given."""

    place: Coordinates
    inputs: tuple[int, ...]
    offset: Array
    unit: float


@dataclass(frozen=True, eq=False)
class Prepared:
    """Examples in the coordinates of the search; training ``y`` has mean 0 and mean square 1 over all outputs."""

    place: Coordinates
    inputs: tuple[int, ...]
    """Which of the data's inputs are used: those that vary, each once."""
    train: tuple[Array, Array]
    held_out: tuple[Array, Array]
    offset: Array
    """``[m]``: the mean of y."""
    unit: float
    total: int
    """Inputs of the data."""
    order: npt.NDArray[np.int64]
    """Which examples of the data: held-out ones first, then those to train on."""
    notes: tuple[str, ...]

    def whole(self, fields: Array) -> Array:
        """Fields on the used inputs, in these coordinates, as fields on all inputs of the data, each of length 1."""
        back = self.on_all(conjugated(fields, self.place.matrix))
        return np.asarray(back / np.linalg.norm(back, axis=(1, 2), keepdims=True))

    @property
    def units(self) -> Array:
        """``[total]``: those of all inputs of the data."""
        found = np.ones(self.total)
        found[list(self.inputs)] = self.place.scale
        return found

    @property
    def output_units(self) -> Array:
        """``[m]``: those of all outputs."""
        spread = self.train[1].std(0) * self.unit
        return np.where(spread > 0, spread, 1.0)

    def on_all(self, back: Array) -> Array:
        """Fields on the used inputs, in the units of the data, as fields on all of its inputs."""
        found = np.zeros((len(back), self.total, self.total + 1))
        used = list(self.inputs)
        found[np.ix_(range(len(back)), used, used)] = back[:, :, :-1]
        found[:, used, -1] = back[:, :, -1]
        return found


def prepare(data: DataSet, seed: int, test: float = SPLIT.held_out) -> Prepared:
    """Split by ``seed``, leave out inputs that say nothing, and scale."""
    notes: list[str] = []
    held_out, train = _parts(data, np.random.default_rng([seed, 1]), test, notes)
    if len(train) > MOST_FITTED:
        notes.append(f"models are fitted to {MOST_FITTED} of {len(train)} training examples")
        train = train[:MOST_FITTED]
    varies = data.x[train].std(0) > CONSTANT * np.abs(data.x[train]).max(0)
    used = [i for i in each_once(data.x) if varies[i]]
    names = data.input_names or tuple(f"x{i}" for i in range(data.x.shape[1]))
    constant = [names[i] for i in np.flatnonzero(~varies)]
    twice = [names[i] for i in np.flatnonzero(varies) if int(i) not in used]
    if constant:
        notes.append(f"constant inputs are ignored: {_listed(constant)}")
    if twice:
        notes.append(f"inputs that repeat others are ignored: {_listed(twice)}")
    x = data.x[:, used]
    place = coordinates(x[train])
    offset = data.y[train].mean(0)
    unit = float(np.sqrt(((data.y[train] - offset) ** 2).mean()))
    if unit <= CONSTANT * np.abs(data.y[train]).max():
        raise MetasymError(
            f"expected y that varies among the {len(train)} examples to fit to, found a constant; take another seed",
            about="y",
            found="a constant",
        )
    y = (data.y - offset) / unit
    scaled = place(x)
    return Prepared(
        place=place,
        inputs=tuple(used),
        train=(scaled[train], y[train]),
        held_out=(scaled[held_out], y[held_out]),
        offset=offset,
        unit=unit,
        total=data.x.shape[1],
        order=np.concatenate([held_out, train]),
        notes=tuple(notes),
    )


def _parts(
    data: DataSet, draw: np.random.Generator, test: float, notes: list[str]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Held-out examples and the others: those with the same inputs are on one side, and equal ones count once."""
    whole = np.concatenate([data.x, data.y], axis=1) + 0.0
    once = np.sort(np.unique(whole, axis=0, return_index=True)[1])
    if len(once) < len(whole):
        notes.append(f"{len(whole) - len(once)} of {len(whole)} examples repeat others and are ignored")
    if len(once) < SPLIT.fewest:
        raise MetasymError(
            f"expected at least {SPLIT.fewest} different examples, found {len(once)}",
            about="examples",
            found=len(once),
        )
    place = np.unique(data.x[once] + 0.0, axis=0, return_inverse=True)[1].reshape(-1)
    different = int(place.max()) + 1
    count = max(5, round(test * len(once)))
    if different == len(once):
        order = once[draw.permutation(len(once))]
        return order[:count], order[count:]
    notes.append(
        f"{len(once)} examples have {different} different inputs: those with the same are held out together"
    )
    if different < SPLIT.fewest:
        raise MetasymError(
            f"expected at least {SPLIT.fewest} different inputs, found {different}",
            about="x",
            found=different,
        )
    rank = draw.permutation(different)[place]
    order = np.lexsort((draw.permutation(len(once)), rank))
    last = rank[order[count - 1]]
    count = int((rank <= last).sum())
    mixed = draw.permutation(len(once) - count)
    return once[order[:count]], once[order[count:][mixed]]


def each_once(columns: Array) -> list[int]:
    """Which of ``columns [examples, n]`` vary and repeat no earlier one, nor its negative."""
    kept, seen = [], set()
    for i, column in enumerate(columns.T):
        if column.std() <= CONSTANT * np.abs(column).max():
            continue
        first = column[np.flatnonzero(column)[0]]
        key = (np.sign(first) * column + 0.0).tobytes()
        if key not in seen:
            kept.append(i)
            seen.add(key)
    return kept


def _listed(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
