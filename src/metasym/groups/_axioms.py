"""The group axioms, checked on a multiplication table and on the matrices that claim to follow it.

Everything is checked on a generating set where that is enough: associativity by Light's test, the
homomorphism because ``pi(g a) = pi(g) pi(a)`` for all ``g`` and all generators ``a`` gives it for every
product of generators. That makes a group of order 1000 a matter of milliseconds and not of 10^9 products.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from metasym.groups.names import generated
from metasym.types import MetasymError

TOLERANCE = 1e-9
"""Largest entry of ``pi(g) pi(h) - pi(g h)``, relative to the entries of ``pi``, that passes as rounding."""


def checked_table(table: Tensor) -> Tensor:
    """The table as int64 ``[|G|, |G|]`` if it is square and closed."""
    if not isinstance(table, Tensor) or table.ndim != 2 or table.shape[0] != table.shape[1] or not len(table):
        found = tuple(table.shape) if isinstance(table, Tensor) else type(table).__name__
        raise MetasymError(
            f"table: expected a square [|G|, |G|] tensor, found {found}", about="table", found=found
        )
    if table.is_floating_point() or table.is_complex() or table.dtype == torch.bool:
        raise MetasymError(f"table: expected integers, found {table.dtype}", about="table", found=table.dtype)
    outside = ((table < 0) | (table >= len(table))).nonzero()
    if len(outside):
        g, h = outside[0].tolist()
        raise MetasymError(
            f"closure: expected table entries 0 to {len(table) - 1}, "
            f"found {int(table[g, h])} for the pair ({g}, {h})",
            about="closure",
            found=(int(table[g, h]), (g, h)),
        )
    return table.to(torch.int64)


def identity_and_inverses(table: Tensor, names: Sequence[str]) -> tuple[int, Tensor]:
    """The index of the identity and ``[|G|]`` indices of the inverses."""
    every = torch.arange(len(table))
    neutral = ((table == every).all(1) & (table == every[:, None]).all(0)).nonzero()
    if not len(neutral):
        raise MetasymError(
            "identity: expected an element e with e g = g e = g for every g, found none", about="identity"
        )
    identity = int(neutral[0])
    inverse_pairs = (table == identity) & (identity == table.T)
    without = (~inverse_pairs.any(1)).nonzero()
    if len(without):
        g = names[int(without[0])]
        raise MetasymError(
            f"inverses: expected an element h with {g} h = h {g} = e, found none", about=f"inverse of {g}"
        )
    return identity, inverse_pairs.to(torch.int64).argmax(1)


def generating_set(table: Tensor, identity: int, known: Sequence[int] | None) -> tuple[int, ...]:
    """Elements whose products are all of the group: the ``known`` ones, and others if these are too few."""
    generators = [int(g) for g in known] if known is not None else []
    if any(not 0 <= g < len(table) for g in generators):
        raise MetasymError(
            f"generators: expected element indices 0 to {len(table) - 1}, found {generators}",
            about="generators",
            found=generators,
        )
    products = table.numpy()
    reached = generated(products, generators, identity)
    while not reached.all():
        generators.append(int(reached.argmin()))
        reached = generated(products, generators, identity)
    return tuple(generators)


def check_associative(table: Tensor, generators: Sequence[int], names: Sequence[str]) -> None:
    """Light's test: ``(g a) h = g (a h)`` for all ``g, h`` and the generators ``a`` is associativity."""
    for a in generators:
        wrong = (table[table[:, a]] != table[:, table[a]]).nonzero()
        if len(wrong):
            g, h = (names[i] for i in wrong[0].tolist())
            raise MetasymError(
                f"associativity: expected ({g} {names[a]}) {h} = {g} ({names[a]} {h}), found two elements",
                about="associativity",
                found=(g, names[a], h),
            )


