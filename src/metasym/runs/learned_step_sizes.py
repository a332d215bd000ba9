"""The learned step sizes by the paper's names."""

from __future__ import annotations

from metasym.learners import Learner
from metasym.symmetry.reparam import split


def inner_lrs(learner: Learner) -> dict[str, float]:
    """The step sizes by the paper's names, U and v (W where nothing is reparameterized)."""
    parts = split(learner.model)
    label = {**dict.fromkeys(parts.U, "U"), **dict.fromkeys(parts.v, "v")}
    sizes = learner.step_sizes()
    wanted = [label.get(name, "W") for name in sizes]
    return {
        part if wanted.count(part) == 1 else f"{part}:{name}": size
        for part, (name, size) in zip(wanted, sizes.items(), strict=True)
    }
