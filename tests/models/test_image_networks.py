"""The networks of Table 3: their sizes by hand, their starts, and D_8's equivariance."""

from __future__ import annotations

import math

import pytest
import torch

from metasym.learners import MAML, MSR
from metasym.models import NETWORKS, Block, convolution_net, d8_net, few_shot_network
from metasym.models.image_networks import SIZES
from metasym.symmetry.reparam import reparameterize, split
from metasym.types import Batch
from tests.refusals import refused


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def learned(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def norms(*channels: int) -> int:
    return 2 * sum(channels)


PLAIN = {
    ("omniglot", 1, "conv4"): 9 * (64 + 3 * 64**2) + norms(64, 64, 64, 64) + 64 * 5 + 5,
    ("omniglot", 5, "conv4-big"): 9 * (150 + 3 * 150**2) + norms(150, 150, 150, 150) + 150 * 5 + 5,
    ("omniglot", 1, "conv4-embedding"): 9 * (64 + 3 * 64**2) + norms(64, 64, 64, 64),
    ("miniimagenet", 1, "conv4"): 9 * (3 * 32 + 3 * 32**2) + norms(32, 32, 32, 32) + 800 * 5 + 5,
    ("miniimagenet", 1, "conv4-big"): 9 * (3 * 64 + 3 * 64**2)
    + norms(64, 64, 64, 64)
    + 1600 * 1920
    + 1920
    + 1920 * 5
    + 5,
    ("miniimagenet", 5, "conv4"): 25 * (3 * 128 + 2 * 128**2)
    + 9 * 128**2
    + 128 * 64
    + norms(128, 128, 128, 128, 64)
    + 1600 * 5
    + 5,
    ("miniimagenet", 5, "conv4-embedding"): 9 * (3 * 128 + 3 * 128**2) + norms(128, 128, 128, 128),
    # D_8: 6 kernels from a plain channel to a field, 96 from field to field; one scale and shift a field.
    ("omniglot", 1, "conv4-d8"): 4 * 6 + 3 * 16 * 96 + norms(4, 4, 4, 4, 4) + 4 * 4 * 4 * 5 + 5,
    ("miniimagenet", 5, "conv4-d8"): 2 * 3 * 6 + 3 * 4 * 96 + norms(2, 2, 2, 2, 2) + 2 * 11 * 11 * 5 + 5,
}


@pytest.mark.parametrize(("cell", "wanted"), PLAIN.items())
def test_sizes_by_hand(cell, wanted):
    data, shots, network = cell
    model = few_shot_network(data, shots, 5, network, generator())
    assert learned(model) == wanted
    x = torch.randn(2, *SIZES[data], generator=generator(1))
    with torch.no_grad():
        assert model(x).shape == (
            2,
            {"conv4-embedding": {"omniglot": 64}.get(data, 128 * 25)}.get(network, 5),
        )


@pytest.mark.paper
@pytest.mark.parametrize(("data", "shots"), [("omniglot", 1), ("miniimagenet", 1), ("miniimagenet", 5)])
@pytest.mark.parametrize("ways", [5, 20])
def test_big_exceeds_msr_which_exceeds_maml(data, shots, ways):
    plain = few_shot_network(data, shots, ways, "conv4")
    entries = learned(plain)
    factors = sum(
        m.weight.shape[0] ** 2
        + m.weight.shape[1] ** 2
        + math.prod(m.weight.shape[2:]) ** 2 * (m.weight.ndim > 2)
        for m in plain.modules()
        if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)
    )
    msr = reparameterize(plain)
    assert sum(u.numel() for u in split(msr).U.values()) == factors
    assert learned(msr) == entries + factors
    assert learned(few_shot_network(data, shots, ways, "conv4-big")) > learned(msr) > entries


