"""Networks whose layers are differentiated one by one: the same losses and meta-gradients as the plain loop's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from metasym.engines.description import Setting
from metasym.engines.kernels import norm_pool
from metasym.engines.kernels.winograd import can_filter
from metasym.engines.layerwise import estimates
from metasym.engines.layerwise.chain import chain_of
from metasym.engines.plan import Sizes
from metasym.learners import MAML, MSR, GradientLearner, ProtoNet
from metasym.models import few_shot_network
from metasym.nn import TaskBatchNorm2d
from metasym.types import Episode
from tests.engines.engine_models import blocks, labelled_images, network, plain
from tests.refusals import refused


def pair(
    method: type[GradientLearner], model: str, reparam: str | None, **options: Any
) -> list[GradientLearner]:
    learners = []
    for way in ({"paths": "engine=chain"}, {"map": "loop"}):
        learner = method(network(model, reparam), F.cross_entropy, inner_lr=0.3, **options, **way)
        with torch.no_grad():
            for i, rate in enumerate(learner.rates.parameters()):
                rate.mul_(1 + 0.1 * i)
        learners.append(learner)
    return learners


def assert_same(fast: GradientLearner, slow: GradientLearner, data: Episode) -> None:
    assert fast.plan(Sizes.of(data))[0].way == "chain"
    (losses, gradients), (losses2, gradients2) = fast.outer_gradient(data), slow.outer_gradient(data)
    close = {"atol": 1e-9, "rtol": 1e-9}
    for found, expected in zip(losses, losses2, strict=True):
        torch.testing.assert_close(found, expected, **close)
    assert list(gradients) == list(gradients2)
    for name, found in gradients.items():
        torch.testing.assert_close(found, gradients2[name], **close, msg=name)
    scores = [learner.scores(data, F.cross_entropy, inner_steps=2) for learner in (fast, slow)]
    torch.testing.assert_close(*scores, **close)


@pytest.mark.parametrize(
    ("data", "shots", "shape"), [("omniglot", 1, (1, 28, 28)), ("miniimagenet", 5, (3, 84, 84))]
)
def test_wide_layers_are_convolved_by_winograds_algorithm_where_it_is(
    monkeypatch: pytest.MonkeyPatch, data: str, shots: int, shape: tuple[int, ...]
) -> None:
    """Kernels of 3 x 3, and those of 5 x 5 that MiniImagenet 5-shot has."""
    learner = MAML(few_shot_network(data, shots, 5, "conv4"), F.cross_entropy)
    sizes = Sizes(16, 5 * shots, 75, shape, ())
    engine, convolve = learner.plan(sizes)
    assert engine.way == "chain"
    assert convolve.way == ("winograd" if can_filter() else "direct")
    monkeypatch.setattr(estimates, "can_filter", lambda: False)
    assert learner.plan(sizes)[1].way == "direct"
    learner.forced["convolve"] = "winograd"
    with refused("convolve", ("winograd", "no compiled kernels")):
        learner.plan(sizes)


def test_the_same_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(norm_pool, "library", lambda: None)
    assert_same(*pair(MSR, "plain", "kronecker"), labelled_images())


def test_equal_bits_and_any_number_of_tasks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, _ = pair(MAML, "plain", None)
    data = labelled_images()
    first, second = (learner.outer_gradient(data)[1] for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    monkeypatch.setattr("metasym.engines.layerwise.chain._TAPES", 1)
    assert learner._select(Setting.of(data)).tasks_at_once(data) == 1
    for name, found in learner.outer_gradient(data)[1].items():
        torch.testing.assert_close(found, first[name], atol=1e-12, rtol=1e-12)


def test_a_random_layer_is_drawn_once() -> None:
    """Dropout on a path through autograd: the gradient is that of the masks that the loss saw."""
    torch.manual_seed(0)
    model = nn.Sequential(
        *blocks(4, TaskBatchNorm2d), nn.Flatten(), nn.Dropout(0.5), nn.Linear(36, 3)
    ).double()
    learner = MAML(model, F.cross_entropy, inner_steps=0, paths="engine=chain")
    data = labelled_images(tasks=1)
    state = torch.get_rng_state()
    losses, gradients = learner.outer_gradient(data)
    torch.set_rng_state(state)
    expected = F.cross_entropy(model(data.query.x[0]), data.query.y[0])
    torch.testing.assert_close(losses.query[0], expected.detach())
    found = torch.autograd.grad(expected, list(model.parameters()))
    for ours, theirs in zip(gradients.values(), found, strict=False):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = blocks(4, TaskBatchNorm2d)
        self.head = nn.Linear(36, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.body(x).flatten(1)
        return self.head(h) + self.head(2 * h)


def hooked() -> nn.Module:
    model = plain()
    model[1].register_forward_hook(lambda module, inputs, output: 2 * output)
    return model


def tied() -> nn.Module:
    model = nn.Sequential(nn.Conv2d(2, 2, 3), TaskBatchNorm2d(2), nn.Conv2d(2, 2, 3), nn.Flatten())
    model[2].weight = model[0].weight
    return model


@pytest.mark.parametrize(
    "model",
    [Twice(), hooked(), tied(), nn.Linear(3, 2), nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh())],
    ids=["branches", "hook", "tied", "linear", "no norm"],
)
def test_other_models_are_left_to_torch(model: nn.Module) -> None:
    assert chain_of(model) is None


def test_a_hook_that_comes_later_counts() -> None:
    learner, slow = pair(MAML, "plain", None)
    data = labelled_images()
    assert learner.plan(Setting.of(data))[0].way == "chain"
    for each in (learner, slow):
        each.forced = {}
        each.model[1].register_forward_hook(lambda module, inputs, output: 2 * output)
    assert learner.plan(Setting.of(data))[0].why == "not a chain of layers with batch norms"
    for found, expected in zip(learner.outer_gradient(data)[0], slow.outer_gradient(data)[0], strict=True):
        torch.testing.assert_close(found, expected)


def test_wide_networks_take_it_by_themselves_and_narrow_ones_do_not() -> None:
    sizes = Sizes(16, 5, 75, (1, 28, 28), ())
    ways = []
    for channels in (2, 64):
        layers: list[nn.Module] = []
        for i in range(3):
            layers += [
                nn.Conv2d(channels if i else 1, channels, 3, padding=1),
                TaskBatchNorm2d(channels),
                nn.ReLU(),
            ]
        learner = MAML(nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * 784, 5)), F.cross_entropy)
        ways.append(learner.plan(sizes)[0].way)
    assert ways == ["mapped", "chain"]


def test_prototypes_have_no_closed_form_and_a_map_that_is_asked_for_is_taken() -> None:
    data = labelled_images()
    plans = [
        ProtoNet(network("filtered", None), **way).plan(Setting.of(data))
        for way in ({"paths": "engine=chain"}, {"map": "loop"})
    ]
    assert [[choice.name for choice in plan] for plan in plans] == [["engine", "convolve"], ["engine", "map"]]
    no_form = "no closed form with prototypes or with parameters that differ between tasks"
    with refused("engine", ("closed", no_form)):
        ProtoNet(network("filtered", None), paths="engine=closed").plan(Setting.of(data))


def test_device_and_precision_are_asked() -> None:
    """What the plan says is what runs: on a GPU or in mixed precision there is no chain; forcing it is an error."""
    data = labelled_images(dtype=torch.float32)
    learner = MAML(network("plain", None).float(), F.cross_entropy)
    insisting = MAML(network("plain", None).float(), F.cross_entropy, paths="engine=chain")
    assert insisting.plan(Setting.of(data))[0].way == "chain"
    for setting, why in (
        (Setting.of(data, device="cuda"), "on cuda"),
        (Setting.of(data, autocast=True), "mixed precision"),
        (Setting.of(labelled_images(dtype=torch.bfloat16)), "data of torch.bfloat16"),
    ):
        engine = learner.plan(setting)[0]
        assert (engine.way, engine.why) == ("mapped", why)
        with refused("engine", ("chain", why)):
            insisting.plan(setting)
    with torch.autocast("cpu", dtype=torch.bfloat16), refused("engine", ("chain", "mixed precision")):
        insisting.outer_gradient(data)
