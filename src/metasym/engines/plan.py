"""The decisions about how a step is computed: their names and ways, what was chosen, and why.

Every decision has a name and two or more ways, listed in ``WAYS``. All ways give the same numbers up to rounding, so
the choice is one of speed and memory alone. ``select.py`` makes it by estimates from sizes and from constants that
were measured once (each says how, where it stands), never by timing the run: equal sizes take equal ways, and an
equal seed gives equal bits. A user may force any of them, ``paths="engine=mapped,contract=filter"``; one that cannot
be taken is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from metasym.adaptation.choices import AUTO
from metasym.types import Episode, MetasymError

WAYS: dict[str, tuple[str, ...]] = {
    "engine": ("mapped", "closed", "chain"),
    "contract": ("filter", "input"),
    "map": ("vmap", "loop"),
    "convolve": ("direct", "winograd"),
}
"""The decisions and their ways; where estimates are equal the first way is taken.

``engine``: ``closed`` is the meta-gradient by matrix products (``dense/closed_form.py``), ``mapped`` torch.func
over tasks, ``chain`` a network's layers differentiated one by one, task after task (``layerwise/adapting.py``).
``contract``: whether U is contracted with the filter first (W is built) or with the inputs. The closed engine
decides for the query set (its support set is always contracted first), the mapped one for each set separately.
``map``: how torch.func goes over tasks, all at once or one after the other (an argument of its own, too).
``convolve``: how the chain convolves with kernels of 3 x 3 or 5 x 5: torch's convolution, or Winograd's algorithm,
which needs four to six times fewer multiplications and is compiled on first use (``kernels/winograd.cpp``).
"""

Forced = Mapping[str, str]
"""Ways that the user has decided on, by the name of the decision."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of one outer step: what decisions depend on, besides the model."""

    tasks: int
    support: int
    """Examples of a task's support set."""
    query: int
    """Examples of a task's query set."""
    inputs: tuple[int, ...]
    """The shape of one example's x."""
    outputs: tuple[int, ...]
    """The shape of one example's y."""

    @classmethod
    def of(cls, episodes: Episode, tasks: int | None = None) -> Sizes:
        """The sizes of a batch of episodes, or of a batch of ``tasks`` such tasks."""
        support, query = episodes.support, episodes.query
        return cls(
            episodes.count if tasks is None else tasks,
            int(support.x.shape[1]),
            int(query.x.shape[1]),
            tuple(support.x.shape[2:]),
            tuple(support.y.shape[2:]),
        )


@dataclass(frozen=True)
class Choice:
    """One decision: the way taken, and what each way was estimated to cost."""

    name: str
    way: str
    why: str
    """``"estimate"``, ``"forced"``, or the rule that left no choice, in words."""
    milliseconds: Mapping[str, float] = field(default_factory=dict)
    """The estimates a step, by way; empty where none were made."""

    def __str__(self) -> str:
        costs = ", ".join(f"{way} {cost:.3g} ms" for way, cost in self.milliseconds.items())
        return f"{self.name}: {self.way} ({self.why}{': ' if costs else ''}{costs})"

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for ``config.json``; estimates to three digits."""
        costs = {way: float(f"{cost:.3g}") for way, cost in self.milliseconds.items()}
        return {"way": self.way, "why": self.why, "milliseconds": costs}


Plan = tuple[Choice, ...]
"""The decisions of a learner at one size of step."""


def choose(name: str, milliseconds: Mapping[str, float], forced: Forced) -> Choice:
    """The cheapest way by the estimates, in the order of ``WAYS``, unless the user has decided."""
    known = {way: milliseconds[way] for way in WAYS[name] if way in milliseconds}
    if name in forced:
        return Choice(name, forced[name], "forced", known)
    return Choice(name, min(known, key=known.__getitem__), "estimate", known)


def settled(name: str, way: str, why: str, forced: Forced) -> Choice:
    """A decision that a rule leaves no choice in; forcing another way is an error."""
    if forced.get(name, way) != way:
        raise MetasymError(
            f"expected {name}={way} here ({why}), found {name}={forced[name]}",
            about=name,
            found=(forced[name], why),
        )
    return Choice(name, way, why)


def parse(value: str | Mapping[str, str] | None) -> dict[str, str]:
    """What the user forces: ``"auto"`` (nothing), ``"name=way,..."``, or a mapping; checked."""
    if value is None or value == AUTO:
        return {}
    if isinstance(value, str):
        parts = [part.strip().partition("=") for part in value.split(",")]
        found = {name.strip(): way.strip() for name, _, way in parts}
    elif isinstance(value, Mapping):
        found = dict(value)
    else:
        raise MetasymError(
            f"expected paths to be 'auto' or 'name=way,...', found {value!r}", about="paths", found=value
        )
    for name, way in found.items():
        if name not in WAYS:
            raise MetasymError(
                f"expected paths to name {', '.join(WAYS)} as name=way, found {name!r}",
                about="paths",
                found=name,
            )
        if way not in WAYS[name]:
            raise MetasymError(
                f"expected {name} to be one of {', '.join(WAYS[name])}, found {way!r}", about=name, found=way
            )
    return found


def as_dict(plan: Iterable[Choice]) -> dict[str, Any]:
    """A plan in plain types, for ``config.json``."""
    return {choice.name: choice.as_dict() for choice in plan}


MS_A_MULTIPLY_ADD = 3.2e-8
"""Of a product with U: 32 filters of 70 entries by a U of 4760 x 70 take 0.32 to 0.36 ms, float32.

This and the next three: one thread of an AMD EPYC (AVX2, 2.6 GHz), torch 2.13.0, November 2026. Ratios matter, not
the machine: at eleven sizes (k 3 to 400, 1 to 40 support examples, 1 to 3 steps) the choices are the faster ways.
"""
MS_A_CALL = 0.006
"""Of a torch operation on small tensors, with what Python does around it."""
MS_AN_ENTRY = 1.4e-7
"""Of a pass over the contracted inputs A: 32 tasks of 68 x 70 entries, one row from the left, 0.02 ms, and the
temporaries beside it."""
MS_A_MAPPED_CALL = 0.08
"""Of an operation under vmap and grad, there and back."""
