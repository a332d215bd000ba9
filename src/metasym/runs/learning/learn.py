"""``metasym learn`` from beginning to end: read, choose, train both methods, inspect, write. Resumable."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from metasym.diagnosis.checks import diagnose
from metasym.diagnosis.findings import Diagnosis
from metasym.inspection import inspect, save_symmetry
from metasym.learners.evidence_msr import EvidenceMSR
from metasym.learners.gradient import GradientLearner
from metasym.runs.files.config_files import read_config
from metasym.runs.files.learn_files import COMMAND, command, config_of, settings_of
from metasym.runs.files.learn_options import Choices, Options, Reason
from metasym.runs.files.result_files import read_result, write_result
from metasym.runs.learned_step_sizes import inner_lrs
from metasym.runs.learning.asked_group import asked_group, check_same_group
from metasym.runs.learning.automatic_choices import choose, parts, unread_layers
from metasym.runs.learning.chosen_learners import DIVERGED, Fitted, choose_penalty, loss_of, maml, msr, score
from metasym.runs.learning.large_layers import is_large, learned_from_weights, with_allowed
from metasym.runs.learning.learning_by_evidence import learn_by_evidence
from metasym.runs.learning.loading import AnyLearned, as_stored, store
from metasym.runs.learning.networks import plain_network, symmetric_network
from metasym.runs.learning.predicting_the_mean import predicting_the_mean
from metasym.runs.learning.predictive_intervals import interval_widths
from metasym.runs.learning.same_data import same_on_every_rank
from metasym.runs.learning.support_scores import scores_by_support
from metasym.runs.learning.training_effort import threads_of
from metasym.runs.machine import commit, one_line, threads, versions
from metasym.storage.atomic import check_inside, make_folder, make_inside
from metasym.storage.file_names import BASELINE, CONFIG, CURRENT, FIND, RESULT, SYMMETRY
from metasym.storage.json_files import write_json
from metasym.storage.locks import holding
from metasym.storage.same_run import check_same_run
from metasym.storage.system import peak_memory
from metasym.symmetry.reparam import symmetries
from metasym.tasks.reading import read_tasks
from metasym.tasks.stored import StoredTasks
from metasym.tasks.task_file import Reading, TaskFile
from metasym.training.distributed import Ranks, connect, pick_device
from metasym.training.progress import ProgressChoice
from metasym.types import MetasymError
from metasym.verdicts.symmetry_report import SymmetryReport

if TYPE_CHECKING:
    from metasym.inspection.given_groups import GivenGroup
    from metasym.runs.learning.training_stages import Stage

# What trains by outer steps, or asks deep networks, is imported where it is needed: a run by evidence does neither.
Explain = Callable[[TaskFile, Diagnosis, list[Reason]], None]
_FIND_PART, _MSR_PART = 0.3, 0.6
"""How much of --max-minutes has gone when MSR's first stage, and all of MSR, has to end."""


@dataclass(frozen=True, eq=False)
class Learned:
    """What a run of ``metasym learn`` has to say."""

    folder: Path
    msr: dict[str, Any]
    """The result of MSR: ``result.json``."""
    maml: dict[str, Any] | None
    """The result of the baseline: ``maml/result.json``; None for a run without."""
    report: SymmetryReport
    choices: Choices
    stored: bool = False  # all of it was there before, from a finished run: nothing was trained


@dataclass(frozen=True, eq=False)
class _Run:
    """What both methods share."""

    file: TaskFile
    diagnosis: Diagnosis
    choices: Choices
    options: Options
    train: StoredTasks
    validation: StoredTasks
    test: StoredTasks
    folder: Path
    resume: bool
    progress: ProgressChoice
    note: Callable[[str], None]
    ranks: Ranks
    began: float = field(default_factory=time.perf_counter)

    @property
    def metric(self) -> str:
        return "accuracy" if self.file.classes else "mse"

    @cached_property
    def square(self) -> float:
        """The error of predicting the mean of the training tasks' outputs, on the test tasks."""
        return predicting_the_mean(self.train, self.test) * self.choices.layout.y_scale**2

    @property
    def name(self) -> str:
        return f"{COMMAND}/{self.file.path.stem}"

    def stage(self, folder: Path, *, few: bool = False, part: float = 1.0) -> Stage:
        """Training with many support examples, or with as few as are scored; it ends after ``part`` of the time."""
        from metasym.runs.learning.training_stages import Stage

        count = self.choices.support if few else self.choices.train_support
        parts = [tasks.with_support(count) for tasks in (self.train, self.validation)]
        until = math.inf
        if self.options.max_minutes is not None:
            until = self.began + 60 * self.options.max_minutes * part
        shared = (self.resume, self.progress, self.options.device, self.ranks, until, self.note)
        return Stage(parts[0], parts[1], folder, *shared, recovers=self.options.inner_lr is None)


