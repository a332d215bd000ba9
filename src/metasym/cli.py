"""The command line, ``metasym`` and ``python -m metasym``: the only place that prints.

Heavy packages (matplotlib, rich) are imported by the commands that need them.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch

import metasym
from metasym.distributed import is_main
from metasym.experiments.catalogue import find, names
from metasym.experiments.config import Recipe, field_type
from metasym.experiments.paper import RECIPES, TABLE1, TABLE2
from metasym.experiments.reproduce import TABLES
from metasym.types import MetasymError

_PROGRESS = ("auto", "plain", "silent")


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are errors like all others: one line, exit status 2."""

    def error(self, message: str) -> NoReturn:
        raise MetasymError(f"{message} (see {self.prog} --help)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    try:
        options = _parser().parse_args(arguments)
        options.command(options)
        sys.stdout.flush()
    except MetasymError as error:
        print(f"metasym: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("metasym: interrupted; a run that has begun goes on with --resume", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe, head say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="metasym",
        description="Learn the symmetries that a family of tasks shares, and build them into a network.",
        epilog="metasym COMMAND --help tells all about a command.",
    )
    parser.add_argument("--version", action="version", version=f"metasym {metasym.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="learn convolution from data, in about a minute")
    demo.add_argument(
        "--out", type=Path, default=Path("demo"), help="folder for the pictures (default: demo)"
    )
    demo.add_argument("--seed", type=int, default=0, help="seed of data and start (default: 0)")
    demo.add_argument(
        "--outer-steps", type=int, default=1000, help="outer steps of each method (default: 1000)"
    )
    demo.set_defaults(command=_demo)

    listing = commands.add_parser("list", help="the names of all experiments")
    listing.add_argument(
        "pattern", nargs="?", help="a part of the name, or a pattern: 'translation/*/msr-fc'"
    )
    listing.set_defaults(command=_list)

    run = commands.add_parser(
        "run", help="run one experiment", description="Meta-train and test one experiment (see metasym list)."
    )
    run.add_argument("name", help="the experiment, such as translation/rank1/small/msr-fc")
    run.add_argument("--out", type=Path, required=True, help="folder for its files")
    run.add_argument("--resume", action="store_true", help="go on with the run in --out, if there is one")
    run.add_argument("--progress", choices=_PROGRESS, default="auto", help="how to show the steps")
    _add_recipe(run)
    run.set_defaults(command=_run)

    reproduce = commands.add_parser(
        "reproduce",
        help="a table, or the figures, of the paper beside ours",
        description="Run what has not been run yet, then show ours beside the paper's.",
    )
    reproduce.add_argument("table", choices=list(TABLES), help="what to reproduce")
    reproduce.add_argument("--out", type=Path, required=True, help="folder for the runs")
    reproduce.add_argument(
        "--results",
        type=Path,
        help="folder for the small result files (default: results; OUT/results if quick)",
    )
    reproduce.add_argument("--jobs", type=int, default=1, help="runs side by side, of one thread each")
    reproduce.add_argument(
        "--quick", action="store_true", help="few steps and tasks: a taste, not the numbers"
    )
    reproduce.add_argument("--seeds", type=int, nargs="+", help="default: 0 1 2 (quick and figures: 0)")
    reproduce.add_argument(
        "--recipe", nargs="+", choices=RECIPES, help="one or several; default: paper (sizes: best)"
    )
    reproduce.add_argument("--only", metavar="PATTERN", help="only experiments whose names match")
    reproduce.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table as Markdown")
    reproduce.add_argument("--progress", choices=_PROGRESS, default="auto", help="how to show the steps")
    reproduce.set_defaults(command=_reproduce)

    cost = commands.add_parser(
        "cost", help="an experiment's network: entries of U and v, bytes, multiply-adds"
    )
    cost.add_argument("name", help="the experiment, such as translation/rank1/small/msr-fc")
    _add_recipe(cost)
    cost.set_defaults(command=_cost)
    return parser


def _add_recipe(parser: argparse.ArgumentParser) -> None:
    """``--recipe`` and one flag for each of a recipe's fields, which override it."""
    parser.add_argument("--recipe", choices=RECIPES, default="paper", help="default: paper")
    group = parser.add_argument_group("fields of the recipe, if they shall differ")
    for field in dataclasses.fields(Recipe):
        flag = f"--{field.name.replace('_', '-')}"
        kind, optional = field_type(field)
        about: dict[str, Any] = {
            "default": argparse.SUPPRESS,
            "help": field.metadata["help"],
            "dest": field.name,
        }
        if kind is bool:
            group.add_argument(flag, action=argparse.BooleanOptionalAction, **about)
            continue
        if field.metadata["choices"]:
            about["choices"] = field.metadata["choices"]
        else:
            about["metavar"] = {int: "N", float: "X", str: "TEXT"}[kind]
        group.add_argument(flag, type=_none_or(kind) if optional else kind, **about)


def _none_or(kind: type) -> Any:
    def parse(text: str) -> Any:
        return None if text == "none" else kind(text)

    parse.__name__ = f"{kind.__name__} (or none)"
    return parse


def _changes(options: argparse.Namespace) -> dict[str, Any]:
    known = {field.name for field in dataclasses.fields(Recipe)}
    return {name: value for name, value in vars(options).items() if name in known}


def _list(options: argparse.Namespace) -> None:
    found = names(options.pattern)
    if not found:
        raise MetasymError(f"expected a pattern that matches an experiment, found {options.pattern!r}")
    width = max(map(len, found))
    for name in found:
        printed = TABLE1.get(name) or TABLE2.get(name)
        print(f"{name:<{width}}  paper {printed}" if printed else name)


def _run(options: argparse.Namespace) -> None:
    from metasym.experiments.run import run

    experiment = find(options.name, options.recipe, **_changes(options))
    found = run(experiment, options.out, resume=options.resume, progress=options.progress)
    if not is_main():  # under torchrun one process speaks for all
        return
    printed = TABLE1.get(experiment.name) or TABLE2.get(experiment.name)
    beside = f"; the paper's: {printed}" if printed and options.recipe == "paper" else ""
    print(
        f"{experiment.name}: mse {found['mean']:.4f} ± {found['ci95']:.4f}, median {found['median']:.4f}, "
        f"{found['diverged']} of {len(found['per_task'])} tasks diverged{beside}"
    )
    print(f"{options.out / 'result.json'}: {found['outer_steps']} outer steps, {found['seconds']:.0f} s")


def _reproduce(options: argparse.Namespace) -> None:
    from metasym.experiments.reproduce import reproduce, run_folder

    seeds = options.seeds or ([0] if options.quick or options.table == "figures" else [0, 1, 2])
    chosen = {"quick": options.quick, "seeds": seeds, "recipes": options.recipe, "only": options.only}
    written = reproduce(
        options.table,
        options.out,
        results=options.results,
        jobs=options.jobs,
        progress=options.progress,
        note=_say,
        **chosen,
    )
    folder = written[0].parents[1]
    if options.table == "figures":
        from metasym.experiments.reproduce import plan
        from metasym.report.figures import draw_runs

        folders = [run_folder(options.out, e, quick=options.quick) for e in plan(options.table, **chosen)]
        for path in draw_runs(folders, folder):
            print(path)
        return
    from metasym.report.tables import render

    table = render(options.table, folder)
    _console().print(table.terminal())
    if options.table == "sizes":
        from metasym.report.figures import sizes_figure
        from metasym.report.tables import load_cells

        for path in sizes_figure(load_cells(folder), folder / "sizes"):
            print(path)
    if options.markdown is not None:
        _write_text(options.markdown, table.markdown())
        print(options.markdown)


def _cost(options: argparse.Namespace) -> None:
    from metasym.experiments.build import build_model, build_problem

    experiment = find(options.name, options.recipe, **_changes(options))
    problem = build_problem(experiment)
    model = build_model(experiment, problem)
    print(metasym.cost(model, torch.zeros(1, *problem.input_shape)))


def _demo(options: argparse.Namespace) -> None:
    from metasym.report.demo import demo

    console = _console()
    for part in demo(options.out, seed=options.seed, outer_steps=options.outer_steps):
        console.print(part, highlight=False, markup=False)


def _console() -> Any:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 140)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _write_text(path: Path, text: str) -> None:
    from metasym.checkpoint import write_atomically
    from metasym.experiments.files import make_folder

    make_folder(path.parent)
    write_atomically(path, text.encode(), what="a table")
