"""A model as a chain of stages, with its gradient and products with its Hessian computed without a graph.

Any ``nn.Module`` whose layers act one after the other is a chain: sequences, and modules whose ``forward`` calls its
layers in a row. Layers that ``differentiable_layers`` knows get their own stage, all others run through autograd.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from metasym.adaptation.functional import measure, parameters_of
from metasym.engines import kernels
from metasym.engines.layerwise.convolving import Convolution
from metasym.engines.layerwise.differentiable_layers import Anything, Linear, NormPool, Stage, Step
from metasym.engines.layerwise.layer_order import Part, hooked, layers_in_order
from metasym.nn import StackFields, TaskBatchNorm2d, UnstackFields
from metasym.symmetry.matrices import KroneckerSymmetry
from metasym.symmetry.parametrized import filter_name, is_inside, list_of, lists_of, plain_type, symmetry_name
from metasym.types import Batch, Episode, Loss, Params

_TAPES = 2**25
"""Bytes that the tapes of the tasks computed together may take."""


class Tape(NamedTuple):
    """What a gradient leaves behind for a product with the Hessian at the same place."""

    params: Params
    steps: list[Step]
    back: list[Any]
    output: Tensor
    """``[examples, ...]``, a leaf of autograd's graph."""
    slope: Tensor
    """The loss's gradient by ``output``, with its graph."""


