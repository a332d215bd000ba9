"""Proposition 1 and its generalisation: which weights are equivariant."""

from __future__ import annotations

import torch
from torch import Tensor

from metasym.argument_types import checked
from metasym.groups.group import Group
from metasym.groups.lie_algebra import LieAlgebra, constraint_basis
from metasym.groups.orbits import orbit_labels
from metasym.types import MetasymError


@checked
def symmetry_matrix(group: Group) -> Tensor:
    """Return U^G of Proposition 1, ``[|G| * n, n]``, float64.

    For every filter v ``[n]``, ``W = (U^G v).reshape(|G|, n)`` is a G-convolution: its row g is the filter
    transformed by g, and ``W pi(h) = regular(h) W`` for every h.

    Where pi is orthogonal it stacks pi(g), as the paper does. Elsewhere the row must be transformed by
    ``pi(g)^-T`` to be equivariant (for orthogonal matrices that is the same), and these are stacked. Inexact
    groups (interpolated rotations) stack pi(g), "without any modification" (Appendix B).

    Args:
        group: A finite group with its representation.

    Example:
        >>> import metasym as ms
        >>> tuple(ms.groups.symmetry_matrix(ms.groups.cyclic(4)).shape)    # 16 weights, 4 filter entries
        (16, 4)
    """
    blocks = group.matrices
    if group.exact and not group.is_orthogonal:
        blocks = blocks[group.inverses].mT
    return blocks.reshape(group.order * group.degree, group.degree).clone()


@checked
def equivariant_basis(rep_in: Group | LieAlgebra, rep_out: Group | LieAlgebra) -> Tensor:
    """All linear maps W ``[m, n]`` with ``rep_out(g) W = W rep_in(g)`` for every g.

    Args:
        rep_in: a representation of degree n, of a finite group or of a Lie algebra.
        rep_out: a representation of the same one, with its elements (generators) in the same order, of degree m.

    Returns:
        ``[m * n, d]``, float64, with orthonormal columns, each the row-major vec of a map; d is the
        dimension of the space of all such maps (it may be 0). Between permutation representations the
        columns are the orbits of the group on pairs of points: every column shares one weight.

    """
    if isinstance(rep_in, LieAlgebra) and isinstance(rep_out, LieAlgebra):
        return constraint_basis(rep_in, rep_out)
    if isinstance(rep_in, LieAlgebra) or isinstance(rep_out, LieAlgebra):
        raise MetasymError(
            f"equivariant_basis: expected two finite groups or two Lie algebras, found {rep_in!r} and {rep_out!r}",
            about="equivariant_basis",
            found=(type(rep_in).__name__, type(rep_out).__name__),
        )
    if not rep_in.same_group(rep_out):
        raise MetasymError(
            f"equivariant_basis: expected two representations of one group, found {rep_in!r} and {rep_out!r}",
            about="equivariant_basis",
            found=(rep_in.name, rep_out.name),
        )
    for rep in (rep_in, rep_out):
        if not rep.exact:
            raise MetasymError(
                f"equivariant_basis: expected exact representations, found {rep!r}; "
                "for rotated kernels use conv_basis",
                about="equivariant_basis",
                found=rep.name,
            )
    p_in, p_out = rep_in.permutations, rep_out.permutations
    if p_in is not None and p_out is not None:
        generators = list(rep_in.generators)
        pairs = p_out[generators][:, :, None] * rep_in.degree + p_in[generators][:, None, :]
        return orbit_basis(pairs.flatten(1))
    return _averaged_basis(rep_in, rep_out)


def orbit_basis(permutations: Tensor) -> Tensor:
    """The fixed vectors of the group that ``permutations`` ``[generators, n]`` generate: ``[n, d]``.

    Orthonormal: column c is the indicator of orbit c divided by its norm.
    """
    label = torch.from_numpy(orbit_labels(permutations.numpy(), permutations.shape[1]))
    basis = torch.zeros(len(label), int(label.max()) + 1, dtype=torch.float64)
    basis[torch.arange(len(label)), label] = 1
    return basis / basis.sum(0).sqrt()


def _averaged_basis(rep_in: Group, rep_out: Group) -> Tensor:
    """The range of the group average ``W -> mean_g rep_out(g) W rep_in(g)^-1``, a projection.

    Its rank is its trace, the mean of the product of the characters. A few more random maps than that
    rank, averaged, span the range: the [m n, m n] matrix of the projection is never built.
    """
    left, right = rep_out.matrices, rep_in.matrices[rep_in.inverses]
    traces = left.diagonal(dim1=1, dim2=2).sum(1) * right.diagonal(dim1=1, dim2=2).sum(1)
    d = round(float(traces.mean()))
    m, n = rep_out.degree, rep_in.degree
    if d == 0:
        return torch.zeros(m * n, 0, dtype=torch.float64)
    maps = torch.randn(d + 8, m, n, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for _ in range(2):  # the second average removes what rounding left of the first
        averaged = torch.zeros_like(maps)
        for g in range(rep_in.order):
            averaged += left[g] @ maps @ right[g] / rep_in.order
        maps = torch.linalg.svd(averaged.flatten(1), full_matrices=False).Vh[:d].reshape(d, m, n)
    return maps.flatten(1).T.contiguous()
