"""One experiment from beginning to end: train, test, write the result. Resumable at any point."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from metasym.engines.description import Setting
from metasym.engines.plan import as_dict
from metasym.learners import Learner
from metasym.learners.gradient import GradientLearner
from metasym.paper.build import AnyProblem, build_learner, build_problem
from metasym.paper.catalogue import find
from metasym.paper.config import Experiment
from metasym.paper.image_cells import BUDGETS
from metasym.paper.image_problem import ImageProblem
from metasym.paper.optimizers import outer_autocast, outer_optimizer, outer_schedule
from metasym.runs.files.command_line import command_line, flags
from metasym.runs.files.model_files import filter_sizes, read_model_file, write_model
from metasym.runs.files.result_files import read_result, write_result
from metasym.runs.learned_step_sizes import inner_lrs
from metasym.runs.machine import commit, enough_threads, one_line, threads, versions
from metasym.runs.reproducing.same_experiment import read_experiment, same_run
from metasym.runs.reproducing.scoring import (
    best_inner_steps,
    inner_steps_by_validation,
    learning_curve,
    skipped_tasks,
    tested,
)
from metasym.runs.spent_resources import Spent
from metasym.storage.atomic import make_folder, make_inside
from metasym.storage.file_names import CONFIG, CURRENT, FIND, MODEL, RESULT
from metasym.storage.json_files import read_json, write_json
from metasym.storage.locks import holding
from metasym.storage.options import changed
from metasym.symmetry.pruning import NuclearAdam, compress
from metasym.symmetry.reparam import symmetries
from metasym.tasks.sampling import mix, sample
from metasym.tasks.subset import hold_out
from metasym.training.checkpoint import check_learner
from metasym.training.distributed import Ranks, connect, pick_device
from metasym.training.loop import train
from metasym.training.progress import ProgressChoice
from metasym.training.randomness import seed_global_generators
from metasym.training.settings import Files, Validation
from metasym.types import Batch, MetasymError, Tasks

_FIND, _GENERATORS = 17, 18


def run(
    experiment: Experiment,
    out: str | os.PathLike[str],
    *,
    resume: bool = False,
    progress: ProgressChoice = "auto",
    note: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Meta-train and test ``experiment``; its files go into the folder ``out``, its result is returned.

    An experiment whose finished result is in the folder is not run again; with ``resume`` an unfinished run goes
    on from its last checkpoint. The folder of another experiment is refused. Under ``torchrun`` every rank has to
    call this; rank 0 alone reads and writes files, and all return its result. ``note`` receives how the steps are
    computed, one line for each decision.
    """
    folder = Path(out)
    ranks = connect(pick_device(experiment.recipe.device, torch.device("cpu")))
    found = ranks.on_main(lambda: _finished(experiment, folder))
    if found is not None:
        return found
    with one_line(folder), threads(experiment.recipe.threads), contextlib.ExitStack() as held:
        ranks.on_main(lambda: held.enter_context(holding(folder)))
        return _run(experiment, folder, ranks, resume, progress, note)


def _finished(experiment: Experiment, folder: Path) -> dict[str, Any] | None:
    """The result in the folder, if there is one; refuses the folder of another experiment."""
    make_folder(folder)
    if experiment.recipe.find_steps:
        make_inside(folder, FIND)
    if (folder / CONFIG).exists():
        same_run(read_json(folder / CONFIG, "the config of a run"), experiment, folder / CONFIG)
    if not (folder / RESULT).exists():
        return None
    found = read_result(folder / RESULT)
    same_run(found.get("config", {}), experiment, folder / RESULT)
    return found


def load_run(
    folder: str | os.PathLike[str], *, data: str | None = None
) -> tuple[Experiment, AnyProblem, Learner]:
    """The experiment in a run's folder, its problem, and its learner as trained.

    ``data`` is the folder of the images, if it is not the one that the run used. The parameters are those that the
    run was tested with.
    """
    path = Path(folder)
    experiment = read_experiment(path)
    if data is not None:
        experiment = experiment.replace(data=data)
    problem = build_problem(experiment)
    stored = read_model_file(path)
    learner = _blank(experiment, problem, filter_sizes(stored))
    check_learner(learner, stored, str(path / MODEL), method_only=True)
    learner.load_state_dict(stored["learner"])
    steps = stored["settings"].get("test_inner_steps")
    if isinstance(steps, int) and isinstance(learner, GradientLearner):
        learner.test_inner_steps = steps
    return experiment, problem, learner


def _test_with(learner: Learner, steps: int) -> None:
    """From now on, tests take ``steps`` inner steps."""
    assert isinstance(learner, GradientLearner)
    learner.test_inner_steps = steps


