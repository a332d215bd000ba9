"""``ms.learn``: the main job from Python, and a finished run in the user's hands.

The command line is a thin layer over the same functions: :mod:`metasym.cli.learn`.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import nn

from metasym.report.page.page import NAME, write
from metasym.runs.files.learn_options import Options
from metasym.runs.files.result_files import read_result
from metasym.runs.learning.learn import learn_tasks
from metasym.runs.learning.learned_run import LearnedRun, load_learned
from metasym.runs.learning.networks import load_function
from metasym.storage.atomic import make_folder
from metasym.storage.file_names import BASELINE, RESULT
from metasym.tasks.frames import is_frame
from metasym.tasks.reading import tasks_in
from metasym.tasks.task_file import Reading
from metasym.training.progress import ProgressChoice
from metasym.types import MetasymError, Score
from metasym.verdicts.layer_words import summary_words
from metasym.verdicts.symmetry_report import SymmetryReport
from metasym.verdicts.verdict import Status, Verdict


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """What ``ms.learn`` learned: what it found, how well it does, and the network for a new task.

    >>> run = ms.learn(x, y)                        # x, y [tasks, examples, ...]     # doctest: +SKIP
    >>> run.verdict.status, run.symmetry[0].group   # what was found                  # doctest: +SKIP
    >>> run.scores.mean, run.baseline.mean          # the test error, and MAML's      # doctest: +SKIP
    >>> network = run.adapt(x_new, y_new)           # an ordinary nn.Module           # doctest: +SKIP
    """

    learned: LearnedRun
    folder: Path
    """Where its files are; a temporary folder, gone with this object, unless the run was given one."""
    scores: Score
    """On the test tasks, from ``learned.choices.support`` examples each, in the units of y."""
    baseline: Score | None
    """The same of MAML on the plain network; None where it was not trained."""

    def __repr__(self) -> str:
        found = ", ".join(summary_words(layer) for layer in self.symmetry)
        beside = "" if self.baseline is None else f", baseline {self.baseline.mean:.4g}"
        return f"Run({found}; {self.scores.metric} {self.scores.mean:.4g}{beside}; {self.folder})"

    @property
    def symmetry(self) -> SymmetryReport:
        """What was found in each layer: groups with their bounds, ladders, patterns."""
        assert self.learned.symmetry is not None  # the baseline alone has none
        return self.learned.symmetry

    @property
    def verdict(self) -> Verdict:
        """What is known about the symmetry that the tasks share: of several layers, the one that says most."""
        order = list(Status)
        return min((layer.verdict for layer in self.symmetry), key=lambda found: order.index(found.status))

    def adapt(self, x: Any, y: Any, *, structured: bool = False, batch: int = 32) -> nn.Module:
        """An ordinary module, adapted to a new task from its examples; see :meth:`LearnedRun.adapt`."""
        return self.learned.adapt(x, y, structured=structured, batch=batch)

    def predict(self, x_support: Any, y_support: Any, x_query: Any) -> Any:
        """What a new task's outputs are at ``x_query``, after adapting to its examples.

        Arrays give an array, tensors a tensor; of a data frame the columns that were learned from are taken. For
        labels the most likely class, ``[examples]``.
        """
        network = self.adapt(x_support, y_support)
        inputs = self.learned.inputs(x_query)
        with torch.no_grad():
            found = network(inputs)
        if self.learned.config["data"]["classes"]:
            found = found.argmax(-1)
        return found if isinstance(x_query, torch.Tensor) else found.numpy()

    def report(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Write the page about this run, one self-contained HTML file, and return its path."""
        out = self.folder / NAME if path is None else Path(path)
        write(self.folder, out)
        return out

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Copy the run's files into a new or empty folder, which ``ms.open_run`` and the command line open."""
        target = Path(folder).resolve()
        if target.is_file() or (target.is_dir() and any(target.iterdir())):
            found = "a file" if target.is_file() else "one in use"
            raise MetasymError(f"{target}: expected a new or empty folder to save the run to, found {found}")
        try:
            make_folder(target.parent)
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".metasym-") as scratch:
                whole = Path(scratch) / "run"
                _copy(self.folder, whole)
                if not target.exists():
                    whole.replace(target)
                else:  # it may be the current folder, which has to stay the same one
                    for child in whole.iterdir():
                        child.replace(target / child.name)
        except OSError as error:
            raise MetasymError(f"{target}: expected a folder to write to, found {error.strerror}") from None
        return target


def _copy(source: Path, target: Path) -> None:
    """Copy files and folders; a link, which may lead out of a run that somebody else made, is refused."""
    target.mkdir()
    for path in sorted(source.iterdir()):
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            kind = "a symbolic link" if path.is_symlink() else "neither"
            raise MetasymError(f"{path}: expected a file or a folder of a run, found {kind}")
        if path.is_dir():
            _copy(path, target / path.name)
        else:
            shutil.copyfile(path, target / path.name)


