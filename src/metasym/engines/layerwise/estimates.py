"""Estimates, from sizes, of a step by a chain and by torch.func over tasks, and of a chain's convolutions.

One thread of an AMD EPYC (AVX2), torch 2.13.0, November 2026. Ratios matter, not the machine.
"""

from __future__ import annotations

import math

from metasym.engines.kernels.winograd import TILE, can_filter, planes
from metasym.engines.layerwise.chain import Chain
from metasym.engines.plan import Choice, Forced, Sizes, choose, settled

_MS_A_MULTIPLY_ADD = 2.8e-8
_MS_A_STAGE = 0.03
_MS_A_PRODUCT = 2.5e-8
"""Of a multiply-add between Winograd's transforms."""
_MS_A_TRANSFORM = 3e-7
"""Of an entry of a transformed tile, its input's and its output's."""
_MS_A_WEIGHT = 5e-7
"""Of an entry of a transformed weight."""


def chain_estimates(chain: Chain, sizes: Sizes, steps: int) -> dict[str, float]:
    """Milliseconds of a step, by engine."""
    images, _ = _work(sizes, steps)
    work = chain.multiply_adds(sizes.inputs) * images
    calls = len(chain.stages) * (2 + 4 * steps) * sizes.tasks
    chained = work * _MS_A_MULTIPLY_ADD + calls * _MS_A_STAGE
    if can_filter():
        ways = _convolutions(chain, sizes, steps)
        chained += min(ways.values()) - ways["direct"]
    mapped = 2.0 * work * _MS_A_MULTIPLY_ADD + 0.1 * len(chain.stages) * (2 + 4 * steps)
    return {"mapped": mapped, "chain": chained}


def convolution_choice(chain: Chain, sizes: Sizes, steps: int, forced: Forced) -> Choice:
    """Whether the chain's convolutions go by Winograd's algorithm."""
    if not any(stage.filterable for stage, _, _ in chain.convolutions(sizes.inputs)):
        return settled(
            "convolve", "direct", "no convolution with a kernel of 3 x 3 or 5 x 5 and stride 1", forced
        )
    if not can_filter():
        return settled("convolve", "direct", "no compiled kernels", forced)
    return choose("convolve", _convolutions(chain, sizes, steps), forced)


def _work(sizes: Sizes, steps: int) -> tuple[int, int]:
    """How many images go through a layer in a step, and in how many calls."""
    images = (3 * sizes.query + 9 * steps * sizes.support) * sizes.tasks
    return images, (3 + 9 * steps) * sizes.tasks


def _convolutions(chain: Chain, sizes: Sizes, steps: int) -> dict[str, float]:
    """Milliseconds of all convolutions of a step, by way."""
    images, calls = _work(sizes, steps)
    found = {"direct": 0.0, "winograd": 0.0}
    for stage, W, places in chain.convolutions(sizes.inputs):
        direct = images * W.numel() * places.numel() * _MS_A_MULTIPLY_ADD
        found["direct"] += direct
        if stage.filterable:
            tiles = images * math.prod(math.ceil(side / TILE) for side in places)
            products = tiles * W[0] * W[1] * _MS_A_PRODUCT
            transforms = tiles * (W[0] + W[1]) * _MS_A_TRANSFORM + calls * W[0] * W[1] * _MS_A_WEIGHT
            found["winograd"] += planes(W[-1]) * (products + transforms)
        else:
            found["winograd"] += direct
    return found
