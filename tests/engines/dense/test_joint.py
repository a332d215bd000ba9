"""MSR-Joint by outer products: what is adapted and predicted, and when (``test_contract.py`` has its numbers)."""

from __future__ import annotations

import pytest
import torch

from metasym.adaptation.functional import ModelPredictor, parameters_of
from metasym.engines.dense.joint import JointPredictor
from metasym.engines.reference import predictor
from metasym.learners import MSRJoint
from metasym.types import Batch
from tests.engines.engine_models import dense_layer, rows
from tests.plain_path import Opaque


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_one_task_is_adapted_with_u_and_v_as_the_model_has_them(steps: int) -> None:
    options = {"inner_steps": steps, "inner_lr": 0.1}
    fast, plain = MSRJoint(dense_layer(), **options), MSRJoint(Opaque(dense_layer()), **options)
    data = rows(5, 3, 4)
    one, x = Batch(data.support.x[0], data.support.y[0]), data.query.x[0]
    assert set(fast.adapted_parameters(one)) == set(fast.inner_names)
    torch.testing.assert_close(fast.predict(one, x), plain.predict(one, x))
    torch.testing.assert_close(fast.adapt(one)(x).detach(), plain.predict(one, x))


def test_other_cases_are_predicted_by_the_model() -> None:
    def kind(learner: MSRJoint) -> type:
        return type(predictor(learner._description(), parameters_of(learner.model)))

    assert kind(MSRJoint(dense_layer())) is JointPredictor
    assert kind(MSRJoint(dense_layer(), step_sizes="parameter")) is ModelPredictor
    assert kind(MSRJoint(dense_layer(bias=True))) is ModelPredictor  # the bias adapts too
    assert kind(MSRJoint(dense_layer(bias=True), adapt_only="param*")) is JointPredictor
