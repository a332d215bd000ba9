"""What each arm of the transfer study carries from Omniglot, and how it is scored."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from studies.mnist_networks import ARMS, Layerwise, network

import metasym as ms
from metasym.models import few_shot_network
from metasym.tasks import seeded
from studies import omniglot_to_mnist as study


def learned() -> dict[str, torch.Tensor]:
    """The state of features with a U that is no identity."""
    model = few_shot_network("omniglot", 1, 5, "conv4", seeded(3))
    ms.reparameterize(model)
    draw = seeded(4)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".0.U" in name:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=draw))
    return {name: value for name, value in model.state_dict().items() if name.startswith("features.")}


def test_arms_carry_what_they_say() -> None:
    state = learned()
    plain = {name: value for name, value in state.items() if ".0.U" not in name}
    start = {
        name.replace("parametrizations.weight.original", "weight"): value for name, value in plain.items()
    }
    start = {name: v.view(*v.shape[:2], 3, 3) if v.ndim == 3 else v for name, v in start.items()}
    x = torch.rand(4, 1, 28, 28, generator=seeded(5))
    nets = {arm: network(arm, 0, start if arm == "maml-start" else state) for arm in ARMS}
    features = {arm: net.features(x) for arm, net in nets.items()}
    # U v carried as weights computes what U and v do; random starts do not.
    assert torch.allclose(features["msr-weights"], features["msr-u-start"], atol=1e-5)
    assert not torch.allclose(features["msr-u"], features["msr-u-start"], atol=1e-2)
    assert not torch.allclose(features["msr-u"], features["plain"], atol=1e-2)
    assert torch.equal(nets["maml-start"].features.conv2.weight, start["features.conv2.weight"])
    # The first layer of "msr-u" by hand: the plain network's random numbers as v, times U.
    U = [state[f"features.conv2.parametrizations.weight.0.U{i}"] for i in (1, 2, 3)]
    v = nets["plain"].features.conv2.weight.detach().reshape(64, 64, 9)
    by_hand = torch.einsum("ap,bq,cs,pqs->abc", *U, v).reshape(64, 64, 3, 3)
    assert torch.allclose(nets["msr-u"].features.conv2.weight, by_hand, atol=1e-5)
    for arm in ("msr-u", "msr-u-start"):
        assert not any(".0.U" in name for name, _ in nets[arm].named_parameters())
    heads = [net.head.weight.shape for net in nets.values()]
    assert heads == [(10, 64)] * len(ARMS)


@pytest.mark.parametrize("arm", ["plain", "msr-u-start", "d8"])
def test_layerwise_gradients_are_those_of_autograd(arm: str) -> None:
    model, g = network(arm, 0, learned()), seeded(6)
    x, y = torch.rand(6, 1, 28, 28, generator=g), torch.arange(6)
    F.cross_entropy(model(x), y).backward()
    wanted = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    fast = Layerwise(model)
    fast.backward(x, y, F.cross_entropy)
    assert torch.allclose(fast.outputs(x), model(x), atol=1e-4)
    for name, p in model.named_parameters():
        if "norm" not in name and not name.endswith("bias"):
            assert p.grad is not None
            assert (p.grad - wanted[name]).norm() < 1e-3 * wanted[name].norm(), name


def test_training_sees_the_same_images_in_every_arm_and_learns() -> None:
    g = seeded(0)
    y = torch.arange(10).repeat(20)
    patterns = torch.rand(10, 1, 28, 28, generator=g)
    digits = study.Digits(patterns[y] + 0.1 * torch.rand(200, 1, 28, 28, generator=g), y)
    few = study.balanced(digits, 20, seed=1)
    assert np.bincount(few.y.numpy()).tolist() == [2] * 10
    model = study.trained(network("plain", 0, {}), few, study.Size(15, 20), 0.016, 0, augmented=False)
    again = study.trained(network("plain", 0, {}), few, study.Size(15, 20), 0.016, 0, augmented=False)
    found = study.accuracies(model, digits, 0)
    assert found["plain"] > 0.9
    assert found == study.accuracies(again, digits, 0)


def test_paired_difference_by_hand() -> None:
    one = {"runs": {"0": {"plain": 0.9}, "1": {"plain": 0.8}, "2": {"plain": 0.7}}}
    base = {"runs": {"0": {"plain": 0.8}, "1": {"plain": 0.6}, "2": {"plain": 0.4}, "3": {"plain": 0.0}}}
    mean, half = study.paired(one, base, "plain")
    assert mean == pytest.approx(0.2)
    assert half == pytest.approx(4.302653 * 0.1 / 3**0.5, rel=1e-5)
