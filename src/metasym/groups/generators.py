"""The group that some permutations or matrices generate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from metasym.groups._check import positive_int
from metasym.groups.group import Group
from metasym.types import MetasymError

MATCH = 1e-5
"""Two products closer than this (relative to the generators' entries) are the same element: wide enough
for generators given in float32, far narrower than the distance between elements of any usable group."""


ROUNDING = 4e-7
"""What float32 may have rounded off a generator's entries."""


def from_generators(
    generators: Sequence[Sequence[int] | Sequence[Sequence[float]] | Tensor],
    max_order: int = 2000,
    name: str = "G",
) -> Group:
    """All products of ``generators``: element 0 is the identity, the others follow breadth first.

    Args:
        generators: permutations ``[n]`` (``p[i]`` is where point i goes) or invertible matrices
            ``[n, n]``, as tensors or nested lists; among matrices, permutations become matrices too.
        max_order: the search gives up with an error beyond this many elements.
        name: the name of the group.

    Matrices are matched up to a tolerance; then the representation is refined until it is a
    homomorphism up to rounding, so that rounded generators (float32 rotations, say) still give an exact
    group.

    """
    max_order = positive_int(max_order, "max_order")
    if not isinstance(generators, Sequence | Tensor):
        raise MetasymError(
            f"expected a list of permutations or matrices, found {type(generators).__name__}",
            about="generators",
            found=type(generators).__name__,
        )
    tensors = [_tensor(generator, index) for index, generator in enumerate(generators)]
    if not tensors:
        raise MetasymError(
            "generators: expected at least one permutation or matrix, found none", about="generators"
        )
    sizes = sorted({len(tensor) for tensor in tensors})
    if len(sizes) > 1:
        raise MetasymError(
            f"generators: expected the same number of points for all, found {sizes}",
            about="generators",
            found=sizes,
        )
    if all(tensor.ndim == 1 for tensor in tensors):
        elements, table, used = _close_permutations(tensors, max_order)
    else:
        points = torch.eye(sizes[0], dtype=torch.float64)
        matrices = [points[:, t] if t.ndim == 1 else t for t in tensors]
        for index, matrix in enumerate(matrices):
            _check_finite_order(matrix, index)
        elements, table, used = _close_matrices(matrices, max_order)
        elements = _refined(elements, table, used)
        for index, (matrix, element) in enumerate(zip(matrices, used, strict=True)):
            _check_kept(matrix, elements[element], index)
    return Group(elements, table, name=name, generators=used)


def _tensor(generator: object, index: int) -> Tensor:
    """A permutation as int64 ``[n]`` or a matrix as float64 ``[n, n]``."""
    where = f"generator {index}"
    try:  # numpy reads lists of floats in float64, torch would round them to float32
        tensor = generator if isinstance(generator, Tensor) else torch.as_tensor(np.asarray(generator))
    except (TypeError, ValueError):
        found = f"a {type(generator).__name__} that is neither"
        raise MetasymError(
            f"{where}: expected a permutation or a matrix, found {found}",
            about=where,
            found=type(generator).__name__,
        ) from None
    if tensor.is_complex() or tensor.dtype == torch.bool:
        raise MetasymError(
            f"{where}: expected a permutation or a real matrix, found {tensor.dtype}",
            about=where,
            found=tensor.dtype,
        )
    if tensor.ndim == 2 and tensor.shape[0] == tensor.shape[1] and len(tensor):
        matrix = tensor.detach().to(torch.float64)
        if not bool(matrix.isfinite().all()):
            raise MetasymError(
                f"{where}: expected finite entries, found NaN or infinity",
                about=where,
                found="NaN or infinity",
            )
        return matrix
    if tensor.ndim != 1 or not len(tensor):
        raise MetasymError(
            f"{where}: expected a permutation [n] or a matrix [n, n], found shape {tuple(tensor.shape)}",
            about=where,
            found=tuple(tensor.shape),
        )
    if tensor.is_floating_point() or tensor.sort().values.tolist() != list(range(len(tensor))):
        raise MetasymError(
            f"{where}: expected a permutation of 0 to {len(tensor) - 1}, found {tensor.tolist()}",
            about=where,
            found=tensor.tolist(),
        )
    return tensor.to(torch.int64)


def _check_finite_order(matrix: Tensor, index: int) -> None:
    """Powers of a matrix come back to 1 only if all its eigenvalues lie on the unit circle."""
    sizes = torch.linalg.eigvals(matrix).abs()
    if float(sizes.min()) < 1e-12 * max(1.0, float(sizes.max())):
        raise MetasymError(
            f"generator {index}: expected an invertible matrix, found a singular one",
            about=f"generator {index}",
            found="singular",
        )
    off = sizes[(sizes - 1).abs().argmax()]
    if abs(float(off) - 1) > 1e-3:
        raise MetasymError(
            f"generator {index}: expected a matrix of finite order (eigenvalues of size 1), "
            f"found one of size {float(off):.4g}",
            about=f"generator {index}",
            found=float(off),
        )


def _check_kept(given: Tensor, element: Tensor, index: int) -> None:
    """The group must hold the generator that was given, up to float32 rounding, not merely one near it.

    Otherwise a tiny shear or rotation, which generates no finite group, would count as the identity.
    """
    off = float((given - element).abs().max())
    if off > ROUNDING * max(1.0, float(given.abs().max())):
        raise MetasymError(
            f"generator {index}: expected a matrix of a finite group, found one that is {off:.1g} away from the "
            "nearest element of a group",
            about=f"generator {index}",
            found=off,
        )


def _close_permutations(generators: Sequence[Tensor], max_order: int) -> tuple[Tensor, Tensor, list[int]]:
    """Closure of permutations ``[n]``: elements ``[|G|, n]``, table, the generators' indices."""
    seen: dict[bytes, int] = {}

    def find(permutation: Tensor, new: int) -> int:
        return seen.setdefault(permutation.numpy().tobytes(), new)

    return closure(torch.arange(len(generators[0])), generators, find, lambda g, a: g[a], max_order)


def _close_matrices(generators: Sequence[Tensor], max_order: int) -> tuple[Tensor, Tensor, list[int]]:
    """Closure of matrices ``[n, n]``: elements ``[|G|, n, n]``, table, the generators' indices.

    A product is looked up by a random linear functional of its entries first, so that it is fully compared
    only with the few elements of nearly the same value.
    """
    n = len(generators[0])
    functional = torch.randn(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    tolerance = MATCH * max(float(matrix.abs().max()) for matrix in generators)
    slack = tolerance * float(functional.abs().sum())
    known: list[Tensor] = []
    values = torch.full((max_order + 1,), torch.inf, dtype=torch.float64)

    def find(matrix: Tensor, new: int) -> int:
        value = (functional * matrix).sum()
        for index in ((values - value).abs() <= slack).nonzero().flatten().tolist():
            if float((known[index] - matrix).abs().max()) <= tolerance:
                return int(index)
        values[new] = value
        known.append(matrix)
        return new

    return closure(torch.eye(n, dtype=torch.float64), generators, find, torch.matmul, max_order)


class TooLargeError(MetasymError):
    """A group has more elements than were to be listed."""


def products(
    identity: Tensor,
    generators: Sequence[Tensor],
    find: Callable[[Tensor, int], int],
    multiply: Callable[[Tensor, Tensor], Tensor],
) -> Iterator[tuple[int, int, int, Tensor]]:
    """Every product ``g a`` of an element with a generator, breadth first: the indices of g, a, ``g a``, and it."""
    elements = [identity]
    find(identity, 0)
    g = 0
    while g < len(elements):
        for a, generator in enumerate(generators):
            product = multiply(elements[g], generator)
            index = find(product, len(elements))
            if index == len(elements):
                elements.append(product)
            yield g, a, index, product
        g += 1


def closure(
    identity: Tensor,
    generators: Sequence[Tensor],
    find: Callable[[Tensor, int], int],
    multiply: Callable[[Tensor, Tensor], Tensor],
    max_order: int,
) -> tuple[Tensor, Tensor, list[int]]:
    """Breadth-first closure under multiplication by generators from the right.

    ``find(g, new)`` gives the index of g, or files it under ``new``. Every element but the identity is
    ``parent * a`` for a generator a, and ``g (parent a) = (g parent) a``: so the table's columns follow
    from one another by look-ups in the columns of the generators, without any further product.
    """
    elements = [identity]
    parents: list[tuple[int, int]] = [(0, 0)]
    columns: list[list[int]] = [[] for _ in generators]
    for g, a, index, product in products(identity, generators, find, multiply):
        if index == len(elements):
            if index == max_order:
                raise TooLargeError(
                    f"generators: expected a group of at most max_order={max_order} elements, "
                    f"found more than {max_order}",
                    about="max_order",
                    found=max_order,
                )
            elements.append(product)
            parents.append((g, a))
        columns[a].append(index)
    right = torch.tensor(columns)
    table = torch.empty(len(elements), len(elements), dtype=torch.int64)
    table[:, 0] = torch.arange(len(elements))
    for h in range(1, len(elements)):
        parent, a = parents[h]
        table[:, h] = right[a][table[:, parent]]
    return torch.stack(elements), table, [column[0] for column in columns]


def _refined(matrices: Tensor, table: Tensor, generators: Sequence[int]) -> Tensor:
    """Matrices ``[|G|, n, n]`` that nearly multiply as ``table`` says, made to do so up to rounding.

    The mean over h of ``A(g h) A(h)^-1`` is A(g) for a representation, and for an approximate one its
    error is of second order: two or three rounds reach machine precision.
    """
    for _ in range(4):
        errors = [(matrices @ matrices[a] - matrices[table[:, a]]).abs().max() for a in generators]
        if float(max(errors)) < 1e-14:
            break
        inverses = torch.linalg.inv(matrices)
        matrices = torch.stack([(matrices[row] @ inverses).mean(0) for row in table])
    rounded = matrices.round()
    return torch.where((matrices - rounded).abs() < 1e-12, rounded, matrices)
