"""An element of a symmetry group: a signed permutation of outputs, and one of inputs.

Every room speaks of symmetries in this one encoding. Points are the outputs, then the inputs; the *doubled* points
are ``2 p`` for plus and ``2 p + 1`` for minus point p, on which signs are plain permutations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from metasym.types import MetasymError

Points = npt.NDArray[np.int64]
Values = TypeVar("Values", npt.NDArray[Any], Tensor)
MINUS = "−"


@dataclass(frozen=True)
class SignedPermutation:
    """Output i goes to ``outputs[i]`` with the sign ``output_signs[i]``, input j likewise.

    >>> turn = SignedPermutation((1, 2, 0), (1, 2, 0))
    >>> (turn @ turn).outputs, turn.inverse.outputs, turn.order
    ((2, 0, 1), (2, 0, 1), 3)
    >>> turn.in_cycles(outputs=("a", "b", "c"))
    'outputs (a b c), inputs (0 1 2)'
    """

    outputs: tuple[int, ...]
    inputs: tuple[int, ...]
    output_signs: tuple[int, ...] = ()
    """+1 or -1 for each output; all +1 where they are left out."""
    input_signs: tuple[int, ...] = ()
    transform: str = field(default="", compare=False)
    """What it does to the pixels, for a convolution: ``"rotation by 45 degrees"``."""

    def __post_init__(self) -> None:
        for name in ("output", "input"):
            images, signs = getattr(self, f"{name}s"), getattr(self, f"{name}_signs")
            if sorted(images) != list(range(len(images))):
                raise MetasymError(
                    f"expected a permutation of {name}s, found {list(images)}", about=f"{name}s", found=images
                )
            if not signs:
                object.__setattr__(self, f"{name}_signs", (1,) * len(images))
            elif len(signs) != len(images) or set(signs) - {1, -1}:
                raise MetasymError(
                    f"expected {len(images)} signs of 1 and -1, found {list(signs)}",
                    about=f"{name}_signs",
                    found=signs,
                )

    @classmethod
    def of(
        cls,
        outputs: npt.ArrayLike,
        inputs: npt.ArrayLike,
        output_signs: npt.ArrayLike = (),
        input_signs: npt.ArrayLike = (),
    ) -> SignedPermutation:
        """The element of these lists or arrays."""
        given = (outputs, inputs, output_signs, input_signs)
        out, into, out_signs, in_signs = (tuple(np.asarray(one, dtype=np.int64).tolist()) for one in given)
        return cls(out, into, out_signs, in_signs)

    @classmethod
    def identity(cls, outputs: int, inputs: int) -> SignedPermutation:
        """The element that moves nothing."""
        return cls(tuple(range(outputs)), tuple(range(inputs)))

    @classmethod
    def from_doubled(cls, doubled: npt.ArrayLike, outputs: int) -> SignedPermutation:
        """The element that permutes the doubled points so; the first ``outputs`` points are outputs."""
        plus = np.asarray(doubled, dtype=np.int64)[0::2]
        images, signs = plus // 2, 1 - 2 * (plus % 2)
        m = outputs
        return cls.of(images[:m], images[m:] - m, signs[:m], signs[m:])

    @cached_property
    def doubled(self) -> Points:
        """Where the doubled points go, ``[2 (m + n)]``."""
        m = len(self.outputs)
        images = np.array([*self.outputs, *(m + j for j in self.inputs)], dtype=np.int64)
        flip = (np.array([*self.output_signs, *self.input_signs], dtype=np.int64) < 0).astype(np.int64)
        found = np.empty(2 * len(images), dtype=np.int64)
        found[0::2], found[1::2] = 2 * images + flip, 2 * images + 1 - flip
        return found

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of outputs and inputs."""
        return len(self.outputs), len(self.inputs)

    def __matmul__(self, first: SignedPermutation) -> SignedPermutation:
        """The product: ``first``, then this."""
        if first.shape != self.shape:
            raise MetasymError(
                f"expected an element on {self.shape} outputs and inputs, found {first.shape}",
                about="element",
                found=first.shape,
            )
        return SignedPermutation.from_doubled(self.doubled[first.doubled], len(self.outputs))

    @cached_property
    def inverse(self) -> SignedPermutation:
        """The element that undoes this one."""
        return SignedPermutation.from_doubled(np.argsort(self.doubled), len(self.outputs))

    @property
    def order(self) -> int:
        """How often it must be applied to move nothing."""
        return math.lcm(*map(len, cycles(self.doubled)))

    @property
    def is_identity(self) -> bool:
        """Whether it moves nothing."""
        return bool((self.doubled == np.arange(len(self.doubled))).all())

    @property
    def signed(self) -> bool:
        """Whether it changes a sign."""
        return min((*self.output_signs, *self.input_signs), default=1) < 0

    @property
    def permutes(self) -> bool:
        """Whether some output or input changes its place."""
        return any(i != j for side in (self.outputs, self.inputs) for i, j in enumerate(side))

    @property
    def moved_outputs(self) -> tuple[int, ...]:
        """The outputs that it changes."""
        return _moved(self.outputs, self.output_signs)

    @property
    def moved_inputs(self) -> tuple[int, ...]:
        """The inputs that it changes."""
        return _moved(self.inputs, self.input_signs)

    @cached_property
    def _sides(self) -> tuple[Points, Points, Points, Points]:
        parts = (self.outputs, self.output_signs, self.inputs, self.input_signs)
        out, out_signs, into, in_signs = (np.array(part, dtype=np.int64) for part in parts)
        return out, out_signs, into, in_signs

    def on_outputs(self, y: Values) -> Values:
        """``g y`` for ``y [..., m]``."""
        return _acted(y, *self._sides[:2])

    def on_inputs(self, x: Values) -> Values:
        """``g x`` for ``x [..., n]``."""
        return _acted(x, *self._sides[2:])

    def on_weights(self, weights: Tensor) -> Tensor:
        """``g W`` for ``weights [..., m, n]``: the entry at (i, j) goes to the images of i and j, with both signs."""
        out, out_signs, into, in_signs = map(torch.from_numpy, self._sides)
        found = torch.empty_like(weights)
        found[..., out[:, None], into[None, :]] = weights * torch.outer(out_signs, in_signs).to(weights)
        return found

    def as_dict(self) -> dict[str, list[int]]:
        """Plain types, for JSON."""
        parts = ("inputs", "input_signs", "outputs", "output_signs")
        return {part: list(getattr(self, part)) for part in parts}

    def in_cycles(
        self, outputs: Sequence[str] = (), inputs: Sequence[str] = (), *, most: int | None = None
    ) -> str:
        """Both permutations in cycles, by the names of outputs and inputs where they are given.

        A side of more than ``most`` characters is cut. Where both sides are alike they are written once.
        """
        sides = [
            ("outputs", cycle_notation(self.outputs, self.output_signs, outputs, most=most)),
            ("inputs", cycle_notation(self.inputs, self.input_signs, inputs, most=most)),
        ]
        if sides[0][1] == sides[1][1]:
            return f"outputs and inputs {sides[0][1]}"
        return ", ".join(f"{side} {text}" for side, text in sides)


