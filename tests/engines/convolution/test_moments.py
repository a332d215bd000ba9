"""The loss from second moments equals the convolution's: losses, scores, solves and meta-gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import metasym as ms
from metasym.adaptation.functional import parameters_of
from metasym.engines.convolution.moments import convolution_predictor
from metasym.learners import MAML
from metasym.types import Batch, Episode
from tests.engines.engine_models import convolution, images_to_images
from tests.plain_path import Opaque


def test_another_loss_takes_the_plain_path() -> None:
    fast, plain = MAML(convolution("bias"), F.l1_loss), MAML(Opaque(convolution("bias")), F.l1_loss)
    data = images_to_images(convolution("bias"))
    torch.testing.assert_close(fast.outer_loss(data).query, plain.outer_loss(data).query)


def test_small_images_take_the_plain_path() -> None:
    model = convolution("plain")
    predictor = convolution_predictor(model, parameters_of(model), ["weight"])
    assert predictor is not None
    assert predictor.pays((1, 2, 7, 7))
    assert not predictor.pays((1, 2, 5, 5))  # 9 patches of 18 entries
    data = images_to_images(model, size=4)
    torch.testing.assert_close(
        MAML(model, F.mse_loss).outer_loss(data).query, MAML(Opaque(model), F.mse_loss).outer_loss(data).query
    )


def test_structure_that_is_not_known_is_left_alone() -> None:
    def predictor(model: nn.Module) -> object:
        return convolution_predictor(model, parameters_of(model), [])

    class Own(nn.Conv2d):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x).relu()

    assert predictor(nn.Conv2d(2, 2, 3)) is not None
    assert predictor(nn.Conv2d(2, 2, 3, groups=2)) is None
    assert predictor(nn.Conv2d(2, 2, 3, padding="same")) is None
    assert predictor(nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular")) is None
    assert predictor(Own(2, 2, 3)) is None
    assert predictor(ms.reparameterize(Own(2, 2, 3))) is None
    assert predictor(ms.reparameterize(nn.Conv2d(2, 2, 3), bias="joint")) is None
    assert predictor(nn.Conv1d(2, 2, 3)) is None


def near_solution(dtype: torch.dtype, noise: float, scale: float = 1.0) -> tuple[nn.Module, Episode]:
    """Targets of one convolution and a little noise, so that the terms of the loss cancel at it."""
    torch.manual_seed(0)
    model = nn.Conv2d(2, 6, 3).double()
    with torch.no_grad():
        x = torch.randn(3, 8, 2, 12, 12, dtype=torch.float64)
        y = torch.stack([model(t) for t in x])
        y = scale * (y + noise * torch.randn_like(y))
        for p in model.parameters():
            p.mul_(scale)
    batch = Batch(x.to(dtype), y.to(dtype))
    return model.to(dtype), Episode(batch, batch, torch.arange(3))


@pytest.mark.parametrize("mapping", ["vmap", "loop"])
@pytest.mark.parametrize("scale", [1.0, 1e3])
@pytest.mark.parametrize("autocast", [False, True])
def test_no_digits_are_lost_where_the_loss_is_small(autocast: bool, scale: float, mapping: str) -> None:
    """A loss of 1e-5 of the targets' square, in float32: from moments in float32 it is off by per cents."""
    model, data = near_solution(torch.float32, noise=2e-3, scale=scale)
    direct = torch.stack([F.mse_loss(model(x), y) for x, y in zip(*data.query, strict=True)]).detach()
    assert 1e-6 < float(direct.mean() / data.query.y.square().mean()) < 2e-5
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        losses, gradients = MAML(model, inner_steps=0, map=mapping).outer_gradient(data)
    torch.testing.assert_close(losses.query, direct, rtol=1e-4, atol=0)
    assert losses.query.dtype == torch.float32
    plain = MAML(Opaque(model), inner_steps=0, map=mapping).outer_gradient(data)[1]
    for name in ("weight", "bias"):
        torch.testing.assert_close(
            gradients[f"model.{name}"], plain[f"model.model.{name}"], rtol=1e-3, atol=1e-6 * scale
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_loss_is_never_negative_and_keeps_its_gradient(dtype: torch.dtype) -> None:
    model, data = near_solution(torch.float64, noise=0.0)
    learner = MAML(model.to(dtype), inner_steps=0)
    data = Episode(*(Batch(b.x.to(dtype), b.y.to(dtype)) for b in data[:2]), data.ids)
    assert (learner.outer_loss(data).query >= 0).all()
    with torch.no_grad():
        model.weight.add_(1e-9 if dtype == torch.float64 else 1e-5)
    losses, gradients = learner.outer_gradient(data)
    assert (losses.query >= 0).all()
    expected = MAML(Opaque(model), inner_steps=0).outer_gradient(data)[1]["model.model.weight"]
    torch.testing.assert_close(gradients["model.weight"], expected, rtol=0.1, atol=0)


def test_gradients_flow_to_inputs_that_ask_for_them() -> None:
    model, data = near_solution(torch.float64, noise=1.0)
    found = []
    for wrapped in (model, Opaque(model)):
        x = data.query.x.clone().requires_grad_()
        losses = MAML(wrapped).outer_loss(Episode(data.support, Batch(x, data.query.y), data.ids))
        found.append(torch.autograd.grad(losses.query.sum(), x)[0])
    torch.testing.assert_close(*found)
