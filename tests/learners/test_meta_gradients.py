"""Meta-gradients against three independent ways to get them: higher, create_graph by hand, differences."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn

import metasym as ms
from metasym.learners import ANIL, MAML, MSR, GradientLearner, MSRJoint
from metasym.types import Batch, Episode

from .families import mse, regression, seeded_model

CASES = [
    pytest.param(method, kind, reparam, id=f"{method.__name__}-{kind}-{reparam or 'plain'}")
    for method, reparams in (
        (MAML, [None]),
        (MSR, ["kronecker", "dense"]),
        (MSRJoint, ["kronecker", "dense"]),
    )
    for kind in ("fc", "conv")
    for reparam in reparams
]

ROUNDING = 3e-5
"""Of second derivatives in float32: torch's CUDA wheels, which add up in another order on CPUs too, reach 1.5e-5."""


def learner_of(method: type[GradientLearner], kind: str, reparam: str | None, steps: int, dtype: torch.dtype):
    learner = method(seeded_model(kind, reparam, dtype), mse, inner_steps=steps, inner_lr=0.1)
    with torch.no_grad():  # step sizes that differ, as learned ones do
        for i, rate in enumerate(learner.rates.parameters()):
            rate.mul_(1 + 0.1 * i)
    return learner


def relative(found: Tensor, expected: Tensor) -> float:
    return float(torch.linalg.vector_norm(found - expected) / torch.linalg.vector_norm(expected))


def ours(learner: GradientLearner, episodes: Episode) -> tuple[Tensor, dict[str, Tensor]]:
    losses, gradients = learner.outer_gradient(episodes)
    return losses.query.mean(), gradients


def by_hand(learner: GradientLearner, episodes: Episode) -> tuple[Tensor, dict[str, Tensor]]:
    """A loop over tasks and steps on plain autograd, with create_graph."""
    outer = learner.outer_parameters()
    start = dict(learner.model.named_parameters())
    rates = dict(zip(learner.inner_names, learner.rates.parameters(), strict=True))
    total = torch.zeros((), dtype=episodes.query.x.dtype)
    for i in range(episodes.count):
        params = dict(start)
        for _ in range(learner.inner_steps):
            x, y = episodes.support.x[i], episodes.support.y[i]
            loss = mse(torch.func.functional_call(learner.model, params, (x,)), y)
            inner = [params[n] for n in learner.inner_names]
            gradients = torch.autograd.grad(loss, inner, create_graph=True)
            for name, gradient in zip(learner.inner_names, gradients, strict=True):
                params[name] = params[name] - rates[name] * gradient
        x, y = episodes.query.x[i], episodes.query.y[i]
        total = total + mse(torch.func.functional_call(learner.model, params, (x,)), y)
    mean = total / episodes.count
    return mean, dict(zip(outer, torch.autograd.grad(mean, list(outer.values())), strict=True))


