"""Which of a model's parameters a method adapts, and what its options have to fit."""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Sequence

import torch
from torch import nn

from metasym.adaptation.functional import is_squared
from metasym.symmetry.parametrized import is_inside, lists_of
from metasym.symmetry.reparam import bake, symmetries
from metasym.types import Loss, MetasymError, Params


def with_parameters(model: nn.Module, values: Params) -> nn.Module:
    """A copy of ``model`` with these values, symmetries baked: plain, self-contained, in evaluation mode."""
    plain = copy.deepcopy(model)
    named = dict(plain.named_parameters())
    with torch.no_grad():
        for name, value in values.items():
            named[name].copy_(value)
    return (bake(plain) if symmetries(plain) else plain).eval()


def need_symmetries(model: nn.Module, method: str) -> None:
    """Refuse a plain model."""
    if not symmetries(model):
        raise MetasymError(
            f"expected a reparameterized model for {method}, found a plain {type(model).__name__}: "
            "call metasym.reparameterize first",
            about="model",
            found=type(model).__name__,
        )


def check_exact(solver: str, loss: Loss, step_sizes: str, first_order: bool) -> None:
    """Refuse what an exact solve would silently ignore or get wrong."""
    if not is_squared(loss):
        reduction = getattr(loss, "reduction", None)
        found = (
            f"{type(loss).__name__}(reduction={reduction!r})"
            if reduction
            else getattr(loss, "__name__", f"{loss}")
        )
        raise MetasymError(
            f"expected the squared loss, F.mse_loss or nn.MSELoss(), with solver={solver!r}, found {found}",
            about="loss",
            found=found,
        )
    for what, value, default in (("step_sizes", step_sizes, "layer"), ("first_order", first_order, False)):
        if value != default:
            raise MetasymError(
                f"expected {what} to be left at its default with solver={solver!r}, which takes no steps "
                f"along gradients, found {value!r}",
                about=what,
                found=value,
            )


def last_layer(model: nn.Module) -> str:
    """The last module, in order of registration, with a weight of two dimensions or more of its own.

    Failing that, the last with any parameter.
    """
    ranks: dict[str, int] = {}
    for name, module in model.named_modules():
        own = [n for n, p in module._parameters.items() if p is not None]
        own += list(lists_of(module) or ())  # a filter may be flat where its weight is not
        if own and not is_inside(name):
            ranks[name] = max(getattr(module, n).ndim for n in own)
    if not ranks:
        raise MetasymError(
            f"expected a model with parameters, found none in {type(model).__name__}",
            about="model",
            found=type(model).__name__,
        )
    return [name for name, rank in ranks.items() if rank > 1 or max(ranks.values()) < 2][-1]


def matching(names: list[str], patterns: str | Sequence[str] | None) -> list[str]:
    """Of ``names`` those that match a pattern, all without patterns; every pattern has to match one."""
    if patterns is None:
        found = names
    else:
        wanted = [patterns] if isinstance(patterns, str) else list(patterns)
        for pattern in wanted:
            if not any(fnmatch.fnmatchcase(n, pattern) for n in names):
                raise MetasymError(
                    f"expected adapt_only to match a parameter that this method adapts, found no match for "
                    f"{pattern!r} among {', '.join(names)}",
                    about="adapt_only",
                    found=pattern,
                )
        found = [n for n in names if any(fnmatch.fnmatchcase(n, p) for p in wanted)]
    if not found:
        raise MetasymError("expected at least one parameter to adapt, found none", about="adapt_only")
    return found