def learn_tasks(
    tasks: str | os.PathLike[str] | TaskFile,
    out: str | os.PathLike[str],
    options: Options | None = None,
    *,
    reading: Reading | None = None,
    resume: bool = False,
    progress: ProgressChoice = "auto",
    note: Callable[[str], None] = lambda _: None,
    explain: Explain = lambda _file, _diagnosis, _reasons: None,
    group: GivenGroup | None = None,
) -> Learned:
    """Learn the symmetry of the tasks (or of those in a file); everything goes into the folder ``out``.

    ``reading`` says what is in the file, where the file does not (the columns of a table, names, labels).
    ``group`` is one to test, in the place of ``options.group``.
    ``explain`` receives what was seen in the data and the choices before training begins, ``note`` what is being
    done, a line at a time. A finished run of the same data and choices is not run again; with ``resume`` one that
    was killed continues. Under ``torchrun`` every rank has to call this; rank 0 alone writes files and reports
    progress.
    """
    options = options or Options()
    folder = Path(out)
    with one_line(folder), threads(options.threads), contextlib.ExitStack() as held:
        ranks = connect(pick_device(options.device, torch.device("cpu")))
        file = tasks if isinstance(tasks, TaskFile) else read_tasks(tasks, reading, processes=ranks)
        diagnosis = diagnose(same_on_every_rank(ranks, file))
        choices, reasons = choose(file, options, diagnosis)
        choices = replace(
            choices, asked=asked_group(options.group if group is None else group, choices, file)
        )
        diagnosis = diagnosis.with_more(unread_layers(choices, file))
        if ranks.main:
            explain(file, diagnosis, reasons)
        ranks.on_main(lambda: held.enter_context(holding(folder)))
        told = note if ranks.main else lambda _: None
        run = _prepare(file, diagnosis, choices, options, folder, resume, progress, told, ranks)
        if options.threads is None:
            torch.set_num_threads(threads_of(choices, file, run.train))
        places = [folder, folder / BASELINE][: 1 + options.baseline]
        stored = None not in [_finished(run, place) for place in places]
        symmetric = _msr(run)
        plain = _maml(run, symmetric) if options.baseline else None
        file.check_unchanged()
        report = SymmetryReport.from_json(symmetric["symmetry"], str(folder / RESULT))
        return Learned(folder, symmetric, plain, report, choices, stored)


def _prepare(
    file: TaskFile,
    diagnosis: Diagnosis,
    choices: Choices,
    options: Options,
    folder: Path,
    resume: bool,
    progress: ProgressChoice,
    note: Callable[[str], None],
    ranks: Ranks,
) -> _Run:
    train, validation, test = (
        StoredTasks(file, ids, support=choices.support, layout=choices.layout)
        for ids in parts(file, options, choices)
    )
    run = _Run(
        file, diagnosis, choices, options, train, validation, test, folder, resume, progress, note, ranks
    )
    ranks.on_main(lambda: _open_folders(run))
    return run


def _open_folders(run: _Run) -> None:
    """Folders with a config each; those of another run are refused."""
    places = {"msr": run.folder} | ({"maml": run.folder / BASELINE} if run.options.baseline else {})
    for method, place in places.items():
        check_inside(run.folder, place)
        make_folder(place)
        wanted = config_of(run.file, run.diagnosis, run.choices, method)
        if (place / CONFIG).exists():
            stored = read_config(place, "learn")
            check_same_group(wanted["choices"], stored["choices"], place)
            check_same_run(settings_of(wanted), settings_of(stored), str(place))
        elif (place / CURRENT).exists():
            what = f"{place}: expected an empty folder or a run with {CONFIG}"
            raise MetasymError(f"{what}, found one without", about=str(place / CONFIG))
        else:
            write_json(place / CONFIG, wanted)


def _finished(run: _Run, folder: Path) -> dict[str, Any] | None:
    return run.ranks.on_main(lambda: read_result(folder / RESULT) if (folder / RESULT).exists() else None)


