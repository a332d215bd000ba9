"""Adaptation as pure functions on ``torch.func``: written for one task, mapped over tasks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _NormBase
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from metasym.adaptation.recurrent import WRITTEN_OUT
from metasym.errors import in_one_line
from metasym.types import Batch, Episode, Loss, MetasymError, OuterLoss, Params

D = TypeVar("D")
T = TypeVar("T")

LOOP_FROM_CHANNELS = 64
"""The number of channels from which a loop over tasks beats the grouped convolution that vmap makes."""


class Adapted(NamedTuple):
    """What the inner loop gives: the adapted parameters, and the support loss before and after."""

    inner: Params
    before: Tensor
    after: Callable[[], Tensor]
    """A function, because it takes one more prediction: call it only where the value is needed."""


class Predictor(Protocol):
    """A model as a function of its inner parameters, everything else bound."""

    def __call__(self, inner: Params, x: Tensor) -> Tensor:
        """The prediction at ``x [examples, ...]``."""
        ...

    def loss_at(self, data: Batch, loss: Loss, *, evaluations: int) -> Callable[[Params], Tensor]:
        """The loss on fixed data, evaluated several times: what depends on the data alone is computed once."""
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
        return lambda inner: measure(loss, prediction(inner), data.y)

    def at(self, x: Tensor, *, evaluations: int) -> Callable[[Params], Tensor]:
        """The prediction at ``x``; nothing can be prepared for a model of unknown structure."""
        return lambda inner: self(inner, x)

    def normal_equations(self, inner: Params, data: Batch) -> NormalEquations:
        """From the derivative J, the dual problem where there are fewer residuals than parameters."""
        prediction = self(inner, data.x)
        check_shapes(prediction.shape, data.y)
        r = (data.y - prediction).reshape(-1).double()
        J = self.jacobian(inner, data.x).double()
        rows, entries = J.shape
        if rows < entries:
            return NormalEquations(J @ J.mT, r, J.mT, rows, r @ r)
        return NormalEquations(J.mT @ J, J.mT @ r, None, rows, r @ r)

    def jacobian(self, inner: Params, x: Tensor) -> Tensor:
        """``[entries of the prediction, entries of inner]``: predictions at the unit vectors minus the one at zero.

        The model is affine in ``inner``, so no derivative need be taken.
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
    if not isinstance(output, Tensor):
        raise MetasymError(
            f"expected the model to return a Tensor, found {type(output).__name__}",
            about="model",
            found=type(output).__name__,
        )
    return output


def measure(score: Loss, prediction: Tensor, target: Tensor, what: str = "loss") -> Tensor:
    """``score(prediction, target)``, checked: one number, and nothing broadcast where shapes have to agree."""
    if isinstance(score, _ELEMENTWISE) or score in _ELEMENTWISE_FUNCTIONS:
        check_shapes(prediction.shape, target)
    value = score(prediction, target)
    if not isinstance(value, Tensor) or value.ndim > 0:
        found = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        shown = f"shape {found}" if isinstance(value, Tensor) else found
        raise MetasymError(
            f"expected the {what} to be a Tensor with one number, found {shown}", about=what, found=found
        )
    return value


def check_shapes(prediction: Sequence[int], target: Tensor) -> None:
    """Refuse targets that would be broadcast: ``[n]`` against ``[n, 1]`` compares all pairs."""
    if tuple(prediction) != tuple(target.shape):
        raise MetasymError(
            f"expected targets of the prediction's shape {tuple(prediction)}, found {tuple(target.shape)}",
            about="targets",
            found=tuple(target.shape),
        )


def is_squared(loss: Loss) -> bool:
    """Whether ``loss`` is known to be the mean squared error."""
    return loss is F.mse_loss or (type(loss) is nn.MSELoss and loss.reduction == "mean")


_ELEMENTWISE = (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss)
_ELEMENTWISE_FUNCTIONS = (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss)


@contextlib.contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode (no dropout) inside the block; afterwards every part has its own mode again."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def full_precision(like: Tensor) -> torch.autocast:
    """No autocast inside the block: in sums that cancel and systems to solve, bfloat16 leaves no correct digit."""
    return torch.autocast(like.device.type, enabled=False)


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
    with sdpa_kernel(SDPBackend.MATH):  # the fused kernels of attention cannot be differentiated twice
        return _mapped(task, data, mode)


