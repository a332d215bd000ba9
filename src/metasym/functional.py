"""Adaptation as pure functions on ``torch.func``: written for one task, mapped over tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.modules.batchnorm import _NormBase
from torch.utils import _pytree as pytree

from metasym.types import Batch, Episode, Loss, MetasymError, OuterLoss, Params

D = TypeVar("D")
T = TypeVar("T")

LOOP_FROM_CHANNELS = 64
"""From so many channels on, a loop over tasks beats the grouped convolution that vmap makes of it."""


class Adapted(NamedTuple):
    """What the inner loop gives: the adapted parameters, and the support loss before and after."""

    inner: Params
    before: Tensor
    after: Callable[[], Tensor]
    """Evaluated only where it is asked for: it takes one more prediction."""


class Predictor(Protocol):
    """A model as a function of its inner parameters, everything else bound."""

    def __call__(self, inner: Params, x: Tensor) -> Tensor:
        """The prediction at ``x [examples, ...]``."""
        ...

    def loss_at(self, data: Batch, loss: Loss, *, evaluations: int) -> Callable[[Params], Tensor]:
        """The loss on fixed data, to be evaluated so many times: work that the data allows is done once."""
        ...

    def at(self, x: Tensor, *, evaluations: int) -> Callable[[Params], Tensor]:
        """The prediction at fixed inputs, likewise."""
        ...

    def normal_equations(self, inner: Params, data: Batch) -> NormalEquations:
        """The least-squares problem of the data, for a model that is affine in ``inner``."""
        ...


class NormalEquations(NamedTuple):
    """Least squares in the change d of the inner parameters: minimise ``|J d - r|^2``, in float64."""

    gram: Tensor
    """``J^T J [entries, entries]``, or the smaller ``J J^T [rows, rows]`` where ``dual`` is given."""
    right: Tensor
    """``J^T r [entries]``, or ``r [rows]`` where ``dual`` is given."""
    dual: Tensor | None
    """``J^T [entries, rows]``, where the dual problem is the smaller one."""
    rows: int
    square: Tensor
    """``|r|^2 []``: the squared error before."""


Solver = Callable[[Predictor, Params, Batch, int], Adapted]
"""``solver(predict, inner, support, steps)``: adapt the inner parameters to one task's support set."""


class ModelPredictor:
    """Any ``nn.Module`` as a predictor, through ``functional_call``."""

    def __init__(self, model: nn.Module, params: Params) -> None:
        self.model, self.params = model, params

    def __call__(self, inner: Params, x: Tensor) -> Tensor:
        """The prediction at ``x [examples, ...]``."""
        return call(self.model, {**self.params, **inner}, x)

    def loss_at(self, data: Batch, loss: Loss, *, evaluations: int) -> Callable[[Params], Tensor]:
        """The loss of the prediction."""
        prediction = self.at(data.x, evaluations=evaluations)
        return lambda inner: loss(prediction(inner), data.y)

    def at(self, x: Tensor, *, evaluations: int) -> Callable[[Params], Tensor]:
        """The prediction at ``x``; nothing can be done ahead for a model that is not known."""
        return lambda inner: self(inner, x)

    def normal_equations(self, inner: Params, data: Batch) -> NormalEquations:
        """From the derivative J, the dual problem where there are fewer residuals than parameters."""
        r = (data.y - self(inner, data.x)).reshape(-1).double()
        J = self.jacobian(inner, data.x).double()
        rows, entries = J.shape
        if rows < entries:
            return NormalEquations(J @ J.mT, r, J.mT, rows, r @ r)
        return NormalEquations(J.mT @ J, J.mT @ r, None, rows, r @ r)

    def jacobian(self, inner: Params, x: Tensor) -> Tensor:
        """``[entries of the prediction, entries of inner]``: values at the unit vectors less that at zero.

        The model is affine in ``inner``, so that no derivative need be taken.
        """
        entries = sum(p.numel() for p in inner.values())
        like = next(iter(inner.values()))

        def prediction(flat: Tensor) -> Tensor:
            return self(unflatten(inner, flat), x).reshape(-1)

        units = torch.eye(entries, dtype=like.dtype, device=like.device)
        return (vmap(prediction)(units) - prediction(torch.zeros_like(units[0]))).mT


def call(model: nn.Module, params: Params, x: Tensor) -> Tensor:
    """The model's output at ``x`` with ``params`` in place of its own; misspelt or missing names are errors."""
    buffers = dict(model.named_buffers())
    output: Tensor = functional_call(model, (params, buffers), (x,), strict=True)
    return output


def flatten(params: Params) -> Tensor:
    """All entries in one vector."""
    return torch.cat([p.reshape(-1) for p in params.values()])


def unflatten(like: Params, flat: Tensor) -> Params:
    """The vector ``flat [entries]`` cut into tensors of the names and shapes of ``like``."""
    parts = flat.split([p.numel() for p in like.values()])
    return {name: c.reshape(p.shape) for (name, p), c in zip(like.items(), parts, strict=True)}


