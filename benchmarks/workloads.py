"""What is timed: a learner, a batch of episodes and the rivals it is compared with, one workload a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import metasym as ms
from metasym.learners import Learner
from metasym.models import few_shot_network
from metasym.paper import find
from metasym.paper.build import build_learner, build_problem
from metasym.tasks.sampling import sample
from metasym.types import Batch, Episode

Made = tuple[Learner, Episode]


@dataclass(frozen=True)
class Row:
    """A workload and the targets that its times are held against.

    ``contenders``: by name, what makes the learner and the episodes, and how a step is done (see
    ``contenders.STEPPERS``). ``targets``: contender to how many times its time the first one's should at least go
    into. ``at_most``: contender to how many times its time the first one's may at most take.
    """

    title: str
    contenders: Mapping[str, tuple[str, Callable[[], Made]]]
    targets: Mapping[str, float] = field(default_factory=dict)
    at_most: Mapping[str, float] = field(default_factory=dict)


def synthetic(name: str, **recipe: int) -> Callable[[], Made]:
    """A cell of the paper's Tables 1 and 2, at its first step."""

    def make() -> Made:
        experiment = find(name, **recipe)
        problem = build_problem(experiment)
        learner = build_learner(experiment, problem, len(problem.train))
        ids = torch.arange(experiment.recipe.tasks_per_step)
        return learner, sample(problem.train, ids, seed=0)

    return make


def few_shot(
    method: str, data: str = "omniglot", *, ways: int = 5, shots: int = 1, queries: int = 15, tasks: int = 16
) -> Callable[[], Made]:
    """The paper's conv net on random pixels: one inner step, learned step sizes of layers."""

    def make() -> Made:
        g = torch.Generator().manual_seed(0)
        model = few_shot_network(data, shots, ways, "conv4", g)
        size = (1, 28, 28) if data == "omniglot" else (3, 84, 84)

        def batch(examples: int) -> Batch:
            x = torch.rand(tasks, ways * examples, *size, generator=g)
            return Batch(x, torch.arange(ways).repeat(tasks, examples))

        kind = ms.MSR if method == "msr" else ms.MAML
        if method == "msr":
            ms.reparameterize(model)
        episodes = Episode(batch(shots), batch(queries), torch.arange(tasks))
        return kind(model, F.cross_entropy, inner_steps=1, inner_lr=0.1), episodes

    return make


class _Reader(nn.Module):
    """A layer of a transformer over a sequence, and the mean of what it gives."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.out = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """``[examples, time, width]`` to ``[examples, 1]``."""
        found: Tensor = self.out(self.layer(x).mean(1))
        return found


def attention(*, width: int = 32, length: int = 12, tasks: int = 16) -> Callable[[], Made]:
    """A transformer's layer on random sequences, two inner steps: 5 support and 10 query examples."""

    def make() -> Made:
        g = torch.Generator().manual_seed(0)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = ms.reparameterize(_Reader(width))

        def batch(examples: int) -> Batch:
            x = torch.randn(tasks, examples, length, width, generator=g)
            return Batch(x, x[..., 0].mean(2, keepdim=True))

        episodes = Episode(batch(5), batch(10), torch.arange(tasks))
        return ms.MSR(model, F.mse_loss, inner_steps=2, inner_lr=0.05), episodes

    return make


def _loops(make: Callable[[], Made], *rivals: str) -> dict[str, tuple[str, Callable[[], Made]]]:
    return {"metasym": ("metasym", make), **{rival: (rival, make) for rival in rivals}}


_FC = "translation/rank1/small/msr-fc"
_OMNIGLOT = few_shot("msr")

ROWS: dict[str, Row] = {
    "msr-fc": Row(
        "MSR-FC, dense U 4760 x 70, 3 inner steps, 32 tasks",
        _loops(synthetic(_FC), "higher", "jax", "limit"),
        {"higher": 75, "jax": 1},
        {"limit": 2},
    ),
    "msr-fc-k3": Row(
        "MSR-FC, dense U 4760 x 3, 3 inner steps, 32 tasks",
        _loops(synthetic(_FC, filter_size=3), "higher", "jax"),
        {"higher": 25, "jax": 1},
    ),
    "msr-joint-fc": Row(
        "MSR-Joint-FC, dense U 4760 x 70, 3 inner steps, 32 tasks",
        _loops(synthetic("translation/rank1/small/msr-joint-fc"), "higher", "jax"),
        {"higher": 30, "jax": 1},
    ),
    "msr-conv": Row(
        "MSR-Conv, Rot 45, Kronecker, 1 inner step, 1 + 19 examples, 32 tasks",
        _loops(synthetic("rotation/rot45/msr-conv"), "higher"),
        {"higher": 20},
    ),
    "omniglot-msr": Row(
        "MSR, four blocks of 64, 28 x 28, 5-way 1-shot, 15 queries a class, 16 tasks",
        _loops(_OMNIGLOT, "higher", "autograd", "jax"),
        {"higher": 2.5, "autograd": 1.5, "jax": 1},
    ),
    "omniglot-maml": Row(
        "MAML, four blocks of 64, 28 x 28, 5-way 1-shot, 15 queries a class, 16 tasks",
        _loops(few_shot("maml"), "torchopt", "jax"),
        {"torchopt": 1.5, "jax": 1},
    ),
    "msr-over-maml": Row(
        "the cost of symmetries: MSR compared with MAML, four blocks of 64, 15 queries a class, 16 tasks",
        {"MSR": ("metasym", _OMNIGLOT), "MAML": ("metasym", few_shot("maml"))},
        at_most={"MAML": 1.10},
    ),
    "msr-over-maml-q5": Row(
        "MSR compared with MAML, four blocks of 64, 5 queries a class, 16 tasks",
        {"MSR": ("metasym", few_shot("msr", queries=5)), "MAML": ("metasym", few_shot("maml", queries=5))},
        at_most={"MAML": 1.10},
    ),
    "attention": Row(
        "MSR, a layer of a transformer of width 32, 2 inner steps, 5 + 10 sequences of 12, 16 tasks",
        _loops(attention(), "autograd", "torchopt"),
        {"autograd": 1.5, "torchopt": 1.5},
    ),
    "omniglot-20way": Row(
        "MSR, four blocks of 64, 20-way 1-shot, 5 queries a class, 8 tasks",
        _loops(few_shot("msr", ways=20, queries=5, tasks=8), "autograd"),
        {"autograd": 1.5},
    ),
    "miniimagenet-msr": Row(
        "MSR, four blocks of 32, 84 x 84 x 3, 5-way 1-shot, 15 queries a class, 4 tasks",
        {
            **_loops(few_shot("msr", "miniimagenet", tasks=4), "autograd"),
            "MAML": ("metasym", few_shot("maml", "miniimagenet", tasks=4)),
        },
        {"autograd": 1.5},
        {"MAML": 1.10},
    ),
}
