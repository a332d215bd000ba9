"""Layers that share something, or that cannot be replaced: the compiled model stays the model that was given."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import metasym as ms
from metasym.fast_layers.circular import CircularConvolution
from tests.fast_layers import patterns
from tests.refusals import refused

N = 12
CLASSES = patterns.circular(N)


def circular_layer(layer: nn.Linear | None = None) -> nn.Linear:
    layer = nn.Linear(N, N) if layer is None else layer
    taps = torch.randn(N + 1, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        layer.weight.copy_(taps[torch.from_numpy(CLASSES)])
    return layer


def same_outputs(compiled: nn.Module, model: nn.Module, x: Tensor) -> bool:
    with torch.no_grad():
        expected = model(x)
        return float((compiled(x) - expected).abs().max()) <= 1e-5 * float(expected.abs().max())


class Twice(nn.Module):
    """One module in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.first = circular_layer()
        self.second = self.first

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).tanh())


class OneWeight(nn.Module):
    """Two modules with one weight and biases of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = circular_layer(), nn.Linear(N, N)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).tanh())


class Doubled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def test_a_module_in_two_places_is_replaced_in_both() -> None:
    model = Twice()
    compiled = ms.structured(model, {"first": CLASSES}, always=True)
    assert isinstance(compiled.second, CircularConvolution)
    assert compiled.second is compiled.first
    assert same_outputs(compiled, model, torch.randn(3, N))


@pytest.mark.parametrize("learned", [False, True])
def test_layers_with_one_weight_still_have_one_and_learn_alike(learned: bool) -> None:
    model = OneWeight()
    if learned:
        group = ms.groups.shifts(N)
        basis = ms.groups.equivariant_basis(group, group).float()
        ms.reparameterize(model, lambda *_: ms.DenseSymmetry((N, N), U=basis), filter_std=1.0)
    compiled = ms.structured(model, None if learned else {"second": CLASSES}, always=True)
    assert compiled.first.filter is compiled.second.filter
    assert sum(p.numel() for p in compiled.parameters()) == N + 2 * N
    x = torch.randn(3, N)
    assert same_outputs(compiled, model, x)
    if learned:
        return
    for each in (compiled, model):
        each(x).square().sum().backward()
    both = model.first.weight.grad
    assert both is not None
    expected = torch.zeros(N).index_add_(0, torch.from_numpy(CLASSES).ravel() - 1, both.ravel())
    assert torch.allclose(compiled.first.filter.grad, expected, rtol=1e-4, atol=1e-4)


def test_two_structures_for_one_weight_are_refused() -> None:
    with refused("structure", ("first", "second")):
        ms.structured(OneWeight(), {"first": CLASSES, "second": patterns.symmetric(N)})


def test_what_cannot_be_replaced_stays_and_the_plan_says_why() -> None:
    hooked = circular_layer()
    hooked.register_forward_hook(lambda module, inputs, output: output + 1)
    head = circular_layer(nn.Linear(N, N, bias=False))
    embedding = nn.Embedding(N, N)
    embedding.weight = head.weight
    model = nn.ModuleList([hooked, circular_layer(Doubled(N, N)), head, embedding, circular_layer()])
    given = {str(k): CLASSES for k in (0, 1, 2, 4)}
    compiled = ms.structured(model, given, always=True)
    x = torch.randn(3, N)
    for k in (0, 1, 2, 4):
        assert same_outputs(compiled[k], model[k], x)
    assert isinstance(compiled[4], CircularConvolution)
    assert compiled[2].weight is compiled[3].weight
    plan = str(ms.structure_plan(model, given, always=True))
    for reason in ("it has hooks", "a Doubled computes in its own way", "its weight is that of '3' too"):
        assert reason in plan
    encoder = nn.TransformerEncoderLayer(N, 2, N, batch_first=True).eval()
    with refused("structure", ["self_attn.out_proj", "linear1", "linear2"]):
        ms.structured(encoder, {"linear1": CLASSES}, project=True, always=True)


@pytest.mark.parametrize(
    "pattern",
    [CLASSES, patterns.negacyclic(N), patterns.torus(3, 4), patterns.valid(N, 3), patterns.symmetric(N)],
)
@pytest.mark.filterwarnings("ignore:averaging")
def test_an_empty_batch_goes_through_and_back(pattern: np.ndarray) -> None:
    layer = nn.Linear(N, len(pattern))
    plan = ms.structure_plan(layer, pattern, always=True, project=True).layers[0]
    assert plan.sharing is not None
    for way in (plan.chosen, *plan.others):
        assert way is not None
        compiled = way.build(plan.sharing.filter_of(layer.weight), layer.bias.detach())
        x = torch.randn(0, N, requires_grad=True)
        with torch.no_grad():
            compiled(torch.randn(2, N))
            assert compiled(x).shape == (0, len(pattern))
        found = compiled(x)
        assert found.shape == (0, len(pattern))
        found.sum().backward()
        assert all(p.grad is not None and not p.grad.any() for p in compiled.parameters())
        assert compiled(torch.zeros(2, 0, N)).shape == (2, 0, len(pattern))