def parameters_of(model: nn.Module) -> Params:
    """The model's parameters by name, tied ones once."""
    return {name: parameter for name, parameter in model.named_parameters()}  # noqa: C416 (Tensor, not Parameter)


def sgd(
    predict: Predictor,
    loss: Loss,
    inner: Params,
    support: Batch,
    *,
    steps: int,
    rates: Callable[[int], Params],
    first_order: bool = False,
) -> Adapted:
    """``steps`` of gradient descent on the support loss; ``rates(step)`` has a step size for each name.

    ``first_order`` takes the inner gradients as constants: the outer gradient then needs no second
    derivatives.
    """
    support_loss = predict.loss_at(support, loss, evaluations=steps)

    before: Tensor | None = None
    for step in range(steps):
        gradients, value = grad_and_value(support_loss)(inner)
        before = value.detach() if before is None else before
        rate = rates(step)
        if first_order:
            gradients = {name: g.detach() for name, g in gradients.items()}
        inner = {name: p - rate[name] * gradients[name] for name, p in inner.items()}

    def after() -> Tensor:
        return support_loss({name: p.detach() for name, p in inner.items()}).detach()

    return Adapted(inner, after() if before is None else before, after)


def query_loss(
    predict: Predictor, loss: Loss, inner: Params, episode: Episode, *, solver: Solver, steps: int
) -> OuterLoss:
    """Adapt to one task's support set and score its query set: what the outer loop differentiates."""
    adapted = solver(predict, inner, episode.support, steps)
    query = predict.loss_at(episode.query, loss, evaluations=1)(adapted.inner)
    return OuterLoss(query, adapted.before, adapted.after())


def map_tasks(task: Callable[[D], T], data: D, *, mode: str) -> T:
    """``task`` on every task of ``data``, results stacked: by vmap or by a loop, with equal results.

    ``data`` is any pytree (an ``Episode``, a tuple of dicts) whose tensors have a leading task dimension.
    """
    if mode == "vmap":
        return vmap(task, randomness="different")(data)
    tasks = pytree.tree_leaves(data)[0].shape[0]
    return stack_results([task(pytree.tree_map(lambda t, i=i: t[i], data)) for i in range(tasks)])


def stack_results(results: Sequence[T]) -> T:
    """Stack the tensors of equal pytrees along a new leading dimension."""
    flat = [pytree.tree_flatten(r) for r in results]
    stacked: Any = [torch.stack(parts) for parts in zip(*(leaves for leaves, _ in flat), strict=True)]
    return pytree.tree_unflatten(stacked, flat[0][1])  # type: ignore[no-any-return]


def choose_map(model: nn.Module, inner: Sequence[str], wanted: str = "auto") -> str:
    """``"vmap"`` or ``"loop"``: a fixed rule on the model, so that equal seeds give equal bits.

    A loop where vmap would return wrong second derivatives (see ``unsafe_under_vmap``) and where
    convolutions are so wide that it is faster; vmap otherwise.
    """
    if wanted not in ("auto", "vmap", "loop"):
        raise MetasymError(f"expected map to be 'auto', 'vmap' or 'loop', found {wanted!r}")
    unsafe = unsafe_under_vmap(model, inner)
    if wanted == "vmap" and unsafe:
        raise MetasymError(
            f"expected map='loop' or 'auto' while the scale of {unsafe[0]!r} is adapted, found 'vmap': torch "
            "returns wrong second derivatives there (metasym.nn.TaskBatchNorm2d and GroupNorm are safe)"
        )
    if wanted != "auto":
        return wanted
    widths = [
        max(module.in_channels, module.out_channels)
        for module in model.modules()
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d)
    ]
    return "loop" if unsafe or max(widths, default=0) >= LOOP_FROM_CHANNELS else "vmap"


def unsafe_under_vmap(model: nn.Module, inner: Sequence[str]) -> list[str]:
    """Norm layers whose adapted scale makes vmap return second derivatives that are off by per cents.

    Measured with torch 2.13: batch, instance and layer norm whose scale differs between tasks. The
    loss is right, so nothing else would show it.
    """
    names = set(inner)
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, _NormBase | nn.LayerNorm) and f"{name}.weight".lstrip(".") in names
    ]


def check_no_running_statistics(model: nn.Module) -> None:
    """Refuse norm layers that remember batches: one task's statistics would leak into the others."""
    for name, module in model.named_modules():
        if isinstance(module, _NormBase) and module.track_running_stats:
            raise MetasymError(
                f"expected norm layers without running statistics, found {name!r} ({type(module).__name__}), "
                "which would carry one task's statistics into the next: set track_running_stats=False, or use "
                "metasym.nn.TaskBatchNorm2d or GroupNorm"
            )
