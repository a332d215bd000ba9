"""``metasym learn``: the main job, on a user's own tasks."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metasym.cli.common import PROGRESS, Commands, console, interval, say
from metasym.cli.flags import add_flags, given

if TYPE_CHECKING:
    from metasym.diagnosis.findings import Diagnosis
    from metasym.runs.files.learn_options import Choices, Reason
    from metasym.runs.learning.learn import Learned
    from metasym.tasks.task_file import TaskFile

_SHOWN = 12
_FILE = """\
TASKS is an .npz file with two arrays (numpy.savez("TASKS.npz", x=x, y=y)):
  x   [tasks, examples, features]          vectors
      [tasks, examples, height, width]     images of one channel (--model conv1d: channels, length)
      [tasks, examples, channels, height, width]
  y   [tasks, examples, ...] of floats     regression: vectors, or images for one convolution
      [tasks, examples] of whole numbers   classification: each task's labels, from 0 without gaps
Tasks with different numbers of examples are stored row by row: x [rows, features], y [rows, ...] and task [rows],
which says which task a row belongs to. Lists of text input_names and output_names may name the numbers of x and y.
An array blocks [tasks] (or [rows]) says which tasks belong together, as --blocks COLUMN does in a table.
Files that do not fit into memory are read as needed if they are not compressed.

Or a table, one row per example (.csv, .tsv; .parquet with the package pyarrow):
  metasym learn runs.csv --task robot --inputs 'torque_*' --outputs acc_x,acc_y --out DIR
