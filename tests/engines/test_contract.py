"""One contract for every engine: engine x learner x options gives what the plain loop gives, in float64.

Each case forces an engine, makes sure that it is the one that runs, and compares losses, gradients (by the engine and
by autograd through its losses) and scores with ``tests/plain_path.py``. The same cases marked ``cuda`` run where
there is a GPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from metasym.engines.description import Setting
from metasym.engines.kernels.winograd import can_filter
from metasym.learners import ANIL, MAML, MSR, GradientLearner, Learner, MSRJoint, ProtoNet
from metasym.types import Episode
from tests.engines.engine_models import (
    convolution,
    dense_layer,
    dense_network,
    images_to_images,
    kronecker_convolution,
    labelled_images,
    many_dimensional,
    network,
    rows,
)
from tests.plain_path import plain_gradient, plain_scores
from tests.refusals import refused

FILTER, BOTH = "*.original", ["*.original", "*.U"]
STEP_SIZES = ("fixed", "layer", "layer-step", "parameter")


@dataclass(frozen=True)
class Case:
    """A learner's options for one model, and the engines that have to give the plain loop's numbers."""

    name: str
    method: type[Learner]
    model: Callable[[], nn.Module]
    data: Callable[[], Episode]
    paths: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)
    on_cuda: bool = True
    """Whether the engine exists on a GPU; elsewhere it has to refuse there."""

    def __str__(self) -> str:
        return self.name


def dense_cases() -> Iterator[Case]:
    kinds = ("MSR", "MSR-bias", "MSR-frozen", "Joint", "Joint-bias")
    sizes = [(0, 1, 1), (1, 1, 2), (3, 1, 1), (3, 2, 4)]
    for kind, mode, (steps, support, query), first_order in itertools.product(
        kinds, STEP_SIZES, sizes, (False, True)
    ):
        joint = kind.startswith("Joint")
        if joint and mode == "parameter":  # an entry's own step size: no closed form
            continue
        options = {"inner_steps": steps, "inner_lr": 0.3, "step_sizes": mode, "first_order": first_order}
        bias, learnable = kind.endswith("bias"), kind != "MSR-frozen"
        yield Case(
            f"dense-{kind}-{mode}-{steps}-{support}-{query}{'-first' * first_order}",
            MSRJoint if joint else MSR,
            lambda bias=bias, learnable=learnable: dense_layer(bias=bias, learnable=learnable),
            lambda support=support, query=query: rows(5, support, query),
            ("engine=closed,contract=input", "engine=closed,contract=filter", "engine=mapped"),
            {**options, "adapt_only": BOTH if joint else FILTER},
        )
    yield Case(
        "dense-more-dimensions",
        MSR,
        lambda: many_dimensional("alone")[0],
        lambda: many_dimensional("alone")[1],
        ("engine=closed",),
        {"inner_steps": 3, "adapt_only": FILTER},
    )


def convolution_cases() -> Iterator[Case]:
    methods = [(MAML, k) for k in ("plain", "bias", "odd", "frozen")]
    methods += [(MSR, k) for k in ("dense", "kronecker", "factors")]
    inner = [(0, "layer"), (1, "layer"), (3, "layer-step"), (2, "parameter")]
    for (method, kind), (steps, mode), first_order in itertools.product(methods, inner, (False, True)):
        yield Case(
            f"convolution-{kind}-{steps}-{mode}{'-first' * first_order}",
            method,
            lambda kind=kind: convolution(kind),
            lambda kind=kind: images_to_images(convolution(kind), size=11),
            ("engine=closed", "engine=mapped"),
            {"inner_steps": steps, "inner_lr": 0.1, "step_sizes": mode, "first_order": first_order},
        )
    for only in ("bias", FILTER):
        yield Case(
            f"convolution-only-{only}",
            MSR,
            lambda: convolution("kronecker"),
            lambda: images_to_images(convolution("kronecker")),
            ("engine=closed", "engine=mapped"),
            {"inner_steps": 2, "adapt_only": only},
        )
    for how in ("apart", "frozen", "one tensor"):
        yield Case(
            f"convolution-factors-{how}",
            MAML if how == "frozen" else MSR,
            lambda how=how: kronecker_convolution(how),
            lambda how=how: images_to_images(kronecker_convolution(how), size=11),
            ("engine=closed", "engine=mapped"),
        )
    for options in ({"learn_start": False}, {"step_sizes": "fixed"}, {"chunk_size": 2}):
        for kind in ("plain", "bias", "frozen", "dense", "kronecker", "factors"):
            yield Case(
                f"convolution-{kind}-{next(iter(options))}",
                MAML if kind in ("plain", "bias", "frozen") else MSR,
                lambda kind=kind: convolution(kind),
                lambda kind=kind: images_to_images(convolution(kind), size=11),
                ("engine=closed",),
                {"inner_steps": 2, "inner_lr": 0.1, **options},
            )


LAYERWISE: list[tuple[type[GradientLearner], str, str | None, dict[str, Any]]] = [
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
    (MAML, "buffered", None, {"inner_steps": 2}),
    (ANIL, "plain", None, {"inner_steps": 2}),
    (ANIL, "written", None, {}),
    (MSR, "fields", "kronecker", {"inner_steps": 2}),
    (MSR, "filtered", "kronecker", {"inner_steps": 2}),
    (MAML, "filtered", None, {}),
    (MAML, "filtered", None, {"adapt_only": ["4.*", "10.*"]}),
    (ANIL, "filtered", None, {}),
]


def layerwise_cases() -> Iterator[Case]:
    for number, (method, model, reparam, options) in enumerate(LAYERWISE):
        ways = ["engine=chain,convolve=direct"]
        if model == "filtered" and can_filter():
            ways.append("engine=chain,convolve=winograd")
        make = lambda model=model, reparam=reparam: network(model, reparam)  # noqa: E731
        about = f"{method.__name__}-{model}-{number}"
        given = {"inner_lr": 0.3, **options}
        yield Case(f"chain-{about}", method, make, labelled_images, tuple(ways), given, on_cuda=False)
        yield Case(f"mapped-{about}", method, make, labelled_images, ("map=vmap", "map=loop"), given)
    for reparam in (None, "kronecker"):
        make = lambda reparam=reparam: network("filtered", reparam)  # noqa: E731
        about = f"ProtoNet-{reparam}"
        yield Case(f"chain-{about}", ProtoNet, make, labelled_images, ("engine=chain",), on_cuda=False)
        yield Case(f"mapped-{about}", ProtoNet, make, labelled_images, ("map=vmap", "map=loop"))


def reference_cases() -> Iterator[Case]:
    """What the reference knows of models' structure, and its exact solvers."""
    mapped = ("engine=mapped", "engine=mapped,map=loop")
    for solver in ("sgd", "ridge", "cg"):
        options = {"inner_steps": 3, "inner_lr": 0.1, "solver": solver, "penalty": 1e-2}
        for kind, (support, query) in itertools.product(
            ("layer", "bias", "network"), [(1, 1), (1, 6), (7, 1)]
        ):
            make = {
                "layer": dense_layer,
                "bias": lambda: dense_layer(bias=True, learnable=False),
                "network": dense_network,
            }[kind]
            yield Case(
                f"mapped-{kind}-{solver}-{support}-{query}",
                MSR,
                make,
                lambda kind=kind, support=support, query=query: rows(
                    3 if kind == "network" else 5, support, query
                ),
                (*mapped, "engine=mapped,contract=input", "engine=mapped,contract=filter"),
                {**options, "adapt_only": FILTER},
            )
        for kind in ("unflatten", "embedding", "named", "repeated", "alone"):
            yield Case(
                f"mapped-{kind}-{solver}",
                MSR,
                lambda kind=kind: many_dimensional(kind)[0],
                lambda kind=kind: many_dimensional(kind)[1],
                mapped,
                {**options, "adapt_only": FILTER},
            )
        for method, kind in [(MAML, k) for k in ("plain", "bias", "odd", "frozen")] + [
            (MSR, k) for k in ("dense", "kronecker", "factors")
        ]:
            if solver != "sgd":
                yield Case(
                    f"mapped-convolution-{kind}-{solver}",
                    method,
                    lambda kind=kind: convolution(kind),
                    lambda kind=kind: images_to_images(convolution(kind)),
                    mapped,
                    {**options, "inner_steps": 2},
                )
    for kind in ("dense", "kronecker"):
        yield Case(
            f"mapped-convolution-joint-{kind}",
            MSRJoint,
            lambda kind=kind: convolution(kind),
            lambda kind=kind: images_to_images(convolution(kind)),
            mapped,
            {"inner_steps": 2, "inner_lr": 0.1},
        )
    yield Case(
        "mapped-joint-parameter",
        MSRJoint,
        dense_layer,
        lambda: rows(5, 2, 3),
        mapped,
        {"inner_steps": 2, "step_sizes": "parameter"},
    )


