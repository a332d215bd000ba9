"""Norms whose scale adapts: torch's own second derivatives under vmap are wrong, ours are right."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

import metasym as ms
from metasym.adaptation import functional
from metasym.learners import ANIL, MAML, MSR, GradientLearner
from metasym.nn import TaskBatchNorm2d

from .families import Scaled, mse, regression

Norm = Callable[[Tensor, Tensor, Tensor], Tensor]
"""``norm(x [examples, 4, 3, 3], scale, shift)``; a layer norm has scales of the last dimension."""

FUNCTIONS: dict[str, Norm] = {
    "F.layer_norm": lambda x, w, b: F.layer_norm(x, (3,), w, b),
    "F.layer_norm by name": lambda x, w, b: F.layer_norm(x, normalized_shape=[3], bias=b, weight=w, eps=0.1),
    "F.layer_norm, no shift": lambda x, w, b: F.layer_norm(x, (3,), w),
    "torch.layer_norm": lambda x, w, b: torch.layer_norm(x, (3,), w, b),
    "torch.native_layer_norm": lambda x, w, b: torch.native_layer_norm(x, (3,), w, b, 1e-5)[0],
    "F.batch_norm": lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
    "torch.batch_norm": lambda x, w, b: torch.batch_norm(x, w, b, None, None, True, 0.1, 1e-5, False),
    "torch.native_batch_norm": lambda x, w, b: torch.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5)[0],
    "F.instance_norm": lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
    "torch.instance_norm": lambda x, w, b: torch.instance_norm(x, w, b, None, None, True, 0.1, 1e-5, False),
}  # fmt: skip


class Functional(nn.Module):
    """A user's own layer that calls a norm as a function, with a scale that is derived, not named weight."""

    def __init__(self, function: Norm, size: int) -> None:
        super().__init__()
        self.function = function
        self.log_scale = nn.Parameter(0.3 * torch.randn(size))
        self.shift = nn.Parameter(0.3 * torch.randn(size))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.log_scale.exp(), self.shift)


class Doubled(nn.Module):
    def forward(self, w: Tensor) -> Tensor:
        return 2 * w


def network(norm: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return Scaled(nn.Conv2d(1, 4, 3), norm(), nn.Tanh(), nn.Flatten(), nn.Linear(36, 3)).double()


def parametrized(norm: nn.Module) -> nn.Module:
    return parametrize.register_parametrization(norm, "weight", Doubled())


MODULES: dict[str, Callable[[], nn.Module]] = {
    **{
        name: lambda f=f, size=3 if "layer" in name else 4: Functional(f, size)
        for name, f in FUNCTIONS.items()
    },
    "LayerNorm": lambda: nn.LayerNorm(3),
    "BatchNorm2d": lambda: nn.BatchNorm2d(4, track_running_stats=False),
    "InstanceNorm2d": lambda: nn.InstanceNorm2d(4, affine=True),
    "parametrized LayerNorm": lambda: parametrized(nn.LayerNorm(3)),
    "parametrized BatchNorm2d": lambda: parametrized(nn.BatchNorm2d(4, track_running_stats=False)),
}
SAFE: dict[str, Callable[[], nn.Module]] = {
    "TaskBatchNorm2d": lambda: TaskBatchNorm2d(4),
    "GroupNorm": lambda: nn.GroupNorm(2, 4),
    "RMSNorm": lambda: nn.RMSNorm(3),
}


def maml(name: str, mapping: str = "auto") -> GradientLearner:
    model = network({**MODULES, **SAFE}[name])
    return MAML(model, mse, inner_steps=2, inner_lr=0.2, step_sizes="fixed", map=mapping)


def gradient(learner: GradientLearner) -> Tensor:
    parts = learner.outer_gradient(regression("conv"))[1].values()
    return torch.cat([g.reshape(-1) for g in parts])


@pytest.mark.parametrize("name", [*MODULES, *SAFE])
def test_the_default_has_right_gradients(name: str) -> None:
    learner = maml(name)
    assert learner.map == "vmap"
    ms.testing.assert_meta_gradient(learner, regression("conv"), directions=2)
    torch.testing.assert_close(gradient(learner), gradient(maml(name, "loop")), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("name", MODULES)
def test_the_trap_is_real(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, torch has repaired its derivatives, and ``MappableLayers`` can go."""
    right = gradient(maml(name, "vmap"))
    monkeypatch.setattr(functional, "MappableLayers", contextlib.nullcontext)
    wrong = gradient(maml(name, "vmap"))
    assert torch.linalg.vector_norm(wrong - right) > 1e-4 * torch.linalg.vector_norm(right)


@pytest.mark.parametrize("name", ["LayerNorm", "F.batch_norm"])
def test_reparameterized_and_head_only(name: str) -> None:
    for learner in (
        MSR(ms.reparameterize(network(MODULES[name])), mse, inner_steps=2, inner_lr=0.2),
        ANIL(network(MODULES[name]), mse, inner_steps=2, inner_lr=0.2),
    ):
        assert learner.map == "vmap"
        ms.testing.assert_meta_gradient(learner, regression("conv"), directions=1)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_value_is_torchs_own(name: str) -> None:
    g = torch.Generator().manual_seed(0)
    layer = MODULES[name]().double()
    x = torch.randn(2, 4, 3, 3, generator=g, dtype=torch.float64)
    expected = layer(x)
    with functional.MappableLayers():
        torch.testing.assert_close(layer(x), expected)
