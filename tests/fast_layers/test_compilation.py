"""``ms.structured``: what is replaced, stays or is refused, and that the result is a module like any other."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

import metasym as ms
from metasym.fast_layers.deployment import structured
from metasym.verdicts.status_thresholds import NEARLY
from tests.fast_layers import patterns
from tests.refusals import refused


def symmetric_model(n: int = 12, seed: int = 0, dtype: torch.dtype = torch.float64) -> nn.Module:
    """Two layers; the first one's U is the exact basis of circular shifts, its filter random."""
    torch.manual_seed(seed)
    group = ms.groups.shifts(n)
    basis = ms.groups.equivariant_basis(group, group).to(dtype)
    model = nn.Sequential(nn.Linear(n, n), nn.Tanh(), nn.Linear(n, 3)).to(dtype)
    return ms.reparameterize(
        model, lambda name, _: ms.DenseSymmetry((n, n), U=basis) if name == "0" else None, filter_std=1.0
    )


def test_a_layer_whose_symmetry_was_read_is_replaced_and_equal() -> None:
    model = symmetric_model()
    compiled = structured(model, always=True)
    x = torch.randn(5, 12, dtype=torch.float64)
    assert torch.allclose(compiled(x), model(x), rtol=1e-10, atol=1e-12)
    assert not isinstance(compiled[0], nn.Linear)
    assert isinstance(compiled[2], nn.Linear)
    assert "circular convolution of 12 points" in str(ms.structure_plan(model, always=True))
    assert "parametrizations" not in " ".join(compiled.state_dict())
    model(x)  # the model itself is as it was


def test_where_nothing_pays_the_dense_layer_stays_and_is_equal() -> None:
    model = symmetric_model()
    plan = ms.structure_plan(model, batch=1)
    assert plan.layers[0].chosen is None
    compiled = plan.apply(model)
    assert isinstance(compiled[0], nn.Linear)
    x = torch.randn(5, 12, dtype=torch.float64)
    assert torch.allclose(compiled(x), model(x))


def test_a_plain_layer_with_a_given_group_or_pattern() -> None:
    layer = nn.Linear(300, 300)
    classes = patterns.symmetric(300)
    with torch.no_grad():
        layer.weight.copy_(torch.where(torch.from_numpy(classes) == 2, 0.5, -0.01))
    compiled = structured(layer, classes, always=True)
    x = torch.randn(4, 300)
    assert torch.allclose(compiled(x), layer(x), rtol=1e-5, atol=1e-5)
    assert sum(p.numel() for p in compiled.parameters()) == 302
    swap, cycle = [1, 0, *range(2, 5)], [*range(1, 5), 0]
    group = ms.groups.from_generators([swap, cycle])
    small = nn.Linear(5, 5)
    with torch.no_grad():
        small.weight.copy_(torch.eye(5) - 0.1)
    by_group = structured(small, group, always=True)
    assert torch.allclose(by_group(x[:, :5]), small(x[:, :5]), atol=1e-6)


def test_a_weight_that_nearly_has_its_structure_is_refused_unless_projected() -> None:
    model = symmetric_model()
    symmetry = ms.symmetries(model)["0"]
    with torch.no_grad():
        symmetry.U.add_(1e-4 * torch.randn(symmetry.U.shape, dtype=torch.float64))
    with refused("layer '0': weight") as caught:
        structured(model)
    assert 0 < caught.value.found <= NEARLY
    assert "only nearly, error 0.00" in str(ms.structure_plan(model))  # a plan tells, and refuses nothing
    assert "nearly" not in str(ms.structure_plan(model, project=True))
    compiled = structured(model, project=True, always=True)
    projected = copy.deepcopy(model)
    ms.project(projected, ms.inspect(projected))
    x = torch.randn(5, 12, dtype=torch.float64)
    assert torch.allclose(compiled(x), projected(x), rtol=1e-9)


