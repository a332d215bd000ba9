"""What a learner asks engines to compute: a frozen description of one outer step, and where it is to be computed.

A learner makes the description and never learns which engine carries it out; an engine reads the description and
never sees a learner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from metasym.engines.plan import Forced, Sizes
from metasym.types import Episode, Loss, Params

MODEL, RATES = "model.", "rates."
"""How the names of outer parameters begin: those of the model, and those of the inner step sizes."""


class Rates(Protocol):
    """The inner step sizes of everything that adapts, and how their gradients reach the learned parameters."""

    mode: str
    """``"fixed"``, ``"layer"``, ``"parameter"`` or ``"layer-step"``."""

    def at(self, step: int) -> Params:
        """The step size of each adapted tensor at inner step ``step``."""
        ...

    def stacked(self, name: str, steps: int) -> Tensor:
        """The step sizes of the adapted tensor ``name`` at each of ``steps`` inner steps, ``[steps, ...]``."""
        ...

    def pull_back(self, gradients: Params) -> Params:
        """Turns gradients by what :meth:`stacked` gave into gradients by the learned parameters, by their names."""
        ...

    def pull_back_entries(self, by_step: Sequence[Params]) -> Params:
        """The same, from each step's gradients, given for every entry as if it had its own step size."""
        ...


@dataclass(frozen=True)
class Description:
    """What every kind of step has: a model, what the outer loop learns, and the ways that the user has forced."""

    model: nn.Module
    outer: Callable[[], Params]
    """What the outer loop learns, under the names of the learner's state; called only where it is needed."""
    forced: Forced
    map: str
    """How torch.func would go over tasks, ``"vmap"`` or ``"loop"``."""
    map_given: bool
    """Whether the user has asked for that, and so for torch.func."""


@dataclass(frozen=True)
class Adapting(Description):
    """Some of the model's parameters adapt to each task's support set; the query loss is what counts."""

    loss: Loss
    inner: tuple[str, ...]
    """The names, in the model, of what adapts."""
    rates: Rates
    steps: int
    solver: str
    """``"sgd"``, ``"ridge"`` or ``"cg"``."""
    penalty: float
    first_order: bool
    learn_start: bool
    """Whether the outer loop learns the values that adaptation starts from."""


@dataclass(frozen=True)
class Embedding(Description):
    """Nothing adapts: the model embeds support and query, and predictions compare the two."""

    loss: Loss
    predict: Callable[[Tensor, Tensor, Episode], Tensor]
    """``predict(support, x, episode)``: the predictions at some examples of one task, from the embeddings of its
    support set, the embeddings of these examples, and its episode."""


@dataclass(frozen=True)
class OwnParameters(Description):
    """Every training task has parameters of its own, which the outer loop learns together with the shared ones."""


@dataclass(frozen=True)
class Setting:
    """Where, in what precision and at what sizes a step is computed: all that decides besides the description."""

    sizes: Sizes
    device: str = "cpu"
    """The type of the device, such as ``"cuda"``."""
    dtype: torch.dtype = torch.float32
    """The type of the inputs x."""
    targets: torch.dtype | None = None
    """The type of the targets y, where it is known."""
    autocast: bool = False
    """Whether torch computes in mixed precision."""
    learned_data: bool = False
    """Whether gradients by the data themselves are asked for."""

    @classmethod
    def of(
        cls, episodes: Episode, *, tasks: int | None = None, device: str | None = None, autocast: bool = False
    ) -> Setting:
        """The setting of these episodes, or of ``tasks`` such tasks, on their own device unless another is given."""
        x, y = episodes.support
        where = x.device.type if device is None else torch.device(device).type
        return cls(
            Sizes.of(episodes, tasks),
            where,
            x.dtype,
            y.dtype,
            autocast or torch.is_autocast_enabled(where),
            any(t.requires_grad for batch in episodes[:2] for t in batch),
        )

    @classmethod
    def for_model(cls, model: nn.Module, sizes: Sizes) -> Setting:
        """The setting of a model on its present device, for data of its own type."""
        like = next((p for p in model.parameters() if p.is_floating_point()), torch.zeros(()))
        where = like.device.type
        return cls(sizes, where, like.dtype, None, torch.is_autocast_enabled(where))
