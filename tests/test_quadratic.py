"""The inner steps of one convolution for all tasks at once equal the plain path, meta-gradients included."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import metasym as ms
from metasym.gram import ConvolutionPredictor
from metasym.learners import MAML, MSR, GradientLearner, MSRJoint
from metasym.paths import Sizes
from metasym.types import Batch, Episode

from .plain_path import Opaque, assert_same_learning
from .test_gram import episodes, layer, near_solution

METHODS: list[tuple[type[GradientLearner], str]] = [
    (MAML, "plain"),
    (MAML, "bias"),
    (MAML, "odd"),
    (MAML, "frozen"),
    (MSR, "dense"),
    (MSR, "kronecker"),
]


@pytest.mark.parametrize("first_order", [False, True])
@pytest.mark.parametrize(
    ("steps", "step_sizes"), [(0, "layer"), (1, "layer"), (3, "layer-step"), (2, "parameter")]
)
@pytest.mark.parametrize(("method", "kind"), METHODS)
def test_all_tasks_at_once_are_the_plain_path(
    method: type[GradientLearner], kind: str, steps: int, step_sizes: str, first_order: bool
) -> None:
    options = {"inner_steps": steps, "inner_lr": 0.1, "step_sizes": step_sizes, "first_order": first_order}
    fast = method(layer(kind), F.mse_loss, paths="engine=closed", **options)
    plain = method(Opaque(layer(kind)), F.mse_loss, **options)
    data = episodes(layer(kind), size=11)
    assert fast._closed.losses(fast, data) is not None
    assert plain._closed.losses(plain, data) is None
    assert_same_learning(fast, plain, data, ConvolutionPredictor)


@pytest.mark.parametrize("kind", ["bias", "kronecker"])
def test_against_finite_differences(kind: str) -> None:
    method = MSR if kind == "kronecker" else MAML
    learner = method(layer(kind), inner_steps=2, inner_lr=0.1, paths="engine=closed")
    ms.testing.assert_meta_gradient(learner, episodes(layer(kind)), directions=1)


def test_only_the_filter_adapting_leaves_the_bias_where_it_is() -> None:
    options = {"inner_steps": 2, "adapt_only": "*.original"}
    fast = MSR(layer("kronecker"), paths="engine=closed", **options)
    plain = MSR(Opaque(layer("kronecker")), **options)
    assert_same_learning(fast, plain, episodes(layer("kronecker")), ConvolutionPredictor)


def test_small_losses_keep_their_digits_in_float32() -> None:
    model, data = near_solution(torch.float32, noise=2e-3)
    direct = torch.stack([F.mse_loss(model(x), y) for x, y in zip(*data.query, strict=True)]).detach()
    losses, _ = MAML(model, inner_steps=0, paths="engine=closed").outer_gradient(data)
    torch.testing.assert_close(losses.query, direct, rtol=1e-4, atol=0)


@pytest.mark.parametrize("noise", [3e-4, 2e-3, 3e-2, 3.3e-2, 0.1, 1.0])
def test_many_patches_keep_the_digits_of_the_loss_too(noise: float) -> None:
    """On both sides of the share of ``|Y|^2`` below which moments have to be exact, gradients included."""
    torch.manual_seed(0)
    model = nn.Conv2d(1, 6, 3, bias=False)
    with torch.no_grad():
        x = torch.randn(3, 16, 1, 20, 20)
        y = torch.stack([model(t) for t in x])
        y = y + noise * y.std() * torch.randn_like(y)
    data = Episode(Batch(x[:, :1], y[:, :1]), Batch(x, y), torch.arange(3))
    double = Episode(*(Batch(b.x.double(), b.y.double()) for b in data[:2]), data.ids)
    found, gradient = MAML(model, inner_steps=1, inner_lr=1e-3, paths="engine=closed").outer_gradient(data)
    plain = MAML(Opaque(model.double()), inner_steps=1, inner_lr=1e-3)
    direct, exact = plain.outer_gradient(double)
    torch.testing.assert_close(found.query.double(), direct.query, rtol=3e-6, atol=0)
    ours, theirs = gradient["model.weight"].double(), exact["model.model.weight"]
    assert (ours - theirs).norm() <= 1e-4 * theirs.norm()


def test_what_does_not_fit_is_mapped() -> None:
    data = episodes(layer("plain"))
    small = episodes(layer("plain"), size=4)
    learner = MAML(layer("plain"), paths="engine=closed")
    assert learner._closed.losses(learner, data) is not None
    assert learner._closed.losses(learner, small) is None  # fewer patches than entries of one
    assert learner.outer_loss(small).query.isfinite().all()
    x = data.query.x.clone().requires_grad_()
    learned = Episode(data.support, Batch(x, data.query.y), data.ids)
    assert learner._closed.losses(learner, learned) is None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert learner._closed.losses(learner, data) is None
    sizes = Sizes.of(data)
    assert MSRJoint(layer("kronecker")).plan(sizes)[0].way == "mapped"  # not linear in U and v together
    assert MAML(nn.Conv2d(2, 4, 3, groups=2)).plan(sizes)[0].way == "mapped"


def test_the_sizes_decide() -> None:
    sizes = Sizes(32, 1, 19, (1, 32, 32), (24, 30, 30))
    assert MSR(ms.reparameterize(nn.Conv2d(1, 24, 3))).plan(sizes)[0].way == "closed"
    assert MSR(ms.reparameterize(nn.Conv2d(64, 64, 3))).plan(sizes)[0].way == "mapped"
