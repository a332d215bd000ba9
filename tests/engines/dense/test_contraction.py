"""The contraction of U with the inputs equals the plain path: predictions, scores and meta-gradients."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import metasym as ms
from metasym.adaptation.functional import parameters_of
from metasym.engines.dense.contraction import LayerPredictor, input_first, layer_predictor
from metasym.learners import MSR
from metasym.types import Batch, Episode
from tests.plain_path import Opaque, assert_same_learning


def network(kind: str) -> nn.Module:
    torch.manual_seed(0)
    if kind == "layer":
        model: nn.Module = nn.Linear(5, 4, bias=False)
    elif kind == "bias":
        model = nn.Linear(5, 4)
    else:
        model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4))
    last = "2" if kind == "network" else ""
    model = model.double()
    frozen = kind == "bias"
    ms.reparameterize(
        model,
        "dense",
        select=lambda n, _: n == last,
        filter_size=6,
        std=0.5,
        filter_std=0.5,
        learnable=not frozen,
    )
    return model


def episodes(inputs: int, support: int, query: int) -> Episode:
    g = torch.Generator().manual_seed(1)

    def batch(n: int) -> Batch:
        return Batch(*(torch.randn(3, n, w, generator=g, dtype=torch.float64) for w in (inputs, 4)))

    return Episode(batch(support), batch(query), torch.arange(3))


@pytest.mark.parametrize("solver", ["sgd", "ridge", "cg"])
@pytest.mark.parametrize(("support", "query"), [(1, 1), (1, 6), (7, 1)])
@pytest.mark.parametrize("kind", ["layer", "bias", "network"])
def test_fast_path_is_the_plain_path(kind: str, support: int, query: int, solver: str) -> None:
    options = {"inner_steps": 3, "inner_lr": 0.1, "solver": solver, "penalty": 1e-2}
    fast = MSR(network(kind), F.mse_loss, adapt_only="*.original", paths="engine=mapped", **options)
    plain = MSR(Opaque(network(kind)), F.mse_loss, adapt_only="*.original", **options)
    data = episodes(3 if kind == "network" else 5, support, query)
    assert_same_learning(fast, plain, data, LayerPredictor)


def test_structure_that_is_not_known_is_left_alone() -> None:
    def predictor(model: nn.Module, inner: list[str]) -> object:
        return layer_predictor(model, parameters_of(model), inner)

    v = "parametrizations.weight.original"
    assert predictor(network("layer"), [v]) is not None
    assert predictor(network("bias"), [v, "bias"]) is None  # the bias adapts too
    assert predictor(ms.reparameterize(nn.Linear(2, 2, bias=False)), [v]) is None  # Kronecker
    hooked = network("layer")
    hooked.register_forward_hook(lambda m, i, o: 2 * o)
    assert predictor(hooked, [v]) is None
    assert predictor(network("network"), [f"2.{v}"]) is not None
    tied = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 4, bias=False))
    tied[2].weight = tied[0].weight
    ms.reparameterize(tied, "dense", filter_size=3)
    assert predictor(tied, [f"0.{v}"]) is None


def test_the_rule_counts_products() -> None:
    assert input_first(1, 3)  # one support example, three steps
    assert input_first(1, 1)  # one query example
    assert not input_first(19, 1)
    assert not input_first(5, 3)


def many_dimensional(kind: str) -> tuple[nn.Module, Episode]:
    """Models whose last layer sees more than ``[examples, inputs]``."""
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(1)
    layer = nn.Linear(4, 3)
    if kind == "unflatten":
        model = nn.Sequential(nn.Unflatten(1, (2, 4)), layer).double()
        x = torch.randn(3, 2, 8, generator=g, dtype=torch.float64)
    elif kind == "embedding":
        model = nn.Sequential(nn.Embedding(7, 4), layer).double()
        x = torch.randint(7, (3, 2, 2), generator=g)
    elif kind == "named":
        body = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Unflatten(1, (2, 4)))
        model = nn.Sequential(OrderedDict([("body", body), ("1", layer)])).double()
        x = torch.randn(3, 2, 8, generator=g, dtype=torch.float64)
    elif kind == "repeated":
        tanh = nn.Tanh()  # the same object twice: both count
        model = nn.Sequential(nn.Linear(8, 8), tanh, nn.Unflatten(1, (2, 4)), tanh, layer).double()
        x = torch.randn(3, 2, 8, generator=g, dtype=torch.float64)
    else:
        model = layer.double()
        x = torch.randn(3, 2, 2, 4, generator=g, dtype=torch.float64)
    ms.reparameterize(
        model, "dense", select=lambda n, m: m is layer, filter_size=5, std=0.5, filter_std=0.5
    )  # fmt: skip
    batch = Batch(x, torch.randn(3, 2, 2, 3, generator=g, dtype=torch.float64))
    return model, Episode(batch, batch, torch.arange(3))


@pytest.mark.parametrize("solver", ["sgd", "ridge", "cg"])
@pytest.mark.parametrize("kind", ["unflatten", "embedding", "named", "repeated", "alone"])
def test_layers_that_see_more_dimensions(kind: str, solver: str) -> None:
    model, data = many_dimensional(kind)
    options = {"inner_steps": 3, "solver": solver, "penalty": 1e-2, "adapt_only": "*.original"}
    fast, plain = (
        MSR(model, F.mse_loss, paths="engine=mapped", **options),
        MSR(Opaque(model), F.mse_loss, **options),
    )
    assert_same_learning(fast, plain, data, LayerPredictor)
    ms.testing.assert_meta_gradient(fast, data, directions=1)


def test_a_bias_shared_with_the_head_is_left_alone() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].bias = model[0].bias
    ms.reparameterize(model, "dense", select=lambda n, _: n == "1", filter_size=3)
    assert layer_predictor(model, parameters_of(model), ["1.parametrizations.weight.original"]) is None
