"""Inputs of one sign by their logarithms: multiplying an input is adding to its logarithm.

Functions of ratios have no polynomial invariants. In logarithms their scalings are translations, whose invariants are
linear.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.models.preprocessing import Prepared, prepare
from metasym.tasks.dataset import DataSet
from metasym.verdicts.claims import Claim, Matrix

_LEAST_RANGE = 1.2
"""The ratio of the largest to the smallest size of an input below which its logarithm is the input again."""


@dataclass(frozen=True, eq=False)
class Logarithms:
    """The same examples in two coordinates of the search."""

    plain: Prepared
    taken: Prepared
    """With the logarithms of the sizes of some inputs."""
    which: tuple[int, ...]
    """Their places among the used inputs."""

    def __call__(self, x: Array) -> Array:
        """Examples in the coordinates of ``plain``, in those of ``taken``."""
        place = self.plain.place
        raw = x * place.scale + place.centre
        raw[:, self.which] = np.log(np.maximum(np.abs(raw[:, self.which]), np.finfo(float).tiny))
        return self.taken.place(raw)

    def claim(self, found: Claim, name: str) -> Claim:
        """Translations of logarithms as scalings of inputs."""
        where = {self.plain.inputs[i] for i in self.which}
        return replace(found, name=name, generators=tuple(_scaling(g, where) for g in _fields(found)))


def _fields(claim: Claim) -> list[Matrix]:
    return [g for g in claim.generators if isinstance(g, tuple)]


def _scaling(field: Matrix, where: set[int]) -> Matrix:
    """A constant field of logarithms: ``dx_i = a_i x_i`` for inputs ``where``, ``dx_i = a_i`` for others."""
    rows = []
    for i, row in enumerate(field):
        found = [0.0] * len(row)
        found[i if i in where else -1] = row[-1]
        rows.append(tuple(found))
    return tuple(rows)


def logarithms(data: DataSet, prepared: Prepared, seed: int, test: float) -> Logarithms | None:
    """Where at least two inputs have one sign; None elsewhere."""
    x = data.x[:, list(prepared.inputs)]
    sizes = np.abs(x)
    one_sign = (x > 0).all(0) | (x < 0).all(0)
    wide = one_sign & (sizes.max(0) > _LEAST_RANGE * np.maximum(sizes.min(0), 1e-300))
    which = tuple(int(i) for i in np.flatnonzero(wide))
    if len(which) < 2:
        return None
    taken = data.x.copy()
    columns = [prepared.inputs[i] for i in which]
    taken[:, columns] = np.log(np.abs(taken[:, columns]))
    other = prepare(replace(data, x=taken), seed, test)
    if other.inputs != prepared.inputs or not np.array_equal(other.order, prepared.order):
        return None
    return Logarithms(prepared, other, which)
