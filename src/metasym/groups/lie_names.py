"""Names of Lie algebras: from the Killing form and the action, not from a list of shapes."""

from __future__ import annotations

import numpy as np
import torch

from metasym.argument_types import checked
from metasym.groups.lie_algebra import LieAlgebra, Rows, ideals, radical, without_radical

_SIGN = 1e-6
_FOURS = {4 * copies for copies in range(1, 32)}


@checked
def name_of_algebra(algebra: LieAlgebra) -> str:
    """Return the name of a Lie algebra, such as ``so(5)``, ``so(3)+so(3)``, ``sl(3)`` or ``so(3)+R^3
    (translations)``.

    Args:
        algebra: The algebra.
    """
    if algebra.dimension == 0:
        return "0"
    simple, rest = ideals(algebra)
    outer = radical(algebra)
    if not simple and len(outer) < algebra.dimension:  # a semidirect sum, such as rotations with translations
        return f"{name_of_algebra(without_radical(algebra))}+{_radical(algebra, outer)}"
    words = sorted((_simple(algebra, space) for space in simple), reverse=True)
    if words == ["so(3)", "so(3)"] and all(set(_sizes(_part(algebra, s))) <= _FOURS for s in simple):
        words = ["so(4)"]  # which is not simple: its two ideals act on the same vectors of 4 components
    if rest:
        words.append(_radical(algebra, outer))
    if len(words) == 2 and words[0].startswith("sl(") and words[1] == "R (a scaling)":
        return f"g{words[0][1:]}"
    return "+".join(words)


def _simple(algebra: LieAlgebra, space: Rows) -> str:
    """The name of a simple ideal: its dimension and rank give the type, the Killing form's signs the real form."""
    d = len(space)
    part = _part(algebra, space)
    signs = torch.linalg.eigvalsh(part.killing)
    largest = float(signs.abs().max())
    positive = int((signs > _SIGN * largest).sum())
    negative = int((signs < -_SIGN * largest).sum())
    if positive + negative != d:
        return f"a simple algebra of dimension {d}"
    complex_form = _complex(part)
    if complex_form:
        return complex_form
    rank = _rank(part)
    for n in _orthogonal(d):
        if rank != n // 2 or (n in (5, 6) and _not_vectors(part, n)):
            continue
        if positive == 0:
            if n == 7 and _not_vectors(part, n):
                continue
            return f"so({n})"
        for p in range(1, n // 2 + 1):
            if p * (n - p) == positive and not (n == 3 and _is_planar(part)) and not _not_vectors(part, n):
                return f"so({p},{n - p})"
    root = round((d + 1) ** 0.5)
    if root * root == d + 1 and rank == root - 1:
        if positive == 0:
            return f"su({root})"
        if positive == root * (root + 1) // 2 - 1:
            return f"sl({root})"
    n = (np.sqrt(8 * d + 1) - 1) / 4  # d = n (2 n + 1)
    if abs(n - round(n)) < 1e-9 and rank == round(n):
        if positive == 0:
            return f"usp({2 * round(n)})"
        if positive == round(n) * (round(n) + 1):
            return f"sp({2 * round(n)})"
    return f"a simple algebra of dimension {d}"


def _part(algebra: LieAlgebra, space: Rows) -> LieAlgebra:
    return LieAlgebra(torch.einsum("kd,dij->kij", torch.from_numpy(space), algebra.generators))


def _orthogonal(d: int) -> list[int]:
    n = round((1 + (1 + 8 * d) ** 0.5) / 2)
    return [n] if n * (n - 1) // 2 == d and n > 2 else []


def _rank(part: LieAlgebra) -> int:
    """The dimension of a Cartan subalgebra: the multiplicity of 0 for the adjoint of a generic element."""
    generator = torch.Generator().manual_seed(0)
    mixed = torch.einsum(
        "i,ijk->jk",
        torch.randn(part.dimension, dtype=torch.float64, generator=generator),
        part.structure,
    )
    sizes = torch.linalg.eigvals(mixed).abs()
    return int((sizes < 1e-4 * max(1.0, float(sizes.max()))).sum())


def _complex(part: LieAlgebra) -> str:
    """so(1,3) = sl(2, C) as a real algebra, which is simple though its complexification is not."""
    if part.dimension != 6:
        return ""
    signs = torch.linalg.eigvalsh(part.killing)
    return "so(1,3)" if int((signs > 0).sum()) == 3 else ""


def _sizes(part: LieAlgebra) -> list[int]:
    """The dimensions of the invariant blocks that the action moves: eigenspaces of the Casimir operator."""
    killing = torch.linalg.inv(part.killing)
    casimir = torch.einsum("ij,iab,jbc->ac", killing, part.generators, part.generators)
    values = torch.linalg.eigvals(casimir).real
    moved = values[values.abs() > 1e-6]
    return [int((moved - value).abs().lt(1e-6).sum()) for value in moved.unique()]


def _not_vectors(part: LieAlgebra, n: int) -> bool:
    """Whether the action is not on vectors of n components: no block's dimension is a multiple of n."""
    return not any(size % n == 0 for size in _sizes(part))


def _is_planar(part: LieAlgebra) -> bool:
    """sl(2) acts on pairs, so(1,2) on triples; they are one algebra."""
    return _not_vectors(part, 3)


def _radical(algebra: LieAlgebra, members: Rows) -> str:
    """The radical by what it does: rotations, scalings, translations (nilpotent fields)."""
    size = len(members)
    matrices = np.einsum("kd,dij->kij", members, algebra.generators.numpy())
    if len(matrices) == 1:
        return _one_dimensional(matrices[0])
    kinds = [_kind(matrix) for matrix in matrices]
    if all(kind == "translation" for kind in kinds):
        return f"R^{size} (translations)"
    mixed = np.einsum("k,kij->ij", np.random.default_rng(0).normal(size=len(matrices)), matrices)
    commute = np.abs(
        np.einsum("iab,jbc->ijac", matrices, matrices) - np.einsum("jab,ibc->ijac", matrices, matrices)
    ).max()
    if commute < 1e-6:
        kind = _kind(mixed)
        if kind == "rotation":
            return "+".join(["so(2)"] * size)
        if kind == "scaling":
            return f"R^{size} (scalings)"
        return f"an abelian algebra of dimension {size}"
    return f"a solvable algebra of dimension {size}"


def _one_dimensional(matrix: Rows) -> str:
    return {
        "rotation": "so(2)",
        "scaling": "R (a scaling)",
        "translation": "R (a translation)",
    }.get(_kind(matrix), "R (a one-parameter group)")


def _kind(matrix: Rows) -> str:
    """What the flow of a field does, by its eigenvalues."""
    size = np.linalg.norm(matrix)
    roots = np.linalg.eigvals(matrix / size)
    if np.abs(roots).max() < 1e-4:
        return "translation"
    if np.abs(roots.real).max() < 1e-5:
        return "rotation"
    if np.abs(roots.imag).max() < 1e-5:
        return "scaling"
    return "other"
