"""Which signed permutation of outputs goes with one of inputs: read from the outputs themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.callables.called_function import CalledFunction
from metasym.groups.signed_permutations import SignedPermutation
from metasym.types import MetasymError

Images = npt.NDArray[np.int64]
_MOST = 1024
"""Outputs that are assigned to each other by comparing all with all."""


def moved(g: SignedPermutation, x: Array, centre: Array) -> Array:
    """``g x`` for ``x [points, n]``, about the centre."""
    return np.asarray(g.on_inputs(x - centre) + centre)


@dataclass(eq=False)
class OutputActions:
    """The outputs at some points, to which those at moved points are compared."""

    f: CalledFunction
    x: Array
    y: Array
    two_sided: bool = False
    """Whether outputs are matrices with ``M(g x) = g M(x) g^T``."""

    def __post_init__(self) -> None:
        n = self.f.inputs
        if self.two_sided and self.f.outputs != n * n:
            raise MetasymError(
                f"expected matrices of {n} x {n} as outputs, as there are {n} inputs, found outputs of shape "
                f"{self.f.output_shape}",
                about="matrix_output",
                found=self.f.output_shape,
            )
        self.places, self.members, self.relative = _repeated(self.y, self.f.rounding)

    def element(self, g: SignedPermutation, centre: Array) -> SignedPermutation | None:
        """``g``, which moves inputs, with the output moves that fit best; None where outputs cannot be paired."""
        if self.two_sided:
            n, images, signs = self.f.inputs, np.array(g.inputs), g.input_signs
            out = (images[:, None] * n + images[None, :]).ravel()
            return SignedPermutation.of(out, g.inputs, np.outer(signs, signs).ravel(), signs)
        return self._paired(g, self.f(moved(g, self.x, centre)))

    def _paired(self, g: SignedPermutation, after: Array) -> SignedPermutation | None:
        """The same, with the outputs at the moved points."""
        m = self.f.outputs
        if m > _MOST:
            return SignedPermutation.of(np.arange(m), g.inputs, (), g.input_signs)
        firsts = [group[0] for group in self.members]
        paired = _assigned(self.y[:, firsts], after[:, firsts])
        if paired is None:
            return None
        out, out_signs = np.empty(m, dtype=np.int64), np.empty(m, dtype=np.int64)
        for k, (there, sign) in enumerate(zip(*paired, strict=True)):
            here, others = self.members[k], self.members[int(there)]
            if len(here) != len(others):
                return None
            for i, j in zip(here, others, strict=True):
                out[i], out_signs[i] = j, sign * self.relative[i] * self.relative[j]
        return SignedPermutation.of(out, g.inputs, out_signs, g.input_signs)


def _repeated(y: Array, rounding: float) -> tuple[Images, list[list[int]], Images]:
    """Outputs that are equal up to sign: the number of the class, its members, and each one's sign in it."""
    sizes = np.sqrt((y**2).mean(0))
    place, members = np.zeros(y.shape[1], dtype=np.int64), list[list[int]]()
    relative = np.ones(y.shape[1], dtype=np.int64)
    for k in range(y.shape[1]):
        for c, group in enumerate(members):
            first = group[0]
            if abs(sizes[first] - sizes[k]) > 100 * rounding * (sizes[k] + 1e-300):
                continue
            sign = 1 if y[:, k] @ y[:, first] >= 0 else -1
            if np.abs(y[:, k] - sign * y[:, first]).max() <= 100 * rounding * sizes[k]:
                place[k], relative[k] = c, sign
                group.append(k)
                break
        else:
            place[k] = len(members)
            members.append([k])
    return place, members, relative


def _assigned(before: Array, after: Array) -> tuple[Images, Images] | None:
    """Where each column of ``before [points, k]`` is found in ``after``, and with which sign."""
    power = (before**2).sum(0)[:, None] + (after**2).sum(0)[None, :] + 1e-300
    products = before.T @ after
    # Of a constant output both signs may fit alike: plus, then.
    signs = np.where(products < -1e-12 * power, -1, 1)
    cost = 1 - 2 * np.abs(products) / power
    images = cost.argmin(1)
    if len(set(images.tolist())) < len(images):
        if not np.isfinite(cost).all():
            return None
        images = linear_sum_assignment(cost)[1]
    return images.astype(np.int64), signs[np.arange(len(images)), images]
