"""``metasym list``, ``run``, ``reproduce`` and ``cost``: the experiments of the catalogue."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from metasym.cli.common import PROGRESS, Commands, console, say, write_text
from metasym.cli.recipes import BUDGET_HELP, add_recipe, chosen
from metasym.paper.catalogue import names, printed
from metasym.paper.image_cells import BUDGETS
from metasym.paper.synthetic_cells import RECIPES
from metasym.runs.reproducing.whole_tables import TABLES, USUAL_SEEDS, results_folder
from metasym.storage.json_files import storable
from metasym.training.distributed import is_main
from metasym.types import MetasymError


def add(commands: Commands) -> None:
    """The commands' flags."""
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
    run.add_argument("--resume", action="store_true", help="continue the run in --out, if there is one")
    run.add_argument("--progress", choices=PROGRESS, default="auto", help="how to show progress")
    run.add_argument("--verbose", action="store_true", help="show how the steps are computed, and why")
    add_recipe(run)
    run.set_defaults(command=_run)

    reproduce = commands.add_parser(
        "reproduce",
        help="reproduce a table, or the figures, of the paper",
        description="Run the missing experiments, then compare our numbers with the paper's.",
    )
    reproduce.add_argument("table", choices=list(TABLES), help="what to reproduce")
    reproduce.add_argument("--out", type=Path, help="folder for the runs")
    reproduce.add_argument(
        "--results",
        type=Path,
        help="folder for the small result files (default: results; OUT/results if quick)",
    )
    reproduce.add_argument("--jobs", type=int, default=1, help="runs side by side, of one thread each")
    reproduce.add_argument(
        "--backend",
        choices=("threading", "dask"),
        default="threading",
        help="where they run: here, or on a dask cluster (pip install 'metasym[cluster]') that sees the same folders",
    )
    reproduce.add_argument(
        "--scheduler", metavar="ADDRESS", help="of the dask cluster, such as tcp://host:8786"
    )
    reproduce.add_argument(
        "--commands",
        action="store_true",
        help="run nothing: print the command of each run that is missing, a line each, for job arrays",
    )
    reproduce.add_argument(
        "--quick", action="store_true", help="few steps and tasks: smoke test; results are not comparable"
    )
    reproduce.add_argument(
        "--seeds", type=int, nargs="+", help="default: 0 1 2 (quick, table3 and figures: 0)"
    )
    reproduce.add_argument(
        "--recipe", nargs="+", choices=RECIPES, help="one or several; default: paper (sizes: best)"
    )
    reproduce.add_argument("--budget", choices=list(BUDGETS), help=BUDGET_HELP)
    reproduce.add_argument("--data", help="folder of the images of table3")
    reproduce.add_argument("--only", metavar="PATTERN", help="only experiments whose names match")
    reproduce.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table as Markdown")
    reproduce.add_argument(
        "--status",
        action="store_true",
        help=(
            "run nothing: show how far each run is, also while they run; without --recipe, --budget and --seeds, "
            "every run that OUT has; with one of them, what is still to do too"
        ),
    )
    reproduce.add_argument(
        "--show",
        action="store_true",
        help="run nothing: show the table of the small result files that are there",
    )
    reproduce.add_argument("--json", action="store_true", help="with --status: as JSON")
    reproduce.add_argument("--progress", choices=PROGRESS, default="auto", help="how to show progress")
    reproduce.set_defaults(command=_reproduce)

    cost = commands.add_parser(
        "cost",
        help="an experiment's network: entries of U and v, bytes, multiply-adds",
        description=(
            "Show what the network of an experiment holds: entries of U and v, bytes and multiply-adds, layer by "
            "layer; in Table 3, also the parameters of all methods' networks. Needs no data."
        ),
    )
    cost.add_argument("name", help="the experiment, such as translation/rank1/small/msr-fc")
    add_recipe(cost)
    cost.set_defaults(command=_cost)


def _list(options: argparse.Namespace) -> None:
    found = names(options.pattern)
    if not found:
        raise MetasymError(
            f"expected a pattern that matches an experiment, found {options.pattern!r}",
            about="pattern",
            found=options.pattern,
        )
    width = max(map(len, found))
    for name in found:
        number = printed(name)
        print(f"{name:<{width}}  paper {number}" if number else name)


def _run(options: argparse.Namespace) -> None:
    from metasym.runs.reproducing.experiment_run import run
    from metasym.runs.reproducing.whole_tables import score_line

    experiment = chosen(options)
    note = say if options.verbose and is_main() else lambda _: None
    found = run(experiment, options.out, resume=options.resume, progress=options.progress, note=note)
    if not is_main():  # under torchrun one process speaks for all
        return
    number = printed(experiment.name)
    if number is None or not experiment.recipe_name.startswith("paper"):
        beside = ""
    elif experiment.has_classes:
        beside = f" after {found['outer_steps']:,} outer steps; the paper's after 60,000: {number}"
    else:
        beside = f"; the paper's: {number}"
    print(f"{experiment.name}: {score_line(found)}{beside}")
    print(f"{options.out / 'result.json'}: {found['outer_steps']} outer steps, {found['seconds']:.0f} s")


