"""The inner steps of one convolution for all tasks at once equal the plain path, meta-gradients included."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import metasym as ms
from metasym.adaptation.functional import parameters_of
from metasym.engines.convolution.moments import convolution_predictor
from metasym.engines.convolution.weight_map import weight_map_of
from metasym.engines.description import Setting
from metasym.engines.kernels.engine_kernels import library
from metasym.engines.kernels.patch_moments import adds_blocks
from metasym.engines.plan import Sizes
from metasym.learners import MAML, MSR, MSRJoint
from metasym.symmetry.parametrized import FILTER
from metasym.types import Batch, Episode
from tests.engines.engine_models import convolution, images_to_images, kronecker_convolution
from tests.plain_path import Opaque
from tests.refusals import refused

from .test_moments import near_solution


@pytest.mark.parametrize("how", ["apart", "frozen", "one tensor"])
def test_the_weight_of_kronecker_factors_is_not_spread_out_unless_two_are_one_tensor(how: str) -> None:
    model = kronecker_convolution(how)
    predict = convolution_predictor(model, parameters_of(model), [FILTER])
    assert predict is not None
    found = weight_map_of(predict, {FILTER: predict.params[FILTER]})
    assert ("Kronecker" in type(found).__name__) == (how != "one tensor")


@pytest.mark.parametrize("kind", ["bias", "kronecker", "factors"])
def test_against_finite_differences(kind: str) -> None:
    method = MAML if kind == "bias" else MSR
    learner = method(convolution(kind), inner_steps=2, inner_lr=0.1, paths="engine=closed")
    ms.testing.assert_meta_gradient(learner, images_to_images(convolution(kind)), directions=1)


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


def test_what_does_not_fit_is_mapped_and_says_why() -> None:
    data = images_to_images(convolution("plain"))
    small = images_to_images(convolution("plain"), size=4)
    x = data.query.x.clone().requires_grad_()
    learned = Episode(data.support, Batch(x, data.query.y), data.ids)
    learner, insisting = MAML(convolution("plain")), MAML(convolution("plain"), paths="engine=closed")
    assert learner.plan(Setting.of(data))[0].way == "closed"
    for other, why in ((small, "fewer patches"), (learned, "gradients by the data")):
        engine = learner.plan(Setting.of(other))[0]
        assert engine.way == "mapped"
        assert why in engine.why
        assert learner.outer_loss(other).query.isfinite().all()
        with refused("engine", ("closed", engine.why)):
            insisting.outer_loss(other)
    assert torch.autograd.grad(learner.outer_loss(learned).query.sum(), x)[0].abs().sum() > 0
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert str(learner.plan(Setting.of(data))[0]) == "engine: mapped (mixed precision)"
    sizes = Sizes.of(data)
    assert MSRJoint(convolution("kronecker")).plan(sizes)[0].way == "mapped"  # not linear in U and v together
    assert MAML(nn.Conv2d(2, 4, 3, groups=2)).plan(sizes)[0].way == "mapped"


def test_the_sizes_decide() -> None:
    sizes = Sizes(32, 1, 19, (1, 32, 32), (24, 30, 30))
    assert MSR(ms.reparameterize(nn.Conv2d(1, 24, 3))).plan(sizes)[0].way == "closed"
    assert MSR(ms.reparameterize(nn.Conv2d(64, 64, 3))).plan(sizes)[0].way == "mapped"
