"""What cannot be reparameterized says so in one line, and stays as it was."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn

import metasym as ms
from tests.networks import CNN, encoder, layout
from tests.refusals import refused


def twice() -> None:
    ms.reparameterize(ms.reparameterize(CNN()))


def old_weight_norm() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = nn.utils.weight_norm(nn.Linear(2, 2))
    ms.reparameterize(layer)


def broken_second_layer() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4))
    model[1].weight.data[0, 0] = math.nan
    return model


def tied_biases() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].bias = model[0].bias
    return model


def parametrized_bias() -> nn.Module:
    layer = nn.Linear(3, 4)
    nn.utils.parametrize.register_parametrization(layer, "bias", nn.ReLU())
    return layer


def second_parametrization() -> None:
    layer = ms.reparameterize(nn.Linear(2, 2))
    nn.utils.parametrizations.weight_norm(layer)
    ms.bake(layer)


@pytest.mark.parametrize(
    ("act", "about", "found"),
    [
        (twice, "module 'features.0': weight", "KroneckerSymmetry"),
        (lambda: ms.bake(CNN()), "model", "CNN"),
        (lambda: ms.cost(CNN()), "model", "CNN"),
        (
            lambda: ms.reparameterize(CNN(), "kroneker"),
            "kind",
            "kroneker",
        ),
        (lambda: ms.reparameterize(CNN(), select="features.1"), "module 'features.1'", "BatchNorm2d"),
        (
            lambda: ms.reparameterize(CNN(), select="features.[12]"),
            "select='features.[12]'",
            "BatchNorm2d, ReLU",
        ),
        (lambda: ms.reparameterize(CNN(), select=[]), "select", []),
        (
            lambda: ms.reparameterize(CNN(), select=lambda n, m: False),
            "select",
            None,
        ),
        (lambda: ms.reparameterize(CNN(), lambda n, m: None), "kind", 3),
        (
            lambda: ms.reparameterize(CNN(), lambda n, m: 3),
            "module 'features.0'",
            "int",
        ),
        (lambda: ms.reparameterize(CNN(), bias="both"), "bias", "both"),
        (lambda: ms.reparameterize(CNN(), filter_size=3), "filter_size", 3),
        (lambda: ms.reparameterize(CNN(), "dense", filter_size=(3, 3)), "filter_size", (3, 3)),
        (
            lambda: ms.reparameterize(CNN(), "dense", filter_size=0),
            "module 'features.0': filter size",
            0,
        ),
        (
            lambda: ms.reparameterize(CNN(), lambda n, m: ms.DenseSymmetry((2, 2))),
            "module 'features.0'",
            (2, 2),
        ),
        (
            lambda: ms.reparameterize(
                nn.Linear(2, 2), lambda n, m: ms.DenseSymmetry((2, 2), dtype=torch.float64)
            ),
            "module ''",
            torch.float64,
        ),
        (lambda: ms.reparameterize(nn.ReLU()), "model", "ReLU"),
        (
            lambda: ms.reparameterize(ms.reparameterize(encoder(), select="self_attn"), select="self_attn"),
            "module 'self_attn': in_proj_weight",
            "KroneckerSymmetry",
        ),
        (
            lambda: ms.reparameterize(nn.Sequential(nn.ConvTranspose2d(2, 2, 3)), select="0"),
            "module '0'",
            "ConvTranspose2d",
        ),
        (
            lambda: ms.reparameterize(nn.Sequential(nn.Linear(1, 1), nn.Bilinear(2, 2, 2)), select="*"),
            "module '1'",
            "Bilinear",
        ),
        (
            lambda: ms.reparameterize(nn.Sequential(nn.LazyLinear(3))),
            "module '0': weight",
            "UninitializedParameter",
        ),
        (
            lambda: ms.reparameterize(nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))),
            "module '': weight",
            "_WeightNorm",
        ),
        (old_weight_norm, "module '': weight", None),
        (lambda: ms.reparameterize(nn.Conv2d(2, 3, 3, device="meta")), "module '': weight", "meta"),
        (
            lambda: ms.reparameterize(nn.Linear(3, 3, dtype=torch.complex64)),
            "module '': weight",
            torch.complex64,
        ),
        (
            lambda: ms.reparameterize(broken_second_layer(), "dense", filter_size=3),
            "module '1': weight",
            "NaN or infinity",
        ),
        (
            lambda: ms.reparameterize(CNN(), "dense", filter_size=3, std=math.nan),
            "module 'features.0': std",
            pytest.approx(math.nan, nan_ok=True),
        ),
        (
            lambda: ms.reparameterize(CNN(), filter_std=math.nan),
            "filter_std",
            pytest.approx(math.nan, nan_ok=True),
        ),
        (
            lambda: ms.reparameterize(tied_biases(), bias="joint"),
            "module '0': bias",
            2,
        ),
        (
            lambda: ms.reparameterize(parametrized_bias(), bias="joint"),
            "module '': bias",
            "parametrized",
        ),
        (
            lambda: ms.reparameterize(CNN(), lambda n, m: None, learnable=False),
            "learnable",
            "a callable",
        ),
        (
            lambda: ms.reparameterize(CNN(), ms.DenseSymmetry((2, 2))),
            "kind",
            "DenseSymmetry",
        ),
        (lambda: ms.reparameterize(CNN(), None), "kind", "NoneType"),
        (lambda: ms.reparameterize(CNN(), select=5), "select", 5),
        (lambda: ms.reparameterize(CNN(), select=[5]), "item of select", 5),
        (lambda: ms.reparameterize(None), "model", "NoneType"),
        (
            lambda: ms.reparameterize(nn.Conv2d(256, 256, 3), "dense"),
            "module '': filter_size",
            None,
        ),
        (second_parametrization, "weight", "_WeightNorm"),
    ],
)
@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_bad_input_is_one_line(act: Callable[[], object], about: str, found: object) -> None:
    with refused(about, found):
        act()


def test_the_nearest_names_are_proposed() -> None:
    with refused("select='feature.0'", None) as caught:
        ms.reparameterize(CNN(), select="feature.0")
    assert "features.0" in str(caught.value)


@pytest.mark.parametrize(
    ("model", "options", "about"),
    [
        (nn.Sequential(nn.Linear(2, 2), nn.Bilinear(2, 2, 2)), {"select": "*"}, "module '1'"),
        (broken_second_layer(), {}, "module '1': weight"),
        (nn.Sequential(nn.Linear(3, 3), parametrized_bias()), {"bias": "joint"}, "module '1': bias"),
        (tied_biases(), {"bias": "joint"}, "module '0': bias"),
    ],
)
def test_an_error_leaves_the_model_as_it_was(model: nn.Module, options: dict[str, str], about: str) -> None:
    before = layout(model)
    with refused(about):
        ms.reparameterize(model, **options)
    assert layout(model) == before