def _mapped(task: Callable[[D], T], data: D, mode: str) -> T:
    if mode == "vmap":
        try:
            with MappableLayers():
                return vmap(task, randomness="different")(data)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            # If the task fails without vmap too, its own error is the one to show.
            task(pytree.tree_map(lambda t: t[0], data))
            raise MetasymError(
                "expected a model that torch.func.vmap can map over tasks, found one that only a loop can: "
                f"set map='loop' (torch says: {in_one_line(error)})",
                about="map",
                found="loop",
            ) from error
    tasks = pytree.tree_leaves(data)[0].shape[0]
    return stack_results([task(pytree.tree_map(lambda t, i=i: t[i], data)) for i in range(tasks)])


def stack_results(results: Sequence[T]) -> T:
    """Stack the tensors of equal pytrees along a new leading dimension."""
    flat = [pytree.tree_flatten(r) for r in results]
    stacked: Any = [torch.stack(parts) for parts in zip(*(leaves for leaves, _ in flat), strict=True)]
    return pytree.tree_unflatten(stacked, flat[0][1])  # type: ignore[no-any-return]


class MappableLayers(TorchFunctionMode):
    """Replaces layers that vmap gets wrong or cannot map: recurrent layers and the scale and shift of norms.

    Recurrent layers are written out. The scale and shift of batch, instance and layer norms are applied
    after torch's own kernels, not inside them: there vmap returns second derivatives that are off by several
    per cent when the scale is adapted (torch 2.13 takes the batch's mean and deviation as constants in the
    gradient by the scale). The loss is right, so nothing else would show the fault. Normalising without a
    scale is right, and so is the product after it. A torch function mode sees every such call: by layers,
    by ``torch.nn.functional``, and with parametrized scales.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Called by torch in place of every function of its own."""
        names = _NORMS.get(func)
        if names is None:
            return WRITTEN_OUT.get(func, func)(*args, **(kwargs or {}))
        given = {**dict(zip(names, args, strict=False)), **(kwargs or {})}
        if given.get("weight") is None:
            return func(*args, **(kwargs or {}))
        # The scale runs along the channels, the second dimension; in layer norm it has the last dimensions' shape.
        shape = () if "normalized_shape" in names else (-1, *(1,) * (given["input"].ndim - 2))
        scale, shift = (t if t is None or not shape else t.reshape(shape) for t in map(given.get, _AFFINE))
        result = func(**{**given, "weight": None, "bias": None})
        normal = result[0] if isinstance(result, tuple) else result
        normal = normal * scale if shift is None else normal * scale + shift
        return (normal, *result[1:]) if isinstance(result, tuple) else normal


_AFFINE = ("weight", "bias")
_BATCH = ("input", "running_mean", "running_var", *_AFFINE)
_NATIVE = ("input", *_AFFINE, "running_mean", "running_var")
_LAYER = ("input", "normalized_shape", *_AFFINE, "eps")
_NORMS: dict[Callable[..., Any], tuple[str, ...]] = {
    F.layer_norm: _LAYER,
    torch.layer_norm: (*_LAYER, "cudnn_enable"),
    torch.native_layer_norm: _LAYER,
    F.batch_norm: (*_BATCH, "training", "momentum", "eps"),
    torch.batch_norm: (*_NATIVE, "training", "momentum", "eps", "cudnn_enabled"),
    torch.native_batch_norm: (*_NATIVE, "training", "momentum", "eps"),
    F.instance_norm: (*_BATCH, "use_input_stats", "momentum", "eps"),
    torch.instance_norm: (*_NATIVE, "use_input_stats", "momentum", "eps", "cudnn_enabled"),
}
"""Each function that has the fault, with the names of its arguments in order."""


def choose_map(model: nn.Module, wanted: str = "auto") -> str:
    """``"vmap"`` or ``"loop"``: a fixed rule on the model, so that equal seeds give equal bits.

    A loop where convolutions are so wide that it is faster; vmap otherwise.
    """
    if wanted not in ("auto", "vmap", "loop"):
        raise MetasymError(
            f"expected map to be 'auto', 'vmap' or 'loop', found {wanted!r}", about="map", found=wanted
        )
    if wanted != "auto":
        return wanted
    wide = any(
        isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d)
        and max(module.in_channels, module.out_channels) >= LOOP_FROM_CHANNELS
        for module in model.modules()
    )
    return "loop" if wide else "vmap"


def check_no_running_statistics(model: nn.Module) -> None:
    """Refuse norm layers that remember batches: one task's statistics would leak into the others."""
    for name, module in model.named_modules():
        if isinstance(module, _NormBase) and module.track_running_stats:
            raise MetasymError(
                f"expected norm layers without running statistics, found {name!r} ({type(module).__name__}), "
                "which would carry one task's statistics into the next: set track_running_stats=False, or use "
                "metasym.nn.TaskBatchNorm2d or GroupNorm",
                about=name,
                found=type(module).__name__,
            )
