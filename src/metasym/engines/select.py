"""The one place that decides which engine computes a step, and what is reported about it.

The decision depends on the description (the model and what is asked of it), the sizes, the device, the precision, and
on whether the C++ kernels could be compiled on this machine; never on timing or on the values of the data. An equal
seed on one machine thus gives equal bits. What the user has forced is taken, or an error says why it cannot be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from metasym.engines.description import Description, Setting
from metasym.engines.engine import Engine, Ways
from metasym.engines.plan import WAYS, Choice, Plan, choose
from metasym.types import Batch, Episode, Loss, MetasymError, OuterLoss, Params


@dataclass(frozen=True)
class Selected:
    """An engine with its decisions taken: computes steps of the description that it was selected for."""

    description: Description
    plan: Plan
    engine: Engine

    @property
    def ways(self) -> Ways:
        """The way taken, by the name of the decision."""
        return {choice.name: choice.way for choice in self.plan}

    def computed_by(self) -> dict[str, str]:
        """All that a step's last bits depend on: the ways, and for each kernel whether it is compiled."""
        from metasym.engines.kernels.engine_kernels import (
            library,  # needs a compiler: only engines with kernels ask
        )

        names = self.engine.kernels(self.ways)
        return {**self.ways, **{n: "torch" if library(n) is None else "compiled" for n in names}}

    def tasks_at_once(self, episodes: Episode) -> int:
        """How many of these tasks are best computed together."""
        return self.engine.tasks_at_once(self.description, self.ways, episodes)

    def losses(self, episodes: Episode) -> OuterLoss:
        """The losses of every task, ``[tasks]``, differentiable by the outer parameters."""
        return self.engine.losses(self.description, self.ways, episodes)

    def gradient(self, episodes: Episode, total_tasks: int) -> tuple[OuterLoss, Params]:
        """The losses (detached) and the gradient of ``sum(query losses) / total_tasks``, by the outer names."""
        return self.engine.gradient(self.description, self.ways, episodes, total_tasks)

    def scores(self, episodes: Episode, metric: Loss, steps: int = 0) -> Tensor:
        """``metric`` on every task's query set after ``steps`` of adaptation, ``[tasks]``; keeps no graph."""
        return self.engine.scores(self.description, self.ways, episodes, metric, steps)


def make_engines() -> tuple[Engine, ...]:
    """The engines of one learner; the last can do everything. Imported here: not every learner takes steps."""
    from metasym.engines.convolution.convolution_engine import ConvolutionEngine
    from metasym.engines.dense.dense_engine import DenseEngine
    from metasym.engines.layerwise.layerwise_engine import LayerwiseEngine
    from metasym.engines.reference import Reference

    reference = Reference()
    return DenseEngine(reference), ConvolutionEngine(reference), LayerwiseEngine(reference), reference


def select(engines: Sequence[Engine], description: Description, setting: Setting) -> Selected:
    """The cheapest engine that can compute the step, or the one that the user has forced."""
    forced = description.forced
    refusals: dict[Engine, str] = {}
    able: list[Engine] = []
    for engine in engines:
        why = engine.refuses(description, setting) or _lacks(engine, description)
        if why is None:
            able.append(engine)
        else:
            refusals[engine] = why
    wanted = forced.get("engine")
    willing = [engine for engine in able if wanted in (None, engine.way)]
    if not willing:
        raise _cannot(refusals, able, description)
    if len(able) == 1:
        nearest = _nearest(refusals, description)
        choice = Choice("engine", able[0].way, refusals[nearest] if wanted is None and nearest else "forced")
    else:
        costs: dict[str, float] = {}
        for engine in able:
            costs.update(engine.milliseconds(description, setting))
        choice = choose("engine", costs, forced)
    taken = next(engine for engine in willing if engine.way == choice.way)
    return Selected(description, (choice, *taken.choices(description, setting)), taken)


def adapt(engines: Sequence[Engine], description: Description, support: Batch, steps: int) -> Params:
    """What adapts, after ``steps`` of adaptation to one task: one task is the reference's business."""
    return engines[-1].adapt(description, support, steps)


def _lacks(engine: Engine, description: Description) -> str | None:
    """Why an engine cannot heed what is forced: it has no such decision to take."""
    for name in description.forced:
        if name != "engine" and name not in engine.decisions(description):
            return f"engine {engine.way} has no {name} to choose"
    return None


def _nearest(refusals: dict[Engine, str], description: Description, way: str | None = None) -> Engine | None:
    """The refusal most useful in the error message: of an engine for such models, called ``way`` if given."""
    asked = [engine for engine in refusals if way in (None, engine.way)]
    made_for = [engine for engine in asked if isinstance(description.model, engine.serves)]
    return next(iter(made_for or asked), None)


def _cannot(refusals: dict[Engine, str], able: Sequence[Engine], description: Description) -> MetasymError:
    """The error for a forced way that cannot be taken."""
    forced = description.forced
    wanted = forced.get("engine")
    if wanted is not None and able:
        nearest = _nearest(refusals, description, wanted)
        why = "" if nearest is None else refusals[nearest]
        return MetasymError(
            f"expected engine={able[-1].way} here ({why}), found engine={wanted}",
            about="engine",
            found=(wanted, why),
        )
    # No engine can heed everything that is forced: the error names the first decision and every engine's reason.
    name = next(n for n in WAYS if n in forced and n != "engine")
    why = "; ".join(dict.fromkeys(refusals.values()))
    return MetasymError(
        f"expected no {name} to be forced here ({why}), found {name}={forced[name]}",
        about=name,
        found=(forced[name], why),
    )
