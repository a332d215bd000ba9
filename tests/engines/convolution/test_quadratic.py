"""The inner steps of one convolution for all tasks at once equal the plain path, meta-gradients included."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import metasym as ms
from metasym.engines.convolution.moments import ConvolutionPredictor
from metasym.engines.convolution.weight_map import spread_of
from metasym.engines.kernels.compiled import library
from metasym.engines.kernels.patch_moments import adds_blocks
from metasym.engines.plan import Sizes
from metasym.learners import MAML, MSR, GradientLearner, MSRJoint
from metasym.types import Batch, Episode
from tests.plain_path import Opaque, assert_same_learning

from .test_moments import episodes, layer, near_solution

METHODS: list[tuple[type[GradientLearner], str]] = [
    (MAML, "plain"),
    (MAML, "bias"),
    (MAML, "odd"),
    (MAML, "frozen"),
    (MSR, "dense"),
    (MSR, "kronecker"),
    (MSR, "factors"),
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
    assert fast._closed.gradient(fast, data, 3) is not None
    assert plain._closed.losses(plain, data) is None
    assert_same_learning(fast, plain, data, ConvolutionPredictor)


@pytest.mark.parametrize("kind", ["plain", "bias", "frozen", "dense", "kronecker", "factors"])
@pytest.mark.parametrize(
    "options", [{"learn_start": False}, {"step_sizes": "fixed"}, {"chunk_size": 2}], ids=str
)
def test_without_autograd_is_what_autograd_gives(kind: str, options: dict[str, Any]) -> None:
    method = MAML if kind in ("plain", "bias", "frozen") else MSR
    learner = method(layer(kind), inner_steps=2, inner_lr=0.1, paths="engine=closed", **options)
    data = episodes(layer(kind), size=11)
    by_hand, gradient = learner.outer_gradient(data, total_tasks=5)
    losses = learner.outer_loss(data)
    named = learner.outer_parameters()
    assert list(gradient) == list(named)
    parts = torch.autograd.grad(losses.query.sum() / 5, list(named.values()))
    for name, part in zip(named, parts, strict=True):
        assert gradient[name].dtype == named[name].dtype
        torch.testing.assert_close(gradient[name], part, atol=1e-12, rtol=1e-12, msg=name)
    for ours, theirs in zip(by_hand, losses, strict=True):
        assert not ours.requires_grad
        torch.testing.assert_close(ours, theirs.detach(), atol=1e-12, rtol=1e-12)


def test_only_the_bias_adapting() -> None:
    options = {"inner_steps": 2, "adapt_only": "bias"}
    fast = MSR(layer("kronecker"), paths="engine=closed", **options)
    plain = MSR(Opaque(layer("kronecker")), **{**options, "adapt_only": "*bias"})
    assert_same_learning(fast, plain, episodes(layer("kronecker")), ConvolutionPredictor)


@pytest.mark.parametrize("how", ["apart", "frozen", "one tensor"])
def test_kronecker_factors_that_are_learned_apart_frozen_or_one_tensor(how: str) -> None:
    def model() -> nn.Module:
        torch.manual_seed(0)
        factors = [torch.randn(size, size, dtype=torch.float64) / 2 for size in (3, 3, 9)]
        if how == "one tensor":
            factors[1] = factors[0]
        U = ms.KroneckerSymmetry((3, 3, 3, 3), factors=factors, learnable=how != "frozen")
        if how == "one tensor":
            U.U2 = U.U1
        return ms.reparameterize(nn.Conv2d(3, 3, 3, bias=False).double(), lambda n, m: U)

    method = MAML if how == "frozen" else MSR
    g = torch.Generator().manual_seed(1)
    x, y = (torch.randn(2, 2, 3, size, size, generator=g, dtype=torch.float64) for size in (11, 9))
    data = Episode(Batch(x[:, :1], y[:, :1]), Batch(x, y), torch.arange(2))
    fast, plain = method(model(), paths="engine=closed"), method(Opaque(model()))
    assert_same_learning(fast, plain, data, ConvolutionPredictor)
    predict, inner = fast._bind()
    assert isinstance(predict, ConvolutionPredictor)
    assert ("Kronecker" in type(spread_of(predict, inner)).__name__) == (how != "one tensor")


@pytest.mark.parametrize("kind", ["bias", "kronecker", "factors"])
def test_against_finite_differences(kind: str) -> None:
    method = MAML if kind == "bias" else MSR
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
        x = torch.randn(3, 32, 1, 20, 20)
        y = torch.stack([model(t) for t in x])
        y = y + noise * y.std() * torch.randn_like(y)
    data = Episode(Batch(x[:, :1], y[:, :1]), Batch(x, y), torch.arange(3))
    assert adds_blocks(x, y) or library("patch_moments") is None
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