def by_higher(learner: GradientLearner, episodes: Episode) -> tuple[Tensor, dict[str, Tensor]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        higher = pytest.importorskip("higher", reason="the test extra has higher")
    outer = learner.outer_parameters()
    groups = [
        {"params": [p], "lr": 0.1} for n, p in learner.model.named_parameters() if n in learner.inner_names
    ]
    rates = list(learner.rates.parameters())
    optimizer = torch.optim.SGD(groups)
    total = torch.zeros((), dtype=episodes.query.x.dtype)
    for i in range(episodes.count):
        override = {"lr": list(rates)}
        with higher.innerloop_ctx(
            learner.model, optimizer, copy_initial_weights=False, override=override
        ) as (fmodel, inner):
            for _ in range(learner.inner_steps):
                inner.step(mse(fmodel(episodes.support.x[i]), episodes.support.y[i]))
            total = total + mse(fmodel(episodes.query.x[i]), episodes.query.y[i])
    mean = total / episodes.count
    return mean, dict(zip(outer, torch.autograd.grad(mean, list(outer.values())), strict=True))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize(("method", "kind", "reparam"), CASES)
def test_equal_to_create_graph_by_hand(method, kind, reparam, steps, dtype) -> None:
    learner, episodes = learner_of(method, kind, reparam, steps, dtype), regression(kind, dtype=dtype)
    (loss, gradients), (loss2, gradients2) = ours(learner, episodes), by_hand(learner, episodes)
    exact = 1e-10 if dtype == torch.float64 else ROUNDING
    torch.testing.assert_close(loss, loss2, atol=exact, rtol=exact)
    assert gradients.keys() == gradients2.keys()
    for name in gradients:
        assert relative(gradients[name], gradients2[name]) < exact, name
    moved = [n for n, g in gradients.items() if g.abs().max() > 0]
    assert len(moved) == len(gradients)  # everything that the outer loop learns has a gradient


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize(("method", "kind", "reparam"), CASES)
def test_equal_to_higher(method, kind, reparam, steps, dtype) -> None:
    exact = 1e-10 if dtype == torch.float64 else ROUNDING
    learner, episodes = learner_of(method, kind, reparam, steps, dtype), regression(kind, dtype=dtype)
    try:
        loss2, gradients2 = by_higher(learner, episodes)
    except TypeError:
        # higher rebuilds each module's class and cannot do so for parametrized ones: give it a twin whose
        # weight is built by hand from the same U and v.
        twin = Twin(learner.model)
        renamed = TwinLearner(learner, twin)
        loss2, gradients2 = by_higher(renamed, episodes)
    loss, gradients = ours(learner, episodes)
    torch.testing.assert_close(loss, loss2, atol=exact, rtol=exact)
    for name in gradients:
        assert relative(gradients[name], gradients2[name]) < exact, name


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize(("method", "kind", "reparam"), CASES)
def test_equal_to_finite_differences(method, kind, reparam, steps) -> None:
    learner, episodes = learner_of(method, kind, reparam, steps, torch.float64), regression(kind)
    ms.testing.assert_meta_gradient(learner, episodes)


def test_assert_meta_gradient_finds_a_wrong_one() -> None:
    learner = learner_of(MSR, "fc", "kronecker", 3, torch.float64)
    learner.first_order = True  # an honest loss with a gradient that lacks the second-order part
    with pytest.raises(AssertionError, match="finite differences"):
        ms.testing.assert_meta_gradient(learner, regression("fc"))


def test_first_order_is_the_gradient_with_inner_gradients_held() -> None:
    learner = learner_of(MAML, "fc", None, 3, torch.float64)
    learner.first_order = True
    episodes = regression("fc")
    gradients = learner.outer_gradient(episodes)[1]
    expected = {n: torch.zeros_like(p) for n, p in learner.model.named_parameters()}
    for i in range(episodes.count):
        params = learner.adapted_parameters(Batch(*(t[i] for t in episodes.support)), inner_steps=3)
        leaves = {n: p.clone().requires_grad_() for n, p in params.items()}
        out = torch.func.functional_call(learner.model, leaves, (episodes.query.x[i],))
        parts = torch.autograd.grad(mse(out, episodes.query.y[i]), list(leaves.values()))
        for name, part in zip(leaves, parts, strict=True):
            expected[name] += part / episodes.count
    for name, value in expected.items():
        torch.testing.assert_close(gradients[f"model.{name}"], value)


def test_anil_by_hand() -> None:
    learner = learner_of(ANIL, "conv", None, 2, torch.float64)
    episodes = regression("conv")
    assert learner.inner_names == ["layers.3.weight", "layers.3.bias"]
    (_, gradients), (_, gradients2) = ours(learner, episodes), by_hand(learner, episodes)
    for name in gradients:
        torch.testing.assert_close(gradients[name], gradients2[name])


class Twin(nn.Module):
    """The two-layer network of ``families`` with each weight built from U and v by plain code."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.names = {n: n.replace(".", "_") for n, _ in model.named_parameters()}
        for name, parameter in model.named_parameters():
            self.register_parameter(self.names[name], parameter)
        self.stages = [
            (n, m) for n, m in model.named_modules() if n.startswith("layers.") and n.count(".") == 1
        ]

    def weight(self, stage: str, shape: torch.Size) -> Tensor:
        own = {n: getattr(self, k) for n, k in self.names.items() if n.startswith(f"{stage}.param")}
        v = own.pop(f"{stage}.parametrizations.weight.original")
        factors = [own[n] for n in sorted(own)]
        U = factors[0]
        for factor in factors[1:]:
            U = torch.kron(U, factor)
        return (U @ v.reshape(-1)).reshape(shape)

    def forward(self, x: Tensor) -> Tensor:
        for stage, module in self.stages:
            if not hasattr(module, "parametrizations"):
                x = module(x)
                continue
            bias = getattr(self, self.names[f"{stage}.bias"])
            W = self.weight(stage, module.weight.shape)
            x = torch.nn.functional.linear(x, W, bias) if W.ndim == 2 else torch.conv2d(x, W, bias)
        return x


class TwinLearner:
    """Presents a twin as if it were the learner, under the learner's names."""

    def __init__(self, learner: GradientLearner, twin: Twin) -> None:
        self.model, self.rates = twin, learner.rates
        self.inner_steps = learner.inner_steps
        self.inner_names = [twin.names[n] for n in learner.inner_names]
        self._outer = learner.outer_parameters()

    def outer_parameters(self) -> dict[str, Tensor]:
        return self._outer