Or many Parquet files, a folder or a pattern in quotes ('data/*.parquet'), with more rows than fit into memory.
"""


def add(commands: Commands) -> None:
    """The command's flags."""
    learn = commands.add_parser(
        "learn",
        help="learn the symmetry that your own tasks share",
        description="Learn the symmetry that tasks share (MSR), compare it with MAML on the same network, and report "
        "what was found.",
        epilog=_FILE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    learn.add_argument(
        "tasks",
        type=Path,
        metavar="TASKS",
        help="the tasks: .npz, .csv, .tsv, .parquet or many of these (see below)",
    )
    learn.add_argument("--out", type=Path, required=True, help="folder for the run's files")
    learn.add_argument("--resume", action="store_true", help="continue the run in --out, if there is one")
    learn.add_argument("--progress", choices=PROGRESS, default="auto", help="how to show progress")
    from metasym.runs.files.learn_options import Options
    from metasym.tasks.task_file import Reading

    add_flags(learn, Reading, "how the file is read")
    add_flags(learn, Options, "chosen automatically unless given")
    learn.set_defaults(command=_learn)


def _learn(options: argparse.Namespace) -> None:
    from metasym.runs.files.learn_options import Options
    from metasym.runs.learning.learn import learn_tasks
    from metasym.tasks.task_file import Reading
    from metasym.training.distributed import is_main

    wishes = Options(**given(options, Options))
    quiet = options.progress == "silent"
    found = learn_tasks(
        options.tasks,
        options.out,
        wishes,
        reading=Reading(**given(options, Reading)),
        resume=options.resume,
        progress=options.progress,
        note=(lambda _: None) if quiet else say,
        explain=_explain,
    )
    if is_main():  # under torchrun one process speaks for all
        _summary(found)


def _explain(file: TaskFile, diagnosis: Diagnosis, reasons: list[Reason]) -> None:
    from rich.table import Table

    kind = f"classification into {file.classes} classes" if file.classes else "regression"
    place = ", left on the disk" if file.mapped else ""
    counts = f"{file.counts.min()} to {file.counts.max()}" if file.ragged else f"{file.examples}"
    out = console()
    _line(
        out,
        f"{file.path}: {file.tasks} tasks of {counts} examples; an example has x {_shape(file.x)} and "
        f"y {'a label' if file.classes else _shape(file.y)}: {kind}{place}",
    )
    for what, names in (("inputs", file.input_names), ("outputs", file.output_names)):
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            _line(out, f"  {what}: {', '.join(names[:_SHOWN])}{more}")
    if file.dropped:
        _line(out, f"  left out: {file.dropped} tasks with a single example")
    for finding in diagnosis.findings:
        _line(out, f"  {finding.severity}: {finding.sentence}.")
    table = Table(show_header=True, title="Chosen", title_justify="left")
    for column in ("what", "choice", "flag to change it"):
        table.add_column(column)
    for reason in reasons:
        table.add_row(reason.what, reason.value, reason.flag)
    out.print(table, highlight=False, markup=False)


def _shape(array: Any) -> str:
    """The shape of one example of an array, in words."""
    sizes = array.shape[2:]
    return f"{' x '.join(map(str, sizes))} numbers" if len(sizes) > 1 or sizes[:1] > (1,) else "one number"


def _summary(found: Learned) -> None:
    from rich.table import Table

    from metasym.report.comparison_words import bought, given_back, judgement, linear_instead
    from metasym.verdicts.group_words import method_words, tasks_share
    from metasym.verdicts.layer_words import verdict_words

    out, metric = console(), found.msr["metric"]
    better = "lower" if metric == "mse" else "higher"
    words = "mean squared error" if metric == "mse" else "accuracy"
    tasks, support = len(found.msr["per_task"]), found.msr["support"]
    table = Table(
        title=f"{words.capitalize()} on {tasks} test tasks, {better} is better",
        title_justify="left",
    )
    counts = list(found.msr["by_support"])
    table.add_column("support examples of a new task")
    for count in counts:
        table.add_column(f"{count}{' (chosen)' if int(count) == support else ''}", justify="right")
    rows = {
        method_words(tuple(found.report)): found.msr["by_support"],
        "U as learned, not averaged": found.msr.get("without_symmetry"),
        "same network, plain (MAML)": None if found.maml is None else found.maml["by_support"],
    }
    for label, scores in rows.items():
        if scores is None:
            continue
        cells = [scores[count] for count in counts]
        table.add_row(label, *(interval(c["mean"], c["ci95"]) for c in cells))
    out.print(table, highlight=False, markup=False)
    if metric == "mse":
        _line(out, f"Predicting the mean would give {found.msr['mean_prediction']:.4g}.")
        if found.choices.layout.y_columns:
            _line(out, "All errors are of outputs divided by their scales, as listed above.")
    deep = _deep(found)
    for sentence in (*deep, linear_instead(found.msr)):
        if sentence is not None:
            _line(out, sentence)
    for layer in found.report:
        if deep and layer.group is None and not layer.partial:
            continue  # no layer has to show what the whole network has; metasym inspect shows each
        if layer.group is not None:  # first in words that need no glossary, as the page begins
            _line(out, tasks_share(layer, layer.name if len(found.report) > 1 else ""))
        _line(out, f"In {layer.name or 'the layer'}: {verdict_words(layer)}.")
        for note in layer.notes:
            _line(out, f"  note: {note}")
        if layer.answer is not None:
            from metasym.verdicts.answer_words import answer_words  # few users ask

            _line(out, f"{answer_words(layer)}.")
    for name, result in (("MSR", found.msr), ("MAML", found.maml)):
        if result is not None and result.get("out_of_time"):
            _line(out, f"{name} stopped after --max-minutes. A longer run may find more.")
    if found.msr.get("completed"):
        _line(out, given_back(found.msr["completed"]))
    if (buys := bought(found.msr)) is not None:
        _line(out, buys)
    if found.maml is not None:
        read = any(layer.group is not None or layer.partial for layer in found.report)
        _line(out, judgement(found.msr, found.maml, "The symmetry" if read else "The learned U"))
    folder = found.folder
    seconds = found.msr["seconds"] + (0 if found.maml is None else found.maml["seconds"])
    if found.stored:
        _line(out, f"This run is already complete. The report was read from {folder}, nothing was trained.")
    _line(out, f"Saved in {folder}: result.json, model.safetensors, symmetry.safetensors ({seconds:.0f} s)")
    baseline = "" if found.maml is None else f"; the baseline in {folder / 'maml'}"
    _line(out, f"More: metasym inspect {folder}, metasym report {folder}{baseline}")
    _line(out, "Use it from Python:")
    _line(out, snippet(found.folder, found.choices))


def _deep(found: Learned) -> list[str]:
    """Sentences about the whole network, where it has more than one layer."""
    if found.choices.single_layer:
        return []
    from metasym.verdicts.network_words import deep_words

    return deep_words(found.msr, found.maml)


def snippet(folder: Path, choices: Choices) -> str:
    """Python that adapts the learned network to a new task; it runs as it is once x and y are defined."""
    load = f"run = ms.open_run({str(folder)!r})"
    imports = ["import metasym as ms"]
    if ":" in choices.model:
        module, _, name = choices.model.partition(":")
        imports.append(f"from {module} import {name}")
        load = f"run = ms.open_run({str(folder)!r}, model={name})"
    lines = [
        *imports,
        load,
        "network = run.adapt(x, y)      # one new task's examples, as in the file: an ordinary nn.Module",
        "prediction = run.predict(x, y, x_new)    # arrays, tensors or data frames",
    ]
    return "\n".join(f"    {line}" for line in lines)


def _line(out: Any, text: str) -> None:
    out.print(text, highlight=False, markup=False, soft_wrap=True)
