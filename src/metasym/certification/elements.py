"""Signed permutations of outputs and inputs, and what they leave of a weight: its orbits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Protocol

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from metasym.types import MetasymError


class Element(Protocol):
    """Output i goes to ``outputs[i]`` with ``output_signs[i]``, input j likewise."""

    @property
    def outputs(self) -> Sequence[int]: ...  # noqa: D102
    @property
    def inputs(self) -> Sequence[int]: ...  # noqa: D102
    @property
    def output_signs(self) -> Sequence[int]: ...  # noqa: D102
    @property
    def input_signs(self) -> Sequence[int]: ...  # noqa: D102


@dataclass(frozen=True)
class SignedPermutation:
    """A pair of signed permutations, of a layer's outputs and of its inputs."""

    outputs: tuple[int, ...]
    inputs: tuple[int, ...]
    output_signs: tuple[int, ...] = ()
    input_signs: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("output", "input"):
            images, signs = getattr(self, f"{name}s"), getattr(self, f"{name}_signs")
            if sorted(images) != list(range(len(images))):
                raise MetasymError(f"expected a permutation of {name}s, found {list(images)}")
            if not signs:
                object.__setattr__(self, f"{name}_signs", (1,) * len(images))
            elif len(signs) != len(images) or set(signs) - {1, -1}:
                raise MetasymError(f"expected {len(images)} signs of 1 and -1, found {list(signs)}")


def moved(weights: Tensor, g: Element) -> Tensor:
    """``g W`` for ``weights [..., m, n]``: the entry at (i, j) goes to the images of i and j, with both signs."""
    signs = torch.outer(torch.tensor(g.output_signs), torch.tensor(g.input_signs)).to(weights)
    found = torch.empty_like(weights)
    rows, columns = torch.tensor(g.outputs)[:, None], torch.tensor(g.inputs)[None, :]
    found[..., rows, columns] = weights * signs
    return found


@dataclass(frozen=True, eq=False)
class Orbits:
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


def orbits(generators: Sequence[Element], shape: tuple[int, int]) -> Orbits:
    """The orbits on the entries of a weight ``[m, n]``, up to sign."""
    parts = ("outputs", "inputs", "output_signs", "input_signs")
    return _orbits(tuple(tuple(tuple(getattr(g, part)) for part in parts) for g in generators), shape)


@lru_cache(maxsize=256)
def _orbits(generators: tuple[tuple[tuple[int, ...], ...], ...], shape: tuple[int, int]) -> Orbits:
    """Asked for the same generators several times in a row: for a key, for a scale, for a certificate."""
    m, n = shape
    size = m * n
    # Every entry twice, as +w and -w; a group element joins each to where it goes.
    rows, columns = [], []
    for outputs, inputs, output_signs, input_signs in generators:
        if len(outputs) != m or len(inputs) != n:
            raise MetasymError(
                f"expected permutations of {m} outputs and {n} inputs, found {len(outputs)} and {len(inputs)}"
            )
        images = (np.asarray(outputs)[:, None] * n + np.asarray(inputs)[None, :]).ravel()
        flip = (np.outer(output_signs, input_signs).ravel() < 0).astype(np.int64)
        here = np.arange(size)
        for sign in (0, 1):
            rows.append(here + sign * size)
            columns.append(images + (sign ^ flip) * size)
    graph = coo_array(
        (np.ones(sum(map(len, rows))), (np.concatenate([[], *rows]), np.concatenate([[], *columns]))),
        shape=(2 * size, 2 * size),
    )
    parts = connected_components(graph, directed=False)[1]
    plus, minus = parts[:size], parts[size:]
    keys = np.minimum(plus, minus)
    # A component holds plus signs and minus signs of an orbit; which of the two the orbit's first entry has, is plus.
    _, firsts, labels = np.unique(keys, return_index=True, return_inverse=True)
    signs = np.where(plus == minus, 0, np.where(plus == plus[firsts][labels], 1, -1))
    return Orbits(torch.from_numpy(labels.astype(np.int64)), torch.from_numpy(signs.astype(np.int64)))
