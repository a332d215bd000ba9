"""How large a network is: entries of U and v, layer by layer, and all networks of one column of Table 3."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from metasym.learners.gradient import GradientLearner
from metasym.paper.build import build_few_shot_model, build_model, build_problem, learner_of
from metasym.paper.catalogue import find
from metasym.paper.config import Experiment
from metasym.paper.image_cells import METHODS, setting
from metasym.symmetry.costs import cost
from metasym.symmetry.reparam import split, symmetries


@dataclass(frozen=True)
class Counts:
    """The parameters of one cell of Table 3."""

    label: str
    network: str
    U: int
    """Learned entries of symmetry matrices."""
    v: int
    """Entries of filters."""
    other: int
    """Plain weights, biases and norms."""
    adapted: int
    """Entries that adapt to a task."""
    step_sizes: int
    frozen: int
    """Stored entries of frozen symmetries, which nothing learns."""

    @property
    def learned(self) -> int:
        """The meta-parameters of the network: what the paper compares MAML (Big) and MSR by."""
        return self.U + self.v + self.other


def counts(experiment: Experiment) -> Counts:
    """The counts of a cell of Table 3; needs no data."""
    model = build_few_shot_model(experiment)
    learner = learner_of(experiment, model, 1)
    parts, named = split(model), dict(model.named_parameters())
    inner = learner.inner_names if isinstance(learner, GradientLearner) else []
    return Counts(
        label=experiment.name.rpartition("/")[2],
        network=experiment.network,
        U=_entries(parts.U),
        v=_entries(parts.v),
        other=_entries(parts.other),
        adapted=sum(named[name].numel() for name in inner),
        step_sizes=len(learner.step_sizes()),
        frozen=sum(
            buffer.numel()
            for symmetry in {id(s): s for s in symmetries(model).values()}.values()
            for buffer in symmetry.buffers()
        ),
    )


def cost_text(experiment: Experiment) -> str:
    """What ``metasym cost`` shows of an experiment's network."""
    if not experiment.has_classes:
        problem = build_problem(experiment)
        return str(cost(build_model(experiment, problem), torch.zeros(1, *problem.input_shape)))
    model = build_few_shot_model(experiment)
    parts = (
        []
        if not symmetries(model)
        else [str(cost(model, torch.zeros(1, *setting(experiment.problem).input_shape)))]
    )
    cells = [find(f"{experiment.problem}/{label}", experiment.recipe_name) for label in METHODS]
    # The experiment itself as it was asked for: its recipe may change the network.
    beside = [experiment if cell.name == experiment.name else cell for cell in cells]
    return "\n\n".join([*parts, counts_text([counts(cell) for cell in beside], experiment.problem)])


def counts_text(rows: list[Counts], title: str) -> str:
    """The counts of several networks, as a table."""
    head = ("", "network", "U", "v", "other", "learned", "adapted", "step sizes", "frozen U")
    lines: list[tuple[str, ...]] = [head]
    for row in rows:
        numbers = (row.U, row.v, row.other, row.learned, row.adapted, row.step_sizes, row.frozen)
        lines.append((row.label, row.network, *(f"{n:,}" if n else "-" for n in numbers)))
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    text = [
        "  ".join(
            cell.ljust(w) if i < 2 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join(
        [
            f"parameters of {title}'s networks (learned = U + v + other; adapted: of them, to each task)",
            *text,
        ]
    )


def _entries(tensors: dict[str, torch.Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors.values())
