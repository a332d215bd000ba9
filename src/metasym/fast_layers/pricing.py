"""What a way of computing a layer costs: a model on sizes, calibrated once, never timed at run time.

Rates are of one thread of an AMD EPYC (AVX2), torch 2.13.0, float32, November 2026; ratios matter, not the machine.
They were read from layers of 96, 100, 144, 200, 400, 512 and 1,600 points and batches of 4 and 128.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor, nn

CALL, TRAINED_CALL, ENGINE = 4.0, 12.0, 80.0
"""Microseconds of a torch operation on small tensors, with what Python does around it; of one there and back; and of
starting the way back."""
PRODUCT, READ = 2.8e-5, 1.0e-4
"""Of a multiply-add in a large matrix product, and of reading an entry of its weight once."""
GATHER, PASS = 7e-4, 2.5e-4
"""Of an entry gathered, and of one that an elementwise operation or a sum passes over."""
TRANSFORM = 0.9e-4
"""Of an entry in a Fourier transform, for each factor of two of its length, a power of two."""
PLANES, AXIS = 2.0, 2.0e-3
"""How much more a transform along one of several axes costs than one along the only one, and what an entry costs in
it at least."""
SLIDE, TAP = 8e-3, 3e-4
"""Of an output of torch's convolution with one channel, and of each of its taps."""
BUILD = 1.5e-3
"""Of an entry of a weight that is put together from the filter before the product."""
SMALL = 2.0
"""How much more a multiply-add costs in many small products than in a large one."""
BLOCK = 2.0
"""Of each block of a batched product."""
PICKED = 2.5e-3
"""Of a weight that is gathered, multiplied and added on its own."""
MARGIN = 0.8
"""A layer is replaced where the new one costs at most this part of the dense one: estimates are only that."""


@dataclass(frozen=True)
class Work:
    """The work of one layer: what is done once for a batch, and what for every example.

    Forward while the filter is not trained, and, apart, forward and backward while it is.
    """

    calls: int
    """Torch operations."""
    once: float = 0.0
    """Microseconds a batch: weights that are read or put together."""
    each: float = 0.0
    """Microseconds an example."""
    multiply_adds: int = 0
    """An example."""
    trained_calls: int = 0
    trained_once: float = 0.0
    trained_each: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.calls + other.calls,
            self.once + other.once,
            self.each + other.each,
            self.multiply_adds + other.multiply_adds,
            self.trained_calls + other.trained_calls,
            self.trained_once + other.trained_once,
            self.trained_each + other.trained_each,
        )

    def trained(self, calls: int, times: float) -> Work:
        """The same with what training takes: so many operations, so many times the work of the forward pass."""
        return dataclasses.replace(
            self, trained_calls=calls, trained_once=times * self.once, trained_each=times * self.each
        )

    def microseconds(self, batch: int) -> float:
        """The estimate for a batch of so many examples, forward."""
        return self.calls * CALL + self.once + batch * self.each

    def trained_microseconds(self, batch: int) -> float:
        """The estimate for forward and backward."""
        return ENGINE + self.trained_calls * TRAINED_CALL + self.trained_once + batch * self.trained_each

    def part_of(self, other: Work, batch: int, *, training: bool) -> float:
        """How long it takes beside other work: forward, or in training, whichever is the larger part."""
        forward = self.microseconds(batch) / other.microseconds(batch)
        both = self.trained_microseconds(batch) / other.trained_microseconds(batch)
        return max(forward, both) if training else forward


def dense_work(outputs: int, inputs: int) -> Work:
    """An ordinary ``nn.Linear``."""
    entries = outputs * inputs
    return Work(2, READ * entries, PRODUCT * entries, entries).trained(1, 3.0)


def gather_work(entries: int, *, needed: bool = True) -> Work:
    """A relabelling of so many entries of an example."""
    return Work(1, 0.0, GATHER * entries).trained(3, 8.0) if needed else Work(0)


def build_work(entries: int, *, needed: bool = True) -> Work:
    """Putting a weight of so many entries together from the filter: at rest it is compared with the one before."""
    return Work(1, trained_calls=4, trained_once=BUILD * entries) if needed else Work(0)


def smoothness(length: int) -> float:
    """How much more a transform costs at a length that is no power of two, or has a large prime factor."""
    if length & (length - 1) == 0:
        return 1.0
    for p in (2, 3, 5, 7, 11, 13):
        while length % p == 0:
            length //= p
    return 2.0 if length == 1 else 6.0


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
