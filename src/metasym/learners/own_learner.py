"""What a learner of the user's own gives back, checked: one line each, in the words of ``Learner``'s methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from metasym.types import MetasymError, OuterLoss, Params


def checked_parameters(learner: nn.Module, found: Any) -> Params:
    """What ``outer_parameters`` gave: tensors by the names that they have in the learner's ``state_dict``."""
    of = f"outer_parameters of {type(learner).__name__}"
    if not isinstance(found, Mapping):
        raise MetasymError(
            f"expected {of} to give a dict of tensors by name, found {type(found).__name__}",
            about=of,
            found=type(found).__name__,
        )
    kept = learner.state_dict()
    for name, value in found.items():
        if not isinstance(value, Tensor):
            raise MetasymError(
                f"expected {of} to give tensors, found {type(value).__name__} at {name!r}",
                about=f"{of}: {name}",
                found=type(value).__name__,
            )
        if name not in kept:  # a checkpoint could not put it back
            alike = [known for known in kept if known.endswith(f".{name}")]
            such = f", such as {alike[0]!r}" if alike else ""
            raise MetasymError(
                f"expected {of} by the names in state_dict(){such}, found {name!r}", about=of, found=name
            )
    return dict(found)


def checked_losses(learner: nn.Module, found: Any, tasks: int) -> OuterLoss:
    """What ``outer_loss`` gave: three times a loss for each task, the first with a gradient."""
    of = f"outer_loss of {type(learner).__name__}"
    if not isinstance(found, OuterLoss):
        raise MetasymError(
            f"expected {of} to give an ms.OuterLoss(query, before, after), each a loss for every task, "
            f"found {kind(found)}",
            about=of,
            found=kind(found),
        )
    for name, value in zip(OuterLoss._fields, found, strict=True):
        if not isinstance(value, Tensor) or tuple(value.shape) != (tasks,):
            raise MetasymError(
                f"expected {of} to give {name} as a tensor [{tasks}], a loss for every task, found {kind(value)}",
                about=f"{of}: {name}",
                found=kind(value),
            )
    if not found.query.requires_grad:
        raise MetasymError(
            f"expected {of} to give a query loss that depends on outer_parameters(), found one without a gradient",
            about=f"{of}: query",
            found="no gradient",
        )
    return found


def checked_scores(learner: nn.Module, found: Any, tasks: int) -> Tensor:
    """What ``scores`` gave: a number for each task."""
    if not isinstance(found, Tensor) or tuple(found.shape) != (tasks,):
        raise MetasymError(
            f"expected scores of {type(learner).__name__} to give a tensor [{tasks}], a number for every task, "
            f"found {kind(found)}",
            about=f"scores of {type(learner).__name__}",
            found=kind(found),
        )
    return found


def kind(value: Any) -> str:
    """What a value is, in a few words."""
    return f"a tensor {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