def cycles(images: Sequence[int] | Points) -> Iterator[tuple[int, ...]]:
    """The cycles of a permutation, fixed points included, by their smallest points."""
    to = [int(image) for image in images]
    seen = [False] * len(to)
    for start in range(len(to)):
        cycle, at = [], start
        while not seen[at]:
            seen[at] = True
            cycle.append(at)
            at = to[at]
        if cycle:
            yield tuple(cycle)


def cycle_notation(
    images: Sequence[int], signs: Sequence[int] = (), names: Sequence[str] = (), *, most: int | None = None
) -> str:
    """``(0 1 2)(3 5)``: the cycles of a permutation that move something; a minus marks a change of sign.

    ``(a −b)`` takes a to b and b to -a.
    """
    called = names if names else [str(i) for i in range(len(images))]
    signs = signs or (1,) * len(images)
    between = " → " if names else " "
    shown = [f"{MINUS if sign < 0 else ''}{name}" for name, sign in zip(called, signs, strict=True)]
    parts = [
        f"({between.join(shown[i] for i in cycle)})"
        for cycle in cycles(images)
        if len(cycle) > 1 or signs[cycle[0]] < 0
    ]
    text = "".join(parts) or "unchanged"
    return text if most is None or len(text) <= most else text[: most - 2].rpartition(" ")[0] + " …"


def _moved(images: Sequence[int], signs: Sequence[int]) -> tuple[int, ...]:
    return tuple(i for i, (j, sign) in enumerate(zip(images, signs, strict=True)) if i != j or sign < 0)


def _acted(values: Values, images: Points, signs: Points) -> Values:
    if isinstance(values, Tensor):
        moved = torch.empty_like(values)
        moved[..., torch.from_numpy(images)] = values * torch.from_numpy(signs).to(values)
        return moved
    found = np.empty_like(values)
    found[..., images] = values * signs
    return found
