"""Assertions for users' own tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from metasym.argument_types import checked
from metasym.groups.group import Group
from metasym.learners.base import Learner
from metasym.types import Episode, MetasymError

__all__ = ["assert_equivariant", "assert_meta_gradient", "equivariance_error"]

Action = Group | Sequence[Callable[[Tensor], Tensor]]
"""A group whose matrices act on the last dimension, or one callable for each element, in order."""


@checked
def equivariance_error(
    layer: Callable[[Tensor], Tensor], x: Tensor, action_in: Action, action_out: Action
) -> Tensor:
    """Return ``|layer(g x) - g layer(x)| / |layer(x)|`` for each element g, with norms over all entries.

    Args:
        layer: What to test.
        x: Inputs ``[examples, ...]``.
        action_in: How the group acts on inputs.
        action_out: How it acts on outputs.

    Returns:
        Errors ``[order]``.
    """
    moves_in, moves_out = _moves(action_in), _moves(action_out)
    if (
        isinstance(action_in, Group)
        and isinstance(action_out, Group)
        and not action_in.same_group(action_out)
    ):
        raise MetasymError(
            f"expected actions of one group on input and output, found {action_in.name} and {action_out.name}",
            about="action_in, action_out",
            found=(action_in.name, action_out.name),
        )
    if not moves_in or len(moves_in) != len(moves_out):
        raise MetasymError(
            f"expected actions of one group on input and output, found {len(moves_in)} and "
            f"{len(moves_out)} elements",
            about="action_in, action_out",
            found=(len(moves_in), len(moves_out)),
        )
    with torch.no_grad():
        y = layer(x)
        scale = torch.linalg.vector_norm(y)
        if scale == 0:
            raise MetasymError(
                "expected inputs at which the layer is not zero, found zero: nothing would be tested",
                about="x",
                found=0,
            )
        return torch.stack(
            [
                torch.linalg.vector_norm(layer(g_in(x)) - g_out(y)) / scale
                for g_in, g_out in zip(moves_in, moves_out, strict=True)
            ]
        )


@checked
def assert_equivariant(
    layer: Callable[[Tensor], Tensor],
    x: Tensor,
    action_in: Action,
    action_out: Action,
    *,
    tolerance: float | None = None,
) -> None:
    """Assert that ``layer(g x) = g layer(x)`` for every element g.

    Args:
        layer: What to test.
        x: Inputs ``[examples, ...]``.
        action_in: How the group acts on inputs.
        action_out: How it acts on outputs.
        tolerance: Largest error, relative to the output's norm. Default: 1e-10 in float64, 1e-5 in float32.

    Raises:
        AssertionError: The message names the element that fails worst.

    Example:
        >>> import torch, metasym as ms
        >>> group = ms.groups.cyclic(4)
        >>> ms.testing.assert_equivariant(torch.relu, torch.randn(3, 4), group, group)
    """
    errors = equivariance_error(layer, x, action_in, action_out)
    if tolerance is None:
        tolerance = 1e-10 if errors.dtype == torch.float64 else 1e-5
    worst = (
        int(errors.argmax())
        if bool(torch.isfinite(errors).all())
        else int((~torch.isfinite(errors)).int().argmax())
    )
    if not errors[worst] <= tolerance:
        raise AssertionError(
            f"not equivariant: element {worst} of {len(errors)} has relative error {errors[worst]:.3g}, "
            f"expected at most {tolerance:.3g}"
        )


@checked
def assert_meta_gradient(
    learner: Learner,
    episodes: Episode,
    *,
    directions: int = 3,
    step: float = 1e-5,
    tolerance: float = 1e-6,
    seed: int = 0,
) -> None:
    """Assert that ``learner.outer_gradient`` agrees with finite differences of its own outer loss.

    Compares directional derivatives along random directions, tensor by tensor, relative to the gradient's norm.
    Needs a learner and episodes in float64: central differences carry no digits in float32.

    Args:
        learner: The learner.
        episodes: Some tasks.
        directions: Random directions for each tensor.
        step: Step of the differences.
        tolerance: Largest relative error.
        seed: Seed of the directions.
    """
    named = learner.outer_parameters()
    if any(p.dtype != torch.float64 for p in named.values()):
        raise MetasymError(
            "expected a learner in float64 for finite differences, found another type", about="learner"
        )
    with torch.enable_grad():
        gradients = learner.outer_gradient(episodes)[1]
    generator = torch.Generator().manual_seed(seed)

    def loss() -> float:
        with torch.enable_grad():  # the learner may take the gradients of its inner loop itself
            return float(learner.outer_loss(episodes).query.mean().detach())

    scale = max(float(torch.linalg.vector_norm(g)) for g in gradients.values())
    for name, parameter in named.items():
        for _ in range(directions):
            direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(parameter)
            direction /= torch.linalg.vector_norm(direction)
            start = parameter.detach().clone()
            at = []
            for sign in (1, -1):
                with torch.no_grad():
                    parameter.copy_(start + sign * step * direction)
                at.append(loss())
            with torch.no_grad():
                parameter.copy_(start)
            numeric, analytic = (at[0] - at[1]) / (2 * step), float((gradients[name] * direction).sum())
            if not abs(numeric - analytic) <= tolerance * scale:
                raise AssertionError(
                    f"meta-gradient of {name!r} along a random direction is {analytic:.10g}, "
                    f"finite differences give {numeric:.10g}"
                )


def _moves(action: Action) -> list[Callable[[Tensor], Tensor]]:
    if not isinstance(action, Group):
        return list(action)

    def along(matrix: Tensor) -> Callable[[Tensor], Tensor]:
        def move(x: Tensor) -> Tensor:
            if x.shape[-1] != matrix.shape[0]:
                raise MetasymError(
                    f"expected a last dimension of {matrix.shape[0]} for the group to act on, "
                    f"found {x.shape[-1]}",
                    about="x",
                    found=x.shape[-1],
                )
            return x @ matrix.to(x).T

        return move

    return [along(m) for m in action.matrices]
