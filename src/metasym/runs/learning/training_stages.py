"""The stages of a run: each trains one learner in a folder of its own, stops early, and can be resumed."""

from __future__ import annotations

import copy
import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.optim.lr_scheduler import LambdaLR

from metasym.errors import option_name
from metasym.learners.gradient import MSR, GradientLearner
from metasym.runs.files.learn_options import Choices
from metasym.runs.learning.chosen_learners import DIVERGED, Fitted, msr, score
from metasym.runs.learning.predicting_the_mean import predicting_the_mean
from metasym.storage.file_names import CURRENT
from metasym.symmetry.pruning import NuclearAdam, compress
from metasym.symmetry.reparam import symmetries
from metasym.tasks.sampling import mix
from metasym.tasks.stored import StoredTasks
from metasym.training.checkpoint import Checkpoints, load, read_training
from metasym.training.distributed import Ranks
from metasym.training.guard import NonFiniteError
from metasym.training.loop import train
from metasym.training.metrics import NAME, read_records
from metasym.training.progress import ProgressChoice
from metasym.training.randomness import seed_global_generators
from metasym.training.settings import Files, Validation
from metasym.types import MetasymError

_EPISODES, _FIND, _GENERATORS = 35, 37, 38
FIND_LR, NUCLEAR, MOST_NUCLEAR = 1e-2, 0.02, 0.1
"""The first stage's learning rate and nuclear norm for U of up to ``FIND_ROWS`` rows."""
FIND_ROWS = 144
PRUNED = (0.5, 0.3, 0.1, 0.03, 0.01)
"""Directions of U below so much of the largest are dropped, if the validation tasks do not miss them."""
SMALLER, MOST_RECOVERIES = 0.2, 6
"""After that inner steps are so many times as large; and how often that is tried."""


@dataclass(frozen=True)
class Stage:
    """What a stage trains on and where it writes."""

    train: StoredTasks
    validation: StoredTasks
    folder: Path
    resume: bool
    progress: ProgressChoice
    device: str
    ranks: Ranks
    until: float = math.inf
    """When it has to end, on the clock of ``time.perf_counter``."""
    note: Callable[[str], None] = lambda _: None
    recovers: bool = True
    """Whether NaN makes training go back and takes smaller inner steps; not where the user set their size."""

    @property
    def seconds_left(self) -> float | None:
        """How long it may take; None: as long as it takes."""
        return None if self.until == math.inf else max(0.0, self.until - time.perf_counter())

    def begin(self, seed: int) -> None:
        """Global generators, from which a user's network may draw, start alike however the stages before went.

        A stage that goes on from a checkpoint gets their state from there.
        """
        seed_global_generators(int(mix(seed, _GENERATORS)))

    def so_far(self) -> tuple[int, list[float]]:
        """The step that a resumed run goes on from and the validation scores up to it, on every rank."""
        return self.ranks.on_main(lambda: _so_far(self.folder) if self.resume else (0, []))


def find_rates(rows: int) -> tuple[float, float]:
    """Learning rate and nuclear norm of the first stage for a U of so many rows.

    Adam moves every entry by about the learning rate, whether it matters or not: what the entries that do not
    matter add up to grows with their number, and so does what has to be subtracted again.
    """
    more = math.sqrt(max(1.0, rows / FIND_ROWS))
    return FIND_LR / more, min(NUCLEAR * more, MOST_NUCLEAR)


class Found(NamedTuple):
    """What the first stage did."""

    left: dict[str, int]
    """The filter entries that are left, by layer."""
    steps: int
    """Outer steps that it took, fewer than planned where there was no time for them."""


def find(choices: Choices, learner: MSR, stage: Stage, *, over: bool = False) -> Found:
    """The first stage: learn U under a nuclear norm that sets to zero what the tasks do not need, and drop it.

    The learner is of no use afterwards, its model is. ``over``: the next stage has begun already, from what this
    one had found when it ended, and not one step more is taken.
    """
    steps = stage.so_far()[0]
    lr, nuclear = find_rates(max(math.prod(s.weight_shape) for s in symmetries(learner.model).values()))
    stage.begin(choices.seed)
    records = train(
        learner,
        stage.train,
        outer_steps=steps if over and steps else choices.find_steps,
        tasks_per_step=choices.tasks_per_step,
        optimizer=lambda parameters: NuclearAdam(parameters, lr=lr, nuclear=nuclear),
        seed=int(mix(choices.seed, _FIND)),
        out=Files(stage.folder, checkpoint_every=50),
        resume=stage.resume,
        progress=stage.progress,
        device=stage.device,
        max_seconds=stage.seconds_left,
    )
    for record in records:
        steps = record.step
    left = compress(learner.model, tolerance=_tolerance(choices, learner, stage.validation))
    return Found(left, steps)


def _tolerance(choices: Choices, learner: MSR, validation: StoredTasks) -> float:
    """The most that can be pruned without a score on the validation tasks that is worse by more than 1 %."""
    least = 1e-3
    whole = score(choices, learner, validation, "mse").mean
    for tolerance in PRUNED:
        model = copy.deepcopy(learner.model)
        compress(model, tolerance=tolerance)
        found = score(choices, msr(choices, model, learner.loss, learner.penalty), validation, "mse").mean
        if found <= 1.01 * whole:
            return tolerance
    return least


