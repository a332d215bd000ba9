"""The named finite groups. Element 0 is the identity in all of them."""

from __future__ import annotations

import math

import torch

from metasym.argument_types import checked
from metasym.groups._check import positive_int
from metasym.groups.generators import from_generators
from metasym.groups.group import Group


def cyclic(n: int) -> Group:
    """Return C_n on n points: element ``k`` is ``r^k``, which takes point ``i`` to ``i + k`` modulo n.

    Args:
        n: Number of points.

    Example:
        >>> import metasym as ms
        >>> ms.groups.cyclic(4).order
        4
    """
    n = positive_int(n, "cyclic(n)")
    return _additive(n, f"C_{n}", "r")


def shifts(n: int) -> Group:
    """Return Z_n acting on the n positions of a vector, ``(pi(k) v)[i] = v[i - k]``: C_n in the paper's words.

    Args:
        n: Number of positions.
    """
    n = positive_int(n, "shifts(n)")
    return _additive(n, f"Z_{n}", "+")


def _additive(n: int, name: str, letter: str) -> Group:
    """The integers modulo n, acting on themselves: table and permutations are the same sums."""
    sums = (torch.arange(n)[:, None] + torch.arange(n)) % n
    names = ["e", *(f"{letter}{k}" for k in range(1, n))]
    return Group(sums, sums, name=name, element_names=names, generators=[1 % n])


def dihedral(n: int) -> Group:
    """Return D_n, of order 2n, on n points: ``r^0 .. r^(n-1)``, then ``r^0 f .. r^(n-1) f`` (e2cnn's order).

    ``r`` takes point ``i`` to ``i + 1`` and ``f`` takes it to ``-i``, modulo n. On one or two points ``f`` moves
    nothing: the table is still that of D_1 or D_2, but the representation is not faithful.

    Args:
        n: Number of points.

    Example:
        >>> import metasym as ms
        >>> ms.groups.dihedral(4).order
        8
    """
    n = positive_int(n, "dihedral(n)")
    turn = torch.arange(n).repeat(2)
    sign = torch.tensor([1, -1]).repeat_interleave(n)
    # r^a f^s r^b f^t = r^(a + (-1)^s b) f^(s + t)
    rotation = (turn[:, None] + sign[:, None] * turn) % n
    flipped = sign[:, None] != sign
    points = (turn[:, None] + sign[:, None] * torch.arange(n)) % n
    names = ["e", *(f"r{k}" for k in range(1, n)), "f", *(f"r{k}f" for k in range(1, n))]
    return Group(points, rotation + n * flipped, name=f"D_{n}", element_names=names, generators=[1 % n, n])


def symmetric(n: int) -> Group:
    """Return S_n, all n! permutations of n points.

    Args:
        n: Number of points, at most 7 (order 5040): the table has (n!)^2 entries.

    Example:
        >>> import metasym as ms
        >>> ms.groups.symmetric(3).order
        6
    """
    n = positive_int(n, "symmetric(n)", most=7)
    swap = [1, 0, *range(2, n)] if n > 1 else [0]
    cycle = [*range(1, n), 0]
    return from_generators([swap, cycle], max_order=math.factorial(n), name=f"S_{n}")


def quaternion() -> Group:
    """Q_8 = {1, -1, i, -i, j, -j, k, -k} in its faithful representation on R^4: left multiplication."""
    one = torch.eye(4, dtype=torch.float64)
    # Columns: i times 1, i, j, k = i, -1, k, -j; and j times 1, i, j, k = j, -k, -1, i.
    i = torch.tensor([[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 0, -1], [0, 0, 1, 0]], dtype=torch.float64)
    j = torch.tensor([[0, 0, -1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, -1, 0, 0]], dtype=torch.float64)
    matrices = torch.stack([one, -one, i, -i, j, -j, i @ j, -(i @ j)])
    # An element is known by the image of 1, its first column, so that products can be looked up by it.
    first = matrices[:, :, 0]
    products = torch.einsum("gij,hj->ghi", matrices, first)
    table = (products[:, :, None, :] == first).all(-1).to(torch.int64).argmax(-1)
    names = ["1", "-1", "i", "-i", "j", "-j", "k", "-k"]
    return Group(matrices, table, name="Q_8", element_names=names, generators=[2, 4])


def trivial(n: int) -> Group:
    """Return the group of one element, acting on n points.

    Args:
        n: Number of points.
    """
    n = positive_int(n, "trivial(n)")
    table = torch.zeros(1, 1, dtype=torch.int64)
    return Group(torch.arange(n)[None], table, name="trivial", element_names=["e"])


@checked
def direct_product(left: Group, right: Group, action: str = "product") -> Group:
    """All pairs ``(g, h)``; the pair is element ``g * |H| + h``. ``left * right`` is the same.

    Args:
        left: G, of degree n.
        right: H, of degree m.
        action: ``"product"``: on the n x m grid of pairs of points (row-major, degree n m), by the
            Kronecker product of the matrices; ``"sum"``: on the disjoint union (degree n + m), G on the
            first n coordinates and H on the others.

    """
    return left.product(right, action)
