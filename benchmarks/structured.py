"""``ms.structured`` beside the dense ``nn.Linear``: taking turns in one process, one thread, the fastest round."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from metasym.cli.freed_memory import keep_freed_memory
from metasym.fast_layers.compilation import plan_layer
from metasym.fast_layers.sharing import Classes, Sharing

SIZES = (64, 256, 1024, 4096)
BATCHES = (1, 32, 1024)
_GOALS = {("shifts", 1024, 32): 10.0, ("permutations", 1024, 32): 50.0, ("16 blocks", 1024, 32): 6.0}
SLOWEST = 1.05
"""A compiled layer takes at most so many times the dense one's time."""
_MOST_ENTRIES = 2**24


def _circular(n: int) -> Classes:
    i = np.arange(n)
    return (i[None, :] - i[:, None]) % n + 1


def _torus(n: int) -> Classes:
    side = round(n**0.5)
    x, y = np.divmod(np.arange(n), side)
    return ((x[None] - x[:, None]) % side) * side + (y[None] - y[:, None]) % side + 1


def _dihedral(n: int) -> Classes:
    d = _circular(n) - 1
    return np.minimum(d, n - d) + 1


def _permutations(n: int) -> Classes:
    return np.eye(n, dtype=np.int64) + 1


def _blocks(n: int) -> Classes:
    size = n // 16
    found = np.zeros((n, n), dtype=np.int64)
    for k in range(16):
        part = slice(k * size, (k + 1) * size)
        found[part, part] = np.arange(1, size * size + 1).reshape(size, size) + k * size * size
    return found


def _valid(n: int) -> Classes:
    found = np.zeros((n - 8, n), dtype=np.int64)
    for tap in range(9):
        found[np.arange(n - 8), np.arange(n - 8) + tap] = tap + 1
    return found


def _signed(n: int) -> Classes:
    i = np.arange(n)
    return np.where(i[None, :] < i[:, None], -_circular(n), _circular(n))


def _nothing(n: int) -> Classes:
    """As many classes as a convolution has, without any order in them."""
    return np.random.default_rng(0).integers(1, n + 1, (n, n))


PATTERNS: dict[str, Callable[[int], Classes]] = {
    "shifts": _circular,
    "torus": _torus,
    "dihedral": _dihedral,
    "permutations": _permutations,
    "16 blocks": _blocks,
    "valid, 9 taps": _valid,
    "signed shifts": _signed,
    "no structure": _nothing,
}


def rows(seconds: float, sizes: tuple[int, ...], say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Every pattern, as it is and relabelled, at every size and batch."""
    found = []
    torch.set_num_threads(1)
    keep_freed_memory()  # as the commands do
    for n in sizes:
        for name, make in PATTERNS.items():
            for relabelled in (False, True):
                classes = make(n)
                if relabelled:
                    draw = np.random.default_rng(1)
                    classes = classes[draw.permutation(len(classes))][:, draw.permutation(n)]
                sharing = Sharing.of(classes)
                for batch in BATCHES:
                    row = _row(name, sharing, batch, seconds)
                    row = {**row, "n": n, "relabelled": relabelled}
                    found.append(row)
                    say(_line(row))
    return found


def _row(name: str, sharing: Sharing, batch: int, seconds: float) -> dict[str, Any]:
    plan = plan_layer("layer", sharing, [], batch=batch, element_size=4)
    g = torch.Generator().manual_seed(0)
    m, n = sharing.shape
    filter = torch.randn(sharing.count, generator=g) / n**0.5
    dense = nn.Linear(n, m, bias=False)
    with torch.no_grad():
        dense.weight.copy_(sharing.weight(filter))
    row: dict[str, Any] = {
        "pattern": name,
        "batch": batch,
        "what": plan.what,
        "entries": plan.entries,
        "dense_entries": m * n,
        "estimate": plan.dense.microseconds(batch) / plan.work.microseconds(batch),
    }
    if plan.chosen is None:  # the very same layer: nothing to compare
        return {**row, "forward": 1.0, "both": 1.0}
    layer = plan.chosen.build(filter, None)
    x = torch.randn(batch, n, generator=g)
    with torch.no_grad():
        forward = _alternating(lambda: dense(x), lambda: layer(x), seconds)
    wanting = x.clone().requires_grad_()

    def both(module: nn.Module) -> None:
        y = module(wanting)
        torch.autograd.grad(y, [wanting, *module.parameters()], torch.ones_like(y))

    there_and_back = _alternating(lambda: both(dense), lambda: both(layer), seconds)
    return {
        **row,
        "forward": forward[0] / forward[1],
        "both": there_and_back[0] / there_and_back[1],
        "microseconds": {"dense": forward[0], "structured": forward[1]},
        "microseconds_both": {"dense": there_and_back[0], "structured": there_and_back[1]},
    }


def _alternating(
    first: Callable[[], object], second: Callable[[], object], seconds: float
) -> tuple[float, float]:
    """Processor microseconds of a call of each, the fastest of the rounds in which both take turns."""
    best = [float("inf"), float("inf")]
    counts = []
    for call in (first, second):
        call()
        began = time.process_time()
        call()
        counts.append(max(1, int(2e-3 / max(time.process_time() - began, 1e-7))))
    end = time.process_time() + seconds  # of its own: others on the machine take none of it
    rounds = 0
    while rounds < 3 or time.process_time() < end:
        for side, call in enumerate((first, second)):
            call()  # the other one has just filled the caches
            began = time.process_time()
            for _ in range(counts[side]):
                call()
            best[side] = min(best[side], 1e6 * (time.process_time() - began) / counts[side])
        rounds += 1
    return best[0], best[1]


def _line(row: dict[str, Any]) -> str:
    moved = ", relabelled" if row["relabelled"] else ""
    return (
        f"n {row['n']:5d} batch {row['batch']:5d} {row['pattern'] + moved:28s} forward {row['forward']:7.2f} x, "
        f"forward + backward {row['both']:7.2f} x  {row['what']}"
    )


def judged(found: list[dict[str, Any]]) -> list[str]:
    """The goals, met or not, and the rows that are slower than dense."""
    lines = []
    for (name, n, batch), goal in _GOALS.items():
        for row in found:
            if (row["pattern"], row["n"], row["batch"]) == (name, n, batch) and not row["relabelled"]:
                met = "met" if row["forward"] >= goal else "NOT met"
                lines.append(
                    f"{name}, n = {n}, batch {batch}: {row['forward']:.1f} x, goal {goal:g} x: {met}"
                )
    slow = [row for row in found if min(row["forward"], row["both"]) < 1 / SLOWEST]
    lines.append(f"{len(slow)} of {len(found)} rows slower than {SLOWEST} x dense")
    lines += [f"  slower: {_line(row)}" for row in slow]
    return lines
