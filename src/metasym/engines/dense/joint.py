"""MSR-Joint without a copy of U for each task.

Adapting U together with v moves U by the outer product of the weight's gradient and the filter. With G_s the
gradient by vec(W) and v_s the filter at inner step s, and a the step size of U,

    U_t = U - a sum_{s<t} G_s v_s^T,    vec(W_t) = U_t v_t = U v_t - a sum_{s<t} G_s (v_s . v_t),
    gradient by v at t:  U_t^T G_t = U^T G_t - a sum_{s<t} v_s (G_s . G_t).

U_t itself, m n k numbers for every task and step, is never needed: two products a step with the shared U suffice.
The numbers are those of plain SGD.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import grad_and_value

from metasym.adaptation.functional import Adapted, ModelPredictor, measure
from metasym.engines.dense.contraction import dense_linear
from metasym.symmetry.parametrized import DENSE_U, FILTER
from metasym.types import Batch, Loss, Params

U_NAME, V_NAME = DENSE_U, FILTER
_WEIGHT = "weight"


class JointPredictor(ModelPredictor):
    """A model that is one dense reparameterized Linear whose U and v adapt.

    Adapted parameters are held as the weight they give, under the name ``weight``.
    """

    def __init__(self, model: nn.Linear, params: Params) -> None:
        super().__init__(model, params)
        self.shape = (model.out_features, model.in_features)

    def __call__(self, inner: Params, x: Tensor) -> Tensor:
        """The prediction at ``x [examples, inputs]`` with an adapted weight, or before adaptation."""
        if _WEIGHT not in inner:
            return super().__call__(inner, x)
        return F.linear(x, inner[_WEIGHT].reshape(self.shape), self.params.get("bias"))


def joint_sgd(
    predict: JointPredictor,
    loss: Loss,
    inner: Params,
    support: Batch,
    *,
    steps: int,
    rates: Callable[[int], Params],
    first_order: bool,
) -> Adapted:
    """What ``functional.sgd`` computes, with U's moves kept as outer products; one step size for all of U."""
    U, v = inner[U_NAME], inner[V_NAME]
    moves: list[tuple[Tensor, Tensor, Tensor]] = []  # (step size of U, G_s, v_s)

    def weight() -> Tensor:
        W = U @ v
        for rate, G, v_s in moves:
            W = W - rate * (v_s @ v) * G
        return W

    def support_loss(W: Tensor) -> Tensor:
        return measure(loss, predict({_WEIGHT: W}, support.x), support.y)

    before: Tensor | None = None
    for step in range(steps):
        G, value = grad_and_value(support_loss)(weight())
        before = value.detach() if before is None else before
        by_v = U.mT @ G
        for rate, G_s, v_s in moves:
            by_v = by_v - rate * (G_s @ G) * v_s
        held = v
        if first_order:  # U's whole move, the filter in it included, counts as a constant
            G, by_v, held = G.detach(), by_v.detach(), v.detach()
        now = rates(step)
        moves.append((now[U_NAME], G, held))
        v = v - now[V_NAME] * by_v
    W = weight()

    def after() -> Tensor:
        return support_loss(W.detach()).detach()

    return Adapted({_WEIGHT: W}, after() if before is None else before, after)


def joint_predictor(model: nn.Module, params: Params, inner: list[str]) -> JointPredictor | None:
    """The predictor above, if ``model`` is a dense reparameterized Linear whose U and v are what adapts."""
    return JointPredictor(model, params) if is_joint(model, inner) else None


def is_joint(model: nn.Module, inner: list[str]) -> TypeGuard[nn.Linear]:
    """Whether ``model`` is a dense reparameterized Linear whose U and v are what adapts."""
    return set(inner) == {U_NAME, V_NAME} and isinstance(model, nn.Linear) and dense_linear(model)
