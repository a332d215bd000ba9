"""Networks whose layers are differentiated one by one: the same losses and meta-gradients as the plain loop's."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import metasym as ms
from metasym.engines.kernels import norm_pool
from metasym.engines.kernels.winograd import can_filter
from metasym.engines.layerwise import estimates
from metasym.engines.layerwise.chain import Chain, chain_of
from metasym.engines.plan import Sizes
from metasym.learners import ANIL, MAML, MSR, GradientLearner, MSRJoint, ProtoNet
from metasym.models import few_shot_network
from metasym.nn import StackFields, TaskBatchNorm2d, UnstackFields
from metasym.types import Batch, Episode


def blocks(channels: int, norm: type[nn.Module], *, bias: bool = True) -> nn.Sequential:
    options = {"track_running_stats": False} if norm is nn.BatchNorm2d else {}
    return nn.Sequential(
        nn.Conv2d(2, channels, 3, padding=1, bias=bias), norm(channels, **options), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(channels, channels, 3, padding=1, stride=2), norm(channels, **options), nn.ReLU(),
    )  # fmt: skip


def plain() -> nn.Module:
    return nn.Sequential(*blocks(6, TaskBatchNorm2d), nn.Flatten(), nn.Linear(54, 3))


class Written(nn.Module):
    """As people write networks: parts, functions between them, a pooling that is their own."""

    def __init__(self) -> None:
        super().__init__()
        self.features = blocks(6, nn.BatchNorm2d, bias=False)
        self.extra = nn.Sequential(
            OrderedDict(conv=nn.Conv2d(6, 4, 2), act=nn.Softplus(), norm=nn.GroupNorm(2, 4))
        )
        self.hidden = nn.Linear(16, 7)
        self.head = nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.hidden(self.extra(self.features(x)).flatten(1))))


def filtered() -> nn.Module:
    """Convolutions that Winograd's algorithm knows: padded and not, before a norm and not, channels of any number."""
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1), TaskBatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 9, 3, padding=1), TaskBatchNorm2d(9), nn.ReLU(),
        nn.Conv2d(9, 8, 3), nn.Softplus(), nn.Flatten(), nn.Linear(72, 3),
    )  # fmt: skip


def fields() -> nn.Module:
    """Norms of fields of three channels, with ReLU and pooling after them and without."""
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1), StackFields(3), TaskBatchNorm2d(2), nn.ReLU(), UnstackFields(3),
        nn.MaxPool2d(2), nn.Conv2d(6, 9, 3, stride=2), StackFields(3), TaskBatchNorm2d(3), UnstackFields(3),
        nn.Softplus(), nn.Flatten(), nn.Linear(36, 3),
    )  # fmt: skip


MODELS = {"plain": plain, "written": Written, "filtered": filtered, "fields": fields}


def network(name: str, reparam: str | None) -> nn.Module:
    torch.manual_seed(0)
    model = MODELS[name]().double()
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim == 1:
                p.add_(0.5 * torch.randn_like(p))  # scales of both signs
    if reparam == "joint bias":
        ms.reparameterize(model, bias="joint")
    elif reparam is not None:
        ms.reparameterize(model, reparam)
    return model


def episodes(tasks: int = 3, dtype: torch.dtype = torch.float64) -> Episode:
    g = torch.Generator().manual_seed(1)

    def batch(n: int) -> Batch:
        x = torch.randn(tasks, n, 2, 11, 11, generator=g, dtype=dtype)
        return Batch(x, torch.randint(0, 3, (tasks, n), generator=g))

    return Episode(batch(3), batch(5), torch.arange(tasks))


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


CASES: list[tuple[type[GradientLearner], str, str | None, dict[str, Any]]] = [
    (MSR, "plain", "kronecker", {}),
    (MSR, "plain", "kronecker", {"inner_steps": 3, "step_sizes": "layer-step"}),
    (MSR, "plain", "kronecker", {"inner_steps": 0}),
    (MSR, "plain", "kronecker", {"inner_steps": 2, "first_order": True}),
    (MSR, "plain", "kronecker", {"learn_start": False, "chunk_size": 2}),
    (MSR, "plain", "dense", {}),
    (MSR, "plain", "joint bias", {"inner_steps": 2}),
    (MSR, "written", "kronecker", {"inner_steps": 2}),
    (MSRJoint, "plain", "kronecker", {"inner_steps": 2}),
    (MAML, "plain", None, {"step_sizes": "parameter"}),
    (MAML, "written", None, {"inner_steps": 2}),
    (MAML, "written", None, {"step_sizes": "fixed", "adapt_only": ["hidden.*", "features.1.*"]}),
    (ANIL, "plain", None, {"inner_steps": 2}),
    (ANIL, "written", None, {}),
    (MSR, "fields", "kronecker", {"inner_steps": 2}),
]


