"""``metasym learn``: the main job, on a user's own tasks."""

from __future__ import annotations

import argparse
import dataclasses
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metasym.cli.common import PROGRESS, Commands, console, say

if TYPE_CHECKING:
    from metasym.experiments.own_tasks.learn import Learned
    from metasym.experiments.own_tasks.options import Choices, Reason
    from metasym.tasks.npz import TaskFile

_FILE = """\
TASKS.npz holds two arrays (numpy.savez("TASKS.npz", x=x, y=y)):
  x   [tasks, examples, features]          vectors
      [tasks, examples, height, width]     images of one channel (--model conv1d: channels, length)
      [tasks, examples, channels, height, width]
  y   [tasks, examples, ...] of floats     regression: vectors, or images for one convolution
      [tasks, examples] of whole numbers   classification: each task's labels, from 0 without gaps
All tasks have the same number of examples. Files that do not fit into memory are read as needed if they are not
compressed.
"""


def add(commands: Commands) -> None:
    """The command's flags."""
    learn = commands.add_parser(
        "learn",
        help="learn the symmetry that your own tasks share",
        description="Learn the symmetry that tasks share (MSR), beside MAML on the same network; say what was found.",
        epilog=_FILE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    learn.add_argument("tasks", type=Path, metavar="TASKS.npz", help="the tasks (see below)")
    learn.add_argument("--out", type=Path, required=True, help="folder for the run's files")
    learn.add_argument("--resume", action="store_true", help="go on with the run in --out, if there is one")
    learn.add_argument("--progress", choices=PROGRESS, default="auto", help="how to show the steps")
    _add_options(learn)
    learn.set_defaults(command=_learn)


def _add_options(parser: argparse.ArgumentParser) -> None:
    from metasym.experiments.own_tasks.options import Options

    group = parser.add_argument_group("what is chosen automatically, if it shall differ")
    hints = typing.get_type_hints(Options)
    for field in dataclasses.fields(Options):
        flag = f"--{field.name.replace('_', '-')}"
        kinds = [kind for kind in typing.get_args(hints[field.name]) if kind is not type(None)] or [
            hints[field.name]
        ]
        about: dict[str, Any] = {
            "dest": field.name,
            "default": argparse.SUPPRESS,
            "help": field.metadata["help"],
        }
        if kinds[0] is bool:
            group.add_argument(flag, action=argparse.BooleanOptionalAction, **about)
        elif field.metadata["choices"]:
            group.add_argument(flag, choices=field.metadata["choices"], **about)
        else:
            metavar = {int: "N", float: "X", str: "TEXT"}[kinds[0]]
            group.add_argument(flag, type=kinds[0], metavar=metavar, **about)


def _learn(options: argparse.Namespace) -> None:
    from metasym.experiments.own_tasks.learn import learn
    from metasym.experiments.own_tasks.options import Options

    known = {field.name for field in dataclasses.fields(Options)}
    wishes = Options(**{name: value for name, value in vars(options).items() if name in known})
    quiet = options.progress == "silent"
    found = learn(
        options.tasks,
        options.out,
        wishes,
        resume=options.resume,
        progress=options.progress,
        note=(lambda _: None) if quiet else say,
        explain=_explain,
    )
    _summary(found)


def _explain(file: TaskFile, reasons: list[Reason]) -> None:
    from rich.table import Table

    kind = f"classification into {file.classes} classes" if file.classes else "regression"
    place = ", left on the disk" if file.mapped else ""
    out = console()
    out.print(
        f"{file.path}: {file.tasks} tasks of {file.examples} examples, x {list(file.x.shape[2:])}, "
        f"y {list(file.y.shape[2:])}: {kind}{place}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    table = Table(show_header=True, title="Chosen", title_justify="left")
    for column in ("what", "choice", "flag to change it"):
        table.add_column(column)
    for reason in reasons:
        table.add_row(reason.what, reason.value, reason.flag)
    out.print(table, highlight=False, markup=False)


def _summary(found: Learned) -> None:
    from rich.table import Table

    out, metric = console(), found.msr["metric"]
    better = "lower" if metric == "mse" else "higher"
    words = "mean squared error" if metric == "mse" else "accuracy"
    tasks, support = len(found.msr["per_task"]), found.msr["support"]
    table = Table(
        title=f"{words.capitalize()} on {tasks} test tasks, {better} is better",
        title_justify="left",
    )
    counts = list(found.msr["by_support"])
    table.add_column("from so many support examples:")
    for count in counts:
        table.add_column(f"{count}{' (chosen)' if int(count) == support else ''}", justify="right")
    rows = {"symmetry learned (MSR)": found.msr, "same network, plain (MAML)": found.maml}
    for label, result in rows.items():
        if result is None:
            continue
        cells = [result["by_support"][count] for count in counts]
        table.add_row(label, *(f"{c['mean']:.4g} ± {c['ci95']:.2g}" for c in cells))
    out.print(table, highlight=False, markup=False)
    if metric == "mse":
        _line(out, f"Predicting 0 would give {found.msr['target_mean_square']:.4g}.")
    for layer in found.report:
        _line(out, f"Found in {layer.name or 'the layer'}: {layer.verdict}.")
        for note in layer.notes:
            _line(out, f"  note: {note}")
    if found.msr.get("completed"):
        _line(out, _given_back(found.msr["completed"]))
    if found.maml is not None:
        read = any(layer.group is not None or layer.partial for layer in found.report)
        _line(out, _judgement(found.msr, found.maml, "The symmetry" if read else "The learned U"))
    folder = found.folder
    seconds = found.msr["seconds"] + (0 if found.maml is None else found.maml["seconds"])
    _line(
        out, f"Saved in {folder}: result.json, checkpoint.safetensors, symmetry.safetensors ({seconds:.0f} s)"
    )
    baseline = "" if found.maml is None else f"; the baseline in {folder / 'maml'}"
    _line(out, f"More: metasym inspect {folder}, metasym report {folder}{baseline}")
    _line(out, "Use it from Python:")
    _line(out, snippet(found.folder, found.choices))


def _given_back(given: dict[str, Any]) -> str:
    """That U had too few directions for the validation tasks, and what giving them back brought."""
    how = "as plain weights" if given["strength"] == 1 else f"at {given['strength']:g} of the strongest"
    few, many = (
        f"from {given[f'before{which}']:.4g} to {given[f'after{which}']:.4g}" for which in ("", "_train")
    )
    return (
        "U lacked directions that the tasks need, pruned or never seen in training; they were given back "
        f"{how}. The validation error goes {few} (from {given['support']} support examples), "
        f"{many} (from {given['train_support']})."
    )


def _judgement(a: dict[str, Any], b: dict[str, Any], what: str) -> str:
    """Whether ``what`` was learned (a) paid, beside the plain network (b): by the intervals, not the means alone."""
    low, high = (a, b) if a["metric"] == "mse" else (b, a)
    if low["mean"] + low["ci95"] < high["mean"] - high["ci95"]:
        return f"{what} pays: its score is better than the plain network's by more than both intervals."
    if high["mean"] + high["ci95"] < low["mean"] - low["ci95"]:
        return f"{what} does not pay here: the plain network's score is better."
    return "From these test tasks no difference between the two can be told."


def snippet(folder: Path, choices: Choices) -> str:
    """Python that adapts the learned network to a new task; it runs as it is where x and y are given."""
    load = f"run = ms.load_learned({str(folder)!r})"
    imports = ["import metasym as ms"]
    if ":" in choices.model:
        module, _, name = choices.model.partition(":")
        imports.append(f"from {module} import {name}")
        load = f"run = ms.load_learned({str(folder)!r}, model={name})"
    lines = [
        *imports,
        load,
        "network = run.adapt(x, y)      # one new task's examples, as in the file: an ordinary nn.Module",
        "prediction = network(x_new)    # x_new: a float32 tensor [examples, ...]",
    ]
    return "\n".join(f"    {line}" for line in lines)


def _line(out: Any, text: str) -> None:
    out.print(text, highlight=False, markup=False, soft_wrap=True)
