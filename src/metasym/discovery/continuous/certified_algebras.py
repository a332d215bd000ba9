"""An algebra that held-out data certify, and what it claims in the coordinates of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from metasym.certification.beta import Beta
from metasym.discovery.algebra.vector_fields import Array, moved_inputs, squared, written
from metasym.groups.lie_algebra import LieAlgebra
from metasym.groups.lie_names import name_of_algebra
from metasym.types import MetasymError
from metasym.verdicts.claims import Claim, Matrix


@dataclass(frozen=True, eq=False)
class CertifiedAlgebra:
    """In the coordinates of the search."""

    name: str
    fields: Array
    """``[d, n, n+1]``; ``[d, n+m, n+m+1]`` where outputs move too."""
    beta: Beta
    violation_upper: float
    """As a part of the variance of y."""

    def claim(
        self, inner: Array, units: Array, outer: Array | None = None, output_units: Array | None = None
    ) -> Claim:
        """With generators ``inner [d, n, n+1]``, ``outer [d, m, m+1]`` in the data's coordinates, and their units."""
        outputs: tuple[int, ...] = ()
        turned: tuple[Matrix, ...] = ()
        if outer is not None and output_units is not None:
            outputs = moved_inputs(outer, output_units)
            turned = _matrices(written(outer, output_units)) if outputs else ()
        return Claim(
            "continuous",
            self.name,
            len(self.fields),
            _matrices(written(inner, units)),
            moved_inputs(inner, units),
            outputs,
            self.violation_upper,
            self.beta.value,
            (self.beta.low, self.beta.high),
            self.beta.examples,
            turned,
        )


def name_of_fields(fields: Array) -> str:
    """The name of the algebra of affine fields."""
    try:
        return name_of_algebra(LieAlgebra(torch.from_numpy(squared(fields))))
    except MetasymError:
        return f"an algebra of dimension {len(fields)}"


def _matrices(rows: list[Any]) -> tuple[Matrix, ...]:
    return tuple(tuple(tuple(row) for row in matrix) for matrix in rows)