def test_msr_starts_as_maml_and_learns_the_first_step_alike():
    x = torch.randn(6, 1, 28, 28, generator=generator(1))
    plain = few_shot_network("omniglot", 1, 3, "conv4", generator())
    turned = reparameterize(few_shot_network("omniglot", 1, 3, "conv4", generator()))
    assert torch.equal(plain(x), turned(x))
    support = Batch(x, torch.arange(3).repeat(2))
    cross_entropy = torch.nn.functional.cross_entropy
    adapted = [
        kind(model, cross_entropy, inner_lr=0.4).adapt(support, inner_steps=1)(x)
        for kind, model in ((MAML, plain), (MSR, turned))
    ]
    torch.testing.assert_close(*adapted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("network", NETWORKS)
def test_starts_come_from_the_generator(network):
    torch.manual_seed(1)
    first = few_shot_network("omniglot", 1, 5, network, generator(3)).state_dict()
    torch.manual_seed(2)
    again = few_shot_network("omniglot", 1, 5, network, generator(3)).state_dict()
    other = few_shot_network("omniglot", 1, 5, network, generator(4)).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


TURNS = [(quarters, flip) for quarters in range(4) for flip in (False, True)]


def turned(x: torch.Tensor, quarters: int, flip: bool) -> torch.Tensor:
    y = torch.rot90(x, quarters, (-2, -1))
    return y.flip(-1) if flip else y


@pytest.mark.parametrize("size", [12, 14, 9])
def test_d8_features_turn_with_the_image(size):
    """Odd and even sizes on the way: 14, 7, 4 and 12, 6, 3 and 9, 5, 3."""
    model = d8_net((2, size, size), 32, None, depth=3, generator=generator()).double()
    with torch.no_grad():
        for p in model.parameters():  # norms away from 1 and 0 too
            p.add_(0.1 * torch.randn(p.shape, dtype=p.dtype, generator=generator(5)))
        x = torch.randn(3, 2, size, size, dtype=torch.float64, generator=generator(1))
        features = model.features(x)
        assert features.std() > 0.1
        for quarters, flip in TURNS:
            found = model.features(turned(x, quarters, flip))
            torch.testing.assert_close(found, turned(features, quarters, flip), rtol=0, atol=1e-7)


def test_d8_stays_equivariant_when_adapted():
    from metasym.types import Batch

    model = d8_net((1, 8, 8), 16, 2, depth=2, generator=generator()).double()
    x = torch.randn(4, 1, 8, 8, dtype=torch.float64, generator=generator(1))
    learner = MAML(model, torch.nn.functional.cross_entropy, inner_lr=0.4)
    adapted = learner.adapt(Batch(x, torch.tensor([0, 1, 0, 1])), inner_steps=3)
    with torch.no_grad():
        assert not torch.allclose(adapted.features(x), model.features(x), atol=1e-3)
        for quarters, flip in TURNS:
            torch.testing.assert_close(
                adapted.features(turned(x, quarters, flip)),
                turned(adapted.features(x), quarters, flip),
                rtol=0,
                atol=1e-7,
            )


def test_d8_starts_at_the_plain_nets_size():
    plain = few_shot_network("omniglot", 1, 5, "conv4", generator())
    model = few_shot_network("omniglot", 1, 5, "conv4-d8", generator())
    for number in (1, 2, 3, 4):
        name = f"features.conv{number}"
        ratio = model.get_submodule(name).weight.std() / plain.get_submodule(name).weight.std()
        assert 0.7 < ratio < 1.4


def test_d8_with_more_fields():
    """Parameters by hand, of networks with as many channels as MAML's, twice and five times as many."""
    for fields, wanted in ((4, 4_997), (8, 19_205), (20, 117_125)):
        assert learned(few_shot_network("omniglot", 1, 5, "conv4-d8", generator(), fields=fields)) == wanted


def test_bad_networks():
    for call, about, found in (
        (
            lambda: few_shot_network("omniglot", 1, 5, "conv4", fields=4),
            "fields",
            "conv4",
        ),
        (lambda: few_shot_network("mnist", 1, 5, "conv4"), "data", "mnist"),
        (lambda: few_shot_network("omniglot", 1, 5, "vgg"), "network", "vgg"),
        (lambda: convolution_net((1, 8, 8), [Block(4, 2)], 5), "kernel_size", 2),
        (
            lambda: convolution_net((1, 8, 8), [Block(4)] * 4, 5),
            "input_shape",
            (1, 8, 8),
        ),
        (lambda: d8_net((1, 8, 8), 20, 5), "input_shape, channels", (8, 8, 20)),
        (lambda: d8_net((1, 8, 6), 16, 5), "input_shape, channels", (8, 6, 16)),
    ):
        with refused(about, found):
            call()
