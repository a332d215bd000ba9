"""A finite group together with one of its real representations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from metasym.argument_types import checked
from metasym.groups import _axioms
from metasym.groups._check import one_of, positive_int
from metasym.types import MetasymError


class Group:
    """A finite group: a multiplication table, and matrices ``pi(g)`` that multiply as the table says.

    A permutation representation is kept as its permutations alone and its (large, mostly zero) matrices
    are made when they are asked for; ``Z_1000`` acting on 1000 points is 8 MB and not 8 GB.

    Args:
        representation: ``[|G|, n, n]`` matrices ``pi(g)``, or ``[|G|, n]`` integer permutations, where
            ``permutation[g, i] = g i``, so that ``pi(g) e_i = e_{g i}`` and ``(pi(g) v)[i] = v[g^-1 i]``.
            Matrices that are exactly permutation matrices are recognised as such.
        table: ``[|G|, |G|]`` integers, ``table[g, h]`` is the index of the product ``g h``.
        name: what ``repr`` and error messages call the group.
        element_names: one name for each element; ``g0, g1, ...`` by default.
        generators: indices of generating elements; found from the table by default.
        exact: ``False`` for matrices that only approximate a representation, such as interpolated
            rotations. The table is checked all the same, the matrices for shape and finiteness only,
            and ``homomorphism_error`` says how far off they are. Permutations are always exact.

    Raises:
        MetasymError: the table is not a group's, or ``pi(g) pi(h) != pi(g h)``; names the elements.

    """

    @checked
    def __init__(
        self,
        representation: Tensor,
        table: Tensor,
        *,
        name: str = "G",
        element_names: Sequence[str] | None = None,
        generators: Sequence[int] | None = None,
        exact: bool = True,
    ) -> None:
        self.name = name
        self.table = _axioms.checked_table(table)
        order = len(self.table)
        names = tuple(element_names) if element_names is not None else tuple(f"g{i}" for i in range(order))
        if len(names) != order:
            raise MetasymError(
                f"element_names: expected {order} names, found {len(names)}",
                about="element_names",
                found=len(names),
            )
        self.element_names = names
        self.identity, self.inverses = _axioms.identity_and_inverses(self.table, names)
        self.generators = _axioms.generating_set(self.table, self.identity, generators)
        _axioms.check_associative(self.table, self.generators, names)
        self._representation = _axioms.checked_representation(representation, order)
        self.exact = exact or self.is_permutation
        if self.exact:
            _axioms.check_homomorphism(
                self._representation, self.table, self.identity, self.generators, names
            )

    @property
    def order(self) -> int:
        """The number of elements ``|G|``."""
        return len(self.table)

    @property
    def degree(self) -> int:
        """The dimension ``n`` of the space that the group acts on."""
        return int(self._representation.shape[1])

    @property
    def permutations(self) -> Tensor | None:
        """``[|G|, n]``, int64, ``permutations[g, i] = g i``; None unless every ``pi(g)`` is a permutation."""
        return self._representation if self._representation.ndim == 2 else None

    @cached_property
    def matrices(self) -> Tensor:
        """``pi(g)`` for each ``g``: ``[|G|, n, n]``, float64."""
        return _dense(self._representation)

    def inverse(self, element: int) -> int:
        """The index of the inverse of ``element``."""
        return int(self.inverses[element])

    @property
    def is_permutation(self) -> bool:
        """Whether every ``pi(g)`` is a permutation matrix."""
        return self._representation.ndim == 2

    @cached_property
    def is_orthogonal(self) -> bool:
        """Whether every ``pi(g)`` is orthogonal, up to rounding."""
        if self.is_permutation:
            return True
        identity = torch.eye(self.degree, dtype=torch.float64)
        return bool((self.matrices.mT @ self.matrices - identity).abs().max() < 1e-10)

    @cached_property
    def homomorphism_error(self) -> float:
        """The largest entry of ``|pi(g) pi(h) - pi(g h)|`` over all pairs; 0 up to rounding if exact."""
        if self.is_permutation:
            return 0.0
        pi = self.matrices
        return max(float((pi[g] @ pi - pi[self.table[g]]).abs().max()) for g in range(self.order))

    def same_group(self, other: Group) -> bool:
        """Whether ``other`` represents the same abstract group, with its elements in the same order."""
        return torch.equal(self.table, other.table)

    def regular(self) -> Group:
        """The left regular representation, ``n = |G|``: ``pi(g) e_h = e_{g h}``."""
        return self._with(self.table, f"{self.name} regular")

    def trivial_rep(self, n: int = 1) -> Group:
        """The representation on ``n`` dimensions that moves nothing."""
        n = positive_int(n, "trivial_rep(n)")
        return self._with(torch.arange(n).expand(self.order, n), f"{self.name} trivial")

    def direct_sum(self, *others: Group) -> Group:
        """The representations of one group side by side: block-diagonal ``pi(g)``, degrees added."""
        for other in others:
            if not self.same_group(other):
                raise MetasymError(
                    f"direct_sum: expected representations of the same group as {self!r}, found {other!r}",
                    about="direct_sum",
                    found=other.name,
                )
        parts = (self, *others)
        return self._with(
            _stack([part._representation for part in parts]),
            " + ".join(part.name for part in parts),
            exact=all(part.exact for part in parts),
        )

    def fields(self, count: int) -> Group:
        """``count`` copies of this representation side by side, degree ``count * n``."""
        count = positive_int(count, "fields(count)")
        return self._with(_stack([self._representation] * count), f"{count} {self.name}", self.exact)

    def restrict(self, elements: Sequence[int]) -> Group:
        """The subgroup of ``elements`` (indices, in the order wanted), acting as before."""
        chosen = torch.as_tensor(elements, dtype=torch.int64)
        if chosen.ndim != 1 or not len(chosen) or bool(((chosen < 0) | (chosen >= self.order)).any()):
            raise MetasymError(
                f"restrict: expected a list of element indices 0 to {self.order - 1}, found {chosen.tolist()}",
                about="restrict",
                found=chosen.tolist(),
            )
        if len(chosen.unique()) != len(chosen):
            raise MetasymError(
                f"restrict: expected distinct elements, found {chosen.tolist()}",
                about="restrict",
                found=chosen.tolist(),
            )
        position = torch.full((self.order,), -1)
        position[chosen] = torch.arange(len(chosen))
        table = position[self.table[chosen][:, chosen]]
        outside = (table < 0).nonzero()
        if len(outside):
            g, h = (self.element_names[int(chosen[i])] for i in outside[0])
            raise MetasymError(
                f"restrict: expected a subgroup, found that {g} {h} is not among its elements",
                about="restrict",
                found=(g, h),
            )
        return Group(
            self._representation[chosen],
            table,
            name=f"subgroup of {self.name}",
            element_names=[self.element_names[int(i)] for i in chosen],
            exact=self.exact,
        )

    def product(self, other: Group, action: str = "product") -> Group:
        """The direct product; see :func:`metasym.groups.direct_product`."""
        one_of(action, ("product", "sum"), "action")
        g, h = torch.meshgrid(torch.arange(self.order), torch.arange(other.order), indexing="ij")
        g, h = g.flatten(), h.flatten()
        left, right = self._representation[g], other._representation[h]
        if action == "sum":
            representation = _stack([left, right])
        elif self.is_permutation and other.is_permutation:
            representation = (left[:, :, None] * other.degree + right[:, None, :]).flatten(1)
        else:
            a, b = self.matrices[g], other.matrices[h]
            n = self.degree * other.degree
            representation = torch.einsum("gij,gkl->gikjl", a, b).reshape(len(g), n, n)
        return Group(
            representation,
            self.table[g][:, g] * other.order + other.table[h][:, h],
            name=f"{self.name} x {other.name}",
            element_names=[f"({a},{b})" for a in self.element_names for b in other.element_names],
            generators=[i * other.order + other.identity for i in self.generators]
            + [self.identity * other.order + i for i in other.generators],
            exact=self.exact and other.exact,
        )

    def __mul__(self, other: Group) -> Group:
        return self.product(other)

    def __repr__(self) -> str:
        kind = "permutations" if self.is_permutation else "matrices"
        inexact = "" if self.exact else ", not exact"
        return f"Group({self.name}, order={self.order}, degree={self.degree}, {kind}{inexact})"

    def _with(self, representation: Tensor, name: str, exact: bool = True) -> Group:
        """The same abstract group in another representation."""
        return Group(
            representation,
            self.table,
            name=name,
            element_names=self.element_names,
            generators=self.generators,
            exact=exact,
        )


def _dense(representation: Tensor) -> Tensor:
    """Matrices ``[|G|, n, n]`` of a representation given as matrices or as permutations ``[|G|, n]``."""
    if representation.ndim == 3:
        return representation
    matrices = torch.zeros(*representation.shape, representation.shape[1], dtype=torch.float64)
    return matrices.scatter_(1, representation.unsqueeze(1), 1.0)


def _stack(parts: Sequence[Tensor]) -> Tensor:
    """Representations ``[|G|, n_i]`` or ``[|G|, n_i, n_i]`` side by side, permutations where all are."""
    if all(part.ndim == 2 for part in parts):
        offsets = [sum(part.shape[1] for part in parts[:i]) for i in range(len(parts))]
        return torch.cat([part + offset for part, offset in zip(parts, offsets, strict=True)], dim=1)
    blocks = [_dense(part) for part in parts]
    return torch.stack([torch.block_diag(*of_one_element) for of_one_element in zip(*blocks, strict=True)])
