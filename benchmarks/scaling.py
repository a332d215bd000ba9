"""How cost grows: points along k, width, tasks, inner steps and channels, and dense U against Kronecker factors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

import metasym as ms
from benchmarks.workloads import Made
from metasym.models import convolution_net
from metasym.models.conv_blocks import Block
from metasym.types import Batch, Episode


@dataclass(frozen=True)
class Point:
    """One size along one axis."""

    axis: str
    size: int
    make: Callable[[], Made]


AXES = {
    "k": "filter entries k (MSR-FC, 70 inputs, 68 outputs, 3 inner steps, 32 tasks)",
    "width": "inputs n of a dense layer (n outputs, k = n)",
    "tasks": "tasks a step (MSR-FC, k = 70)",
    "steps": "inner steps (MSR-FC, k = 70)",
    "channels": "channels (MSR, two blocks, 14 x 14, 5-way 1-shot, 5 queries a class, 8 tasks)",
    "dense": "inputs n of a layer n -> n with a dense square U, k = n^2",
    "kronecker": "inputs n of a layer n -> n with square Kronecker factors",
}


def _linear(
    inputs: int, outputs: int, k: int | None, *, tasks: int = 32, steps: int = 3, kind: str = "dense"
) -> Callable[[], Made]:
    def make() -> Made:
        g = torch.Generator().manual_seed(0)
        model = nn.Linear(inputs, outputs, bias=False)
        ms.reparameterize(model, kind, filter_size=k, generator=g)

        def batch(examples: int) -> Batch:
            x = torch.randn(tasks, examples, inputs, generator=g)
            return Batch(x, F.pad(x, (0, outputs - inputs)))

        learner = ms.MSR(model, F.mse_loss, inner_steps=steps, inner_lr=0.02)
        return learner, Episode(batch(1), batch(19), torch.arange(tasks))

    return make


def _convolutional(channels: int) -> Callable[[], Made]:
    def make() -> Made:
        g = torch.Generator().manual_seed(0)
        model = ms.reparameterize(convolution_net((1, 14, 14), [Block(channels)] * 2, 5, generator=g))

        def batch(examples: int) -> Batch:
            return Batch(
                torch.rand(8, 5 * examples, 1, 14, 14, generator=g), torch.arange(5).repeat(8, examples)
            )

        return ms.MSR(model, F.cross_entropy, inner_lr=0.1), Episode(batch(1), batch(5), torch.arange(8))

    return make


def _points() -> list[Point]:
    found = [Point("k", k, _linear(70, 68, k)) for k in (2, 8, 32, 128, 512)]
    found += [Point("width", n, _linear(n, n, n)) for n in (16, 32, 64, 128, 192)]
    found += [Point("tasks", t, _linear(70, 68, 70, tasks=t)) for t in (4, 16, 64, 256)]
    found += [Point("steps", s, _linear(70, 68, 70, steps=s)) for s in (1, 4, 16, 64)]
    found += [Point("channels", c, _convolutional(c)) for c in (8, 16, 32, 64, 128)]
    found += [Point("dense", n, _linear(n, n, None, tasks=8, steps=1)) for n in (12, 24, 48, 80)]
    found += [
        Point("kronecker", n, _linear(n, n, None, tasks=8, steps=1, kind="kronecker"))
        for n in (12, 24, 48, 96, 192, 384)
    ]
    return found


POINTS: dict[str, Point] = {f"{point.axis}={point.size}": point for point in _points()}


def exponent(sizes: list[float], values: list[float], last: int = 3) -> float:
    """The slope of log(value) over log(size) through the ``last`` largest sizes, by least squares."""
    x = torch.tensor(sizes[-last:], dtype=torch.float64).log()
    y = torch.tensor(values[-last:], dtype=torch.float64).log()
    x, y = x - x.mean(), y - y.mean()
    return float((x * y).sum() / (x * x).sum())


def dense_limit(memory: int, entry: int = 4) -> int:
    """The largest n for which U of a layer n -> n (n^4 entries), its gradient and Adam's two moments fit."""
    return int((memory / (4 * entry)) ** 0.25)
