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
from metasym import MetasymError
from metasym.learners import ANIL, MAML, MSR, MTSR, Learner, MSRJoint, ProtoNet
from metasym.types import Batch, Episode

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


SHAPES = r"expected targets of the prediction's shape \(\d, 1\), found \(\d,\)"
IMAGES = r"expected targets of the prediction's shape \(1, 1, 4, 4\), found \(1, 1, 5, 5\)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: linear(inner_steps=1.5), "expected inner_steps to be a whole number, found 1.5"),
        (lambda: linear(inner_steps=True), "expected inner_steps to be a whole number, found True"),
        (lambda: linear(test_inner_steps=-2), "expected test_inner_steps >= 0, found -2"),
        (lambda: linear(test_inner_steps=0.5), "expected test_inner_steps to be a whole number"),
        (lambda: linear(penalty=-1.0), "expected penalty >= 0, found -1.0"),
        (lambda: linear(penalty=math.nan), "expected penalty to be a finite number, found nan"),
        (lambda: linear(inner_lr=math.inf), "expected inner_lr to be a finite number, found inf"),
        (lambda: linear(chunk_size=1.5), "expected chunk_size to be a whole number, found 1.5"),
        (lambda: linear(solver="ridge", first_order=True), "first_order to be left at its default .*True"),
        (lambda: linear(solver="cg", step_sizes="fixed"), "step_sizes to be left at its default .*'fixed'"),
        (
            lambda: linear(nn.MSELoss(reduction="sum"), solver="ridge"),
            r"expected the squared loss.* with solver='ridge', found MSELoss\(reduction='sum'\)",
        ),
        (
            lambda: MTSR(seeded_model("fc", "dense"), train_tasks=2, test_steps=-1),
            "expected test_steps >= 0, found -1",
        ),
        (
            lambda: MTSR(seeded_model("fc", "dense"), train_tasks=2, test_lr=math.nan),
            "expected test_lr to be a finite number, found nan",
        ),
        (
            lambda: MTSR(seeded_model("fc", "dense"), train_tasks=2).adapt(
                one(regression("fc")), inner_steps=-1
            ),
            "expected inner_steps >= 0, found -1",
        ),
        *[
            (lambda f=f: f(linear(), regression("fc")), "expected inner_steps >= 0, found -1")
            for f in (
                lambda learner, data: learner.scores(data, F.mse_loss, inner_steps=-1),
                lambda learner, data: learner.adapt(one(data), inner_steps=-1),
                lambda learner, data: learner.predict(one(data), data.query.x[0], inner_steps=-1),
            )
        ],
        (
            lambda: linear().adapt(one(regression("fc")), inner_steps=2.0),
            "expected inner_steps to be a whole number, found 2.0",
        ),
        *[
            (lambda o=o: narrow(**o)(), SHAPES)
            for o in ({"map": "vmap"}, {"map": "loop"}, {"solver": "ridge"}, {"solver": "cg"})
        ],
        (narrow(MSR), SHAPES),
        (narrow(MSRJoint), SHAPES),
        (narrow(MTSR, train_tasks=3), SHAPES),
        (narrow_image("sgd"), IMAGES),
        (narrow_image("ridge"), IMAGES),
        (
            lambda: linear(nn.L1Loss()).adapt(Batch(torch.ones(2, 5).double(), torch.ones(2).double())),
            r"shape \(2, 3\), found \(2,\)",
        ),
        (
            lambda: linear(lambda p, y: (p - y) ** 2).outer_loss(regression("fc")),
            r"expected the loss to be a Tensor with one number, found shape \(2, 3\)",
        ),
        (
            lambda: linear(lambda p, y: 1.0).outer_loss(regression("fc")),
            "expected the loss to be a Tensor with one number, found float",
        ),
        (
            lambda: linear().scores(regression("fc"), lambda p, y: (p - y).abs().sum(1)),
            r"expected the metric to be a Tensor with one number, found shape \(4,\)",
        ),
        *[
            (
                lambda m=m: linear(map=m).scores(regression("fc"), lambda p, y: 0.5),
                "expected the metric to be a Tensor with one number, found float",
            )
            for m in ("vmap", "loop")
        ],
        (
            lambda: ProtoNet(nn.Flatten()).scores(classification(), lambda p, y: y),
            r"expected the metric to be a Tensor with one number, found shape \(6,\)",
        ),
        (
            lambda: MAML(Own(lambda y: (y, y))).outer_loss(regression("fc")),
            "expected the model to return a Tensor, found tuple",
        ),
        (
            lambda: MAML(Own(lambda y: y if y.sum() > 0 else -y)).outer_loss(regression("fc")),
            r"only a loop can: set map='loop' \(torch says: vmap: It looks like .* control flow",
        ),
        (
            lambda: linear().scores(regression("fc"), lambda p, y: p.sum() * float(y.sum())),
            r"only a loop can: set map='loop' \(torch says: vmap: It looks like .*\.item\(\)",
        ),
    ],
)
def test_one_line(make: Callable[[], object], message: str) -> None:
    with pytest.raises(MetasymError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_learner_of_ones_own_that_gives_one_tensor() -> None:
    class Mean(MAML):
        outer_gradient = Learner.outer_gradient

        def outer_loss(self, episodes: Episode) -> Any:
            return super().outer_loss(episodes).query.mean()

    with pytest.raises(
        MetasymError, match=r"outer_loss of Mean to give an ms\.OuterLoss\(.*found a tensor \[\]"
    ):
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