def command(experiment: Experiment) -> str:
    """The command line that runs ``experiment``."""
    anywhere = experiment.replace(data=None)  # where the images are differs from machine to machine
    return command_line("run", experiment.name, recipe_flags(anywhere))


def recipe_flags(experiment: Experiment) -> list[str]:
    """The flags for whatever in ``experiment`` differs from the catalogue's."""
    budgets = {recipe: ["--budget", budget] for budget, recipe in BUDGETS.items()}
    named = {"paper": [], **budgets}.get(experiment.recipe_name, ["--recipe", experiment.recipe_name])
    usual = find(experiment.name, experiment.recipe_name).recipe
    return [*named, *flags(changed(experiment.recipe, usual))]


def _run(
    experiment: Experiment,
    folder: Path,
    ranks: Ranks,
    resume: bool,
    progress: ProgressChoice,
    note: Callable[[str], None],
) -> dict[str, Any]:
    spent = Spent(folder, afresh=not (folder / CURRENT).exists())
    recipe = experiment.recipe
    seed_global_generators(int(mix(recipe.seed, _GENERATORS)))  # their state is in checkpoints
    problem = build_problem(experiment)
    tasks, held_out = _training_tasks(experiment, problem)
    learner = build_learner(experiment, problem, len(tasks))
    first, at_once = sample(tasks, torch.tensor([0]), 0), min(recipe.tasks_per_step, len(tasks))
    if recipe.threads is None:
        torch.set_num_threads(enough_threads(learner.model, first, at_once))
    config = {**experiment.as_dict(), "learner": learner.describe()}

    def write_config() -> None:
        write_json(folder / CONFIG, config)

    def begin() -> None:
        # The folder of another run is refused by train, and stays as it was.
        if not (folder / CURRENT).exists():
            write_config()

    if recipe.find_steps:
        ranks.on_main(begin)
        found = _find(experiment, problem, tasks, folder, resume, progress)
        learner = build_learner(experiment, problem, len(tasks), found)
    # Not earlier: the first stage may have left another model.
    plan = learner.plan(_setting(experiment, tasks))
    config["paths"] = as_dict(plan)
    for choice in plan:
        note(str(choice))
    ranks.on_main(begin)
    records = train(
        learner,
        tasks,
        outer_steps=recipe.outer_steps,
        tasks_per_step=recipe.tasks_per_step,
        outer_lr=recipe.outer_lr,
        optimizer=outer_optimizer(recipe),
        scheduler=outer_schedule(recipe),
        clip_norm=recipe.clip_norm,
        average=recipe.average,
        validation=None if held_out is None else _validation(experiment, held_out),
        seed=recipe.seed,
        out=Files(folder, recipe.checkpoint_every),
        resume=resume,
        on_nonfinite="skip" if recipe.on_nonfinite == "skip" else "stop",
        progress=progress,
        device=recipe.device,
        autocast=outer_autocast(recipe),
    )
    rate = None
    try:
        for record in records:
            rate = record.steps_per_second
            spent.note(record.step, ranks)
    finally:
        if rate is not None:  # a folder that was refused stays as it was
            spent.write(ranks)
    ranks.on_main(write_config)  # again, for a run whose config was moved away
    learner = _as_stored(experiment, problem, learner)
    result = {
        **_tested(experiment, problem, learner, spent, progress),
        "outer_steps_per_second": rate,
        "config": config,
    }

    def write() -> dict[str, Any]:
        result["skipped_tasks"] = skipped_tasks(folder)
        if recipe.validate_every:
            result["curve"] = learning_curve(folder)
        result["per_task"] = result.pop("per_task")  # last: it is long
        _store(folder, problem, learner)
        return write_result(folder, result)

    return ranks.on_main(write)


def _tested(
    experiment: Experiment, problem: AnyProblem, learner: Learner, spent: Spent, progress: ProgressChoice
) -> dict[str, Any]:
    """The test of a trained learner, what it was made with and what it cost."""
    recipe, trained = experiment.recipe, time.perf_counter()
    by_steps = inner_steps_by_validation(experiment, problem, learner, progress)
    if by_steps:
        _test_with(learner, best_inner_steps(by_steps))
    return {
        "experiment": experiment.name,
        "recipe": experiment.recipe_name,
        "method": experiment.method,
        **tested(experiment, problem, learner, progress),
        "outer_steps": recipe.find_steps + recipe.outer_steps,
        "inner_lrs": inner_lrs(learner),
        **({"inner_steps_chosen": best_inner_steps(by_steps)} if by_steps else {}),
        **({"inner_steps_validation": {str(k): v for k, v in by_steps.items()}} if by_steps else {}),
        "filter_sizes": [s.filter_shape.numel() for s in symmetries(learner.model).values()],
        "seed": recipe.seed,
        "parameters": sum(p.numel() for p in learner.outer_parameters().values()),
        **spent.so_far(),
        "test_seconds": time.perf_counter() - trained,
        "problem": problem.description,
        "command": command(experiment),
        "commit": commit(),
        "versions": versions(),
        "threads": torch.get_num_threads(),
    }


