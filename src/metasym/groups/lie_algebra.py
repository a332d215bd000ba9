"""Real Lie algebras of matrices: closed under brackets, decomposed by the Killing form."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from metasym.argument_types import checked
from metasym.types import MetasymError

CLOSED = 1e-6
"""How far rounding may take the brackets of orthonormal generators out of their span."""
_RANK = 1e-7


Rows = npt.NDArray[np.float64]


class LieAlgebra:
    """The span of ``generators [d, n, n]``, which has to be closed under brackets ``A B - B A``.

    It acts on n dimensions: ``exp(t A)`` are the elements of its group. Generators are kept as they are given,
    because ``equivariant_basis`` needs those of two representations in the same order. They have to be independent,
    unless the algebra is a representation of another (``faithful=False``): there different members may act equally.

    Raises:
        MetasymError: generators that are not square and finite, depend on each other, or are not closed.

    """

    @checked
    def __init__(
        self, generators: Tensor | Sequence[Tensor], *, name: str = "", faithful: bool = True
    ) -> None:
        stacked = _stacked(generators)
        d, n, _ = stacked.shape
        self.generators = stacked
        flat = stacked.reshape(d, n * n)
        rank = int(torch.linalg.matrix_rank(flat)) if d else 0
        if faithful and rank < d:
            raise MetasymError(
                f"generators: expected independent matrices, found {d} that span {rank} dimensions",
                about="generators",
                found=(d, rank),
            )
        left = self._outside(flat, rank)
        if left > CLOSED:
            raise MetasymError(
                f"generators: expected a space closed under brackets, found one that a bracket leaves by {left:.2g}",
                about="generators",
                found=left,
            )
        self.name = name
        """What it was called; ``name_of_algebra`` finds a name from the generators alone."""

    @property
    def dimension(self) -> int:
        """The number of generators."""
        return int(self.generators.shape[0])

    @property
    def degree(self) -> int:
        """The dimension n of the space that it acts on."""
        return int(self.generators.shape[1])

    @cached_property
    def structure(self) -> Tensor:
        """``[d, d, d]``: ``[g_i, g_j] = sum_k structure[i, j, k] g_k``."""
        d, n = self.dimension, self.degree
        g = self.generators
        products = torch.einsum("iab,jbc->ijac", g, g)
        brackets = (products - products.transpose(0, 1)).reshape(d * d, n * n)
        solved = torch.linalg.lstsq(g.reshape(d, n * n).T, brackets.T, driver="gelsd").solution
        found: Tensor = solved.T.reshape(d, d, d)
        return found

    @cached_property
    def killing(self) -> Tensor:
        """The Killing form ``[d, d]``: the trace of ``ad(g_i) ad(g_j)``."""
        c = self.structure
        return torch.einsum("iab,jba->ij", c, c)

    def element(self, coefficients: Tensor) -> Tensor:
        """``exp(sum_i coefficients[..., i] g_i)``: ``[..., n, n]``, an element of the group."""
        combined = torch.einsum("...d,dij->...ij", coefficients.to(torch.float64), self.generators)
        exponential: Tensor = torch.linalg.matrix_exp(combined)
        return exponential

    def trivial_rep(self, n: int = 1) -> LieAlgebra:
        """The representation on n dimensions that moves nothing."""
        return LieAlgebra(torch.zeros(self.dimension, n, n, dtype=torch.float64), faithful=False)

    def direct_sum(self, *others: LieAlgebra) -> LieAlgebra:
        """Representations of one algebra side by side: block-diagonal generators, in the same order."""
        for other in others:
            if other.dimension != self.dimension:
                raise MetasymError(
                    f"direct_sum: expected representations of one algebra of dimension {self.dimension}, "
                    f"found one of dimension {other.dimension}",
                    about="direct_sum",
                    found=other.dimension,
                )
        both = [
            torch.block_diag(*(rep.generators[i] for rep in (self, *others))) for i in range(self.dimension)
        ]
        return LieAlgebra(torch.stack(both), name=self.name, faithful=False)

    def _outside(self, flat: Tensor, rank: int) -> float:
        """The largest norm of the part of a bracket of normalised generators that is outside of their span."""
        if not len(flat):
            return 0.0
        n = self.degree
        basis = torch.linalg.svd(flat, full_matrices=False).Vh[:rank]
        matrices = basis.reshape(rank, n, n)
        worst = 0.0
        for i in range(rank):
            bracket = (matrices[i] @ matrices - matrices @ matrices[i]).reshape(rank, -1)
            worst = max(worst, float((bracket - bracket @ basis.T @ basis).norm(dim=1).max()))
        return worst

    def __repr__(self) -> str:
        return f"LieAlgebra({self.name or 'unnamed'}, dimension {self.dimension}, acting on {self.degree} dimensions)"


@checked
def so(p: int, q: int = 0) -> LieAlgebra:
    """Return the matrices A with ``A^T H + H A = 0`` for H of p ones and q minus ones; ``so(n)`` are rotations.

    Args:
        p: Number of ones.
        q: Number of minus ones.

    Example:
        >>> import metasym as ms
        >>> ms.groups.name_of_algebra(ms.groups.so(1, 3))
        'so(1,3)'
    """
    for value, what, least in ((p, "p", 1), (q, "q", 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise MetasymError(
                f"so(p, q): expected a whole number {what} >= {least}, found {value!r}",
                about=what,
                found=value,
            )
    n = p + q
    signs = [1.0] * p + [-1.0] * q
    found = []
    for i in range(n):
        for j in range(i):
            A = torch.zeros(n, n, dtype=torch.float64)
            A[i, j], A[j, i] = 1.0, -signs[i] * signs[j]
            found.append(A)
    name = f"so({p},{q})" if q else f"so({n})"
    return LieAlgebra(torch.stack(found) if found else torch.zeros(0, n, n, dtype=torch.float64), name=name)


def constraint_basis(rep_in: LieAlgebra, rep_out: LieAlgebra) -> Tensor:
    """All linear maps W ``[m, n]`` with ``rep_out(g) W = W rep_in(g)`` for every generator g: ``[m n, d]``.

    The null space of the constraints, from their normal equations.
    """
    if rep_in.dimension != rep_out.dimension:
        raise MetasymError(
            f"equivariant_basis: expected two representations of one algebra, found dimensions "
            f"{rep_in.dimension} and {rep_out.dimension}",
            about="equivariant_basis",
            found=(rep_in.dimension, rep_out.dimension),
        )
    m, n = rep_out.degree, rep_in.degree
    one_out, one_in = torch.eye(m, dtype=torch.float64), torch.eye(n, dtype=torch.float64)
    total = torch.zeros(m * n, m * n, dtype=torch.float64)
    for a, b in zip(rep_in.generators, rep_out.generators, strict=True):
        constraint = torch.kron(b, one_in) - torch.kron(one_out, a.T.contiguous())
        total += constraint.T @ constraint
    sizes, vectors = torch.linalg.eigh(total)
    kept = sizes <= 1e-10 * max(1.0, float(sizes[-1]) if len(sizes) else 1.0)
    found: Tensor = vectors[:, kept].contiguous()
    return found


def _stacked(generators: Tensor | Sequence[Tensor]) -> Tensor:
    try:
        stacked = generators if isinstance(generators, Tensor) else torch.stack(list(generators))
    except (TypeError, RuntimeError, ValueError):
        raise MetasymError(
            "generators: expected matrices [n, n] of one size, found something else", about="generators"
        ) from None
    if stacked.ndim != 3 or stacked.shape[1] != stacked.shape[2] or not stacked.shape[1]:
        raise MetasymError(
            f"generators: expected square matrices [d, n, n], found shape {tuple(stacked.shape)}",
            about="generators",
            found=tuple(stacked.shape),
        )
    if stacked.is_complex():
        raise MetasymError(
            f"generators: expected real matrices, found {stacked.dtype}",
            about="generators",
            found=str(stacked.dtype),
        )
    found = stacked.detach().to(torch.float64)
    if not bool(found.isfinite().all()):
        raise MetasymError(
            "generators: expected finite entries, found NaN or infinity",
            about="generators",
            found="NaN or infinity",
        )
    return found


def ideals(algebra: LieAlgebra) -> tuple[list[Rows], int]:
    """The simple ideals of the algebra, each as coefficients ``[k, d]``, and the dimension of the rest (its radical).

    On the semisimple part of a direct sum, a random map that commutes with all ``ad(x)`` has the simple ideals as
    its eigenspaces. None are given where the algebra is not the sum of its radical and its brackets.
    """
    d = algebra.dimension
    structure = algebra.structure.numpy()
    core, outer = _span(structure.reshape(d * d, d)), radical(algebra)
    if len(core) + len(outer) != d or len(core) == 0:
        return [], d
    ad = np.einsum("ia,abc->ibc", core, structure)  # ad(core_i): rows b to columns c
    inside = np.linalg.pinv(core)
    small = np.einsum("jb,ibc,ck->ijk", core, ad, inside)  # on coordinates of the core
    k = len(core)
    one = np.eye(k)
    total = np.zeros((k * k, k * k))
    for a in small:
        constraint = np.kron(a, one) - np.kron(one, a.T)
        total += constraint.T @ constraint
    sizes, vectors = np.linalg.eigh(total)
    commuting = vectors[:, sizes < 1e-9 * max(1.0, sizes[-1])].T.reshape(-1, k, k)
    generator = np.random.default_rng(0)
    mixed = np.einsum("c,cij->ij", generator.normal(size=len(commuting)), commuting)
    roots = np.linalg.eigvals(mixed)
    found = []
    used: list[complex] = []
    for root in roots:
        value = complex(root.real, abs(root.imag))
        if any(abs(value - other) < 1e-5 for other in used):
            continue
        used.append(value)
        polynomial = mixed - value.real * one
        if value.imag > 1e-6:
            polynomial = polynomial @ polynomial + value.imag**2 * one
        space = _null_rows(polynomial.T, 1e-5)
        found.append(space @ core)
    return found, d - k


def radical(algebra: LieAlgebra) -> Rows:
    """The largest solvable ideal, ``[k, d]`` coefficients: what the Killing form finds orthogonal to all brackets."""
    d = algebra.dimension
    derived = _span(algebra.structure.numpy().reshape(d * d, d))
    return _null_rows(derived @ algebra.killing.numpy())


def without_radical(algebra: LieAlgebra) -> LieAlgebra:
    """The quotient by the radical, which is semisimple, in its adjoint representation."""
    outer = radical(algebra)
    kept = _null_rows(outer) if len(outer) else np.eye(algebra.dimension)
    action = np.einsum("ia,jb,abc,kc->ikj", kept, kept, algebra.structure.numpy(), kept)
    return LieAlgebra(torch.from_numpy(action))


def _span(rows: Rows, tolerance: float = _RANK) -> Rows:
    if not len(rows):
        return rows
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(basis[sizes > tolerance * max(1.0, sizes[0])])


def _null_rows(matrix: Rows, tolerance: float = _RANK) -> Rows:
    if not len(matrix):
        return np.eye(matrix.shape[1])
    _, sizes, rows = np.linalg.svd(matrix, full_matrices=True)
    rank = int((sizes > tolerance * max(1.0, sizes[0])).sum())
    return np.asarray(rows[rank:])
