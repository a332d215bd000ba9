"""What a learner cannot do is one line, at the first chance; what vmap cannot do says to use the loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import metasym as ms
from metasym.learners import ANIL, MAML, MSR, MTSR, Learner, MSRJoint, ProtoNet
from metasym.types import Batch, Episode
from tests.refusals import refused

from .families import classification, regression, seeded_model


def linear(loss: Any = F.mse_loss, **options: Any) -> MAML:
    torch.manual_seed(0)
    return MAML(nn.Linear(5, 3).double(), loss, **options)


def one(episodes: Episode) -> Batch:
    return Batch(episodes.support.x[0], episodes.support.y[0])


class Own(nn.Module):
    """A linear layer with something done to its output."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.layer, self.function = nn.Linear(5, 3).double(), function

    def forward(self, x: Tensor) -> Any:
        return self.function(self.layer(x))


def narrow(method: type[Learner] = MAML, **options: Any) -> Callable[[], object]:
    """Targets ``[n]`` for predictions ``[n, 1]``: they would be broadcast."""
    data = regression("fc")
    flat = [Batch(b.x, b.y[..., 0]) for b in (data.support, data.query)]
    model = nn.Linear(5, 1).double()
    if method is not MAML:
        ms.reparameterize(model, "dense", filter_size=3)
    learner = method(model, F.mse_loss, **options)
    return lambda: learner.outer_loss(Episode(*flat, data.ids))


def narrow_image(solver: str) -> Callable[[], object]:
    x = torch.randn(2, 1, 1, 6, 6)
    batch = Batch(x, torch.randn(2, 1, 1, 5, 5))
    learner = MAML(nn.Conv2d(1, 1, 3), F.mse_loss, solver=solver)
    return lambda: learner.outer_loss(Episode(batch, batch, torch.arange(2)))


@pytest.mark.parametrize(
    ("make", "about", "found"),
    [
        (lambda: linear(inner_steps=1.5), "inner_steps", 1.5),
        (lambda: linear(inner_steps=True), "inner_steps", True),
        (lambda: linear(test_inner_steps=-2), "test_inner_steps", -2),
        (lambda: linear(test_inner_steps=0.5), "test_inner_steps", 0.5),
        (lambda: linear(penalty=-1.0), "penalty", -1.0),
        (lambda: linear(penalty=math.nan), "penalty", pytest.approx(math.nan, nan_ok=True)),
        (lambda: linear(inner_lr=math.inf), "inner_lr", math.inf),
        (lambda: linear(chunk_size=1.5), "chunk_size", 1.5),
        (lambda: linear(solver="ridge", first_order=True), "first_order", True),
        (lambda: linear(solver="cg", step_sizes="fixed"), "step_sizes", "fixed"),
        (
            lambda: linear(nn.MSELoss(reduction="sum"), solver="ridge"),
            "loss",
            "MSELoss(reduction='sum')",
        ),
        (
            lambda: MTSR(seeded_model("fc", "dense"), train_tasks=2, test_steps=-1),
            "test_steps",
            -1,
        ),
        (
            lambda: MTSR(seeded_model("fc", "dense"), train_tasks=2, test_lr=math.nan),
            "test_lr",
            pytest.approx(math.nan, nan_ok=True),
        ),
        (
            lambda: MTSR(seeded_model("fc", "dense"), train_tasks=2).adapt(
                one(regression("fc")), inner_steps=-1
            ),
            "inner_steps",
            -1,
        ),
        *[
            (lambda f=f: f(linear(), regression("fc")), "inner_steps", -1)
            for f in (
                lambda learner, data: learner.scores(data, F.mse_loss, inner_steps=-1),
                lambda learner, data: learner.adapt(one(data), inner_steps=-1),
                lambda learner, data: learner.predict(one(data), data.query.x[0], inner_steps=-1),
            )
        ],
        (
            lambda: linear().adapt(one(regression("fc")), inner_steps=2.0),
            "inner_steps",
            2.0,
        ),
        *[
            (lambda o=o: narrow(**o)(), "targets", (2,))
            for o in ({"map": "vmap"}, {"map": "loop"}, {"solver": "ridge"}, {"solver": "cg"})
        ],
        (narrow(MSR), "targets", (2,)),
        (narrow(MSRJoint), "targets", (2,)),
        (narrow(MTSR, train_tasks=3), "targets", (6,)),
        (narrow_image("sgd"), "targets", (1, 1, 5, 5)),
        (narrow_image("ridge"), "targets", (1, 1, 5, 5)),
        (
            lambda: linear(nn.L1Loss()).adapt(Batch(torch.ones(2, 5).double(), torch.ones(2).double())),
            "targets",
            (2,),
        ),
        (
            lambda: linear(lambda p, y: (p - y) ** 2).outer_loss(regression("fc")),
            "loss",
            (2, 3),
        ),
        (
            lambda: linear(lambda p, y: 1.0).outer_loss(regression("fc")),
            "loss",
            "float",
        ),
        (
            lambda: linear().scores(regression("fc"), lambda p, y: (p - y).abs().sum(1)),
            "metric",
            (4,),
        ),
        *[
            (
                lambda m=m: linear(map=m).scores(regression("fc"), lambda p, y: 0.5),
                "metric",
                "float",
            )
            for m in ("vmap", "loop")
        ],
        (
            lambda: ProtoNet(nn.Flatten()).scores(classification(), lambda p, y: y),
            "metric",
            (6,),
        ),
        (
            lambda: MAML(Own(lambda y: (y, y))).outer_loss(regression("fc")),
            "model",
            "tuple",
        ),
        (
            lambda: MAML(Own(lambda y: y if y.sum() > 0 else -y)).outer_loss(regression("fc")),
            "map",
            "loop",
        ),
        (
            lambda: linear().scores(regression("fc"), lambda p, y: p.sum() * float(y.sum())),
            "map",
            "loop",
        ),
    ],
)
def test_one_line(make: Callable[[], object], about: str, found: object) -> None:
    with refused(about, found):
        make()