def test_a_weight_without_the_given_structure_is_refused_or_averaged_with_a_warning() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(12, 12, bias=False)
    assert "does not have the structure that was given" in str(
        ms.structure_plan(layer, patterns.symmetric(12))
    )
    with refused("the layer: weight") as caught:
        structured(layer, patterns.symmetric(12))
    assert caught.value.found > NEARLY
    with pytest.warns(ms.MetasymWarning, match="averaging the layer changed its weight by"):
        made = structured(layer, patterns.symmetric(12), project=True, always=True)
    assert sum(p.numel() for p in made.parameters()) == 2
    with torch.no_grad():  # classes from 0: zeros where the weight has none
        layer.weight.copy_(torch.eye(12) + 1)
    with refused("the layer: weight") as caught:
        structured(layer, patterns.symmetric(12) - 1)
    assert caught.value.found > NEARLY


def test_onnx_says_what_it_leaves_out() -> None:
    i = np.arange(1024)
    circular = (i[None, :] - i[:, None]) % 1024 + 1
    layer = nn.Linear(1024, 1024, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(1025)[torch.from_numpy(circular)])
    plan = str(ms.structure_plan(layer, circular, onnx=True))
    assert "circular convolution of 1024 points, by FFT, is left out of .onnx files" in plan


def test_a_report_of_another_model_and_a_changed_u_are_refused() -> None:
    model = symmetric_model()
    report = ms.inspect(model)
    with refused("report", {"0": (12, 12)}):
        structured(symmetric_model(10), report)
    with torch.no_grad():
        ms.symmetries(model)["0"].U.copy_(torch.randn(144, 12, dtype=torch.float64))
    with refused("layer '0': U") as caught:
        structured(model, report)
    assert caught.value.found > NEARLY


def test_nothing_to_compile_is_one_line() -> None:
    torch.manual_seed(0)
    with refused("structure", "Linear"):
        structured(nn.Linear(4, 4))
    free = ms.reparameterize(nn.Linear(6, 6), "dense", filter_size=9, std=1.0)
    with refused("structure", [""]):
        structured(free)
    with refused("structure", None):
        structured(nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)), {})
    for given in ({}, {"0": patterns.symmetric(3)}, patterns.symmetric(3)):
        with refused("model", None):
            structured(nn.Sequential(nn.Conv1d(1, 1, 3)), given)
    with refused("structure", "1"):
        structured(nn.Sequential(nn.Linear(3, 3)), {"1": patterns.symmetric(3)})
    with refused("the layer", (4, 4)):
        structured(nn.Linear(3, 3), patterns.symmetric(4))
    with refused("a sharing pattern", ("float64", (3, 3))):
        structured(nn.Linear(3, 3), np.ones((3, 3)))
    with refused("batch", 0):
        structured(nn.Linear(3, 3), patterns.symmetric(3), batch=0)


def test_weights_of_zeros_stay_and_weights_that_are_no_numbers_are_refused() -> None:
    layer = nn.Linear(3, 3, bias=False)
    zeros = np.zeros((3, 3), dtype=np.int64)
    with refused("the layer: weight", 1.0):
        structured(layer, zeros)
    with torch.no_grad():
        layer.weight.zero_()
    assert "dense (every weight is zero)" in str(ms.structure_plan(layer, zeros, always=True))
    assert not structured(layer, zeros, always=True)(torch.ones(2, 3)).any()
    with torch.no_grad():
        layer.weight.fill_(float("nan"))
    with refused("the layer: weight", pytest.approx(math.nan, nan_ok=True)):
        structured(layer, patterns.circular(3), always=True)


