"""The loss from second moments equals the convolution's: losses, scores, solves and meta-gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import metasym as ms
from metasym.functional import ModelPredictor, parameters_of
from metasym.gram import ConvolutionPredictor, convolution_predictor
from metasym.learners import MAML, MSR, GradientLearner, MSRJoint
from metasym.types import Batch, Episode

from .test_contraction import Opaque


def layer(kind: str) -> nn.Module:
    torch.manual_seed(0)
    options = {
        "plain": {"bias": False},
        "bias": {},
        "odd": {"stride": 2, "padding": (1, 2), "dilation": (1, 2)},
        "dense": {"bias": False},
        "kronecker": {},
        "frozen": {"bias": False},
    }[kind]
    model = nn.Conv2d(2, 4, 3, **options).double()
    if kind == "dense":
        ms.reparameterize(model, "dense", filter_size=5, std=0.3, filter_std=0.5)
    elif kind == "kronecker":
        ms.reparameterize(model)
    elif kind == "frozen":
        U = torch.linalg.qr(torch.randn(72, 6, dtype=torch.float64)).Q
        ms.reparameterize(model, lambda n, m: ms.DenseSymmetry(m.weight.shape, U=U, learnable=False))
    return model


def episodes(model: nn.Module, size: int = 7) -> Episode:
    g = torch.Generator().manual_seed(1)

    def batch(n: int) -> Batch:
        x = torch.randn(3, n, 2, size, size, generator=g, dtype=torch.float64)
        with torch.no_grad():
            shape = model(x[0]).shape
        return Batch(x, torch.randn(3, *shape, generator=g, dtype=torch.float64))

    return Episode(batch(1), batch(2), torch.arange(3))


METHODS: list[tuple[type[GradientLearner], str]] = [
    (MAML, "plain"),
    (MAML, "bias"),
    (MAML, "odd"),
    (MAML, "frozen"),
    (MSR, "dense"),
    (MSR, "kronecker"),
    (MSRJoint, "dense"),
    (MSRJoint, "kronecker"),
]


@pytest.mark.parametrize(
    ("method", "kind", "solver"),
    [(m, k, s) for m, k in METHODS for s in ("sgd", "ridge", "cg") if m is not MSRJoint or s == "sgd"],
)
def test_moments_are_the_plain_path(method: type[GradientLearner], kind: str, solver: str) -> None:
    options = {"inner_steps": 2, "inner_lr": 0.1, "solver": solver, "penalty": 1e-2}
    fast = method(layer(kind), F.mse_loss, **options)
    plain = method(Opaque(layer(kind)), F.mse_loss, **options)
    assert isinstance(fast._bind()[0], ConvolutionPredictor)
    assert type(plain._bind()[0]) is ModelPredictor
    data = episodes(layer(kind))
    (losses, gradients), (losses2, gradients2) = fast.outer_gradient(data), plain.outer_gradient(data)
    for found, expected in zip(losses, losses2, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)
    for name, found in gradients.items():
        expected = gradients2[name.replace("model.", "model.model.").replace("rates.", "rates.model/")]
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9, msg=name)
    torch.testing.assert_close(
        fast.scores(data, F.mse_loss), plain.scores(data, F.mse_loss), atol=1e-9, rtol=1e-9
    )


def test_another_loss_takes_the_plain_path() -> None:
    fast, plain = MAML(layer("bias"), F.l1_loss), MAML(Opaque(layer("bias")), F.l1_loss)
    data = episodes(layer("bias"))
    torch.testing.assert_close(fast.outer_loss(data).query, plain.outer_loss(data).query)


def test_small_images_take_the_plain_path() -> None:
    model = layer("plain")
    predictor = convolution_predictor(model, parameters_of(model), ["weight"])
    assert predictor is not None
    assert predictor._pays(torch.zeros(1, 2, 7, 7))
    assert not predictor._pays(torch.zeros(1, 2, 5, 5))  # 9 patches of 18 entries
    data = episodes(model, size=4)
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
