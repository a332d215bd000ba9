"""``ms.learn``: the main job from Python; the command line is a thin layer over the same functions."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import torch

from metasym.argument_types import checked
from metasym.inspection.given_groups import GivenGroup
from metasym.runs.files.learn_options import Options
from metasym.runs.learning.learn import learn_tasks
from metasym.runs.learning.learned_run import LearnedRun, open_learned
from metasym.runs.named_functions import named_function
from metasym.tasks.frames import is_frame
from metasym.tasks.reading import tasks_in
from metasym.tasks.task_file import Reading
from metasym.training.distributed import connect, pick_device
from metasym.training.progress import ProgressChoice
from metasym.types import MetasymError


@checked
def learn(
    x: Any,
    y: Any = None,
    *,
    task: str | None = None,
    inputs: str | list[str] | None = None,
    outputs: str | list[str] | None = None,
    labels: bool | None = None,
    blocks: Any = None,
    scalar_x: bool = False,
    input_names: list[str] | None = None,
    output_names: list[str] | None = None,
    group: GivenGroup | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: ProgressChoice = "silent",
    note: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> LearnedRun:
    """Learn the symmetry that tasks share, and a network that adapts to new ones.

    Args:
        x: arrays or tensors ``[tasks, examples, ...]``; or a data frame (pandas, polars, pyarrow) with a row for
            each example; or the path of an ``.npz``, ``.csv``, ``.tsv`` or ``.parquet`` file; or, for more rows than
            fit into memory, a folder or pattern of Parquet files (``"data/*.parquet"``) or a
            ``pyarrow.dataset.Dataset``.
        y: ``[tasks, examples, ...]`` of floats (regression), or ``[tasks, examples]`` of whole numbers
            (classification: each task's labels from 0 without gaps). None with a frame or a path.
        task: of a frame or table, the column that says which task a row belongs to.
        inputs: the columns of x, a list or ``"a,b,c"``; patterns such as ``"torque_*"`` stand for several.
        outputs: the columns of y, in the same way.
        labels: whether y holds labels, whatever its type.
        blocks: which tasks belong together (one robot, one day, one patient): they stay together in the split and
            count as one in certificates. Of arrays a list with a name or number for each task, of a frame or table a
            column.
        scalar_x: Each example is one number. Otherwise a 2-D x is rejected as a probable table of rows.
        input_names: what the numbers of x are called.
        output_names: what the numbers of y, or the classes, are called.
        group: a group to test on the tasks: a name (``"dihedral"``; ``metasym inspect --help`` lists them), a JSON
            file of generators, a group of ``ms.groups``, a ``SignedGroup`` or a list of its elements. ``run.answer``
            says whether the tasks have it, or how nearly.
        out: a folder for the run's files; by default they are temporary, and :meth:`Run.save` keeps them.
            A finished run of the same tasks and options in it is not run again.
        resume: continue the interrupted run in ``out``, if there is one.
        progress: ``"auto"``, ``"plain"`` or ``"silent"``: how to show progress.
        note: called with a line about each thing that is being done.
        **options: as on the command line, with underscores: ``model``, ``support``, ``seed``, ``tolerance``,
            ``baseline``, ``max_minutes``, ...; ``metasym learn --help`` lists all.

    Returns:
        The run: ``run.verdict``, ``run.symmetry``, ``run.scores``, ``run.adapt``, ``run.predict``, ``run.report``.


    Example:
        >>> import metasym as ms
        >>> data = ms.tasks.planted("signed8", tasks=30)    # x and y [tasks, examples, 8]
        >>> run = ms.learn(data.x, data.y, baseline=False)
        >>> print(run.verdict.status, run.symmetry[0].group.name)
        certified Z_8
        >>> tuple(run.predict(data.x[0, :2], data.y[0, :2], data.x[0, 2:]).shape)
        (18, 8)
    """
    if progress not in get_args(ProgressChoice):
        raise MetasymError(
            f"expected progress to be one of {', '.join(get_args(ProgressChoice))}, found {progress!r}",
            about="progress",
            found=progress,
        )
    known = {field.name for field in dataclasses.fields(Options)}
    for name in options:
        if name not in known:
            raise MetasymError(
                f"expected options among {', '.join(sorted(known))}, found {name!r}",
                about="options",
                found=name,
            )
    reading = Reading(
        task=task,
        inputs=_listed(inputs),
        outputs=_listed(outputs),
        labels=labels,
        blocks=blocks if isinstance(blocks, str) else None,
        scalar_x=scalar_x,
        input_names=_listed(input_names),
        output_names=_listed(output_names),
    )
    if y is None and task is None and is_frame(x):
        raise MetasymError(
            "expected task=, inputs= and outputs= to say what the columns of a frame are, found none",
            about="task, inputs, outputs",
        )
    if blocks is not None and not isinstance(blocks, str) and y is None:
        raise MetasymError(
            "expected blocks= to name a column of a frame or table, found a list: lists are for arrays x and y",
            about="blocks",
        )
    wishes = Options(**options, group=group if isinstance(group, str) else None)
    ranks = connect(pick_device(wishes.device, torch.device("cpu")))
    apart = None if isinstance(blocks, str) else blocks
    file = tasks_in(x, y, reading, blocks=apart, processes=ranks)
    folder = Path(tempfile.mkdtemp(prefix="metasym-") if out is None else out)
    try:
        learn_tasks(file, folder, wishes, resume=resume, progress=progress, note=note, group=group)
        named = wishes.model is not None and ":" in wishes.model
        own = named_function(str(wishes.model), "model") if named else None  # the caller has named this code
        run = open_learned(folder, own, tasks=file)
    except BaseException:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if out is None:
        weakref.finalize(run, shutil.rmtree, folder, ignore_errors=True)
    return run


def _listed(names: str | list[str] | tuple[str, ...] | None) -> str | None:
    return names if names is None or isinstance(names, str) else ",".join(map(str, names))
