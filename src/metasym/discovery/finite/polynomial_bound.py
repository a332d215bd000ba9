"""A polynomial that explains held-out examples almost completely shows a violation directly.

With ``f = p + r`` and ``E|r|^2 = e``, and inputs whose law a group keeps, the part of f that the group does not keep
differs from that of p by at most ``2 sqrt(e)``. So p both bounds a violation and refutes a near symmetry that no
kernel would have distinguished from noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from metasym.certification.certificate_thresholds import NEGLIGIBLE_VIOLATION
from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.claim_thresholds import FINITE
from metasym.discovery.finite.movable_inputs import MovableInputs
from metasym.discovery.models.local_residuals import LocalResiduals, largest_residuals
from metasym.discovery.models.matching_pursuit import Term
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import Points

_ROUNDING = 1e-10
"""Of the variance of y."""


@dataclass(frozen=True, eq=False)
class NearExactPolynomial:
    """A polynomial of the data's own inputs and outputs, and how far it is off."""

    sites: MovableInputs
    factors: Points
    """``[terms, degree]``: inputs, ``n`` where a term has fewer factors."""
    values: Array
    """``[terms, m]``"""
    constant: Array
    """``[m]``"""
    left: float
    """At most so large a part of the variance is unexplained on held-out examples."""
    local: LocalResiduals
    """Examples that are far from it; held-out ones are counted first."""

    def __call__(self, x: Array) -> Array:
        """``[points, m]`` at inputs ``x [points, n]``, as the data have them, in units of the outputs."""
        scaled, *_ = self.sites.placed(None)
        one = np.concatenate([scaled.place(x), np.ones((len(x), 1))], axis=1)
        found = one[:, self.factors].prod(2) @ self.values
        return np.asarray(found + self.constant + scaled.offset / scaled.unit)

    def broken(self, group: SignedGroup) -> float:
        """The part of the polynomial's variance that the group does not keep, on held-out examples."""
        x = self.sites.held_out
        plain = self(x)
        average = np.mean([g.inverse.on_outputs(self(g.on_inputs(x))) for g in group.elements], axis=0)
        spread = ((plain - plain.mean(0)) ** 2).sum(1).mean()
        return float(((plain - average) ** 2).sum(1).mean() / spread)

    def refutes(self, group: SignedGroup) -> bool:
        """Whether some violation is certain: what the polynomial leaves cannot make up for it."""
        return self.broken(group) > FINITE.certain * self.left + _ROUNDING

    def upper(self, group: SignedGroup) -> float:
        """The largest violation that is possible, as a part of the variance."""
        return max(NEGLIGIBLE_VIOLATION, float((self.broken(group) ** 0.5 + 2 * self.left**0.5) ** 2))


def near_exact_polynomial(sites: MovableInputs, terms: list[Term], most: float) -> NearExactPolynomial | None:
    """The polynomial with these terms, where it leaves at most ``most`` of the variance of held-out examples."""
    _, x, y, x_new, y_new = sites.placed(None)
    n, m = x.shape[1], y.shape[1]
    if not terms:
        return None
    factors = np.full((len(terms), max(len(t.inputs) for t in terms)), n, dtype=np.int64)
    values = np.zeros((len(terms), m))
    for r, term in enumerate(terms):
        factors[r, : len(term.inputs)] = term.inputs
        values[r, term.output] = term.value
    train, fresh = (
        np.concatenate([one, np.ones((len(one), 1))], axis=1)[:, factors].prod(2) @ values
        for one in (x, x_new)
    )
    constant = (y - train).mean(0)
    squares = ((y_new - fresh - constant) ** 2).sum(1)
    variance = float(((y_new - y_new.mean(0)) ** 2).sum(1).mean())
    reach = (
        float(stdtrit(len(squares) - 1, FINITE.polynomial_level))
        * float(squares.std(ddof=1))
        / len(squares) ** 0.5
    )
    left = (float(squares.mean()) + reach) / variance
    if left > most:
        return None
    rest = np.concatenate([y_new - fresh, y - train]) - constant
    local = largest_residuals(rest, np.ones_like(rest), np.concatenate([y_new, y]))
    return NearExactPolynomial(sites, factors, values, constant, left, local)
