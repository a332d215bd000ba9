"""The symmetry group that known maps truly have: a search over all signed permutations, without metasym.

A symmetry is a pair of signed permutations, of the outputs and of the inputs, that fixes the map of every task. A
pair and the pair with all signs changed are one: no linear map tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sympy.combinatorics import Permutation, PermutationGroup

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Element:
    """Output i goes to ``outputs[i]`` with the sign ``output_signs[i]``, input j likewise."""

    outputs: tuple[int, ...]
    inputs: tuple[int, ...]
    output_signs: tuple[int, ...]
    input_signs: tuple[int, ...]


def defect(maps: Array, g: Element) -> float:
    """``|W - gW| / |W|`` over all tasks' maps ``[tasks, m, n]``: 0 for a true symmetry, about 1.4 for unrelated."""
    moved = maps[:, g.outputs][:, :, g.inputs] * np.outer(g.output_signs, g.input_signs)
    return float(np.linalg.norm(moved - maps) / max(np.linalg.norm(maps), 1e-300))


def true_group(maps: Array, *, tolerance: float = 1e-7, most: int = 100_000) -> list[Element]:
    """All symmetries of the maps ``[tasks, m, n]``, the identity included, one of each pair of opposite signs.

    Every assignment of outputs and inputs is tried, one point after the other, and given up where an entry of the
    maps would differ from the entry it goes to by more than ``tolerance`` times the largest entry (as vectors over
    tasks). Maps with more than ``most`` symmetries are an error.
    """
    _, m, n = maps.shape
    entries = maps.reshape(len(maps), -1).T  # [m n, tasks]
    scale = np.linalg.norm(entries, axis=1).max()
    same = np.empty((2, m * n, m * n), dtype=bool)
    for k, sign in enumerate((1, -1)):
        for row, entry in enumerate(entries):
            same[k, row] = np.linalg.norm(entries - sign * entry, axis=1) <= tolerance * scale
    fits = same.reshape(2, m, n, m, n)
    found: list[Element] = []
    for outputs, out_signs, inputs, in_signs in _assign(fits, m, n, [], [], [], []):
        found.append(Element(tuple(outputs), tuple(inputs), tuple(out_signs), tuple(in_signs)))
        if len(found) > most:
            raise ValueError(f"expected at most {most} symmetries, found more")
    return found


_Points = list[int]


def _assign(
    fits: npt.NDArray[np.bool_], m: int, n: int, out: _Points, so: _Points, inp: _Points, si: _Points
) -> Iterator[tuple[_Points, _Points, _Points, _Points]]:
    """All ways to go on from the outputs and inputs that have been assigned so far."""
    if len(out) == m and len(inp) == n:
        yield list(out), list(so), list(inp), list(si)
        return
    next_output = len(inp) == n or (len(out) <= len(inp) and len(out) < m)
    size, images, signs = (m, out, so) if next_output else (n, inp, si)
    p = len(images)
    for image in range(size):
        if image in images:
            continue
        for sign in (1, -1):
            if p == 0 and next_output and sign < 0:
                continue  # of a pair and its opposite, the one with a plus at the first output
            others = zip(inp, si, strict=True) if next_output else zip(out, so, strict=True)
            if all(
                fits[0 if sign * s > 0 else 1][(p, q, image, other) if next_output else (q, p, other, image)]
                for q, (other, s) in enumerate(others)
            ):
                images.append(image)
                signs.append(sign)
                yield from _assign(fits, m, n, out, so, inp, si)
                images.pop()
                signs.pop()


def order(generators: list[Element]) -> int:
    """The order of the group that elements generate, one of each pair of opposite signs: by sympy."""
    if not generators:
        return 1
    g = generators[0]
    points = 2 * (len(g.outputs) + len(g.inputs))
    minus = Permutation([p ^ 1 for p in range(points)])
    group = PermutationGroup([minus, *(Permutation(_doubled(g)) for g in generators)])
    return int(group.order()) // 2


def _doubled(g: Element) -> list[int]:
    """Every output and input stands for two points, plus and minus."""
    found = []
    for images, signs, start in (
        (g.outputs, g.output_signs, 0),
        (g.inputs, g.input_signs, len(g.outputs)),
    ):
        for image, sign in zip(images, signs, strict=True):
            plus = 2 * (start + image)
            found += [plus, plus + 1] if sign > 0 else [plus + 1, plus]
    return found