def learn(
    x: Any,
    y: Any = None,
    *,
    task: str | None = None,
    inputs: str | list[str] | None = None,
    outputs: str | list[str] | None = None,
    labels: bool | None = None,
    scalar_x: bool = False,
    input_names: list[str] | None = None,
    output_names: list[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: ProgressChoice = "silent",
    note: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> Run:
    """Learn the symmetry that tasks share, and a network that adapts to new ones.

    Args:
        x: arrays or tensors ``[tasks, examples, ...]``; or a data frame (pandas, polars, pyarrow) with a row for
            each example; or the path of an ``.npz``, ``.csv``, ``.tsv`` or ``.parquet`` file.
        y: ``[tasks, examples, ...]`` of floats (regression), or ``[tasks, examples]`` of whole numbers
            (classification: each task's labels from 0 without gaps). None with a frame or a path.
        task: of a frame or table, the column that says which task a row belongs to.
        inputs: the columns of x, a list or ``"a,b,c"``; patterns such as ``"torque_*"`` stand for several.
        outputs: the columns of y, in the same way.
        labels: whether y holds labels, whatever its type.
        scalar_x: that ``x [tasks, examples]`` is intended: an example is one number.
        input_names: what the numbers of x are called.
        output_names: what the numbers of y, or the classes, are called.
        out: a folder for the run's files; by default they are temporary, and :meth:`Run.save` keeps them.
            A finished run of the same tasks and options in it is not run again.
        resume: continue the interrupted run in ``out``, if there is one.
        progress: ``"auto"``, ``"plain"`` or ``"silent"``: how to show the steps.
        note: called with a line about each thing that is being done.
        **options: as on the command line, with underscores: ``model``, ``support``, ``seed``, ``tolerance``,
            ``baseline``, ``max_minutes``, ...; ``metasym learn --help`` lists all.

    Returns:
        The run: ``run.verdict``, ``run.symmetry``, ``run.scores``, ``run.adapt``, ``run.predict``, ``run.report``.

    """
    if progress not in get_args(ProgressChoice):
        raise MetasymError(
            f"expected progress to be one of {', '.join(get_args(ProgressChoice))}, found {progress!r}"
        )
    known = {field.name for field in dataclasses.fields(Options)}
    for name in options:
        if name not in known:
            raise MetasymError(f"expected options among {', '.join(sorted(known))}, found {name!r}")
    reading = Reading(
        task=task,
        inputs=_listed(inputs),
        outputs=_listed(outputs),
        labels=labels,
        scalar_x=scalar_x,
        input_names=_listed(input_names),
        output_names=_listed(output_names),
    )
    if y is None and task is None and is_frame(x):
        raise MetasymError(
            "expected task=, inputs= and outputs= to say what the columns of a frame are, found none"
        )
    file = tasks_in(x, y, reading)
    wishes = Options(**options)
    folder = Path(tempfile.mkdtemp(prefix="metasym-") if out is None else out)
    try:
        learn_tasks(file, folder, wishes, resume=resume, progress=progress, note=note)
        named = wishes.model is not None and ":" in wishes.model
        own = load_function(str(wishes.model)) if named else None  # the caller has named this code
        run = dataclasses.replace(open_run(folder, own), learned=load_learned(folder, own, tasks=file))
    except BaseException:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if out is None:
        weakref.finalize(run, shutil.rmtree, folder, ignore_errors=True)
    return run


def open_run(folder: str | os.PathLike[str], model: Callable[[], nn.Module] | None = None) -> Run:
    """The finished run of ``ms.learn`` or ``metasym learn`` in ``folder``. Executes no code from it.

    ``model`` is the function that makes the network, for a run with a network of the user's own.
    """
    place = Path(folder)
    learned = load_learned(place, model)
    if learned.symmetry is None:
        raise MetasymError(
            f"{place}: expected the folder of a run, found that of its baseline: open {place.parent}"
        )
    plain = place / BASELINE / RESULT
    return Run(learned, place, _score(place / RESULT), _score(plain) if plain.exists() else None)


def _listed(names: str | list[str] | tuple[str, ...] | None) -> str | None:
    return names if names is None or isinstance(names, str) else ",".join(map(str, names))


def _score(path: Path) -> Score:
    found = read_result(path)
    values = [np.nan if value is None else value for value in found["per_task"]]
    numbers = {key: np.nan if found[key] is None else found[key] for key in ("mean", "ci95", "median")}
    return Score(
        per_task=tuple(values),
        mean=numbers["mean"],
        ci95=numbers["ci95"],
        median=numbers["median"],
        metric=found["metric"],
        diverged=found["diverged"],
    )
