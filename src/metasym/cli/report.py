"""``metasym report``."""

from __future__ import annotations

import argparse
from pathlib import Path

from metasym.cli.common import Commands, say
from metasym.types import MetasymError


def add(commands: Commands) -> None:
    """The command's flags."""
    report = commands.add_parser(
        "report",
        help="one HTML page about a run, or a folder of runs",
        description="Write one self-contained HTML page about a run, or about all runs below a folder: scores, "
        "learning curves, and what was learned. It needs no network and opens from disk.",
    )
    report.add_argument("folder", type=Path, help="the folder of a run, or of runs")
    report.add_argument("--out", type=Path, metavar="FILE", help="default: report.html in that folder")
    report.add_argument(
        "--detail",
        type=int,
        metavar="N",
        help="draw the first N runs, the others have scores only (default: 20)",
    )
    report.add_argument("--open", action="store_true", help="show it in the browser")
    report.set_defaults(command=_report)


def _report(options: argparse.Namespace) -> None:
    from metasym.report.discovered_page import write_discovered
    from metasym.report.page import DETAIL, NAME, write
    from metasym.report.page.run_folders import is_discovered
    from metasym.runs.machine import threads

    detail = DETAIL if options.detail is None else options.detail
    if detail < 0:
        raise MetasymError(f"expected --detail >= 0, found {detail}", about="--detail", found=detail)
    out = options.out or options.folder / NAME
    if is_discovered(options.folder):
        write_discovered(options.folder, out)
        print(f"{out}: 1 run, {out.stat().st_size / 1000:,.0f} kB")
        _show(options, out)
        return
    with threads(1):  # a page is small products and drawings: more threads would wait for each other
        page = write(options.folder, out, detail=detail, note=say)
    for fault in page.faults:
        say(f"metasym: left out: {fault}")
    print(f"{out}: {page.counted}, {out.stat().st_size / 1000:,.0f} kB")
    _show(options, out)


def _show(options: argparse.Namespace, out: Path) -> None:
    if options.open:
        import webbrowser

        if not webbrowser.open(out.resolve().as_uri()):
            say(f"metasym: found no browser to show the page in: open {out.resolve()} yourself")
