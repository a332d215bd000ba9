"""One outer step in JAX, compiled: the same numbers, written as a JAX user would write them.

Layers are translated one by one from :func:`benchmarks.explicit.explicit`. Tasks are mapped by ``vmap`` where the
network is one linear layer, and one after the other, by one compiled function, where it has convolutions: mapped, a
convolution with weights for each task is a grouped one, and inside ``scan`` XLA has no fast convolution on a CPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import metasym as ms
from benchmarks.explicit import Call, Reparameterized, explicit, is_symmetry
from metasym.learners import GradientLearner
from metasym.types import Episode

Params = dict[str, Any]
Layer = Callable[[Params, Any], Any]


def step_in_jax(learner: GradientLearner, episodes: Episode, outer_lr: float) -> Callable[[], float]:
    """Give a function that takes one outer step on ``episodes`` and returns the mean query loss before it."""
    # XLA reads its flags at import: one thread, as every contender has.
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp

    model = explicit(learner.model)
    parts = [_layer(f"{place}.", module) for place, module in enumerate(model)]
    loss_of = _cross_entropy if learner.loss is F.cross_entropy else _squared
    names = [name for name, _ in model.named_parameters()]
    inner = [name for name in names if isinstance(learner, ms.MSRJoint) or not is_symmetry(name)]
    params = {name: jnp.asarray(value.detach().numpy()) for name, value in model.named_parameters()}
    start = float(next(learner.rates.parameters()).detach())
    outer = {"params": params, "rates": {name: jnp.float32(start) for name in inner}}
    s, q = episodes.support, episodes.query
    data = [jnp.asarray(part.numpy()) for part in (s.x, s.y, q.x, q.y)]

    def loss(params: Params, x: Any, y: Any) -> Any:
        for part in parts:
            x = part(params, x)
        return loss_of(x, y)

    def support_loss(moved: Params, params: Params, x: Any, y: Any) -> Any:
        return loss({**params, **moved}, x, y)

    def task(outer: Params, x: Any, y: Any, x_query: Any, y_query: Any) -> Any:
        params = outer["params"]
        for _ in range(learner.inner_steps):
            gradients = jax.grad(support_loss)({n: params[n] for n in inner}, params, x, y)
            params = {**params, **{n: params[n] - outer["rates"][n] * gradients[n] for n in inner}}
        return loss(params, x_query, y_query)

    # A mapped U that moves with each task is 32 copies of it: one after the other they stay in the cache.
    one_by_one = isinstance(learner, ms.MSRJoint) or any(isinstance(layer, nn.BatchNorm2d) for layer in model)

    @jax.jit
    def all_tasks(outer: Params) -> Any:
        return jax.value_and_grad(lambda o: jax.vmap(task, (None, 0, 0, 0, 0))(o, *data).mean())(outer)

    one_task = jax.jit(jax.value_and_grad(task))
    add = jax.jit(lambda a, b: jax.tree.map(jnp.add, a, b), donate_argnums=0)

    def value_and_gradient(outer: Params) -> Any:
        if not one_by_one:
            return all_tasks(outer)
        total = one_task(outer, *(part[0] for part in data))
        for i in range(1, episodes.count):
            total = add(total, one_task(outer, *(part[i] for part in data)))
        return jax.tree.map(lambda sum_: sum_ / episodes.count, total)

    @partial(jax.jit, donate_argnums=(0, 1))
    def adam(outer: Params, state: Any, gradient: Params) -> Any:
        first, second, count = state
        count = count + 1
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)
        ahead, beyond = 1 - 0.9**count, 1 - 0.999**count
        outer = jax.tree.map(
            lambda p, m, v: p - outer_lr * (m / ahead) / (jnp.sqrt(v / beyond) + 1e-8), outer, first, second
        )
        return outer, (first, second, count)

    zeros = jax.tree.map(jnp.zeros_like, outer)
    held: list[Any] = [outer, (zeros, jax.tree.map(jnp.zeros_like, outer), jnp.float32(0))]

    def step() -> float:
        mean, gradient = value_and_gradient(held[0])
        held[:] = adam(*held, gradient)
        return float(mean)

    return step


def _squared(predicted: Any, y: Any) -> Any:
    return ((predicted - y) ** 2).mean()


def _cross_entropy(logits: Any, y: Any) -> Any:
    import jax
    import jax.numpy as jnp

    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1).mean()


def _layer(prefix: str, module: nn.Module) -> Layer:
    """A layer of an explicit model as a function of all parameters and its input."""
    import jax
    import jax.numpy as jnp

    def weight(params: Params) -> Any:
        if not isinstance(module, Reparameterized):
            return params[f"{prefix}weight"]
        v = params[f"{prefix}v"]
        if module.order is None:
            return (params[f"{prefix}U.0"] @ v).reshape(module.shape)
        for mode in module.order:
            v = jnp.moveaxis(jnp.tensordot(params[f"{prefix}U.{mode}"], v, (1, mode)), 0, mode)
        return v.reshape(module.shape)

    def plus_bias(params: Params, y: Any, shape: tuple[int, ...]) -> Any:
        bias = params.get(f"{prefix}bias")
        return y if bias is None else y + bias.reshape(shape)

    if isinstance(module, nn.Linear | Reparameterized | nn.Conv2d) and len(module_shape(module)) == 2:
        return lambda params, x: plus_bias(params, x @ weight(params).T, (-1,))
    if isinstance(module, nn.Conv2d | Reparameterized):
        assert not isinstance(module.padding, str | None)
        padding = [(side, side) for side in module.padding]
        layout = ("NCHW", "OIHW", "NCHW")

        def convolve(params: Params, x: Any) -> Any:
            y = jax.lax.conv_general_dilated(x, weight(params), (1, 1), padding, dimension_numbers=layout)
            return plus_bias(params, y, (1, -1, 1, 1))

        return convolve
    if isinstance(module, nn.BatchNorm2d):

        def norm(params: Params, x: Any) -> Any:
            mean = x.mean((0, 2, 3), keepdims=True)
            spread = ((x - mean) ** 2).mean((0, 2, 3), keepdims=True)
            scale, shift = (params[f"{prefix}{name}"][None, :, None, None] for name in ("weight", "bias"))
            return (x - mean) * jax.lax.rsqrt(spread + module.eps) * scale + shift

        return norm
    if isinstance(module, nn.ReLU):
        return lambda _, x: jax.nn.relu(x)
    if isinstance(module, nn.MaxPool2d):
        # Halves side by side: reduce_window has a gradient that XLA computes slowly on a CPU.
        def pool(_: Params, x: Any) -> Any:
            n, c, height, width = x.shape
            even = x[:, :, : height // 2 * 2, : width // 2 * 2]
            return even.reshape(n, c, height // 2, 2, width // 2, 2).max((3, 5))

        return pool
    assert isinstance(module, Call | nn.Flatten), f"no translation to JAX for {type(module).__name__}"
    return lambda _, x: x.reshape(len(x), -1)


def module_shape(module: nn.Module) -> torch.Size:
    """The shape of a layer's weight."""
    shape = module.shape if isinstance(module, Reparameterized) else module.weight.shape
    assert isinstance(shape, torch.Size)
    return shape
