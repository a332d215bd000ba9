"""Reparameterize and bake real models: outputs, names and ties survive; what cannot be done says so."""

from __future__ import annotations

import copy
import io
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import metasym as ms
from metasym.symmetry.reparam import symmetric_lists
from tests.networks import CNN, MODELS, Tied, encoder, layout
from tests.refusals import refused


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("bias", ["plain", "joint"])
@pytest.mark.parametrize("kind", ["kronecker", "dense"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::metasym.MetasymWarning")  # an encoder's in-projection stays plain
def test_reparameterize_then_bake_changes_nothing(name: str, kind: str, bias: str, training: bool) -> None:
    torch.manual_seed(0)
    make, draw = MODELS[name]
    model, x = make().train(training), draw(torch.Generator().manual_seed(1))
    before, state = layout(model), copy.deepcopy(model.state_dict())
    classes = [type(m) for m in model.modules()]
    with torch.no_grad():
        expected = model(x)
    if name == "tied" and bias == "joint":
        with refused("module 'a': weight", 2):
            ms.reparameterize(model, kind, bias=bias)
        assert layout(model) == before
        return
    assert ms.reparameterize(model, kind, bias=bias) is model
    with torch.no_grad():
        torch.testing.assert_close(model(x), expected)
    assert len(ms.symmetries(model)) > 0
    assert ms.bake(model) is model
    assert layout(model) == before
    assert [type(m) for m in model.modules()] == classes
    with torch.no_grad():
        torch.testing.assert_close(model(x), expected)
    model.load_state_dict(state)  # as any other model


def test_ties_stay_tied() -> None:
    torch.manual_seed(0)
    model = ms.reparameterize(Tied(), "kronecker")
    assert set(ms.symmetries(model)) == {"embed", "a", "b", "out"}
    assert len(ms.split(model).v) == 2
    a, b = (dict(symmetric_lists(model))[n] for n in "ab")
    assert a.original is b.original
    assert a[0] is b[0]
    with torch.no_grad():
        a.original.add_(1.0)
        next(iter(ms.symmetries(model)["embed"].parameters())).mul_(2.0)
    assert torch.equal(model.a.weight, model.b.weight)
    assert torch.equal(model.embed.weight, model.out.weight)
    ms.bake(model)
    assert model.a.weight is model.b.weight
    assert model.embed.weight is model.out.weight


def test_changed_symmetry_is_baked() -> None:
    torch.manual_seed(0)
    model = ms.reparameterize(CNN().double(), "kronecker").eval()
    with torch.no_grad():
        for u in ms.split(model).U.values():
            u.add_(0.1 * torch.randn_like(u))
    x = torch.randn(2, 3, 9, 9, dtype=torch.float64)
    expected = model(x)
    oracle = {n: s.matrix() @ p.original.reshape(-1) for (n, p), s in zip(
        symmetric_lists(model), ms.symmetries(model).values(), strict=True)}  # fmt: skip
    ms.bake(model)
    torch.testing.assert_close(model(x), expected)
    for name, w in oracle.items():
        torch.testing.assert_close(model.get_submodule(name).weight.reshape(-1), w)


def test_baking_a_copy_leaves_the_original_alone() -> None:
    model = ms.reparameterize(CNN(), "kronecker", bias="joint").eval()
    x = torch.randn(1, 3, 9, 9, generator=torch.Generator().manual_seed(0))
    expected = model(x)
    ms.bake(copy.deepcopy(model))
    torch.testing.assert_close(model(x), expected)
    ms.bake(model)
    torch.testing.assert_close(model(x), expected)


def test_joint_bias_comes_from_the_filter() -> None:
    """With the appended input of 1 the layer is [W b] [x; 1], and [W b] = reshape(U v)."""
    torch.manual_seed(0)
    layer = nn.Linear(3, 2).double()
    U = torch.randn(8, 5, dtype=torch.float64)
    ms.reparameterize(layer, lambda n, m: ms.DenseSymmetry((2, 4), U=U), bias="joint", filter_std=1.0)
    parts = ms.split(layer)
    assert list(parts.v) == ["parametrizations.weight.original"]
    assert list(parts.U) == ["parametrizations.weight.0.symmetry.U"]
    assert not parts.other
    joint = (U @ next(iter(parts.v.values()))).reshape(2, 4)
    x = torch.randn(7, 3, dtype=torch.float64)
    torch.testing.assert_close(layer(x), torch.cat([x, torch.ones(7, 1, dtype=torch.float64)], 1) @ joint.T)
    # functional_call must reach both, through the one name of the filter
    v = {"parametrizations.weight.original": torch.ones(5, dtype=torch.float64)}
    ones = torch.cat([x, torch.ones(7, 1, dtype=torch.float64)], 1) @ U.sum(1).reshape(2, 4).T
    torch.testing.assert_close(torch.func.functional_call(layer, v, (x,)), ones)
    copied = copy.deepcopy(layer)
    with torch.no_grad():
        copied.parametrizations.weight.original.zero_()
    assert copied.bias.abs().sum() == 0
    assert layer.bias.abs().sum() > 0


def test_split_by_type_not_by_name() -> None:
    class Tricky(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.original = nn.Linear(2, 3)
            self.U = nn.Parameter(torch.ones(2))
            self.frozen = nn.Linear(3, 2, bias=False)

    model = Tricky()
    ms.reparameterize(model, "kronecker", select="original")
    ms.reparameterize(model, "dense", select="frozen", filter_size=4, learnable=False)
    parts = ms.split(model)
    assert set(parts.U) == {"original.parametrizations.weight.0.U1", "original.parametrizations.weight.0.U2"}
    assert set(parts.v) == {
        "original.parametrizations.weight.original",
        "frozen.parametrizations.weight.original",
    }
    assert set(parts.other) == {"U", "original.bias"}
    assert set(parts.frozen) == {"frozen.parametrizations.weight.0.U"}


@pytest.mark.parametrize(
    ("select", "chosen"),
    [
        (None, {"features.0", "features.4", "head"}),
        ("features.*", {"features.0", "features.4"}),
        ("*", {"features.0", "features.4", "head"}),
        (["head", "features.0"], {"features.0", "head"}),
        (nn.Conv2d, {"features.0", "features.4"}),
        ([nn.Linear, "features.4"], {"features.4", "head"}),
        (lambda name, m: isinstance(m, nn.Conv2d) and m.in_channels == 8, {"features.4"}),
    ],
)
def test_selection(select: object, chosen: set[str]) -> None:
    assert set(ms.symmetries(ms.reparameterize(CNN(), "kronecker", select=select))) == chosen


def test_callable_kind_may_leave_layers_plain() -> None:
    model = ms.reparameterize(
        CNN(), lambda n, m: ms.KroneckerSymmetry(m.weight.shape) if isinstance(m, nn.Linear) else None
    )
    assert set(ms.symmetries(model)) == {"head"}


def test_a_module_used_twice_has_two_names() -> None:
    shared = nn.Linear(3, 3)
    model = ms.reparameterize(nn.Sequential(shared, nn.ReLU(), shared), select="2")
    assert len(ms.symmetries(model)) == 1


def test_what_is_frozen_stays_frozen_and_in_order() -> None:
    class Reversed(nn.Linear):
        """Holds its parameters in another order."""

        def __init__(self) -> None:
            super().__init__(3, 3)
            self.extra = nn.Parameter(torch.ones(1))
            self._parameters = {n: self._parameters[n] for n in ("bias", "extra", "weight")}

    model = nn.Sequential(Reversed(), nn.Linear(3, 2))
    model[1].weight.requires_grad_(False)
    before = layout(model)
    ms.reparameterize(model)
    trained = [n for n, p in model.named_parameters() if p.requires_grad]
    assert not [n for n in trained if n.startswith("1.parametrizations")]
    ms.bake(model)
    assert layout(model) == before
    assert [n for n, _ in model[0].named_parameters()] == ["bias", "extra", "weight"]


def test_assigning_the_weight_of_a_joint_layer_keeps_its_bias() -> None:
    layer = ms.reparameterize(nn.Linear(3, 3).double(), bias="joint")
    with torch.no_grad():
        layer.parametrizations.weight.original.mul_(2.0)
    bias = layer.bias.detach().clone()
    layer.weight = torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(layer.weight.detach(), torch.eye(3, dtype=torch.float64))
    torch.testing.assert_close(layer.bias.detach(), bias)


@pytest.mark.filterwarnings("ignore::metasym.MetasymWarning")
def test_cost_table() -> None:
    model = ms.reparameterize(nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)))
    found = ms.cost(model, torch.zeros(32, 32))
    assert [r.name for r in found.layers] == ["0", "2"]
    assert found.layers[0].cost.memory_ratio == 3.0
    assert found.layers[0].forward_multiply_adds == 32**3
    assert found.other_entries == 36
    assert found.plain_entries == 1024 + 128 + 36
    assert found.entries == sum(p.numel() for p in model.parameters())
    table = str(found)
    assert "3.00" in table  # Appendix A: forward + build is three times forward for m = n = batch
    assert f"{found.entries:,} entries in all" in table
    joint = ms.cost(ms.reparameterize(nn.Linear(3, 2), bias="joint"))
    assert joint.other_entries == 0
    symmetry = ms.DenseSymmetry((4, 4), 4)  # one U for two filters: stored once
    shared = ms.reparameterize(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), lambda n, m: symmetry)
    assert ms.cost(shared).entries == sum(p.numel() for p in shared.parameters())
    assert len(ms.cost(shared).layers) == 2
    encoded = ms.cost(
        ms.reparameterize(encoder()), torch.randn(2, 5, 16)
    )  # projections are read, never called
    assert [r.forward_multiply_adds is None for r in encoded.layers] == [True, True, False, False]
    tied = ms.cost(ms.reparameterize(Tied()))
    assert [r.name for r in tied.layers] == ["embed", "a"]


