"""What cannot be reparameterized says so in one line, and stays as it was."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn

import metasym as ms
from metasym import MetasymError
from tests.networks import CNN, encoder, layout


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
    ("act", "message"),
    [
        (twice, r"module 'features.0' \(ParametrizedConv2d\).*already parametrized by KroneckerSymmetry"),
        (lambda: ms.bake(CNN()), "expected a reparameterized model, found no symmetry in CNN"),
        (lambda: ms.cost(CNN()), "expected a reparameterized model, found no symmetry in CNN"),
        (
            lambda: ms.reparameterize(CNN(), "kroneker"),
            "one of kronecker, dense or a callable, found 'kroneker'",
        ),
        (lambda: ms.reparameterize(CNN(), select="feature.0"), "found none.*nearest names: features.0"),
        (lambda: ms.reparameterize(CNN(), select="features.1"), r"found module 'features.1' \(BatchNorm2d\)"),
        (
            lambda: ms.reparameterize(CNN(), select="features.[12]"),
            "has weights, found only BatchNorm2d, ReLU",
        ),
        (lambda: ms.reparameterize(CNN(), select=[]), "found an empty list"),
        (
            lambda: ms.reparameterize(CNN(), select=lambda n, m: False),
            "pick at least one of 11 modules, found none",
        ),
        (lambda: ms.reparameterize(CNN(), lambda n, m: None), "found None for all 3 layers"),
        (
            lambda: ms.reparameterize(CNN(), lambda n, m: 3),
            "'features.0': expected a Symmetry or None, found int",
        ),
        (lambda: ms.reparameterize(CNN(), bias="both"), "'plain' or 'joint', found 'both'"),
        (lambda: ms.reparameterize(CNN(), filter_size=3), "to be a shape, found 3"),
        (lambda: ms.reparameterize(CNN(), "dense", filter_size=(3, 3)), r"to be one number, found \(3, 3\)"),
        (
            lambda: ms.reparameterize(CNN(), "dense", filter_size=0),
            "'features.0': expected a filter size.*found 0",
        ),
        (
            lambda: ms.reparameterize(CNN(), lambda n, m: ms.DenseSymmetry((2, 2))),
            r"\(8, 3, 3, 3\), found one for",
        ),
        (
            lambda: ms.reparameterize(
                nn.Linear(2, 2), lambda n, m: ms.DenseSymmetry((2, 2), dtype=torch.float64)
            ),
            "expected a symmetry of type torch.float32, found torch.float64",
        ),
        (lambda: ms.reparameterize(nn.ReLU()), "Linear or ConvNd layers, found none in ReLU"),
        (lambda: ms.reparameterize(encoder(), select="self_attn"), "'self_attn' .*packs three projections"),
        (lambda: ms.reparameterize(encoder(), select="*"), "'self_attn' .*packs three projections"),
        (
            lambda: ms.reparameterize(nn.Sequential(nn.ConvTranspose2d(2, 2, 3)), select="0"),
            r"found module '0' \(ConvTranspose2d\)",
        ),
        (
            lambda: ms.reparameterize(nn.Sequential(nn.Linear(1, 1), nn.LSTM(2, 2)), select="*"),
            r"found module '1' \(LSTM\)",
        ),
        (
            lambda: ms.reparameterize(nn.Sequential(nn.LazyLinear(3))),
            "initialised weight.*run one batch through",
        ),
        (
            lambda: ms.reparameterize(nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))),
            "parametrized by _WeightNorm",
        ),
        (old_weight_norm, "that another mechanism computes"),
        (lambda: ms.reparameterize(nn.Conv2d(2, 3, 3, device="meta")), "on the meta device: load it first"),
        (
            lambda: ms.reparameterize(nn.Linear(3, 3, dtype=torch.complex64)),
            "weight in .*found torch.complex64",
        ),
        (
            lambda: ms.reparameterize(broken_second_layer(), "dense", filter_size=3),
            "found NaN or infinity in module '1'",
        ),
        (lambda: ms.reparameterize(CNN(), "dense", filter_size=3, std=math.nan), "deviation >= 0, found nan"),
        (lambda: ms.reparameterize(CNN(), filter_std=math.nan), "expected filter_std >= 0, found nan"),
        (
            lambda: ms.reparameterize(tied_biases(), bias="joint"),
            "a bias of its own with bias='joint', found one tied",
        ),
        (
            lambda: ms.reparameterize(parametrized_bias(), bias="joint"),
            "a plain bias.*found a parametrized one",
        ),
        (
            lambda: ms.reparameterize(CNN(), lambda n, m: None, learnable=False),
            "learnable only with a named kind",
        ),
        (
            lambda: ms.reparameterize(CNN(), ms.DenseSymmetry((2, 2))),
            r"callable \(name, module\).*found DenseSymmetry",
        ),
        (lambda: ms.reparameterize(CNN(), None), "expected kind to be one of .*found None"),
        (lambda: ms.reparameterize(CNN(), select=5), "expected select to be a pattern.*found 5"),
        (lambda: ms.reparameterize(CNN(), select=[5]), "a name pattern or a type to select by, found 5"),
        (lambda: ms.reparameterize(None), "expected model to be an nn.Module, found NoneType"),
        (
            lambda: ms.reparameterize(nn.Conv2d(256, 256, 3), "dense"),
            "expected filter_size for a weight of 589,824",
        ),
        (second_parametrization, "found _WeightNorm on top of it"),
    ],
)
@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_bad_input_is_one_line(act: Callable[[], object], message: str) -> None:
    with pytest.raises(MetasymError, match=message) as caught:
        act()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (nn.Sequential(nn.Linear(2, 2), nn.LSTM(2, 2)), {"select": "*"}),
        (broken_second_layer(), {}),
        (nn.Sequential(nn.Linear(3, 3), parametrized_bias()), {"bias": "joint"}),
        (tied_biases(), {"bias": "joint"}),
    ],
)
def test_an_error_leaves_the_model_as_it_was(model: nn.Module, options: dict[str, str]) -> None:
    before = layout(model)
    with pytest.raises(MetasymError):
        ms.reparameterize(model, **options)
    assert layout(model) == before
