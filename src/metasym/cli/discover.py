"""``metasym discover``: symmetries of the function behind one data set."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metasym.cli.common import PROGRESS, Commands, console, interval, say
from metasym.cli.flags import add_flags, given

if TYPE_CHECKING:
    from metasym.runs.discovering.discover_options import DiscoverOptions

_FILE = """\
FILE holds one data set:
  .npz             arrays x [examples, ...] and y [examples, ...] (numpy.savez("data.npz", x=x, y=y));
                   whole numbers y [examples] are labels
  .csv .parquet    a table, one row per example: --outputs names the columns of y; --inputs those of x (default: all
                   others); --labels says that y holds classes
or a family of tasks: an .npz with x [tasks, examples, ...] and y [tasks, examples, ...],
or FILE names a function to call, with --inputs x.npz for the points: an exported network .pt2 or .onnx, or
package.module:function, which maps a batch [points, ...] to [points, ...].

The search in one data set covers
  f(g x) = f(x)      continuous g: inputs that are vectors or points of a few numbers each, rotations, so(p, q) and
                     other linear groups, translations, scalings, and sums of these
  f(g x) = g' f(x)   rotations, and finite groups of signed permutations of inputs and outputs
and in a family of tasks, the finite groups that all tasks share. Every claim is certified on held-out examples (or
tasks). --group also tests a group of your own: yes, no or how nearly. A table may be of any size: of more than 10,000
examples the search uses a random sample (--seed). For a function nothing is fitted: finite groups are certified by
calls at fresh points.
"""


def add(commands: Commands) -> None:
    """The command's flags."""
    parser = commands.add_parser(
        "discover",
        help="find symmetries of the function behind a data set",
        description="Find symmetries of the function behind a data set, certify them on held-out data, and fit a "
        "model that has them.",
        epilog=_FILE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE", help="the data, or a function (see below)")
    parser.add_argument(
        "--matrix-output", action="store_true", help="function: outputs are matrices with f(g x) = g f(x) g^T"
    )
    parser.add_argument(
        "--centre",
        metavar="NUMBERS",
        help="function: the point that sign changes keep fixed, such as a rest pose: one number per input, separated "
        "by commas, --centre=-0.3,1.2 (default: found)",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the run's files")
    parser.add_argument("--resume", action="store_true", help="continue the run in --out, if there is one")
    parser.add_argument("--progress", choices=PROGRESS, default="auto", help="silent prints no progress")
    from metasym.runs.discovering.discover_options import DiscoverOptions, DiscoverReading

    add_flags(parser, DiscoverReading, "how the file is read")
    add_flags(parser, DiscoverOptions, "what to search for")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of torch and numpy (default: 1)")
    parser.set_defaults(command=_discover)


def _discover(options: argparse.Namespace) -> None:
    from metasym.runs.discovering.discover_options import DiscoverOptions, DiscoverReading
    from metasym.runs.discovering.discover_run import discover_file
    from metasym.runs.discovering.function_files import is_function
    from metasym.tasks.dataset import read_dataset
    from metasym.types import MetasymError

    if options.threads is not None and options.threads < 1:
        raise MetasymError(
            f"expected --threads >= 1, found {options.threads}", about="--threads", found=options.threads
        )
    chosen = DiscoverOptions(**given(options, DiscoverOptions))
    reading = DiscoverReading(**given(options, DiscoverReading))
    note: Callable[[str], None] = (lambda _: None) if options.progress == "silent" else say
    if is_function(options.file):
        if chosen.group is not None:
            raise MetasymError(
                "expected --group together with data, found a function: ms.check_equivariance(f, x, group) calls it",
                about="--group",
                found=chosen.group,
            )
        _summary(options.out, _function(options, chosen, reading.inputs, note))
        return
    for flag, used in (("--matrix-output", options.matrix_output), ("--centre", options.centre is not None)):
        if used:
            raise MetasymError(
                f"expected {flag} together with a function, found data", about=flag, found="data"
            )
    options.file = Path(options.file)
    data = read_dataset(options.file, **dataclasses.asdict(reading), seed=chosen.seed)
    found = discover_file(
        data,
        options.file,
        options.out,
        chosen,
        reading=reading,
        resume=options.resume,
        note=note,
        threads_used=options.threads,
    )
    _summary(options.out, found)


_MOST_OUTPUTS = 12


def _function(
    options: argparse.Namespace, chosen: DiscoverOptions, inputs: str | None, note: Callable[[str], None]
) -> dict[str, Any]:
    from threadpoolctl import threadpool_limits

    from metasym.runs.discovering.function_files import discover_function_file
    from metasym.runs.machine import threads
    from metasym.types import MetasymError

    if inputs is None:
        raise MetasymError(
            "expected --inputs x.npz with the points to call the function at, found none", about="--inputs"
        )
    with threads(options.threads), threadpool_limits(options.threads):
        return discover_function_file(
            options.file,
            Path(inputs),
            options.out,
            chosen,
            centre=None if options.centre is None else _centre(options.centre),
            matrix_output=options.matrix_output,
            note=note,
        )


def _centre(text: str) -> list[float]:
    from metasym.types import MetasymError

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise MetasymError(
            f"expected --centre with numbers and commas, found {text!r}", about="--centre", found=text
        ) from None


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.2g}"


def _summary(folder: Path, found: dict[str, Any]) -> None:
    from rich.table import Table

    from metasym.verdicts.defect_words import percent
    from metasym.verdicts.discovery_words import interval_words

    out = console()

    def line(text: str) -> None:
        out.print(text, highlight=False, markup=False, soft_wrap=True)

    line(f"Verdict: {found['verdict']['words']}.")
    for one in found["symmetries"]:
        if one.get("defect") is not None:
            line(
                f"  {one['name']}: defect {_number(one['defect'])}, at most {_number(one['defect_upper'])} "
                f"(root mean square at {one['tested_on']} fresh points)"
            )
        else:
            line(
                f"  {one['name']}: the data allow a violation of {_number(one['violation_upper'])} of the variance "
                f"of y; {interval_words(one['beta'], *one['beta_ci'])}"
            )
        if one.get("rows_upper") is not None:
            what = "rows" if one.get("defect") is None else "points"
            line(
                f"    at most {percent(one['rows_upper'])} of further {what} may violate it much more (95 %)"
            )
    for one in found["refused"]:
        said = "not tested" if one["outcome"] == "not examined" else "not claimed"
        line(f"  {said}, {one['what']}: {one['words']}")
    if found.get("answer") is not None:
        line(f"{found['answer']['words']}.")
    if found["plain"] is None:
        for text in found["notes"]:
            line(f"Note: {text}.")
        line(f"Saved in {folder}: result.json ({found['seconds'] or 0:.0f} s)")
        line(f"More: metasym report {folder}")
        return
    metric = found["plain"]["metric"]
    words = "Accuracy" if metric == "accuracy" else "Mean squared error"
    what = "tasks" if found.get("family") else "examples"
    table = Table(title=f"{words} on {found['held_out']} held-out {what}", title_justify="left")
    table.add_column("model")
    table.add_column(metric, justify="right")
    table.add_column("unexplained variance", justify="right")
    for label, key in (("without symmetry", "plain"), ("with the symmetry", "symmetric")):
        scores = found[key]
        if scores is not None:
            relative = "not finite" if scores["relative"] is None else f"{scores['relative']:.2%}"
            table.add_row(label, interval(scores["mean"], scores["ci95"]), relative)
    out.print(table, highlight=False, markup=False)
    own = (found["symmetric"] or found["plain"]).get("by_output", [])
    if own:
        shown = ", ".join("not finite" if one is None else f"{one:.2%}" for one in own[:_MOST_OUTPUTS])
        more = f" and {len(own) - _MOST_OUTPUTS} more" if len(own) > _MOST_OUTPUTS else ""
        line(f"Unexplained share of each output's variance: {shown}{more}")
    for text in found["notes"]:
        line(f"Note: {text}.")
    line(f"Saved in {folder}: result.json, model.safetensors ({found['seconds'] or 0:.0f} s)")
    line(f"More: metasym report {folder}")
    line("Use it from Python:")
    line("    import metasym as ms")
    line(f"    run = ms.open_run({str(folder)!r})")
    if found.get("family"):
        line("    network = run.adapt(x, y)     # one new task's examples: an ordinary nn.Module")
    else:
        line("    prediction = run.model(x)     # an ordinary nn.Module")
