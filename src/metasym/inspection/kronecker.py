"""Large Kronecker symmetries, read from their factors: ``U_out (x) U_in (x) ...`` is never formed.

Entry (i, j) of W is the point ``u_i (x) w_j`` for rows of the factors. Where outputs i and i' have the same row of
U_out, up to sign, their weights are tied whatever the input, and exchanging the two keeps every class. So the group
of such a pattern is the product of all permutations of equal outputs and of equal inputs. (A larger group would need
ties between an output's scale and an input's; learned factors do not have them.)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from metasym.groups.names import Named
from metasym.groups.signed_permutations import SignedPermutation
from metasym.inspection.pattern import MOST_WEIGHTS, Array, find_pattern
from metasym.verdicts.reports import FoundGroup, SharingPattern

_SIDES = ("outputs", "inputs")


def read_factors(factors: Sequence[Tensor], sizes: Sequence[int]) -> tuple[FoundGroup | None, list[str]]:
    """The group of equal rows of ``U_out`` and of ``U_in``, and what was seen of each factor.

    ``sizes`` says how many singular values of each factor matter, where a drop shows it; 0 where none does.
    """
    notes: list[str] = []
    generators: list[SignedPermutation] = []
    named, order, error = Named(), 1, 0.0
    matrices = [factor.detach().cpu().double().numpy() for factor in factors[:2]]
    orbits = []
    for side, U in enumerate(matrices):
        if len(U) > MOST_WEIGHTS:
            notes.append(f"{len(U):,} {_SIDES[side]} are too many to compare (at most {MOST_WEIGHTS:,})")
            orbits.append(len(U))
            continue
        pattern = find_pattern(U, (len(U), 1), sizes[side] or None)
        classes = np.array(pattern.classes).flatten()
        notes.append(_seen(pattern, len(U), _SIDES[side]))
        tied = (
            [np.flatnonzero(abs(classes) == c) for c in range(1, pattern.count + 1)] if pattern.clear else []
        )
        orbits.append(len(U) - sum(len(members) - 1 for members in tied))
        for members in (members for members in tied if len(members) > 1):
            named = named * (Named(others=(f"S_{len(members)}",)) if len(members) > 2 else Named(cyclic=(2,)))
            order *= math.factorial(len(members))
            for a, b in itertools.pairwise(members):
                sign = int(np.sign(classes[a]) * np.sign(classes[b]))
                generators.append(_swap(side, int(a), int(b), sign, [len(m) for m in matrices]))
                error = max(error, _swap_error(U, int(a), int(b), sign))
    if not generators:
        return None, notes
    group = FoundGroup(
        name=str(named),
        order=order,
        generators=tuple(generators),
        transitive_outputs=orbits[0] == 1,
        transitive_inputs=orbits[1] == 1,
        signed=any(min(g.output_signs + g.input_signs) < 0 for g in generators),
        error=error,
    )
    return group, notes


def _seen(pattern: SharingPattern, rows: int, side: str) -> str:
    evidence = f"residual {pattern.residual:.2g}, margin {pattern.margin:.3g}"
    if not pattern.clear:
        return f"no {side} are tied ({evidence})"
    zero = f", {pattern.zeros} zero" if pattern.zeros else ""
    return f"{rows} {side} in {pattern.count} classes{zero} ({evidence})"


def _swap(side: int, a: int, b: int, sign: int, sizes: Sequence[int]) -> SignedPermutation:
    images, signs = [list(range(size)) for size in sizes], [[1] * size for size in sizes]
    images[side][a], images[side][b] = b, a
    signs[side][a] = signs[side][b] = sign
    return SignedPermutation(tuple(images[0]), tuple(images[1]), tuple(signs[0]), tuple(signs[1]))


def _swap_error(U: Array, a: int, b: int, sign: int) -> float:
    """``|U - g U| / |U|`` of the exchange of rows a and b: the other factors cancel."""
    return float(math.sqrt(2) * np.linalg.norm(U[a] - sign * U[b]) / np.linalg.norm(U))
