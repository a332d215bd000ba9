"""The plain path as the oracle of every fast one: hide a model's structure, compare everything that is learned."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from metasym.adaptation.functional import ModelPredictor
from metasym.learners import GradientLearner
from metasym.types import Episode


class Opaque(nn.Module):
    """Hides a model's structure, so that the plain path is taken."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x)


def assert_same_learning(
    fast: GradientLearner,
    plain: GradientLearner,
    data: Episode,
    predictor: type,
    inner_steps: int | None = None,
) -> None:
    """``fast`` takes the path of ``predictor``, ``plain`` (on ``Opaque``) does not; all their numbers agree."""
    assert isinstance(fast._bind()[0], predictor)
    assert type(plain._bind()[0]) is ModelPredictor
    (losses, gradients), (losses2, gradients2) = fast.outer_gradient(data), plain.outer_gradient(data)
    for found, expected in zip(losses, losses2, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)
    for name, found in gradients.items():
        expected = gradients2[name.replace("model.", "model.model.").replace("rates.", "rates.model/")]
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9, msg=name)
    scores = [learner.scores(data, F.mse_loss, inner_steps=inner_steps) for learner in (fast, plain)]
    torch.testing.assert_close(*scores, atol=1e-9, rtol=1e-9)
