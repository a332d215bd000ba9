"""MSR-Joint by outer products equals MSR-Joint by copies of U."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import metasym as ms
from metasym.adaptation.functional import ModelPredictor
from metasym.engines.dense.joint import JointPredictor
from metasym.learners import MSRJoint
from metasym.types import Batch
from tests.plain_path import Opaque, assert_same_learning

from .test_contraction import episodes


def layer(bias: bool = False) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Linear(5, 4, bias=bias).double()
    return ms.reparameterize(model, "dense", filter_size=6, std=0.5, filter_std=0.5)


@pytest.mark.parametrize("first_order", [False, True])
@pytest.mark.parametrize("step_sizes", ["fixed", "layer", "layer-step"])
@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize(("support", "query"), [(1, 1), (3, 4)])
def test_outer_products_are_copies(
    support: int, query: int, steps: int, step_sizes: str, first_order: bool
) -> None:
    options = {"inner_steps": steps, "inner_lr": 0.1, "step_sizes": step_sizes, "first_order": first_order}
    fast = MSRJoint(layer(), F.mse_loss, paths="engine=mapped", **options)
    plain = MSRJoint(Opaque(layer()), F.mse_loss, **options)
    data = episodes(5, support, query)
    assert_same_learning(fast, plain, data, JointPredictor, inner_steps=5)
    one = Batch(data.support.x[0], data.support.y[0])
    torch.testing.assert_close(fast.predict(one, data.query.x[0]), plain.predict(one, data.query.x[0]))
    adapted = fast.adapt(one)
    torch.testing.assert_close(adapted(data.query.x[0]).detach(), plain.predict(one, data.query.x[0]))


def test_other_cases_take_the_plain_path() -> None:
    assert type(MSRJoint(layer(), F.mse_loss, step_sizes="parameter")._bind()[0]) is ModelPredictor
    assert type(MSRJoint(layer(bias=True), F.mse_loss)._bind()[0]) is ModelPredictor  # the bias adapts too
    assert isinstance(MSRJoint(layer(bias=True), F.mse_loss, adapt_only="param*")._bind()[0], JointPredictor)