def baked_cnn() -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    model = ms.reparameterize(CNN().eval(), "dense", filter_size=40)
    x = torch.randn(2, 3, 9, 9)
    ms.bake(model)
    with torch.no_grad():
        return model, x, model(x)


def test_baked_model_exports() -> None:
    model, x, expected = baked_cnn()
    program = torch.export.export(model, (x,))
    torch.testing.assert_close(program.module()(x), expected)
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    fresh = CNN().eval()
    fresh.load_state_dict(torch.load(buffer, weights_only=True))
    torch.testing.assert_close(fresh(x), expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_baked_model_runs_in_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="the test extra has the ONNX exporter")
    runtime = pytest.importorskip("onnxruntime", reason="the test extra has the ONNX runtime")
    model, x, expected = baked_cnn()
    path = tmp_path / "model.onnx"
    torch.onnx.export(model, (x,), str(path), dynamo=True, verbose=False)
    session = runtime.InferenceSession(str(path))
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), expected, atol=1e-5, rtol=1e-4)


def test_frozen_symmetry_trains_only_the_filter() -> None:
    layer = nn.Linear(4, 4, bias=False)
    U = ms.groups.symmetry_matrix(ms.groups.cyclic(4)).float()
    ms.reparameterize(layer, lambda n, m: ms.DenseSymmetry(m.weight.shape, U=U, learnable=False))
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(torch.ones(1, 4)).square().sum().backward()
    optimizer.step()
    assert [n for n, _ in layer.named_parameters()] == ["parametrizations.weight.original"]
    assert torch.equal(ms.symmetries(layer)[""].matrix(), U)
    G = ms.groups.cyclic(4)
    ms.testing.assert_equivariant(layer, torch.randn(3, 4), G, G.regular())
    assert math.isclose(layer.weight[0, 0].item(), layer.weight[1, 1].item(), rel_tol=1e-6)