def _msr(run: _Run) -> dict[str, Any]:
    """Find, prune, refine, give back what was pruned too much; then score and inspect."""
    stored = _finished(run, run.folder)
    if stored is not None:
        return stored
    began = time.perf_counter()
    if run.choices.solver == "evidence":
        return _by_evidence(run, began)
    choices, loss = run.choices, loss_of(run.file.classes)
    if is_large(choices):
        return _from_weights(run, began)
    from metasym.runs.learning.reports_without_certificate import uncertified
    from metasym.runs.learning.restored_directions import missing
    from metasym.runs.learning.training_stages import find, fit
    from metasym.runs.learning.trial_steps import say_effort

    learner = msr(choices, symmetric_network(choices), loss)
    tried = run.train.with_support(choices.train_support)
    say_effort(choices, learner, tried, "MSR", choices.find_steps + choices.outer_steps, run.note)
    finding = 0
    if choices.find_steps:
        run.note(f"MSR, first stage: {choices.find_steps} steps find how many filter entries the tasks need")
        run.ranks.on_main(lambda: make_inside(run.folder, FIND))
        begun = run.ranks.on_main(lambda: run.resume and (run.folder / CURRENT).exists())
        found = find(choices, learner, run.stage(run.folder / FIND, part=_FIND_PART), over=begun)
        finding = found.steps
        run.note(
            "; ".join(f"{name or 'the layer'} needs {k} filter entries" for name, k in found.left.items())
        )
        learner = msr(choices, learner.model, loss)
    stage = run.stage(run.folder, part=_MSR_PART if run.options.baseline else 1.0)
    choose_penalty(choices, learner, stage.validation)
    run.note("MSR: U is learned")
    fitted = fit(choices, learner, stage, run.metric)
    sizes = {name: list(s.filter_shape) for name, s in symmetries(learner.model).items()}  # the checkpoint's
    learner, given = missing(choices, learner, run.validation, run.square)
    scored = as_stored(choices, run.file.classes, "msr", learner)
    result = _score(run, scored, "msr", fitted._replace(steps=finding + fitted.steps))
    report = uncertified(inspect(scored.model), run.choices, run.file.classes)
    run.ranks.on_main(lambda: save_symmetry(scored.model, run.folder / SYMMETRY, report))
    more = {
        "filter_sizes": sizes,
        "completed": None if given is None else given.as_dict(),
        "symmetry": report.to_json(),
    }
    if not choices.single_layer:
        from metasym.runs.learning.deep_networks import about_network

        parts = (run.train, run.validation, run.test)
        more |= about_network(choices, parts, scored, labels=bool(run.file.classes), note=run.note)
    return _write(run, run.folder, scored, {**result, **more}, began)


def _from_weights(run: _Run, began: float) -> dict[str, Any]:
    """A large linear layer: U from the tasks' own weights, without outer steps."""
    from metasym.runs.learning.reports_without_certificate import uncertified

    run.note("MSR: U is read from the least-squares weights of all training tasks")
    learner = learned_from_weights(run.choices, run.train)
    sizes = {name: list(s.filter_shape) for name, s in symmetries(learner.model).items()}
    run.note(f"{sizes[''][0]} directions; reading what they share")
    report = uncertified(inspect(learner.model), run.choices, run.file.classes)
    whole = with_allowed(run.choices, learner, report)
    if whole is not None:
        errors = []
        for one in (learner, whole):
            choose_penalty(run.choices, one, run.validation)
            errors.append(score(run.choices, one, run.validation, "mse").mean)
        if errors[1] < errors[0]:
            learner, report = whole, inspect(whole.model)
            sizes = {name: list(s.filter_shape) for name, s in symmetries(learner.model).items()}
            run.note(f"{sizes[''][0]} directions have the symmetry that was found; all of them are used")
    scored = as_stored(run.choices, run.file.classes, "msr", learner)
    run.ranks.on_main(lambda: save_symmetry(scored.model, run.folder / SYMMETRY, report))
    result = _score(run, scored, "msr", Fitted(0))
    more = {"filter_sizes": sizes, "completed": None, "symmetry": report.to_json()}
    return _write(run, run.folder, scored, {**result, **more}, began)