def checked_representation(representation: Tensor, order: int) -> Tensor:
    """Permutations ``[|G|, n]`` int64, also of permutation matrices, or matrices ``[|G|, n, n]`` float64."""
    is_tensor = isinstance(representation, Tensor)
    shape = tuple(representation.shape) if is_tensor else type(representation).__name__
    if not is_tensor or representation.ndim not in (2, 3) or 0 in representation.shape:
        raise MetasymError(
            f"representation: expected [|G|, n, n] matrices or [|G|, n] permutations, found {shape}",
            about="representation",
            found=shape,
        )
    if len(representation) != order:
        raise MetasymError(
            f"representation: expected one for each of the {order} elements, found {len(representation)}",
            about="representation",
            found=len(representation),
        )
    if representation.ndim == 2:
        return _checked_permutations(representation)
    if representation.shape[1] != representation.shape[2]:
        raise MetasymError(
            f"representation: expected square matrices, found shape {shape}",
            about="representation",
            found=shape,
        )
    if representation.is_complex():
        raise MetasymError(
            f"representation: expected real matrices, found {representation.dtype}",
            about="representation",
            found=representation.dtype,
        )
    matrices = representation.detach().to(torch.float64)
    if not bool(matrices.isfinite().all()):
        g = int((~matrices.isfinite()).flatten(1).any(1).to(torch.int64).argmax())
        raise MetasymError(
            f"representation: expected finite entries, found NaN or infinity for element {g}",
            about=f"representation of element {g}",
            found="NaN or infinity",
        )
    zero_one = bool(((matrices == 0) | (matrices == 1)).all())
    if zero_one and bool((matrices.sum(1) == 1).all()) and bool((matrices.sum(2) == 1).all()):
        return matrices.argmax(1)
    return matrices


def _checked_permutations(permutations: Tensor) -> Tensor:
    if permutations.is_floating_point() or permutations.is_complex() or permutations.dtype == torch.bool:
        raise MetasymError(
            f"permutations: expected integers, found {permutations.dtype}",
            about="permutations",
            found=permutations.dtype,
        )
    permutations = permutations.to(torch.int64)
    n = permutations.shape[1]
    wrong = (permutations.sort(1).values != torch.arange(n)).any(1).nonzero()
    if len(wrong):
        raise MetasymError(
            f"permutations: expected each of 0 to {n - 1} once, found {permutations[int(wrong[0])].tolist()}",
            about="permutations",
            found=permutations[int(wrong[0])].tolist(),
        )
    return permutations


def check_homomorphism(
    representation: Tensor, table: Tensor, identity: int, generators: Sequence[int], names: Sequence[str]
) -> None:
    """``pi(e) = 1`` and ``pi(g) pi(h) = pi(g h)``, or an error that names the pair."""
    n = representation.shape[1]
    is_permutation = representation.ndim == 2
    one = torch.arange(n) if is_permutation else torch.eye(n, dtype=torch.float64)
    largest = 1.0 if is_permutation else max(1.0, float(representation.abs().max()))
    allowed = 0.0 if is_permutation else TOLERANCE * n * largest**2
    if float((representation[identity] - one).abs().max()) > allowed:
        raise MetasymError(
            f"homomorphism: expected pi({names[identity]}) = 1, found another matrix",
            about=f"pi({names[identity]})",
        )
    for a in generators:
        # (pi(g) pi(a)) e_i = pi(g) e_{a i}: composing permutations is indexing by the right factor.
        right = representation[a]
        product = representation[:, right] if is_permutation else representation @ right
        error = (product - representation[table[:, a]]).abs().flatten(1).amax(1)
        g = int(error.argmax())
        if float(error[g]) > allowed:
            raise MetasymError(
                f"homomorphism: expected pi(g) pi(h) = pi(g h) for the pair g = {names[g]}, h = {names[a]}, "
                f"found that they differ by {float(error[g]):.3g}",
                about=f"pi({names[g]}) pi({names[a]})",
                found=float(error[g]),
            )