CASES = [*dense_cases(), *convolution_cases(), *layerwise_cases(), *reference_cases()]


def check(case: Case, device: str) -> None:
    data = case.data().to(device)

    def make(**more: Any) -> Learner:
        loss = F.mse_loss if data.query.y.is_floating_point() else F.cross_entropy
        learner = case.method(case.model(), loss, **case.options, **more).to(device)
        if isinstance(learner, GradientLearner):  # every tensor another step size
            with torch.no_grad():
                for i, rate in enumerate(learner.rates.parameters()):
                    rate.mul_(1 + 0.1 * i)
        return learner

    plain = make()
    expected, gradient = plain_gradient(plain, data)
    steps = 1 + getattr(plain, "inner_steps", 0)
    scores = plain_scores(plain, data, steps)
    close = {"atol": 1e-9, "rtol": 1e-9} if device == "cpu" else {"atol": 1e-8, "rtol": 1e-8}
    for paths in case.paths:
        learner = make(paths=paths)
        taken = [f"{choice.name}={choice.way}" for choice in learner.plan(Setting.of(data))]
        assert set(paths.split(",")) <= set(taken)
        losses, found = learner.outer_gradient(data)
        for ours, theirs in zip(losses, expected, strict=True):
            assert not ours.requires_grad
            torch.testing.assert_close(ours, theirs.detach(), **close)
        outer = learner.outer_parameters()
        assert list(found) == list(outer)
        parts = torch.autograd.grad(
            learner.outer_loss(data).query.mean(), list(outer.values()), allow_unused=True
        )
        for (name, ours), by_autograd in zip(found.items(), parts, strict=True):
            torch.testing.assert_close(ours, gradient[name], **close, msg=lambda m, n=name: f"{n}: {m}")
            also = torch.zeros_like(ours) if by_autograd is None else by_autograd
            torch.testing.assert_close(also, gradient[name], **close, msg=lambda m, n=name: f"{n}: {m}")
        torch.testing.assert_close(learner.scores(data, learner.loss, inner_steps=steps), scores, **close)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_engine_is_the_plain_loop(case: Case) -> None:
    check(case, "cpu")


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_engine_is_the_plain_loop_on_a_gpu(case: Case) -> None:
    if case.on_cuda:
        check(case, "cuda")
        return
    learner = case.method(case.model(), F.cross_entropy, paths=case.paths[0], **case.options).to("cuda")
    with refused("engine") as caught:
        learner.outer_gradient(case.data().to("cuda"))
    assert caught.value.found[1] == "on cuda"
