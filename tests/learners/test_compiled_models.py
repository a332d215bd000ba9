"""Networks that torch.compile has wrapped: learning says that it takes what is inside."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import metasym as ms


def plain() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def whole() -> nn.Module:
    return torch.compile(plain(), backend="eager")


def inside() -> nn.Module:
    model = plain()
    model[0] = torch.compile(model[0], backend="eager")
    return model


def in_place() -> nn.Module:
    model = plain()
    model.compile(backend="eager")
    return model


def episodes() -> ms.Episode:
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 3, 5, 3, generator=g), torch.randn(2, 3, 5, 2, generator=g)
    return ms.Episode(ms.Batch(x[0], y[0]), ms.Batch(x[1], y[1]), torch.arange(3))


@pytest.mark.parametrize("make", [whole, inside, in_place])
def test_it_is_said_and_gives_what_the_plain_model_gives(make: Callable[[], nn.Module]) -> None:
    expected = ms.MAML(plain(), inner_steps=2)
    with pytest.warns(ms.MetasymWarning, match="compiled"):
        learner = ms.MAML(make(), inner_steps=2)
    assert list(learner.outer_parameters()) == list(expected.outer_parameters())
    for name, gradient in learner.outer_gradient(episodes())[1].items():
        torch.testing.assert_close(gradient, expected.outer_gradient(episodes())[1][name])
    support = episodes().task(0).support
    adapted = learner.adapt(support)
    assert type(adapted) is nn.Sequential
    assert type(adapted[0]) is nn.Linear
    torch.testing.assert_close(adapted(support.x), expected.adapt(support)(support.x))
    fast = torch.compile(adapted, backend="eager")  # what the warning advises
    torch.testing.assert_close(fast(support.x), adapted(support.x))


@pytest.mark.parametrize("make", [whole, inside, in_place])
def test_reparameterize_returns_an_ordinary_model(make: Callable[[], nn.Module]) -> None:
    with pytest.warns(ms.MetasymWarning, match="compiled"):
        model = ms.reparameterize(make())
    assert isinstance(model, nn.Sequential)
    assert list(ms.symmetries(model)) == ["0", "2"]


def test_the_head_of_a_compiled_model_is_found() -> None:
    with pytest.warns(ms.MetasymWarning, match="compiled"):
        learner = ms.ANIL(whole())
    assert learner.inner_names == ms.ANIL(plain()).inner_names


def test_a_plain_model_is_taken_in_silence() -> None:
    ms.MSR(ms.reparameterize(plain()))  # a warning would be an error
