"""``metasym export``: the deployable model of a run as a file."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from metasym.cli.common import Commands, console

if TYPE_CHECKING:
    from metasym.runs.exporting_runs import Exported


def add(commands: Commands) -> None:
    """The command's flags."""
    export = commands.add_parser(
        "export",
        help="write the model of a run as .onnx or .pt2",
        description="Write the model of a run, adapted to a task or as it starts, for other programs to run.",
    )
    export.add_argument("run", type=Path, metavar="RUN", help="folder of metasym learn, run or discover")
    export.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help=".onnx, or .pt2 for torch.export.load"
    )
    export.add_argument(
        "--support",
        type=Path,
        metavar="TASK",
        help="adapt to this task first: an .npz with x and y [examples, ...], or a table (.csv, .tsv, .parquet) with "
        "the columns of the one that the run learned from",
    )
    export.add_argument(
        "--structured",
        action="store_true",
        help="snap U to the symmetry that was found, and compute with its structure where that pays",
    )
    export.add_argument(
        "--project", action="store_true", help="with --structured: also a U that has its symmetry only nearly"
    )
    export.add_argument(
        "--batch",
        type=int,
        metavar="N",
        help="with --structured: examples at once that the layers are for (32)",
    )
    export.set_defaults(command=_export)


def _export(options: argparse.Namespace) -> None:
    from metasym.runs.exporting_runs import export_run
    from metasym.types import MetasymError

    for flag, given in (("--project", options.project), ("--batch", options.batch is not None)):
        if given and not options.structured:
            raise MetasymError(
                f"expected {flag} only with --structured, found it alone", about=flag, found="alone"
            )
    found = export_run(
        options.run,
        options.out,
        support=options.support,
        structured=options.structured,
        force=options.project,
        batch=32 if options.batch is None else options.batch,
    )
    show(found)


def show(found: Exported) -> None:
    """The layers, what each became, costs, differences."""
    out = console()
    if found.plan is not None:
        from rich.table import Table

        table = Table(title="What each layer became", title_justify="left")
        for column in ("layer", "weight", "now"):
            table.add_column(column)
        for column in ("multiply-adds", "dense", "bytes", "dense"):
            table.add_column(column, justify="right")
        for layer in found.plan.layers:
            dense, work = layer.dense, layer.work
            table.add_row(
                layer.name or "(the model)",
                "x".join(map(str, layer.shape)),
                layer.what,
                f"{work.multiply_adds:,}",
                f"{dense.multiply_adds:,}",
                f"{layer.bytes:,}",
                f"{layer.dense_bytes:,}",
            )
        out.print(table, highlight=False, markup=False)
        for layer in found.plan.layers:
            out.print(f"  plan: {layer}", highlight=False, markup=False, soft_wrap=True)
        if found.change:
            out.print(f"U was snapped to its symmetry: it changed by {found.change:.2%}.", highlight=False)
        out.print(
            f"Largest difference between compiled and dense outputs on random inputs: {found.difference:.2g} "
            f"(outputs up to {found.scale:.3g}).",
            highlight=False,
            soft_wrap=True,
        )
    if not found.adapted:
        what = "0" if not found.scale else "the same outputs"
        gives = f", and gives {what} whatever the input" if found.constant else ""
        out.print(
            f"Not adapted to any task: the file has the model as it starts{gives}. --support TASK adapts it first.",
            highlight=False,
            soft_wrap=True,
        )
    loaded = (
        "not loaded again (onnxruntime is not installed)"
        if math.isnan(found.file_difference)
        else f"loaded again, its outputs differ from the model's by at most {found.file_difference:.2g}"
    )
    out.print(
        f"{found.path}: {found.bytes:,} bytes, {loaded}.", highlight=False, markup=False, soft_wrap=True
    )
