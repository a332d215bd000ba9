"""The ways of doing one outer step that are compared; each is made once and then called for every step."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

import metasym as ms
from benchmarks.explicit import explicit, is_symmetry
from benchmarks.jax_step import step_in_jax
from metasym.cli.freed_memory import keep_freed_memory
from metasym.learners import GradientLearner
from metasym.types import Batch, Episode

Step = Callable[[], float]
"""One outer step; gives the mean query loss before it."""

NEEDS = {"higher": "higher", "torchopt": "torchopt", "jax": "jax"}
"""Packages that contenders need (the extra ``bench``)."""

_MANY = 10**6
OUTER_LR = 1e-4


def missing(stepper: str) -> bool:
    """Whether the package that a contender needs is not installed."""
    package = NEEDS.get(stepper)
    return package is not None and importlib.util.find_spec(package) is None


class Same:
    """A family of tasks that always gives the same episodes: drawing tasks is not what is timed."""

    def __init__(self, episodes: Episode) -> None:
        self.given = episodes

    def __len__(self) -> int:
        return self.given.count

    def episode(self, index: int, generator: torch.Generator) -> Episode:
        """One task's episode."""
        s, q = self.given.support, self.given.query
        return Episode(Batch(s.x[index], s.y[index]), Batch(q.x[index], q.y[index]), torch.tensor(index))

    def episodes(self, ids: Tensor, seeds: Tensor) -> Episode:
        """All of them."""
        return self.given


def metasym(learner: GradientLearner, episodes: Episode) -> Step:
    """``ms.train`` with all that it does around a step, in a process set up as ``metasym run`` sets itself up."""
    keep_freed_memory()
    records = ms.train(
        learner,
        Same(episodes),
        outer_steps=_MANY,
        tasks_per_step=episodes.count,
        outer_lr=OUTER_LR,
        progress="silent",
    )
    return lambda: next(records).outer_loss


def _start(
    learner: GradientLearner,
) -> tuple[nn.Module, list[str], dict[str, nn.Parameter], torch.optim.Adam]:
    """The explicit model, what adapts in it, a learned step size for each of those, and the outer optimizer.

    A network with attention is taken as it is, with torch's own parametrizations: its weights lie inside a layer.
    """
    if any(isinstance(module, nn.MultiheadAttention) for module in learner.model.modules()):
        model, inner = copy.deepcopy(learner.model), list(learner.inner_names)
    else:
        model = explicit(learner.model)
        joint = isinstance(learner, ms.MSRJoint)
        inner = [n for n, _ in model.named_parameters() if joint or not is_symmetry(n)]
    start = float(next(learner.rates.parameters()).detach())
    rates = {n: nn.Parameter(torch.tensor(start)) for n in inner}
    return model, inner, rates, torch.optim.Adam([*model.parameters(), *rates.values()], lr=OUTER_LR)


def autograd(learner: GradientLearner, episodes: Episode) -> Step:
    """A loop over tasks with ``create_graph``, one backward pass a task.

    Attention takes torch's ``math`` backend: its fused kernels have no second derivative.
    """
    model, inner, rates, optimizer = _start(learner)
    named = dict(model.named_parameters())

    @sdpa_kernel(SDPBackend.MATH)
    def step() -> float:
        optimizer.zero_grad()
        total = 0.0
        for i in range(episodes.count):
            params: dict[str, Tensor] = dict(named)
            for _ in range(learner.inner_steps):
                loss = learner.loss(
                    functional_call(model, params, (episodes.support.x[i],)), episodes.support.y[i]
                )
                gradients = torch.autograd.grad(loss, [params[n] for n in inner], create_graph=True)
                for n, g in zip(inner, gradients, strict=True):
                    params[n] = params[n] - rates[n] * g
            query = learner.loss(functional_call(model, params, (episodes.query.x[i],)), episodes.query.y[i])
            (query / episodes.count).backward()
            total += float(query.detach())
        optimizer.step()
        return total / episodes.count

    return step


