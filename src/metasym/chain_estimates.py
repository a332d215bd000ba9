"""What a step costs by a chain and by torch.func over tasks, estimated from sizes."""

from __future__ import annotations

from metasym.chain import Chain
from metasym.paths import Sizes

_MS_A_MULTIPLY_ADD = 2.8e-8
_MS_A_STAGE = 0.03


def chain_estimates(chain: Chain, sizes: Sizes, steps: int) -> dict[str, float]:
    """Milliseconds of a step, by engine."""
    work = chain.multiply_adds(sizes.inputs) * (3 * sizes.query + 9 * steps * sizes.support) * sizes.tasks
    calls = len(chain.stages) * (2 + 4 * steps) * sizes.tasks
    chained = work * _MS_A_MULTIPLY_ADD + calls * _MS_A_STAGE
    mapped = 2.0 * work * _MS_A_MULTIPLY_ADD + 0.1 * len(chain.stages) * (2 + 4 * steps)
    return {"mapped": mapped, "chain": chained}
