"""Equivariance of a whole network, from its input to its output."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from metasym.errors import in_one_line
from metasym.inspection.actions import Asked, act
from metasym.inspection.element_actions import Move
from metasym.inspection.image_transforms import image_transforms
from metasym.inspection.spatial import LEFT_RIGHT, turn_name
from metasym.symmetry.reparam import symmetric_lists
from metasym.types import MetasymError
from metasym.verdicts.reports import GroupErrors, LayerReport

_EXAMPLES, _SIDE = 16, 12
"""Random examples, where the user gives none, and the sides of images among them."""
_SEED = 0
"""Of random examples and filters: the same question has the same answer."""


def group_moves(asked: Asked, x: Tensor, y: Tensor) -> tuple[list[Move], str]:
    """How each element of the group moves examples ``x [examples, ...]`` and outputs ``y``, and a note on them.

    Images are turned only by multiples of 90 degrees, which are exact; outputs that the group cannot move, such as
    classes, are expected not to change.
    """
    if asked.kind == "images":
        return image_transforms(x, y)
    if asked.spatial and x.ndim == 4:
        return _image_moves(asked, images_out=y.ndim == 4)
    return _vector_moves(asked, x, y)


def end_to_end(
    model: nn.Module, asked: Asked, layers: Sequence[LayerReport], inputs: Tensor | Sequence[int] | None
) -> GroupErrors | None:
    """``|f(g x) - g f(x)| / |f(x)|`` for each element g; None for a single layer, whose own errors say it all.

    ``x`` are the given examples, or random ones of the given shape, or else of the first layer's. Filters that
    are all zero (nothing was adapted yet) are drawn at random: the question is about U.
    """
    if len(layers) < 2 and inputs is None:
        return None
    network = _with_filters(model)
    try:
        x = _examples(network, layers, inputs)
        y = network(x)
        moves, note = group_moves(asked, x, y)
        # Channels of images go where they fit best: as for a layer, the group may permute them.
        errors = tuple(
            _relative(network(move.inputs(x)), move.outputs(y), any_channels=y.ndim == 4) for move in moves
        )
        return GroupErrors(asked.text, tuple(move.name for move in moves), errors, None, None, note)
    except MetasymError as error:
        return GroupErrors(asked.text, (), (), None, None, str(error))
    except RuntimeError as error:
        line = in_one_line(error)
        note = f"expected inputs that the network takes, found {tuple(x.shape)} ({line})"
        return GroupErrors(asked.text, (), (), None, None, note)


def _with_filters(model: nn.Module) -> nn.Module:
    network = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(_SEED)
    for _, plist in symmetric_lists(network):
        v = plist.original
        if not bool(v.any()):
            v.copy_(torch.randn(v.shape, generator=generator, dtype=torch.float64).to(v))
    return network


def _examples(
    network: nn.Module, layers: Sequence[LayerReport], inputs: Tensor | Sequence[int] | None
) -> Tensor:
    like = next(network.parameters())
    if isinstance(inputs, Tensor):
        return inputs.to(like)
    if inputs is not None:
        shape = tuple(inputs)
    else:
        first = layers[0].weight_shape
        shape = (first[1], *([_SIDE] * (len(first) - 2)))
    generator = torch.Generator().manual_seed(_SEED)
    return torch.randn(_EXAMPLES, *shape, generator=generator, dtype=torch.float64).to(like)


def _vector_moves(asked: Asked, x: Tensor, y: Tensor) -> tuple[list[Move], str]:
    if x.ndim != 2 or y.ndim != 2:
        raise MetasymError(
            f"group {asked.text}: expected vectors in and out, "
            f"found shapes {tuple(x.shape[1:])} and {tuple(y.shape[1:])}",
            about=f"group {asked.text}",
            found=(tuple(x.shape[1:]), tuple(y.shape[1:])),
        )
    note = ""
    try:
        action = act(asked, y.shape[1], x.shape[1])
        outputs = action.outputs
    except MetasymError:
        action = act(asked, x.shape[1], x.shape[1])
        outputs = torch.arange(y.shape[1]).expand(len(action.element_names), -1)
        note = f"invariance: the group moves the {x.shape[1]} inputs and none of the {y.shape[1]} outputs"
    sides = zip(action.element_names, action.inputs, outputs, strict=True)
    return [Move(name, partial(_move, element=i), partial(_move, element=o)) for name, i, o in sides], note


def _move(x: Tensor, element: Tensor) -> Tensor:
    """``[examples, n]`` moved by a permutation (point i goes to ``element[i]``) or a matrix."""
    if element.ndim == 2:
        return x @ element.to(x).T
    moved = torch.empty_like(x)
    moved[:, element.to(x.device)] = x
    return moved


def _image_moves(asked: Asked, *, images_out: bool) -> tuple[list[Move], str]:
    (order,) = asked.numbers
    flips = [False, True] if "flips" in asked.kind else [False]
    moves = []
    for times, flip in [(t, flip) for flip in flips for t in range(order) if (4 * t) % order == 0]:
        turn = partial(_turn, quarters=4 * times // order, flip=flip)
        name = (f"{LEFT_RIGHT}, then " if flip else "") + turn_name(360 * times / order)
        moves.append(Move(name, turn, turn if images_out else _as_it_is))
    return moves, "images are turned by multiples of 90 degrees only" if (4 % order) else ""


def _as_it_is(y: Tensor) -> Tensor:
    return y


def _turn(x: Tensor, quarters: int, flip: bool) -> Tensor:
    return torch.rot90(x.flip(-1) if flip else x, quarters, (-2, -1))


def _relative(found: Tensor, goal: Tensor, *, any_channels: bool = False) -> float:
    scale = float(torch.linalg.vector_norm(goal))
    if scale == 0:
        raise MetasymError(
            "expected a network whose outputs are not all zero, found zero", about="outputs", found=0
        )
    if any_channels:
        a, b = (t.transpose(0, 1).flatten(1).double() for t in (found, goal))
        squares = torch.cdist(a, b).square()
        rows, columns = linear_sum_assignment(squares.cpu().numpy())
        return float(squares[rows, columns].sum().sqrt()) / scale
    return float(torch.linalg.vector_norm(found - goal)) / scale