def fit(choices: Choices, learner: GradientLearner, stage: Stage, metric: str) -> Fitted:
    """Train until the validation score has not improved for some time; the best is left in the learner.

    A training that diverges goes back to a good state and takes smaller inner steps.
    """
    start = copy.deepcopy(learner.state_dict())
    far = math.inf if metric == "accuracy" else DIVERGED * predicting_the_mean(stage.train, stage.validation)
    while True:
        try:
            return _fit(choices, learner, stage, metric, far)
        except NonFiniteError as error:
            if learner.solver != "sgd":
                raise
            if not stage.recovers:
                raise MetasymError(
                    f"{error}; a smaller {option_name('inner_lr')} than {choices.inner_lr:g} may help",
                    about="inner_lr",
                    found=choices.inner_lr,
                ) from None
            stage = _go_back(learner, stage, start, far, error)


def _go_back(
    learner: GradientLearner, stage: Stage, start: dict[str, Any], far: float, error: NonFiniteError
) -> Stage:
    """The stage, to be resumed from its last good state with inner steps that are smaller.

    That is the best in validation if it was any good, else the start. The outer optimizer starts afresh: gradients
    on the way to infinity have spoiled its averages.
    """
    checkpoints = Checkpoints(stage.folder)

    def rewrite() -> str | None:
        state = read_training(checkpoints.current)
        times = len(state.get("recovered", [])) + 1
        if times > MOST_RECOVERIES:
            said = f"{error}; {MOST_RECOVERIES} times the inner steps were reduced"
            return f"{said}: {option_name('inner_lr')} sets their size"
        good = state["best"] is not None and state["best"]["value"] < far
        learner.load_state_dict(state["best"]["state"] if good else start)
        with torch.no_grad():
            for size in learner.rates.parameters():
                size.mul_(SMALLER if good else SMALLER**times)
        state["learner"] = learner.state_dict()
        state["best"] = state["best"] if good else None
        state["optimizer"]["state"] = {}
        state["recovered"] = [*state.get("recovered", []), error.step]
        checkpoints.write(state)
        return None

    given_up = stage.ranks.on_main(rewrite)
    if given_up is not None:
        raise MetasymError(given_up, about="inner_lr", found=MOST_RECOVERIES) from None
    stage.note(
        f"step {error.step}: training diverged; it returns to its last good state, with inner steps "
        f"{SMALLER:g} times as large"
    )
    return dataclasses.replace(stage, resume=True)


def _fit(choices: Choices, learner: GradientLearner, stage: Stage, metric: str, far: float) -> Fitted:
    steps, values = stage.so_far()
    checkpoint, rate = stage.folder / CURRENT, None
    every = min(choices.validate_every, choices.outer_steps)
    if not _is_over(values, metric, choices.patience):
        stage.begin(choices.seed)
        records = train(
            learner,
            stage.train,
            outer_steps=choices.outer_steps,
            tasks_per_step=choices.tasks_per_step,
            outer_lr=choices.outer_lr,
            scheduler=lambda optimizer: LambdaLR(
                optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * min(step / choices.outer_steps, 1.0)))
            ),
            validation=Validation(stage.validation, every, "accuracy" if metric == "accuracy" else "loss"),
            seed=int(mix(choices.seed, _EPISODES)),
            # With every validation: what was best is in the last checkpoint when training stops.
            out=Files(stage.folder, checkpoint_every=every),
            resume=stage.resume,
            progress=stage.progress,
            device=stage.device,
            max_seconds=stage.seconds_left,
        )
        for record in records:
            steps, rate = record.step, record.steps_per_second
            if record.validation is not None:
                if learner.solver == "sgd" and not record.validation < far:
                    records.close()
                    raise NonFiniteError(
                        f"step {steps}: expected an error on the validation tasks below {far:.3g}, {DIVERGED:g} "
                        f"times that of predicting the mean, found {record.validation:.3g}",
                        step=steps,
                        about="validation",
                        found=record.validation,
                    )
                values.append(record.validation)
                if _is_over(values, metric, choices.patience):
                    records.close()
                    break
    stage.ranks.on_main(lambda: None)  # rank 0 has written it by now
    load(checkpoint, learner)
    learner.to(torch.device(stage.device))
    late = steps < choices.outer_steps and not _is_over(values, metric, choices.patience)
    recovered = stage.ranks.on_main(lambda: read_training(checkpoint).get("recovered", []))
    return Fitted(steps, rate, late, recovered)


def _is_over(values: Sequence[float], metric: str, patience: int) -> bool:
    """Whether the best of the validations is ``patience`` validations old."""
    if not values:
        return False
    worst = -math.inf if metric == "accuracy" else math.inf
    clean = [worst if math.isnan(v) else v for v in values]
    best = clean.index(max(clean) if metric == "accuracy" else min(clean))
    return len(values) - 1 - best >= patience


def _so_far(folder: Path) -> tuple[int, list[float]]:
    """The step of a run's checkpoint and the validation scores up to it; what came after is done again."""
    if not (folder / CURRENT).exists() or not (folder / NAME).exists():
        return 0, []
    step = read_training(folder / CURRENT)["step"]
    scores = [record.get("validation") for record in read_records(folder / NAME, up_to=step).records]
    return step, [score for score in scores if score is not None]
