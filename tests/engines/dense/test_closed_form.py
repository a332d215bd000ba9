"""The closed form of the meta-gradient equals the plain path, which differentiates through every inner step."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._inductor import config as inductor

import metasym as ms
from metasym import MetasymError
from metasym.engines.dense import closed_form
from metasym.engines.plan import Sizes
from metasym.learners import MSR, GradientLearner, MSRJoint
from metasym.types import Batch, Episode
from tests.plain_path import Opaque

from .test_contraction import episodes, many_dimensional

FILTER, BOTH = "*.original", ["*.original", "*.U"]


def layer(*, bias: bool = False, learnable: bool = True, dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Linear(5, 4, bias=bias).to(dtype)
    return ms.reparameterize(model, "dense", filter_size=6, std=0.5, filter_std=0.5, learnable=learnable)


def assert_closed_is_plain(fast: GradientLearner, plain: GradientLearner, data: Episode) -> None:
    """``fast`` really takes the closed form, ``plain`` (on ``Opaque``) cannot; losses and gradients agree."""
    assert fast.plan(Sizes.of(data))[0].way == "closed"
    assert plain.plan(Sizes.of(data))[0].way == "mapped"
    assert fast.outer_loss(data).query.grad_fn.name() == "_UnrolledBackward"  # type: ignore[union-attr]
    named = fast.outer_parameters()
    by_autograd = torch.autograd.grad(
        fast.outer_loss(data).query.mean(), list(named.values()), allow_unused=True
    )
    (losses, gradients), (losses2, gradients2) = fast.outer_gradient(data), plain.outer_gradient(data)
    for found, expected in zip(losses, losses2, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)
    for (name, found), also in zip(gradients.items(), by_autograd, strict=True):
        torch.testing.assert_close(found, torch.zeros_like(found) if also is None else also, msg=name)
        expected = gradients2[name.replace("model.", "model.model.").replace("rates.", "rates.model/")]
        torch.testing.assert_close(
            found, expected, atol=1e-9, rtol=1e-9, msg=lambda m, name=name: f"{name}: {m}"
        )


COMBINATIONS = [
    (kind, step_sizes)
    for kind in ("MSR", "MSR-bias", "MSR-frozen", "Joint", "Joint-bias")
    for step_sizes in ("fixed", "layer", "layer-step", "parameter")
    if not (
        kind.startswith("Joint") and step_sizes == "parameter"
    )  # an entry's own step size: no closed form
]


@pytest.mark.parametrize("contract", ["input", "filter"])
@pytest.mark.parametrize("first_order", [False, True])
@pytest.mark.parametrize(("steps", "support", "query"), [(0, 1, 1), (1, 1, 2), (3, 1, 1), (3, 2, 4)])
@pytest.mark.parametrize(("kind", "step_sizes"), COMBINATIONS)
def test_closed_form_is_the_plain_path(
    kind: str, steps: int, support: int, query: int, step_sizes: str, first_order: bool, contract: str
) -> None:
    joint = kind.startswith("Joint")
    options = {
        "inner_steps": steps,
        "inner_lr": 0.3,
        "step_sizes": step_sizes,
        "first_order": first_order,
        "adapt_only": BOTH if joint else FILTER,
    }
    method = MSRJoint if joint else MSR

    def model() -> nn.Module:
        return layer(bias=kind.endswith("bias"), learnable=kind != "MSR-frozen")

    fast = method(model(), F.mse_loss, paths={"engine": "closed", "contract": contract}, **options)
    assert_closed_is_plain(fast, method(Opaque(model()), F.mse_loss, **options), episodes(5, support, query))


def test_a_layer_that_sees_more_dimensions() -> None:
    model, data = many_dimensional("alone")
    options = {"inner_steps": 3, "adapt_only": FILTER}
    fast = MSR(model, F.mse_loss, paths="engine=closed", **options)
    assert_closed_is_plain(fast, MSR(Opaque(model), F.mse_loss, **options), data)


@pytest.mark.parametrize("method", [MSR, MSRJoint])
def test_closed_form_against_finite_differences(method: type[GradientLearner]) -> None:
    learner = method(layer(), F.mse_loss, inner_steps=3, inner_lr=0.3, paths="engine=closed")
    ms.testing.assert_meta_gradient(learner, episodes(5, 2, 3), directions=2)


@pytest.mark.parametrize("method", [MSR, MSRJoint])
def test_chunks_and_weights_of_tasks_add_up(method: type[GradientLearner]) -> None:
    data = episodes(5, 1, 3)
    whole = method(layer(), F.mse_loss, inner_steps=2, paths="engine=closed").outer_gradient(
        data, total_tasks=7
    )
    parts = method(layer(), F.mse_loss, inner_steps=2, paths="engine=closed", chunk_size=2)
    for name, found in parts.outer_gradient(data, total_tasks=7)[1].items():
        torch.testing.assert_close(found, whole[1][name])


def test_a_gradient_is_not_changed_by_the_next() -> None:
    learner = MSR(layer(), F.mse_loss, inner_steps=2, paths="engine=closed")
    first = learner.outer_gradient(episodes(5, 1, 1))[1]
    kept = {name: g.clone() for name, g in first.items()}
    learner.outer_gradient(episodes(5, 2, 3))
    for name, g in first.items():
        torch.testing.assert_close(g, kept[name], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"loss": F.l1_loss}, "not the squared loss"),
        ({"solver": "ridge"}, "solver ridge"),
        ({"map": "loop"}, "map loop was asked for"),
        ({"paths": "map=vmap"}, "map vmap was asked for"),
    ],
)
def test_what_has_no_closed_form_is_mapped_and_says_why(changes: dict[str, object], why: str) -> None:
    sizes = Sizes.of(episodes(5, 1, 1))
    learner = MSR(layer(), **changes)  # type: ignore[arg-type]
    engine = learner.plan(sizes)[0]
    assert (engine.way, engine.why) == ("mapped", why)
    if "paths" not in changes:
        with pytest.raises(MetasymError, match=f"expected engine=mapped here .{why}., found engine=closed"):
            MSR(layer(), paths="engine=closed", **changes).plan(sizes)  # type: ignore[arg-type]


def test_other_models_are_mapped() -> None:
    sizes = Sizes.of(episodes(5, 1, 1))
    both_adapt = MSR(layer(bias=True))
    hooked = layer()
    hooked.register_forward_hook(lambda m, i, o: 2 * o)
    for learner in (
        both_adapt,
        MSR(hooked),
        ms.MAML(nn.Linear(5, 4)),
        MSRJoint(layer(), step_sizes="parameter"),
    ):
        assert learner.plan(sizes)[0].way == "mapped"


def test_mixed_precision_and_learned_inputs_are_mapped() -> None:
    learner = MSR(layer(dtype=torch.float32), F.mse_loss, inner_steps=2, paths="engine=closed")
    data = episodes(5, 1, 1)
    data = Episode(*(Batch(b.x.float(), b.y.float()) for b in data[:2]), data.ids)
    assert learner.outer_loss(data).query.grad_fn.name() == "_UnrolledBackward"  # type: ignore[union-attr]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert learner.outer_loss(data).query.grad_fn.name() != "_UnrolledBackward"  # type: ignore[union-attr]
    x = data.query.x.clone().requires_grad_()
    learned = Episode(data.support, Batch(x, data.query.y), data.ids)
    assert torch.autograd.grad(learner.outer_loss(learned).query.sum(), x)[0].abs().sum() > 0


def test_targets_that_would_be_broadcast_are_still_refused() -> None:
    learner = MSR(layer(), F.mse_loss, paths="engine=closed")
    data = episodes(5, 1, 1)
    wrong = Episode(data.support, Batch(data.query.x, data.query.y[..., 0]), data.ids)
    with pytest.raises(MetasymError, match="expected targets of the prediction's shape"):
        learner.outer_loss(wrong)


def test_the_sizes_decide() -> None:
    def ways(tasks: int, support: int, query: int) -> list[str]:
        found = MSR(layer(), inner_steps=3).plan(Sizes(tasks, support, query, (5,), (4,)))
        return [choice.way for choice in found]

    assert ways(32, 1, 1) == ["closed", "input", "no"]
    assert ways(32, 1, 19) == ["closed", "filter", "no"]
    wide = ms.reparameterize(nn.Linear(70, 68, bias=False), "dense", filter_size=70)
    assert MSR(wide, inner_steps=1).plan(Sizes(32, 1000, 1, (70,), (68,)))[0].way == "mapped"


@pytest.mark.slow
def test_compiled_it_is_the_same_and_without_a_compiler_too(monkeypatch: pytest.MonkeyPatch) -> None:
    data = episodes(5, 1, 1)
    options = {"inner_steps": 2, "inner_lr": 0.3}
    plain = MSR(layer(), paths="engine=closed", **options).outer_gradient(data)[1]
    compiled = MSR(layer(), paths="engine=closed,compile=yes", **options).outer_gradient(data)[1]
    closed_form._compiled.cache_clear()
    torch.compiler.reset()
    closed_form._compiled()
    plainly, calls = closed_form._gradient, []
    monkeypatch.setattr(closed_form, "_gradient", lambda *a: calls.append(a) or plainly(*a))
    other = episodes(5, 1, 2)  # sizes that have not been compiled yet
    # torch's own patch: pytest's would delete these settings in the end, and no later test could compile.
    with inductor.patch({"cpp.cxx": (None, "/no/compiler"), "fx_graph_cache": False}):
        without = MSR(layer(), paths="engine=closed,compile=yes", **options).outer_gradient(other)[1]
    closed_form._compiled.cache_clear()
    torch.compiler.reset()
    assert len(calls) == 1  # torch could not compile, and nobody was told
    expected = MSR(layer(), paths="engine=closed", **options).outer_gradient(other)[1]
    for name, gradient in plain.items():
        torch.testing.assert_close(compiled[name], gradient, atol=1e-9, rtol=1e-9)
        torch.testing.assert_close(without[name], expected[name], atol=1e-9, rtol=1e-9)
