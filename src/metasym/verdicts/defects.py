"""The one unit of every judge: the relative root mean square defect d, for tasks, rows and calls.

Of a function f and an element g, d is the root mean square of ``f(g x) - g' f(x)`` relative to that of f: 0 exact,
1.4 unrelated. The part of f that no symmetric function has is ``f - f_bar``, with ``f_bar`` the average over the
group. Over all elements ``|f - g f|^2`` is on average twice its square: it is the share ``d^2 / 2`` of the variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


def defect_of(share: float) -> float:
    """The defect of a function of whose variance this share breaks a symmetry."""
    return math.sqrt(2 * max(0.0, share))


def share_of(defect: float) -> float:
    """The share of the variance that breaks a symmetry with this defect."""
    return defect**2 / 2


@dataclass(frozen=True)
class Defect:
    """A defect as data show it, with its bounds at 95 %."""

    value: float
    upper: float
    lower: float = 0.0

    def worst(self, other: Defect) -> Defect:
        """The larger of both, bound by bound."""
        return Defect(
            max(self.value, other.value), max(self.upper, other.upper), max(self.lower, other.lower)
        )