class Chain:
    """The stages of ``model``, as functions of its effective parameters: W itself where it is reparameterized."""

    def __init__(self, model: nn.Module, stages: list[Stage]) -> None:
        self.stages = stages
        self.names = [name for stage in stages for name in stage.names]
        own = dict(model.named_parameters())
        self.made = [name for name in self.names if name not in own]
        """Effective parameters that the model makes from others."""
        self.sources = {name: source for name in self.made if (source := _source(model, name)) is not None}
        """Those that Kronecker factors make from a filter of their own."""
        self._weights = _Weights(model, self.made)
        with torch.no_grad():
            start = self.effective(dict(model.named_parameters()))
        self.shapes = [p.shape for p in start.values()]
        self._seen: dict[tuple[int, ...], list[torch.Size]] = {}
        self._ways: dict[str, Chain] = {}

    def by(self, convolve: str) -> Chain:
        """The same chain with its convolutions computed the way ``convolve`` says (see ``metasym.engines.plan``)."""
        if convolve not in self._ways:
            found = copy.copy(self)
            found.stages = [s.by(convolve) if isinstance(s, Convolution) else s for s in self.stages]
            self._ways[convolve] = found
        return self._ways[convolve]

    def effective(self, params: Params) -> Params:
        """The effective parameters from the model's own, differentiably."""
        found = {name: params[name] for name in self.names if name in params}
        if self.made:
            inside = {f"model.{name}": p for name, p in params.items()}
            found.update(functional_call(self._weights, inside, ()))
        return {name: found[name] for name in self.names}

    def predict(self, params: Params, x: Tensor) -> Tensor:
        """The output at ``x [examples, ...]``."""
        h = _enter(x)
        for stage in self.stages:
            h = stage.forward(h, params, graph=False).y
        return leave(h)

    def gradient(
        self, params: Params, data: Batch, loss: Loss, *, keep: bool
    ) -> tuple[Tensor, Params, Tape | None]:
        """The loss on ``data``, its gradient by all effective parameters, and (``keep``) the tape of them."""
        steps = self.run(params, data.x)
        with torch.enable_grad():
            output = leave(steps[-1].y).detach().requires_grad_()
            value = measure(loss, output, data.y)
            (slope,) = torch.autograd.grad(value, output, create_graph=keep)
        kept = list(steps) if keep else []
        gradients, back = self.pull(params, steps, slope.detach(), keep=keep)
        tape = Tape(params, kept, back, output, slope) if keep else None
        return value.detach(), gradients, tape

    def run(self, params: Params, x: Tensor) -> list[Step]:
        """What every stage does to ``x [examples, ...]``, for ``pull``; the last one's y is the output."""
        h = _enter(x)
        steps: list[Step] = []
        for stage in self.stages:
            steps.append(done := stage.forward(h, params, graph=True))
            h = done.y
        return steps

    def pull(
        self, params: Params, steps: list[Step], slope: Tensor, *, keep: bool
    ) -> tuple[Params, list[Any]]:
        """The gradient by all effective parameters from that by the output, and (``keep``) what tangents need of it.

        Empties ``steps``, so that the stages before a stage can use its memory.
        """
        dy: Tensor | None = _enter(slope)
        gradients: Params = {}
        first = self._first
        back: list[Any] = [None] * len(self.stages)
        for i in range(len(self.stages) - 1, first - 1, -1):
            step, inputs = steps.pop(), i > first
            assert dy is not None
            dy, dp, kept = self.stages[i].backward(step, params, dy, inputs=inputs, keep=keep)
            gradients.update(dp)
            if keep:
                back[i] = kept
        return gradients, back

    def hessian(self, tape: Tape, direction: Params) -> Params:
        """The Hessian of the loss, at the place and data of ``tape``, times ``direction``."""
        params = tape.params
        tx: Tensor | None = None
        alongs = []
        for stage, step in zip(self.stages, tape.steps, strict=True):
            tp = {name: direction[name] for name in stage.names if name in direction}
            tx, along = stage.tangent(step, params, tx, tp)
            alongs.append(along)
        tdy = torch.zeros_like(tape.output)
        if tx is not None and tape.slope.requires_grad:
            (curved,) = torch.autograd.grad(
                tape.slope, tape.output, leave(tx), retain_graph=True, allow_unused=True
            )
            tdy = tdy if curved is None else curved
        up: Tensor | None = _enter(tdy)
        products: Params = {}
        for i in range(len(self.stages) - 1, self._first - 1, -1):
            stage = self.stages[i]
            tp = {name: direction[name] for name in stage.names if name in direction}
            assert up is not None
            up, tdp = stage.tangent_backward(
                tape.steps[i], params, tp, tape.back[i], alongs[i], up, inputs=i > self._first
            )
            products.update(tdp)
        return products

    def tasks_at_once(self, episodes: Episode) -> int:
        """As many tasks as fit their tapes into ``_TAPES`` bytes, but at least one."""
        x = episodes.support.x
        entries = sum(self.activations(tuple(x.shape[2:])))
        tape = 3 * x.shape[1] * entries * x.element_size()  # activations, their gradients, places of maxima
        return max(1, min(episodes.count, _TAPES // max(tape, 1)))

    def activations(self, inputs: tuple[int, ...]) -> list[int]:
        """The entries of each stage's output for one example of shape ``inputs``."""
        return [shape.numel() for shape in self._shapes(inputs)]

    def multiply_adds(self, inputs: tuple[int, ...]) -> int:
        """Of the convolutions and linear layers, for one example of shape ``inputs``."""
        sizes = dict(zip(self.names, self.shapes, strict=True))
        linear = sum(sizes[stage.weight].numel() for stage in self.stages if isinstance(stage, Linear))
        return linear + sum(W.numel() * places.numel() for _, W, places in self.convolutions(inputs))

    def convolutions(self, inputs: tuple[int, ...]) -> list[tuple[Convolution, torch.Size, torch.Size]]:
        """Each with its weight's shape and its output's height and width."""
        sizes = dict(zip(self.names, self.shapes, strict=True))
        return [
            (stage, sizes[stage.weight], shape[1:3])
            for stage, shape in zip(self.stages, self._shapes(inputs), strict=True)
            if isinstance(stage, Convolution)
        ]

    def _shapes(self, inputs: tuple[int, ...]) -> list[torch.Size]:
        """The shape of each stage's output, from a run with two examples of zeros; remembered."""
        if inputs not in self._seen:
            shapes = []
            # Random layers must not draw from the run's generator. Zeros of the model's type fit its buffers.
            with torch.no_grad(), torch.random.fork_rng(devices=[]):
                own = parameters_of(self._weights.model)
                params = {name: torch.ones_like(p) for name, p in self.effective(own).items()}
                like = next(iter(params.values()))
                h = _enter(torch.zeros(2, *inputs, dtype=like.dtype, device=like.device))
                for stage in self.stages:
                    h = stage.forward(h, params, graph=False).y
                    shapes.append(h.shape)
            self._seen[inputs] = [torch.Size([1, *shape[1:]]) for shape in shapes]
        return self._seen[inputs]

    @property
    def _first(self) -> int:
        """The first stage with parameters: gradients go no further."""
        return next((i for i, stage in enumerate(self.stages) if stage.names), len(self.stages))


@dataclass(frozen=True)
class Source:
    """A weight that a Kronecker symmetry makes: the names of its filter and of its factors in the model."""

    original: str
    factors: tuple[str, ...]
    symmetry: KroneckerSymmetry

    def tensor(self, factor: str, params: Params) -> Tensor:
        """A factor, as a parameter, or as a buffer where it is frozen."""
        found = params.get(factor)
        return getattr(self.symmetry, factor.rpartition(".")[2]) if found is None else found


def _source(model: nn.Module, name: str) -> Source | None:
    """The source of the effective parameter ``name``, if a Kronecker symmetry alone makes it."""
    owner, _, attribute = name.rpartition(".")
    plist = list_of(model.get_submodule(owner), attribute)
    symmetry = plist[0]
    if len(plist) != 1 or type(symmetry) is not KroneckerSymmetry:
        return None
    own = symmetry_name(owner, attribute)
    return Source(filter_name(owner, attribute), tuple(f"{own}.{n}" for n in symmetry._names), symmetry)


class _Weights(nn.Module):
    """Gives the effective parameters that a model makes from others, by their names."""

    def __init__(self, model: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model, self._names = model, names

    def forward(self) -> Params:
        found: Params = {}
        for name in self._names:
            owner, _, attribute = name.rpartition(".")
            found[name] = getattr(self.model.get_submodule(owner), attribute)
        return found


class Chains:
    """The chain of a model, found once for each mode (training or not) and again when layers get hooks."""

    def __init__(self) -> None:
        self._found: dict[tuple[bool, ...], Chain | str] = {}

    def of(self, model: nn.Module) -> Chain | str:
        """The chain, or why there is none."""
        key = tuple(flag for m in model.modules() for flag in (m.training, hooked(m)))
        if key not in self._found:
            self._found[key] = chain_of(model) or "not a chain of layers with batch norms"
        return self._found[key]


def chain_of(model: nn.Module) -> Chain | None:
    """``model`` as a chain, or None where it is none or nothing in it has a stage of its own."""
    if len({id(p) for _, p in model.named_parameters(remove_duplicate=False)}) != len(
        list(model.named_parameters(remove_duplicate=False))
    ):
        return None  # tied parameters have several effective names
    parts = layers_in_order("", model)
    if parts is None:
        return None
    layers = [layer for _, layer in parts if isinstance(layer, nn.Module)]
    if len({id(layer) for layer in layers if list(layer.parameters())}) < sum(
        1 for layer in layers if list(layer.parameters())
    ):
        return None  # a layer used twice
    stages = _stages(parts)
    covered = {name for stage in stages for name in stage.names}
    wanted = _effective_names(model)
    if covered != wanted or not any(isinstance(stage, NormPool) for stage in stages):
        return None
    return Chain(model, stages)


def _effective_names(model: nn.Module) -> set[str]:
    found = set()
    for name, module in model.named_modules():
        if is_inside(name):
            continue
        prefix = f"{name}." if name else ""
        found |= {prefix + n for n, p in module._parameters.items() if p is not None}
        found |= {prefix + n for n in lists_of(module) or ()}
    return found


def _stages(parts: list[Part]) -> list[Stage]:
    stages: list[Stage] = []
    i = 0
    while i < len(parts):
        name, layer = parts[i]
        prefix = f"{name}." if name else ""
        following = [_kind(part) for part in parts[i + 1 : i + 4]]
        kind = _kind(parts[i])
        shared = _stacked(parts[i:])
        if shared > 1:  # the norm of fields, without stacking them
            name, layer = parts[i + 1]
            prefix, kind, following = f"{name}." if name else "", "norm", following[1:]
            i += 1
        if kind == "convolution":
            assert isinstance(layer, nn.Conv2d)
            bias = None if layer.bias is None else f"{prefix}bias"
            stages.append(Convolution(layer, f"{prefix}weight", bias, before_norm=following[:1] == ["norm"]))
        elif kind == "linear":
            assert isinstance(layer, nn.Linear)
            stages.append(Linear(f"{prefix}weight", None if layer.bias is None else f"{prefix}bias"))
        elif kind == "norm":
            assert isinstance(layer, nn.BatchNorm2d | TaskBatchNorm2d)
            relu = following[:1] == ["relu"]
            i += relu + (shared > 1)
            pool = 1
            after = parts[i + 1][1] if i + 1 < len(parts) else None
            if isinstance(after, nn.MaxPool2d) and _kind(parts[i + 1]) == "pool":
                pool = _side(after.kernel_size) or 1
                i += 1
            names = f"{prefix}weight", f"{prefix}bias"
            stages.append(NormPool(*names, eps=layer.eps, relu=relu, pool=pool, shared=shared))
        else:
            named = layer.named_parameters() if isinstance(layer, nn.Module) else ()
            stages.append(Anything(layer, {prefix + n: n for n, _ in named}))
        i += 1
    return stages


def _stacked(parts: list[Part]) -> int:
    """How many channels a field has, where ``parts`` begin with the norm of fields (and ReLU); 1 where not."""
    first = parts[0][1] if parts else None
    kinds = [_kind(part) for part in parts[1:4]]
    last = 1 + len(kinds[: 2 if kinds[1:2] == ["relu"] else 1])
    if not isinstance(first, StackFields) or kinds[:1] != ["norm"] or len(parts) <= last:
        return 1
    end = parts[last][1]
    return first.order if isinstance(end, UnstackFields) and end.order == first.order else 1


def _kind(part: Part) -> str:
    """What stage a layer belongs to; ``""`` where it has none of its own."""
    layer = part[1]
    if not isinstance(layer, nn.Module):
        return ""
    base = plain_type(layer)
    if base is nn.Conv2d:
        simple = layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
        return "convolution" if simple else ""
    if base is nn.Linear:
        return "linear"
    if base is TaskBatchNorm2d:
        return "norm"
    if base is nn.BatchNorm2d:
        return "norm" if layer.affine and not layer.track_running_stats else ""
    if base is nn.ReLU:
        return "relu"
    if base is nn.MaxPool2d:
        side = _side(layer.kernel_size)
        simple = side in kernels.WINDOWS and _side(layer.stride) == side and _side(layer.padding) == 0
        return "pool" if simple and _side(layer.dilation) == 1 and not layer.ceil_mode else ""
    return ""


def _side(size: Any) -> int | None:
    """The side of a square window; None where it is not square."""
    if isinstance(size, int):
        return size
    return int(size[0]) if size[0] == size[1] else None


def _enter(x: Tensor) -> Tensor:
    """Images as stages hold them."""
    return x.permute(0, 2, 3, 1).contiguous() if x.ndim == 4 else x


def leave(h: Tensor) -> Tensor:
    """A stage's output as the model gives it."""
    return h.permute(0, 3, 1, 2) if h.ndim == 4 else h