@pytest.mark.filterwarnings("ignore:averaging")  # layers that are yet to be trained
def test_it_trains_loads_its_state_and_runs_in_bfloat16() -> None:
    classes = patterns.relabelled(patterns.circular(16), np.random.default_rng(0))
    layer = nn.Linear(16, 16, bias=False)
    compiled = structured(layer, classes, project=True, always=True)
    (parameter,) = compiled.parameters()
    assert parameter.shape == (16,)
    other = structured(nn.Linear(16, 16, bias=False), classes, project=True, always=True)
    other.load_state_dict(compiled.state_dict())
    x = torch.randn(64, 16)
    assert torch.equal(other(x), compiled(x))
    target = x.roll(1, 1)
    optimizer = torch.optim.Adam(compiled.parameters(), lr=0.1)
    losses = []
    for _ in range(20):
        loss = ((compiled(x) - target) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]
    half = copy.deepcopy(compiled).bfloat16()
    assert half(x.bfloat16()).dtype == torch.bfloat16
    assert torch.allclose(half(x.bfloat16()).float(), compiled(x), atol=0.2)


@pytest.mark.filterwarnings("ignore:averaging")  # layers that are yet to be trained
def test_a_filter_that_changes_is_noticed_however_it_was_changed() -> None:
    for classes in (patterns.circular(16), patterns.symmetric(16), patterns.few_taps(16, 3)):
        moved = patterns.relabelled(classes, np.random.default_rng(0))
        compiled = structured(nn.Linear(16, 16, bias=False), moved, project=True, always=True)
        x = torch.randn(4, 16)
        (filter,) = compiled.parameters()
        with torch.no_grad():
            before = compiled(x)
            filter.data.mul_(2)  # leaves no trace in the version of the parameter
            assert torch.allclose(compiled(x), 2 * before, atol=1e-5)
            filter.mul_(2)
            assert torch.allclose(compiled(x), 4 * before, atol=1e-5)
        with torch.inference_mode():
            compiled(x)
        for parameter in compiled.parameters():
            parameter.requires_grad_(False)
        wanting = x.clone().requires_grad_()
        compiled(wanting).sum().backward()  # what was kept from inference mode is not in the way
        assert wanting.grad is not None


def test_what_pays_forward_may_not_pay_in_training() -> None:
    layer = nn.Linear(256, 256, bias=False)
    plans = [
        ms.structure_plan(layer, patterns.circular(256), training=training).layers[0].chosen
        for training in (True, False)
    ]
    assert plans[0] is None
    assert plans[1] is not None


def test_a_plan_tells_from_how_many_examples_on_it_would_pay() -> None:
    layer, classes = nn.Linear(256, 256, bias=False), patterns.circular(256)
    told = ms.structure_plan(layer, classes, project=True).layers[0].pays_from
    assert told is not None
    for batch, pays in ((told, True), (told // 2, False)):
        plan = ms.structure_plan(layer, classes, project=True, batch=batch)
        assert (plan.layers[0].chosen is not None) is pays
        assert ("pays from about" in str(plan)) is not pays
    assert ms.structure_plan(nn.Linear(5, 5), patterns.circular(5), project=True).layers[0].pays_from is None


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # torch's own, in its jvp
@pytest.mark.parametrize("pattern", [patterns.symmetric(9), patterns.circular(9), patterns.blocks(3, 3)])
@pytest.mark.filterwarnings("ignore:averaging")
def test_it_works_forward_mode_under_vmap_and_double_backward(pattern: np.ndarray) -> None:
    classes = patterns.relabelled(pattern, np.random.default_rng(0))
    layer = nn.Linear(9, 9).double()
    compiled = structured(layer, classes, project=True, always=True)
    assert not isinstance(compiled, nn.Linear)
    x = torch.randn(4, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(compiled, (x,))
    direction = torch.randn(4, 9, dtype=torch.float64)
    _, change = torch.func.jvp(compiled, (x.detach(),), (direction,))
    bias = compiled(torch.zeros(1, 9, dtype=torch.float64)).detach()
    assert torch.allclose(change, compiled(direction) - bias)
    parameters = {name: p.detach() for name, p in compiled.named_parameters()}
    _, change = torch.func.jvp(
        lambda p: torch.func.functional_call(compiled, p, (direction,)), (parameters,), (parameters,)
    )
    assert torch.allclose(change, compiled(direction))
    assert torch.allclose(
        torch.func.vmap(lambda one: compiled(one[None])[0])(x.detach()), compiled(x.detach())
    )
