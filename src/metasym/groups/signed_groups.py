"""Groups of signed permutations of outputs and inputs, given by generators.

What a group does to weights follows from its generators alone: :class:`WeightOrbits`. Its elements are written out
only where they are few.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from metasym.groups.generators import TooLargeError, products
from metasym.groups.identification import identify
from metasym.groups.orbits import orbit_labels
from metasym.groups.signed_permutations import SignedPermutation
from metasym.types import MetasymError


@dataclass(frozen=True)
class SignedGroup:
    """All products of some signed permutations of ``shape`` outputs and inputs.

    >>> turn = SignedPermutation((1, 2, 3, 0), (1, 2, 3, 0))
    >>> SignedGroup((turn,), (4, 4)).name, SignedGroup((turn,), (4, 4)).orbits.count
    ('Z_4', 4)
    """

    generators: tuple[SignedPermutation, ...]
    shape: tuple[int, int]
    up_to_sign: bool = False
    """Whether an element and its negative, on both sides, count as one: on weights they do the same."""
    known_order: int | None = field(default=None, compare=False)
    """The order, from whoever found the generators; None where it has to be counted."""

    def __post_init__(self) -> None:
        for g in self.generators:
            if g.shape != self.shape:
                raise MetasymError(
                    f"expected permutations of {self.shape[0]} outputs and {self.shape[1]} inputs, "
                    f"found {g.shape[0]} and {g.shape[1]}",
                    about="generators",
                    found=g.shape,
                )

    @property
    def name(self) -> str:
        """Up to isomorphism: ``Z_12``, ``D_10`` (of order 20), ``S_3 x Z_2``; else
        for example ``a group of order 48``.
        """
        return self._identity[0]

    @property
    def order(self) -> int:
        """The number of elements, exact."""
        return self._identity[1]

    @cached_property
    def _identity(self) -> tuple[str, int]:
        if not self.generators:
            return "Z_1", 1
        if self.signed:
            doubled = [tuple(g.doubled.tolist()) for g in self.generators]
            return identify(doubled, up_to_sign=self.up_to_sign, order=self.known_order)
        m = self.shape[0]
        plain = [(*g.outputs, *(m + j for j in g.inputs)) for g in self.generators]
        return identify(plain, order=self.known_order)

    @property
    def signed(self) -> bool:
        """Whether some element changes a sign."""
        return any(g.signed for g in self.generators)

    @property
    def unsigned(self) -> SignedGroup:
        """The same permutations without their signs."""
        return SignedGroup(tuple(SignedPermutation(g.outputs, g.inputs) for g in self.generators), self.shape)

    def first_elements(self, most: int) -> tuple[SignedPermutation, ...]:
        """Elements, breadth first from the identity; all of them where there are at most ``most``."""
        seen: dict[bytes, int] = {}

        def find(g: Tensor, new: int) -> int:
            key = g.numpy().tobytes()
            if self.up_to_sign:
                key = min(key, (g ^ 1).numpy().tobytes())
            return seen.setdefault(key, new)

        found = [torch.arange(2 * sum(self.shape))]
        steps = products(
            found[0], [torch.from_numpy(g.doubled) for g in self.generators], find, lambda g, a: g[a]
        )
        for _, _, index, product in steps:
            if index == len(found):
                if index == most:
                    break
                found.append(product)
        return tuple(SignedPermutation.from_doubled(g.numpy(), self.shape[0]) for g in found)

    def some_elements(self, most: int, draw: np.random.Generator) -> tuple[SignedPermutation, ...]:
        """All elements, or the identity and ``most`` random ones where there are more; the identity first."""
        if self.has_at_most(most):
            return self.elements
        known = self.first_elements(most)
        found = [known[0]]
        for _ in range(most):  # a random walk over a group that is too large to be written out
            walked = known[int(draw.integers(len(known)))].doubled
            for _ in range(20):
                walked = walked[self.generators[int(draw.integers(len(self.generators)))].doubled]
            found.append(SignedPermutation.from_doubled(walked, self.shape[0]))
        return tuple(found)

    @cached_property
    def elements(self) -> tuple[SignedPermutation, ...]:
        """All elements, the identity first. Ask :meth:`has_at_most` before: a group may have very many."""
        if not self.has_at_most(_LISTED):
            raise TooLargeError(
                f"expected a group of at most {_LISTED} elements, found more", about="elements"
            )
        found: tuple[SignedPermutation, ...] = self.__dict__["elements"]
        return found

    def has_at_most(self, most: int) -> bool:
        """Whether there are at most ``most`` elements; if so, they are kept for :attr:`elements`."""
        found = self.__dict__.get("elements") or self.first_elements(most + 1)
        if len(found) <= most:
            self.__dict__["elements"] = found
        return len(found) <= most

    @property
    def orbits(self) -> WeightOrbits:
        """What it leaves of a weight."""
        return weight_orbits(self.generators, self.shape)

    @cached_property
    def point_orbits(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """A number for each output ``[m]`` and for each input ``[n]``, equal for those taken to each other."""
        m, n = self.shape
        out, inp = ([getattr(g, side) for g in self.generators] for side in ("outputs", "inputs"))
        return orbit_labels(out, m), orbit_labels(inp, n)

    def average_inputs(self, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """``x [..., n]`` averaged over the group: what every element keeps."""
        return _averaged(x, [(g.inputs, g.input_signs) for g in self.generators])

    def average_outputs(self, y: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """``y [..., m]`` averaged over the group."""
        return _averaged(y, [(g.outputs, g.output_signs) for g in self.generators])

    @property
    def keeps_outputs(self) -> bool:
        """Whether no output is moved."""
        return not any(g.moved_outputs for g in self.generators)

    @property
    def transitive(self) -> tuple[bool, bool]:
        """Whether every output is taken to every other, and every input."""
        outputs, inputs = self.point_orbits
        return len(set(outputs.tolist())) <= 1, len(set(inputs.tolist())) <= 1


def _averaged(
    values: npt.NDArray[np.float64], sides: list[tuple[tuple[int, ...], tuple[int, ...]]]
) -> npt.NDArray[np.float64]:
    """``values [..., n]`` averaged over the group that signed permutations of n points generate."""
    n = values.shape[-1]
    doubled = []
    for images, signs in sides:
        there, flip = np.array(images), (np.array(signs) < 0).astype(np.int64)
        doubled.append(np.concatenate([there + n * flip, there + n * (1 - flip)]))
    labels = orbit_labels(doubled, 2 * n)  # of plus, then of minus every point
    both = np.concatenate([values, -values], axis=-1)
    member = np.eye(int(labels.max()) + 1)[labels]
    return np.asarray((both @ member / member.sum(0))[..., labels[:n]])


@dataclass(frozen=True, eq=False)
class WeightOrbits:
    """The entries of a weight ``[m, n]`` that a group takes to each other, with signs relative to the first."""

    labels: Tensor
    """``[m n]``, from 0."""
    signs: Tensor
    """``[m n]`` of 1 and -1; 0 where the group takes an entry to its own opposite, which must then be zero."""

    @property
    def count(self) -> int:
        """How many orbits."""
        return int(self.labels.max()) + 1

    @property
    def sizes(self) -> Tensor:
        """Entries of each orbit."""
        return torch.bincount(self.labels, minlength=self.count)

    @property
    def classes(self) -> npt.NDArray[np.int64]:
        """``[m n]``: 0 where the entry must be zero; equal numbers for tied entries, opposite ones up to sign."""
        return ((self.labels + 1) * self.signs).numpy()

    def average(self, values: Tensor) -> Tensor:
        """The projection of ``values [..., m n]`` on the weights that the group leaves as they are."""
        signs = self.signs.to(values)
        sums = torch.zeros(*values.shape[:-1], self.count, dtype=values.dtype)
        sums.index_add_(-1, self.labels, values * signs)
        return (sums / self.sizes)[..., self.labels] * signs

    @property
    def free(self) -> int:
        """The dimension of the space of weights that the group leaves as they are."""
        return int((self.signs != 0).to(torch.int64)[self._firsts()].sum())

    def _firsts(self) -> Tensor:
        firsts = torch.full((self.count,), len(self.labels))
        firsts.scatter_reduce_(0, self.labels, torch.arange(len(self.labels)), "amin")
        return firsts

    def complement(self) -> Tensor:
        """An orthonormal basis ``[m n, d]`` of what the group forbids, orbit by orbit."""
        return self._bases[1]

    def basis(self) -> Tensor:
        """An orthonormal basis ``[m n, d]`` of the weights that the group leaves as they are."""
        return self._bases[0]

    @cached_property
    def _bases(self) -> tuple[Tensor, Tensor]:
        size = len(self.labels)
        inside: list[Tensor] = []
        outside: list[Tensor] = []
        order = torch.argsort(self.labels, stable=True).split(self.sizes.tolist())
        for members in order:
            signs = self.signs[members].double()
            block = torch.zeros(size, len(members), dtype=torch.float64)
            if bool((signs == 0).any()):
                block[members, torch.arange(len(members))] = 1
                outside.append(block)
                continue
            block[members] = signs[:, None] * _mean_and_differences(len(members))
            inside.append(block[:, :1])
            outside.append(block[:, 1:])
        none = torch.zeros(size, 0, dtype=torch.float64)
        return torch.cat([none, *inside], 1), torch.cat([none, *outside], 1)


@cache
def _mean_and_differences(size: int) -> Tensor:
    """An orthonormal basis of ``size`` numbers: their mean first, by Householder, then their differences."""
    ones = torch.ones(size, 1, dtype=torch.float64)
    found: Tensor = torch.linalg.qr(torch.cat([ones, torch.eye(size, dtype=torch.float64)], 1)).Q[:, :size]
    return found


def weight_orbits(generators: tuple[SignedPermutation, ...], shape: tuple[int, int]) -> WeightOrbits:
    """The orbits on the entries of a weight ``[m, n]``, up to sign."""
    # The same generators are asked about several times in a row: for a key, for a scale, for a certificate.
    return (_kept_orbits if shape[0] * shape[1] <= _SMALL else _orbits)(generators, shape)


def _orbits(generators: tuple[SignedPermutation, ...], shape: tuple[int, int]) -> WeightOrbits:
    m, n = shape
    size = m * n
    # Every entry twice, as +w and -w; a group element joins each to where it goes.
    doubled = []
    for g in generators:
        images = (np.asarray(g.outputs)[:, None] * n + np.asarray(g.inputs)[None, :]).ravel()
        flip = (np.outer(g.output_signs, g.input_signs).ravel() < 0).astype(np.int64)
        doubled.append(np.concatenate([images + flip * size, images + (1 - flip) * size]))
    parts = orbit_labels(doubled, 2 * size)
    plus, minus = parts[:size], parts[size:]
    keys = np.minimum(plus, minus)
    # A component holds plus signs and minus signs of an orbit; which of the two the orbit's first entry has, is plus.
    _, firsts, labels = np.unique(keys, return_index=True, return_inverse=True)
    signs = np.where(plus == minus, 0, np.where(plus == plus[firsts][labels], 1, -1))
    return WeightOrbits(torch.from_numpy(labels.astype(np.int64)), torch.from_numpy(signs.astype(np.int64)))


_LISTED = 100_000
"""Elements that are listed at all."""
_SMALL = 2**14
"""Entries of a weight whose orbits are kept."""
_kept_orbits = lru_cache(maxsize=256)(_orbits)