@pytest.mark.parametrize(("method", "model", "reparam", "options"), CASES)
def test_the_same_as_the_plain_loop(
    method: type[GradientLearner], model: str, reparam: str | None, options: dict[str, Any]
) -> None:
    assert_same(*pair(method, model, reparam, **options), episodes())


@pytest.mark.parametrize("convolve", ["direct", "winograd"])
@pytest.mark.parametrize(
    ("method", "reparam", "options"),
    [
        (MSR, "kronecker", {"inner_steps": 2}),
        (MAML, None, {}),
        (MAML, None, {"adapt_only": ["4.*", "10.*"]}),
        (ANIL, None, {}),
    ],
)
def test_either_way_of_convolving_is_the_plain_loop(
    method: type[GradientLearner], reparam: str | None, options: dict[str, Any], convolve: str
) -> None:
    if convolve == "winograd" and not can_filter():
        pytest.skip("no compiler on this machine")
    fast, slow = pair(method, "filtered", reparam, **options)
    fast.forced["convolve"] = convolve
    data = episodes()
    assert [str(c).split(" (")[0] for c in fast.plan(Sizes.of(data))] == [
        "engine: chain",
        f"convolve: {convolve}",
    ]
    assert_same(fast, slow, data)


def test_wide_layers_are_convolved_by_winograds_algorithm_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learner = MAML(few_shot_network("omniglot", 1, 5, "conv4"), F.cross_entropy)
    sizes = Sizes(16, 5, 75, (1, 28, 28), ())
    engine, convolve = learner.plan(sizes)
    assert engine.way == "chain"
    assert convolve.way == ("winograd" if can_filter() else "direct")
    monkeypatch.setattr(estimates, "can_filter", lambda: False)
    assert learner.plan(sizes)[1].way == "direct"
    learner.forced["convolve"] = "winograd"
    with pytest.raises(ms.MetasymError, match="expected convolve=direct here .no compiled kernels."):
        learner.plan(sizes)


@pytest.mark.parametrize("reparam", [None, "kronecker"])
def test_prototypes_of_a_chain_are_those_of_the_plain_loop(reparam: str | None) -> None:
    """Support and query are normalised each by itself; a task's gradient is that of both."""
    data = episodes()
    data = data._replace(support=data.support._replace(y=torch.arange(3).repeat(3, 1)))
    fast, slow = (
        ProtoNet(network("filtered", reparam), **way) for way in ({"paths": "engine=chain"}, {"map": "loop"})
    )
    assert [choice.name for choice in fast.plan(Sizes.of(data))] == ["engine", "convolve"]
    (losses, gradients), (losses2, gradients2) = fast.outer_gradient(data), slow.outer_gradient(data)
    close = {"atol": 1e-9, "rtol": 1e-9}
    for found, expected in zip(losses, losses2, strict=True):
        torch.testing.assert_close(found, expected, **close)
    assert list(gradients) == list(gradients2)
    for name, found in gradients.items():
        torch.testing.assert_close(found, gradients2[name], **close, msg=name)
    scores = [learner.scores(data, F.cross_entropy) for learner in (fast, slow)]
    torch.testing.assert_close(*scores, **close)
    assert [c.name for c in slow.plan(Sizes.of(data))] == ["engine", "map"]
    with pytest.raises(ms.MetasymError, match="no closed form with prototypes"):
        ProtoNet(network("filtered", reparam), paths="engine=closed").plan(Sizes.of(data))


def test_the_same_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(norm_pool, "library", lambda: None)
    assert_same(*pair(MSR, "plain", "kronecker"), episodes())


def test_equal_bits_and_any_number_of_tasks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, _ = pair(MAML, "plain", None)
    data = episodes()
    first, second = (learner.outer_gradient(data)[1] for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    monkeypatch.setattr("metasym.engines.layerwise.chain._TAPES", 1)
    assert learner._at_once(data) == 1
    for name, found in learner.outer_gradient(data)[1].items():
        torch.testing.assert_close(found, first[name], atol=1e-12, rtol=1e-12)


def test_a_random_layer_is_drawn_once() -> None:
    """Dropout on a path through autograd: the gradient is that of the masks that the loss saw."""
    torch.manual_seed(0)
    model = nn.Sequential(
        *blocks(4, TaskBatchNorm2d), nn.Flatten(), nn.Dropout(0.5), nn.Linear(36, 3)
    ).double()
    learner = MAML(model, F.cross_entropy, inner_steps=0, paths="engine=chain")
    data = episodes(tasks=1)
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
    data = episodes()
    assert isinstance(learner._chain_or_why(), Chain)
    for each in (learner, slow):
        each.forced = {}
        each.model[1].register_forward_hook(lambda module, inputs, output: 2 * output)
    assert isinstance(learner._chain_or_why(), str)
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