def higher(learner: GradientLearner, episodes: Episode) -> Step:
    """A loop over tasks on ``higher``, as the paper's code has it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = importlib.import_module("higher")
    model, inner, rates, optimizer = _start(learner)
    named = dict(model.named_parameters())
    descent = torch.optim.SGD([{"params": [named[n]], "lr": 1.0} for n in inner])

    def step() -> float:
        optimizer.zero_grad()
        total = 0.0
        for i in range(episodes.count):
            with library.innerloop_ctx(
                model, descent, copy_initial_weights=False, override={"lr": [rates[n] for n in inner]}
            ) as (adapted, inner_optimizer):
                for _ in range(learner.inner_steps):
                    loss = learner.loss(adapted(episodes.support.x[i]), episodes.support.y[i])
                    inner_optimizer.step(loss)
                query = learner.loss(adapted(episodes.query.x[i]), episodes.query.y[i])
                (query / episodes.count).backward()
            total += float(query.detach())
        optimizer.step()
        return total / episodes.count

    return step


def torchopt(learner: GradientLearner, episodes: Episode) -> Step:
    """The functional optimizer of torchopt under vmap; one fixed step size, as that optimizer takes it.

    Attention takes torch's ``math`` backend, as in :func:`autograd`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library = importlib.import_module("torchopt")
    model, inner, rates, _ = _start(learner)
    descent = library.sgd(lr=float(rates[inner[0]].detach()))
    optimizer = torch.optim.Adam(model.parameters(), lr=OUTER_LR)
    named = dict(model.named_parameters())

    def task(support: Batch, query: Batch) -> Tensor:
        def support_loss(params: dict[str, Tensor]) -> Tensor:
            return learner.loss(functional_call(model, {**named, **params}, (support.x,)), support.y)

        params: dict[str, Tensor] = {n: named[n] for n in inner}
        state = descent.init(params)
        for _ in range(learner.inner_steps):
            updates, state = descent.update(grad(support_loss)(params), state, inplace=False)
            params = library.apply_updates(params, updates, inplace=False)
        return learner.loss(functional_call(model, {**named, **params}, (query.x,)), query.y)

    @sdpa_kernel(SDPBackend.MATH)
    def step() -> float:
        optimizer.zero_grad()
        mean = vmap(task)(episodes.support, episodes.query).mean()
        mean.backward()
        optimizer.step()
        return float(mean.detach())

    return step


def jax(learner: GradientLearner, episodes: Episode) -> Step:
    """The whole step compiled by XLA."""
    return step_in_jax(learner, episodes, OUTER_LR)


def limit(learner: GradientLearner, episodes: Episode) -> Step:
    """The fewest matrix products of MSR-FC's step, and Adam's update: nothing else can be left out.

    With one support example x a task, contracted with U first: U's product with all x, and its gradient; the
    weights of the query, ``U v``, their gradients by U and by v. Five products of one size, done here with the
    layouts that suit them, on numbers that mean nothing.
    """
    U = dict(learner.model.named_parameters())["parametrizations.weight.0.U"]
    rows, k = U.shape
    outputs, inputs = learner.model.weight.shape  # type: ignore[union-attr]
    tasks = episodes.count
    g = torch.Generator().manual_seed(0)
    by_input = nn.Parameter(U.detach().view(outputs, inputs, k).transpose(0, 1).reshape(inputs, outputs * k))
    by_row = nn.Parameter(U.detach().clone())
    x, d = torch.randn(tasks, inputs, generator=g), torch.randn(tasks, outputs * k, generator=g)
    v, dW = torch.randn(tasks, k, generator=g), torch.randn(tasks, rows, generator=g)
    optimizer = torch.optim.Adam([by_row], lr=OUTER_LR, fused=True)

    def step() -> float:
        x @ by_input.detach()
        x.T @ d
        v @ by_row.detach().T
        by_row.grad = dW.T @ v
        dW @ by_row.detach()
        optimizer.step()
        return float("nan")

    return step


STEPPERS: dict[str, Callable[[GradientLearner, Episode], Step]] = {
    "metasym": metasym,
    "autograd": autograd,
    "higher": higher,
    "torchopt": torchopt,
    "jax": jax,
    "limit": limit,
}