def _validation(experiment: Experiment, held_out: Tasks) -> Validation:
    """Table 3 tests the parameters of the last step; all other tables test those that validated best."""
    every, classes = experiment.recipe.validate_every, experiment.has_classes
    return Validation(held_out, every, metric="accuracy" if classes else "loss", keep_best=not classes)


def _setting(experiment: Experiment, tasks: Tasks) -> Setting:
    """Where, in what precision and at what sizes the steps of a run are computed."""
    recipe = experiment.recipe
    return Setting.of(
        sample(tasks, torch.tensor([0]), 0),
        tasks=min(recipe.tasks_per_step, len(tasks)),
        device=recipe.device,
        autocast=outer_autocast(recipe) is not None,
    )


def _find(
    experiment: Experiment,
    problem: AnyProblem,
    tasks: Tasks,
    folder: Path,
    resume: bool,
    progress: ProgressChoice,
) -> nn.Module:
    """The first stage of a recipe with ``find_steps``: learn U under a nuclear norm, drop what it prunes.

    Its own folder inside the run's holds its checkpoints. A strong penalty in the inner problem and a small start
    of U keep directions near 0 until they help; the nuclear norm then sets the useless ones to exactly 0.
    """
    recipe = experiment.recipe
    learner = _finder(experiment, problem, tasks)
    records = train(
        learner,
        tasks,
        outer_steps=recipe.find_steps,
        tasks_per_step=recipe.tasks_per_step,
        optimizer=lambda parameters: NuclearAdam(parameters, lr=recipe.find_lr, nuclear=recipe.nuclear),
        seed=int(mix(recipe.seed, _FIND)),
        out=Files(folder / FIND, recipe.checkpoint_every),
        resume=resume,
        progress=progress,
        device=recipe.device,
        autocast=outer_autocast(recipe),
    )
    for _ in records:
        pass
    compress(learner.model, equal=recipe.find_equal)
    return learner.model


def _finder(experiment: Experiment, problem: AnyProblem, tasks: Tasks) -> Learner:
    """The learner of the first stage: as the recipe says, except for its own solver and penalty."""
    recipe = experiment.recipe
    solver = recipe.solver if recipe.find_solver == "same" else recipe.find_solver
    return build_learner(experiment.replace(solver=solver, penalty=recipe.find_penalty), problem, len(tasks))


def _blank(experiment: Experiment, problem: AnyProblem, sizes: Mapping[str, int]) -> Learner:
    """A learner that takes the state of a scored one, whose first stage may have left other filters."""
    if experiment.recipe.find_steps:
        (size,) = sizes.values()
        experiment = experiment.replace(filter_size=size)
    return build_learner(experiment, problem, len(_training_tasks(experiment, problem)[0]))


def _as_stored(experiment: Experiment, problem: AnyProblem, learner: Learner) -> Learner:
    """The learner as opening its run will make it: what is tested is what is stored, to the bit."""
    sizes = {name: one.filter_shape.numel() for name, one in symmetries(learner.model).items()}
    made = _blank(experiment, problem, sizes)
    made.load_state_dict(learner.state_dict())
    return made.to(next(learner.parameters()).device)


def _store(folder: Path, problem: AnyProblem, learner: Learner) -> None:
    """Write the learner as it was tested, and its weights for the first test task, to be looked at."""
    episodes = sample(problem.test, torch.tensor([0]), 0)
    adapted: dict[str, Tensor] = {}
    # Where what was learned is not finite nothing can be adapted.
    with contextlib.suppress(MetasymError, RuntimeError):
        network = learner.adapt(Batch(episodes.support.x[0], episodes.support.y[0]))
        adapted = {
            name.rpartition(".")[0]: parameter.detach()
            for name, parameter in network.named_parameters()
            if parameter.ndim >= 2 and name.rpartition(".")[2] == "weight"
        }
    steps = learner.test_inner_steps if isinstance(learner, GradientLearner) else None
    settings = {"test_inner_steps": steps}
    write_model(folder, learner.model, learner.state_dict(), learner.describe(), settings, adapted)


def _training_tasks(experiment: Experiment, problem: AnyProblem) -> tuple[Tasks, Tasks | None]:
    """The tasks to train on, and those held out for validation."""
    if isinstance(problem, ImageProblem):
        return problem.train, problem.validation if experiment.recipe.validate_every else None
    fraction = experiment.recipe.validation_fraction
    if fraction == 0:
        return problem.train, None
    return hold_out(problem.train, fraction, experiment.data_seed)
