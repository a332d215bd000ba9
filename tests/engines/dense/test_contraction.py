"""The contraction of U with the inputs equals the plain path: predictions, scores and meta-gradients."""

from __future__ import annotations

import pytest
import torch.nn.functional as F
from torch import nn

import metasym as ms
from metasym.adaptation.functional import parameters_of
from metasym.engines.dense.contraction import LayerPredictor, input_first, layer_predictor
from metasym.engines.reference import predictor
from metasym.learners import MSR
from tests.engines.engine_models import dense_layer, dense_network, many_dimensional


def test_structure_that_is_not_known_is_left_alone() -> None:
    def found(model: nn.Module, inner: list[str]) -> object:
        return layer_predictor(model, parameters_of(model), inner)

    v = "parametrizations.weight.original"
    assert found(dense_layer(), [v]) is not None
    assert found(dense_layer(bias=True), [v, "bias"]) is None  # the bias adapts too
    assert found(ms.reparameterize(nn.Linear(2, 2, bias=False)), [v]) is None  # Kronecker
    hooked = dense_layer()
    hooked.register_forward_hook(lambda m, i, o: 2 * o)
    assert found(hooked, [v]) is None
    assert found(dense_network(), [f"2.{v}"]) is not None
    tied = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 4, bias=False))
    tied[2].weight = tied[0].weight
    ms.reparameterize(tied, "dense", filter_size=3)
    assert found(tied, [f"0.{v}"]) is None


def test_the_rule_counts_products() -> None:
    assert input_first(1, 3)  # one support example, three steps
    assert input_first(1, 1)  # one query example
    assert not input_first(19, 1)
    assert not input_first(5, 3)


@pytest.mark.parametrize("solver", ["sgd", "ridge", "cg"])
@pytest.mark.parametrize("kind", ["unflatten", "embedding", "named", "repeated", "alone"])
def test_layers_that_see_more_dimensions_against_finite_differences(kind: str, solver: str) -> None:
    model, data = many_dimensional(kind)
    options = {"inner_steps": 3, "solver": solver, "penalty": 1e-2, "adapt_only": "*.original"}
    learner = MSR(model, F.mse_loss, paths="engine=mapped", **options)
    assert isinstance(predictor(learner._description(), parameters_of(model)), LayerPredictor)
    ms.testing.assert_meta_gradient(learner, data, directions=1)


def test_a_bias_shared_with_the_head_is_left_alone() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].bias = model[0].bias
    ms.reparameterize(model, "dense", select=lambda n, _: n == "1", filter_size=3)
    assert layer_predictor(model, parameters_of(model), ["1.parametrizations.weight.original"]) is None
