"""What a way of computing a layer costs: a model on sizes, calibrated once, never timed at run time.

Rates are of one thread of an AMD EPYC (AVX2), torch 2.13.0, float32, November 2026; ratios matter, not the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor, nn

from metasym.structured.sharing import Sharing

CALL = 8.0
"""Microseconds of a torch operation on small tensors, with what Python does around it; there and back it is more."""
PRODUCT, READ = 2.8e-5, 1.0e-4
"""Of a multiply-add in a large matrix product, and of reading an entry of its weight once."""
GATHER, PASS = 6e-4, 2.5e-4
"""Of an entry gathered, and of one that an elementwise operation or a sum passes over."""
TRANSFORM = 1.5e-4
"""Of an entry in a Fourier transform, for each factor of two of its length."""
PLANES = 2.0
"""How much more a transform along several short axes costs than one along a long one."""
SLIDE, TAP = 4e-3, 3e-4
"""Of an output of torch's convolution with one channel, and of each of its taps."""
BUILD = 1.5e-3
"""Of an entry of a weight that is put together from the filter before the product."""
SMALL = 2.0
"""How much more a multiply-add costs in many small products than in a large one."""
BLOCK = 2.0
"""Of each block of a batched product."""
MARGIN = 0.7
"""A layer is replaced where the new one costs at most this part of the dense one: estimates are only that."""


@dataclass(frozen=True)
class Work:
    """The work of one layer: what is done once for a batch, and what for every example."""

    calls: int
    """Torch operations."""
    once: float = 0.0
    """Microseconds a batch: weights that are read or put together."""
    each: float = 0.0
    """Microseconds an example."""
    multiply_adds: int = 0
    """An example."""

    def __add__(self, other: Work) -> Work:
        return Work(
            self.calls + other.calls,
            self.once + other.once,
            self.each + other.each,
            self.multiply_adds + other.multiply_adds,
        )

    def microseconds(self, batch: int) -> float:
        """The estimate for a batch of so many examples, forward."""
        return self.calls * CALL + self.once + batch * self.each


def dense_work(outputs: int, inputs: int) -> Work:
    """An ordinary ``nn.Linear``."""
    entries = outputs * inputs
    return Work(1, READ * entries, PRODUCT * entries, entries)


def gather_work(entries: int, *, needed: bool = True) -> Work:
    """A relabelling of so many entries of an example."""
    return Work(2, 0.0, GATHER * entries) if needed else Work(0)


def build_work(entries: int, *, needed: bool = True) -> Work:
    """Putting a weight of so many entries together from the filter."""
    return Work(2, BUILD * entries) if needed else Work(0)


@dataclass(frozen=True)
class Candidate:
    """One way to compute a layer."""

    kind: str
    """A word or two: ``"circular convolution"``."""
    words: str
    """What was found, for the user: ``"circular convolution of 256 points, by FFT, relabelled"``."""
    work: Work
    build: Callable[[Tensor, Tensor | None], nn.Module] = field(compare=False, repr=False)
    """``(filter [count], bias or None) -> the layer``."""
    transforms: bool = False
    """Whether it needs Fourier transforms, which ONNX has and its runtimes have only partly."""


Finder = Callable[[Sharing], list[Candidate]]