def _by_evidence(run: _Run, began: float) -> dict[str, Any]:
    """The tasks' prior, the group that the test tasks certify, and the scores with it and without."""
    tasks, names = (run.train, run.validation, run.test), (run.file.input_names, run.file.output_names)
    found = learn_by_evidence(run.choices, tasks, run.diagnosis, names, run.note)
    scored = as_stored(run.choices, run.file.classes, "msr", found.learner)
    run.ranks.on_main(lambda: save_symmetry(scored.model, run.folder / SYMMETRY, found.report))
    result = _score(run, scored, "msr", Fitted(found.rounds))
    if found.without is not None:
        result["without_symmetry"] = _score(run, found.without, "msr", Fitted(found.rounds))["by_support"]
    sizes = {name: list(s.filter_shape) for name, s in symmetries(found.learner.model).items()}
    assert isinstance(scored, EvidenceMSR)
    more = {
        "filter_sizes": sizes,
        "completed": None,
        "intervals": interval_widths(scored, (run.validation, run.test), run.choices.seed),
        "symmetry": found.report.to_json(),
    }
    return _write(run, run.folder, scored, {**result, **more}, began)


def _maml(run: _Run, beside: dict[str, Any]) -> dict[str, Any]:
    """The baseline: the same network, plain, trained on what is scored."""
    folder = run.folder / BASELINE
    found = _finished(run, folder)
    if found is not None:
        return found
    from metasym.runs.learning.training_stages import fit
    from metasym.runs.learning.trial_steps import say_effort

    began = time.perf_counter()
    choices = run.choices
    learner = maml(choices, plain_network(choices), loss_of(run.file.classes))
    stage = run.stage(folder, few=True)
    say_effort(choices, learner, stage.train, "MAML", choices.outer_steps, run.note)
    choose_penalty(choices, learner, stage.validation)
    run.note("MAML on the plain network, as the baseline")
    # Where the start is all that MAML learns it can take, and needs, larger steps than U can.
    larger = choices if choices.solver == "sgd" else replace(choices, outer_lr=5 * choices.outer_lr)
    fitted = fit(larger, learner, stage, run.metric)
    scored = as_stored(choices, run.file.classes, "maml", learner)
    result = _score(run, scored, "maml", fitted)
    if "function" in beside:
        from metasym.runs.learning.deep_networks import about_baseline

        result |= about_baseline(choices, run.test, scored, beside)
    return _write(run, folder, scored, result, began)


def _score(run: _Run, learner: AnyLearned, method: str, fitted: Fitted) -> dict[str, Any]:
    """The test score, and that from other numbers of support examples, as ``result.json`` has them."""
    choices, unit = run.choices, run.choices.layout.y_scale**2 if run.metric == "mse" else 1.0
    by_support = scores_by_support(choices, learner, run.validation, run.test, run.metric, run.progress)
    penalty = choose_penalty(choices, learner, run.validation)
    found = score(choices, learner, run.test, run.metric, run.progress)
    per_task = [value * unit for value in found.per_task]
    result: dict[str, Any] = {
        "experiment": run.name,
        "recipe": COMMAND,
        "method": method,
        "metric": run.metric,
        "mean": found.mean * unit,
        "ci95": found.ci95 * unit,
        "median": found.median * unit,
        "diverged": found.diverged,
        "support": choices.support,
        "by_support": by_support,
        "penalty": penalty if isinstance(learner, GradientLearner) and learner.solver != "sgd" else None,
        "outer_steps": fitted.steps,
        "outer_steps_per_second": fitted.rate,
        "out_of_time": fitted.late,
        "recovered_at": list(fitted.recovered),
        "inner_lrs": inner_lrs(learner),
        "seed": choices.seed,
        "parameters": sum(p.numel() for p in learner.outer_parameters().values()),
    }
    if run.metric == "mse":
        square = run.square
        result["mean_prediction"] = square
        result["diverged"] = sum(not value <= DIVERGED * square for value in per_task)
    return {**result, "per_task": per_task}


def _write(
    run: _Run, folder: Path, scored: AnyLearned, result: dict[str, Any], began: float
) -> dict[str, Any]:
    """The model as it was scored, then the result: a run with a result is whole."""
    per_task, symmetry = result.pop("per_task"), result.pop("symmetry", None)
    written = {
        **result,
        "seconds": time.perf_counter() - began,
        "peak_memory_mb": peak_memory(),
        "command": command(run.file, run.options),
        "commit": commit(),
        "versions": versions(),
        "threads": torch.get_num_threads(),
        "config": config_of(run.file, run.diagnosis, run.choices, result["method"]),
        **({} if symmetry is None else {"symmetry": symmetry}),
        "per_task": per_task,
    }

    def write() -> dict[str, Any]:
        store(folder, scored)
        return write_result(folder, written)

    return run.ranks.on_main(write)