def test_a_learner_of_ones_own_that_gives_one_tensor() -> None:
    class Mean(MAML):
        outer_gradient = Learner.outer_gradient

        def outer_loss(self, episodes: Episode) -> Any:
            return super().outer_loss(episodes).query.mean()

    with refused("outer_loss of Mean", "a tensor []"):
        Mean(nn.Linear(5, 3).double()).outer_gradient(regression("fc"))


def test_the_loop_does_what_vmap_cannot() -> None:
    model = Own(lambda y: y if y.sum() > 0 else -y)
    ms.testing.assert_meta_gradient(MAML(model, map="loop"), regression("fc"), directions=1)


def test_an_error_of_the_model_itself_stays_what_it_is() -> None:
    """Not every failure under vmap is vmap's: the advice to use a loop would be wrong."""
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes"):
        MAML(nn.Linear(4, 3).double()).outer_loss(regression("fc"))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_networks_by_default(kind: type[nn.RNNBase]) -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells, self.head = kind(1, 3, batch_first=True), nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.cells(x.unsqueeze(-1))[0][:, -1])

    torch.manual_seed(0)
    learner = MAML(Recurrent().double(), inner_steps=2)
    ms.testing.assert_meta_gradient(learner, regression("fc"), directions=1)


def test_the_head_of_anil() -> None:
    norm_last = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3), nn.LayerNorm(3))
    assert ANIL(norm_last).inner_names == ["2.weight", "2.bias"]
    ms.reparameterize(norm_last, "dense", filter_size=3)  # flat filters: the weight counts
    assert ANIL(norm_last).inner_names == ["2.bias", "2.parametrizations.weight.original"]
    assert ANIL(nn.Sequential(nn.LayerNorm(3), nn.GroupNorm(1, 3))).inner_names == ["1.weight", "1.bias"]
