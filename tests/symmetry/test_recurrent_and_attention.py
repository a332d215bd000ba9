"""Symmetries on the weights of recurrent layers and of attention: values, gradients, taking them out again."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

import metasym as ms

LENGTH, WIDTH = 4, 3


class Last(nn.Module):
    """The last output of a recurrent layer."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0][:, -1]


class Attention(nn.Module):
    """Attention over a sequence; ``keys`` has a width of its own, so that its three maps are separate."""

    def __init__(self, keys: int | None = None) -> None:
        super().__init__()
        self.keys = keys
        self.layer = nn.MultiheadAttention(WIDTH, 1, kdim=keys, vdim=keys, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = x if self.keys is None else x[..., : self.keys]
        return self.layer(x, seen, seen)[0].mean(1)


class Cells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRUCell(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = None
        for step in x.unbind(1):
            h = self.layer(step, h)
        assert h is not None
        return h


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, 1, 4, dropout=0.0, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).mean(1)


MAKERS: dict[str, Callable[[], nn.Module]] = {
    "lstm": lambda: Last(nn.LSTM(WIDTH, WIDTH, batch_first=True)),
    "lstm, projected": lambda: Last(nn.LSTM(WIDTH, 4, proj_size=WIDTH, batch_first=True)),
    "gru, two layers": lambda: Last(nn.GRU(WIDTH, WIDTH, num_layers=2, batch_first=True)),
    "gru, both ways": lambda: Last(nn.GRU(WIDTH, 2, bidirectional=True, batch_first=True)),
    "rnn": lambda: Last(nn.RNN(WIDTH, WIDTH, batch_first=True, bias=False)),
    "cells": Cells,
    "attention": Attention,
    "attention, separate maps": lambda: Attention(2),
    "transformer": Transformer,
}
TENSORS = {
    "lstm": ["layer.weight_hh_l0", "layer.weight_ih_l0"],
    "lstm, projected": ["layer.weight_hh_l0", "layer.weight_hr_l0", "layer.weight_ih_l0"],
    "cells": ["layer.weight_hh", "layer.weight_ih"],
    "attention": ["layer.in_proj_weight", "layer.out_proj"],
    "attention, separate maps": [
        "layer.k_proj_weight",
        "layer.out_proj",
        "layer.q_proj_weight",
        "layer.v_proj_weight",
    ],
}


def made(name: str) -> nn.Module:
    torch.manual_seed(0)
    return MAKERS[name]().double()


def inputs(*front: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(1)
    return torch.randn(*front, LENGTH, WIDTH, generator=g, dtype=torch.float64)


def episodes(model: nn.Module) -> ms.Episode:
    x = inputs(2, 2, 5)
    g = torch.Generator().manual_seed(2)
    y = torch.randn(*x.shape[:3], model(x[0, 0]).shape[-1], generator=g, dtype=torch.float64)
    return ms.Episode(ms.Batch(x[0], y[0]), ms.Batch(x[1], y[1]), torch.arange(2))


@pytest.mark.parametrize("name", MAKERS)
def test_the_model_computes_what_it_did_and_bake_gives_it_back(name: str) -> None:
    plain = made(name)
    before = {key: value.clone() for key, value in plain.state_dict().items()}
    x, model = inputs(5), copy.deepcopy(plain)
    ms.reparameterize(model)  # a warning would be an error: no weight stays plain
    if name in TENSORS:
        assert sorted(ms.symmetries(model)) == TENSORS[name]
    torch.testing.assert_close(model(x), plain(x))
    copied = copy.deepcopy(model)
    ms.bake(model)
    assert type(model.layer) is type(plain.layer)
    for key, value in before.items():
        torch.testing.assert_close(model.state_dict()[key], value)
    torch.testing.assert_close(model(x), plain(x))
    torch.testing.assert_close(copied(x), plain(x))  # a baked copy leaves the other as it was


@pytest.mark.parametrize("name", MAKERS)
def test_a_changed_filter_changes_what_the_layer_computes(name: str) -> None:
    """torch's recurrent layers keep a list of their weights: it must be the weights that v makes now."""
    model = ms.reparameterize(
        made(name), "dense", filter_size=4, std=1.0, generator=torch.Generator().manual_seed(3)
    )
    x, before = inputs(5), None
    for _ in range(2):
        now = model(x)
        assert before is None or not torch.equal(now, before)
        before = now
        with torch.no_grad():
            for v in ms.split(model).v.values():
                v.mul_(2.0)
    baked = ms.bake(copy.deepcopy(model))
    torch.testing.assert_close(model(x), baked(x))


@pytest.mark.parametrize("mode", ["vmap", "loop"])
@pytest.mark.parametrize("name", MAKERS)
def test_meta_gradients_against_finite_differences(name: str, mode: str) -> None:
    model = ms.reparameterize(made(name), "kronecker")
    learner = ms.MSR(model, inner_steps=2, inner_lr=0.05, map=mode)
    found = episodes(model)
    gradient = learner.outer_gradient(found)[1]
    own = {id(parameter) for parameter in ms.split(model).U.values()}
    matrices = [key for key, parameter in learner.outer_parameters().items() if id(parameter) in own]
    assert len(matrices) == 2 * len(ms.symmetries(model))  # both factors of each weight
    g = torch.Generator().manual_seed(4)
    for key in sorted(matrices):
        parameter = learner.outer_parameters()[key]
        direction = torch.randn(parameter.shape, generator=g, dtype=torch.float64)
        values = []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                parameter.add_(direction, alpha=step)
                values.append(float(learner.outer_loss(found).query.mean()))
                parameter.sub_(direction, alpha=step)
        expected = (values[0] - values[1]) / 2e-5
        assert float((gradient[key] * direction).sum()) == pytest.approx(expected, rel=1e-5, abs=1e-9)


def test_a_biased_layer_keeps_its_bias_with_joint() -> None:
    model = ms.reparameterize(nn.ModuleDict({"a": nn.LSTM(2, 2), "b": nn.Linear(2, 2)}), bias="joint")
    assert sorted(ms.symmetries(model)) == ["a.weight_hh_l0", "a.weight_ih_l0", "b"]
    assert isinstance(model["a"].bias_ih_l0, nn.Parameter)


def test_a_callable_is_asked_for_every_weight() -> None:
    asked = []

    def only_inputs(name: str, module: nn.Module) -> ms.Symmetry | None:
        asked.append(name)
        tensor = name.rpartition(".")[2]
        return ms.DenseSymmetry(getattr(module, tensor).shape, 3) if "ih" in tensor else None

    model = ms.reparameterize(nn.ModuleDict({"rnn": nn.RNN(2, 2)}), only_inputs)
    assert sorted(asked) == ["rnn.weight_hh_l0", "rnn.weight_ih_l0"]
    assert list(ms.symmetries(model)) == ["rnn.weight_ih_l0"]


def test_reports_and_files_know_the_weights_by_name(tmp_path) -> None:
    model = ms.reparameterize(made("gru, two layers"), "dense", filter_size=3)
    report = ms.inspect(model)
    assert [layer.name for layer in report] == list(ms.symmetries(model))
    learner = ms.MSR(model, inner_steps=1)
    ms.save(learner, tmp_path / "run.safetensors")
    other = ms.MSR(ms.reparameterize(made("gru, two layers"), "dense", filter_size=3), inner_steps=1)
    ms.load(tmp_path / "run.safetensors", other)
    torch.testing.assert_close(other.model(inputs(5)), model(inputs(5)), rtol=0, atol=0)
    ms.save_symmetry(model, tmp_path / "symmetry.safetensors")
    new = ms.load_symmetry(tmp_path / "symmetry.safetensors", made("gru, two layers"))
    for name, symmetry in ms.symmetries(new).items():
        torch.testing.assert_close(symmetry.matrix(), ms.symmetries(model)[name].matrix())