def _reproduce(options: argparse.Namespace) -> None:
    usual = (0,) if options.quick else USUAL_SEEDS.get(options.table, (0, 1, 2))
    recipes = [BUDGETS[options.budget]] if options.budget and not options.recipe else options.recipe
    if options.budget and options.recipe:
        raise MetasymError(
            "expected either --budget or --recipe, found both", about="--budget, --recipe", found="both"
        )
    selected = {
        "quick": options.quick,
        "seeds": options.seeds or usual,
        "recipes": recipes,
        "only": options.only,
        "data": options.data,
    }
    if options.json and not options.status:
        raise MetasymError(
            "expected --json together with --status, found it alone", about="--json", found="alone"
        )
    if options.show:
        if options.status or options.table == "figures":
            raise MetasymError(
                f"expected --show for a table, found it {'beside --status' if options.status else 'for figures'}",
                about="--show",
                found="--status" if options.status else options.table,
            )
        if options.quick and options.out is None and options.results is None:
            raise MetasymError(
                "expected --out with --show --quick, whose results are in OUT/results, found none",
                about="--out",
            )
        folder = results_folder(options.out or Path(), options.results, quick=options.quick) / options.table
        _print_table(options, folder, recipes)
        return
    if options.out is None:
        raise MetasymError(
            "expected --out, the folder of the runs, found none (see metasym reproduce --help)",
            about="--out",
        )
    if options.status:
        _status(options, selected)
        return
    from metasym.runs.reproducing.whole_tables import commands, reproduce, run_folder

    if options.commands:
        for line in commands(options.table, options.out, results=options.results, **selected):
            print(line)
        return
    written = reproduce(
        options.table,
        options.out,
        results=options.results,
        jobs=options.jobs,
        backend=options.backend,
        scheduler=options.scheduler,
        progress=options.progress,
        note=say,
        **selected,
    )
    folder = written[0].parents[1]
    if options.table == "figures":
        from metasym.runs.reproducing.run_figures import draw_runs
        from metasym.runs.reproducing.whole_tables import plan

        folders = [run_folder(options.out, e, quick=options.quick) for e in plan(options.table, **selected)]
        for path in draw_runs(folders, folder):
            print(path)
        return
    _print_table(options, folder, recipes)


def _print_table(options: argparse.Namespace, folder: Path, recipes: list[str] | None) -> None:
    """The table of the small files in ``folder``; after runs, its figures too."""
    from metasym.report.tables import render

    seeds = options.seeds if options.show else None  # after runs: all that is there
    table = render(options.table, folder, recipes, options.only, seeds)
    console().print(table)
    if options.table == "sizes" and not options.show:
        from metasym.report.figures import sizes_figure
        from metasym.report.table_cells import load_cells

        for path in sizes_figure(load_cells(folder, recipes, options.only), folder / "sizes"):
            print(path)
    if options.table == "table3" and not options.show:
        from metasym.report.curves import curves_figures

        for path in curves_figures(folder, folder):
            print(path)
    if options.markdown is not None:
        write_text(options.markdown, table.markdown())
        print(options.markdown)


def _status(options: argparse.Namespace, selected: dict[str, Any]) -> None:
    from metasym.runs.reproducing.table_status import begun, table_status

    if options.out.exists() and not options.out.is_dir():
        raise MetasymError(
            f"{options.out}: expected the folder of the runs, found a file",
            about=str(options.out),
            found="a file",
        )
    if options.seeds is None and not selected["recipes"]:
        found = begun(options.table, options.out, quick=options.quick, only=options.only, data=options.data)
        if not found:
            which = f" that match {options.only}" if options.only else ""
            raise MetasymError(
                f"{options.out}: expected runs of {options.table}{which}, found "
                f"{'none' if options.out.exists() else 'no such folder'}; "
                "use --budget, --recipe or --seeds to show what is still to do",
                about=str(options.out),
            )
        places = f"Runs read from {options.out}."
    else:
        found = table_status(options.table, options.out, results=options.results, **selected)
        small = results_folder(options.out, options.results, quick=options.quick)
        places = f"{'Runs read from' if options.out.exists() else 'There is no folder'} {options.out}"
        places += f"; small files read from {small}." if small.is_dir() else "."
    if options.json:
        print(json.dumps([storable(cell.as_dict()) for cell in found], indent=1))
        return
    from metasym.cli.status_table import states

    table = states(options.table, found, places)
    console().print(table)
    if options.markdown is not None:
        write_text(options.markdown, table.markdown())
        print(options.markdown)


def _cost(options: argparse.Namespace) -> None:
    from metasym.paper.network_sizes import cost_text

    print(cost_text(chosen(options)))
