"""One contract for every learner: mapping does not matter, adapting touches only what it should."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import metasym as ms
from metasym.adaptation.functional import choose_map
from metasym.learners import ANIL, MAML, MSR, MTSR, Learner, MSRJoint, ProtoNet, accuracy
from metasym.nn import TaskBatchNorm2d
from metasym.types import Batch, Episode
from tests.refusals import refused

from .families import Scaled, classification, mse, regression, seeded_model

NORMS: dict[str, Callable[[], nn.Module]] = {
    "none": nn.Identity,
    "task-batch": lambda: TaskBatchNorm2d(4),
    "group": lambda: nn.GroupNorm(2, 4),
    "batch": lambda: nn.BatchNorm2d(4, track_running_stats=False),
    "instance": lambda: nn.InstanceNorm2d(4, affine=True),
    "layer": lambda: nn.LayerNorm([4, 3, 3]),
}


def normed(norm: str, outputs: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return Scaled(nn.Conv2d(1, 4, 3), NORMS[norm](), nn.Tanh(), nn.Flatten(), nn.Linear(36, outputs)).double()


def learners(norm: str, mapping: str, chunk: int | None = None) -> dict[str, Learner]:
    both = {"map": mapping, "chunk_size": chunk}
    inner = {"inner_steps": 2, "inner_lr": 0.2, **both}

    def reparameterized() -> nn.Module:
        model = ms.reparameterize(normed(norm))
        with torch.no_grad():
            for i, u in enumerate(ms.split(model).U.values()):
                u.add_(0.1 * torch.randn(u.shape, generator=torch.Generator().manual_seed(i), dtype=u.dtype))
        return model

    loss = F.cross_entropy
    return {
        "MAML": MAML(normed(norm), loss, **inner),
        "ANIL": ANIL(normed(norm), loss, **inner),
        "MSR": MSR(reparameterized(), loss, **inner),
        "MSRJoint": MSRJoint(reparameterized(), loss, **inner),
        "MTSR": MTSR(reparameterized(), loss, train_tasks=5, test_steps=3, **both),
        "ProtoNet": ProtoNet(normed(norm), **both),
    }


def gradient(learner: Learner, episodes: Episode) -> Tensor:
    parts = learner.outer_gradient(episodes)[1].values()
    return torch.cat([g.reshape(-1) for g in parts])


@pytest.mark.parametrize("method", ["MAML", "ANIL", "MSR", "MSRJoint", "MTSR", "ProtoNet"])
@pytest.mark.parametrize("norm", NORMS)
def test_vmap_is_loop_is_chunks(norm: str, method: str) -> None:
    """vmap, and vmap over chunks of two, against the plain loop; the default for such a model is vmap."""
    episodes = classification(tasks=5)
    loop = learners(norm, "loop")[method]
    others = {"vmap": learners(norm, "auto")[method], "chunks": learners(norm, "auto", 2)[method]}
    assert {learner.map for learner in others.values()} == {"vmap"}
    expected, scores = gradient(loop, episodes), loop.scores(episodes, F.cross_entropy)
    for name, learner in others.items():
        difference = torch.linalg.vector_norm(gradient(learner, episodes) - expected)
        assert difference <= 1e-6 * torch.linalg.vector_norm(expected), name
        torch.testing.assert_close(learner.scores(episodes, F.cross_entropy), scores, atol=1e-6, rtol=1e-6)


def test_running_statistics_are_refused() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    for method in (MAML, ANIL, ProtoNet):
        with refused("1", "BatchNorm2d"):
            method(model, F.cross_entropy)


def test_the_rule_is_on_the_sizes() -> None:
    assert choose_map(nn.Conv2d(1, 63, 3)) == "vmap"
    assert choose_map(nn.Conv2d(1, 64, 3)) == "loop"
    assert choose_map(nn.Linear(500, 500)) == "vmap"
    assert choose_map(nn.Sequential(nn.GRU(2, 2))) == "vmap"
    with refused("map", "pmap"):
        choose_map(nn.Linear(1, 1), "pmap")


@st.composite
def random_network(draw: st.DrawFn) -> nn.Module:
    torch.manual_seed(draw(st.integers(0, 1000)))
    width = draw(st.integers(2, 5))
    layers: list[nn.Module] = [nn.Linear(5, width, bias=draw(st.booleans())), nn.Tanh()]
    if draw(st.booleans()):
        layers += [nn.Linear(width, width), nn.GroupNorm(1, width), nn.Tanh()]
    return Scaled(*layers, nn.Linear(width, 3, bias=draw(st.booleans()))).double()


def snapshot(module: nn.Module) -> dict[str, Tensor]:
    return {n: t.clone() for n, t in module.state_dict().items()}


def assert_same(state: dict[str, Tensor], module: nn.Module) -> None:
    for name, value in module.state_dict().items():
        assert torch.equal(value, state[name]), name


@settings(max_examples=15)
@given(model=random_network(), steps=st.integers(1, 4), seed=st.integers(0, 100))
def test_what_adapts(model: nn.Module, steps: int, seed: int) -> None:
    episodes = regression("fc", seed=seed)
    support = Batch(episodes.support.x[0], episodes.support.y[0])

    anil = ANIL(copy.deepcopy(model), mse, inner_steps=steps, inner_lr=0.1)
    before = snapshot(anil)
    adapted = dict(anil.adapt(support).named_parameters())
    assert_same(before, anil)  # adapting changes nothing in the learner
    for name, value in anil.model.named_parameters():
        moved = not torch.equal(adapted[name], value)
        assert moved == (name in anil.inner_names)
        assert (name in anil.inner_names) == name.startswith(f"layers.{len(model.layers) - 1}.")

    msr = MSR(ms.reparameterize(copy.deepcopy(model)), mse, inner_steps=steps, inner_lr=0.1)
    parts = ms.split(msr.model)
    assert not set(parts.U) & set(msr.inner_names)
    assert {f"model.{n}" for n in parts.U} <= set(msr.outer_parameters())
    before = snapshot(msr)
    changed = msr.adapted_parameters(support)
    assert set(changed) == set(parts.v) | set(parts.other)
    assert_same(before, msr)

    mtsr = MTSR(ms.reparameterize(copy.deepcopy(model)), mse, train_tasks=3, test_steps=steps)
    before = snapshot(mtsr)
    mtsr.scores(episodes, mse)
    mtsr.adapt(support)
    assert_same(before, mtsr)
    assert {n.removeprefix("model.") for n in mtsr.outer_parameters() if n.startswith("model.")} == set(
        ms.split(mtsr.model).U
    )

    joint = MSRJoint(ms.reparameterize(copy.deepcopy(model)), mse, inner_steps=steps)
    assert set(joint.inner_names) == {n for n, _ in joint.model.named_parameters()}


@pytest.mark.parametrize("method", ["MAML", "ANIL", "MSR", "MSRJoint", "MTSR", "ProtoNet"])
def test_adapt_gives_an_ordinary_module(method: str) -> None:
    learner = learners("group", "auto")[method]
    episodes = classification()
    support, x = Batch(episodes.support.x[1], episodes.support.y[1]), episodes.query.x[1]
    plain = learner.adapt(support)
    assert not any(m.training for m in plain.modules())
    assert not any("parametrizations" in n for n, _ in plain.named_modules())
    assert not any(isinstance(m, Learner) for m in plain.modules())
    with torch.no_grad():
        found = plain(x)
    torch.testing.assert_close(found, learner.predict(support, x))
    assert not learner.predict(support, x).requires_grad
    with torch.no_grad():  # independent of the learner: ruin it and nothing changes
        for p in learner.parameters():
            p.fill_(torch.nan)
        torch.testing.assert_close(plain(x), found)
    torch.testing.assert_close(torch.export.export(plain, (x,)).module()(x), found)


@pytest.mark.parametrize("method", ["MAML", "ANIL", "MSR", "MSRJoint", "MTSR", "ProtoNet"])
def test_scores_are_the_adapted_modules(method: str) -> None:
    learner, episodes = learners("group", "auto")[method], classification()
    found = learner.scores(episodes, accuracy)
    for i in range(episodes.count):
        plain = learner.adapt(Batch(episodes.support.x[i], episodes.support.y[i]))
        with torch.no_grad():
            right = (plain(episodes.query.x[i]).argmax(1) == episodes.query.y[i]).double().mean()
        torch.testing.assert_close(found[i], right)


def test_inner_steps_at_training_and_at_test_are_apart() -> None:
    episodes = regression("fc")
    learner = MAML(seeded_model("fc", None), mse, inner_steps=1, test_inner_steps=4, inner_lr=0.1)
    with torch.no_grad():
        torch.testing.assert_close(
            learner.outer_loss(episodes).query, learner.scores(episodes, mse, inner_steps=1)
        )
    four = learner.scores(episodes, mse)
    torch.testing.assert_close(four, learner.scores(episodes, mse, inner_steps=4))
    assert not torch.allclose(four, learner.scores(episodes, mse, inner_steps=1))
    zero = torch.func.functional_call(learner.model, {}, (episodes.query.x[0],))
    torch.testing.assert_close(
        learner.scores(episodes, mse, inner_steps=0)[0], mse(zero, episodes.query.y[0]).detach()
    )


def test_support_losses_before_and_after() -> None:
    learner, episodes = MAML(seeded_model("fc", None), mse, inner_steps=3, inner_lr=0.1), regression("fc")
    losses = learner.outer_loss(episodes)
    for i in range(episodes.count):
        support = Batch(episodes.support.x[i], episodes.support.y[i])
        torch.testing.assert_close(losses.before[i], mse(learner.model(support.x), support.y).detach())
        torch.testing.assert_close(
            losses.after[i], mse(learner.adapt(support)(support.x), support.y).detach()
        )
    assert not losses.before.requires_grad
    assert not losses.after.requires_grad


@pytest.mark.parametrize(
    ("mode", "shapes"),
    [("fixed", None), ("layer", {()}), ("parameter", {(6, 5), (6,), (3, 6), (3,)}), ("layer-step", {(3,)})],
)
def test_step_sizes(mode: str, shapes: set[tuple[int, ...]] | None) -> None:
    learner = MAML(seeded_model("fc", None), mse, inner_steps=3, inner_lr=0.05, step_sizes=mode)
    learned = {n: p for n, p in learner.outer_parameters().items() if n.startswith("rates.")}
    assert {tuple(p.shape) for p in learned.values()} == (shapes or set())
    assert all(abs(rate - 0.05) < 1e-7 for rate in learner.step_sizes().values())
    episodes = regression("fc")
    if learned:
        gradients = learner.outer_gradient(episodes)[1]
        assert all(gradients[n].abs().max() > 0 for n in learned)
        ms.testing.assert_meta_gradient(learner, episodes)
    assert torch.isfinite(learner.scores(episodes, mse, inner_steps=7)).all()


def test_start_fixed_and_adapt_only() -> None:
    model = seeded_model("fc", "kronecker")
    learner = MSR(model, mse, learn_start=False, adapt_only="*.original")
    assert set(learner.inner_names) == set(ms.split(model).v)
    outer = {n.removeprefix("model.") for n in learner.outer_parameters()}
    assert not outer & set(ms.split(model).v)
    assert set(ms.split(model).U) | set(ms.split(model).other) <= outer
    ms.testing.assert_meta_gradient(learner, regression("fc"))
    model.layers[0].bias.requires_grad_(False)  # what is frozen is neither inner nor outer
    assert "layers.0.bias" not in MSR(model, mse).inner_names
    assert "model.layers.0.bias" not in MSR(model, mse).outer_parameters()


@pytest.mark.parametrize(
    ("make", "about", "found"),
    [
        (
            lambda: MSR(seeded_model("fc", None)),
            "model",
            "Scaled",
        ),
        (lambda: MSRJoint(seeded_model("fc", None)), "model", "Scaled"),
        (lambda: MTSR(seeded_model("fc", None), train_tasks=3), "model", "Scaled"),
        (lambda: MTSR(seeded_model("fc", "dense"), train_tasks=0), "train_tasks", 0),
        (lambda: MAML(seeded_model("fc", "dense")), "model", "learnable symmetries"),
        (lambda: MAML(nn.Linear(1, 1), inner_steps=-1), "inner_steps", -1),
        (lambda: MAML(nn.Linear(1, 1), step_sizes="row"), "step_sizes", "row"),
        (lambda: MAML(nn.Linear(1, 1), solver="lbfgs"), "solver", "lbfgs"),
        (
            lambda: MAML(nn.Linear(1, 1), F.l1_loss, solver="ridge"),
            "loss",
            "l1_loss",
        ),
        (lambda: MAML(nn.Linear(1, 1), adapt_only="head.*"), "adapt_only", "head.*"),
        (lambda: MAML(nn.ReLU()), "adapt_only", None),
        (lambda: MAML(nn.Linear(1, 1), chunk_size=0), "chunk_size", 0),
        (lambda: MAML(3), "model", 3),
        (lambda: ANIL(nn.Linear(1, 1), head="top"), "head", "top"),
        (lambda: ANIL(nn.Sequential(nn.Linear(1, 1), nn.ReLU()), head="1"), "head '1'", None),
        (lambda: ANIL(nn.ReLU()), "model", "ReLU"),
        (
            lambda: MSR(seeded_model("fc", "dense"), adapt_only="*.U"),
            "adapt_only",
            "*.U",
        ),
        (
            lambda: ProtoNet(nn.Linear(2, 2)).predict(
                Batch(torch.ones(2, 2), torch.tensor([0, 2])), torch.ones(1, 2)
            ),
            "labels",
            1,
        ),
        (
            lambda: ProtoNet(nn.Linear(2, 2)).predict(
                Batch(torch.ones(2, 2), torch.ones(2)), torch.ones(1, 2)
            ),
            "labels",
            torch.float32,
        ),
        (
            lambda: MTSR(seeded_model("fc", "dense"), train_tasks=2).outer_loss(regression("fc")),
            "task ids",
            2,
        ),
    ],
)
def test_bad_input_is_one_line(make: Callable[[], object], about: str, found: object) -> None:
    with refused(about, found):
        make()


def test_protonet_by_hand() -> None:
    learner, episodes = learners("none", "vmap")["ProtoNet"], classification()
    losses = learner.outer_loss(episodes).query
    for i in range(episodes.count):
        s, q = learner.model(episodes.support.x[i]), learner.model(episodes.query.x[i])
        means = torch.stack([s[episodes.support.y[i] == c].mean(0) for c in range(3)])
        logits = torch.stack([torch.stack([-((e - m) ** 2).sum() for m in means]) for e in q])
        torch.testing.assert_close(losses[i], F.cross_entropy(logits, episodes.query.y[i]))
