"""``metasym demo``."""

from __future__ import annotations

import argparse
from pathlib import Path

from metasym.cli.common import Commands, console


def add(commands: Commands) -> None:
    """The command's flags."""
    demo = commands.add_parser("demo", help="learn convolution from data, in about a minute")
    demo.add_argument(
        "--out", type=Path, default=Path("demo"), help="folder for the pictures and the page (default: demo)"
    )
    demo.add_argument("--seed", type=int, default=0, help="seed of data and start (default: 0)")
    demo.add_argument(
        "--outer-steps", type=int, default=1000, help="outer steps of each method (default: 1000)"
    )
    demo.set_defaults(command=_demo)


def _demo(options: argparse.Namespace) -> None:
    from metasym.cli.demonstration import demo

    out = console()
    for part in demo(options.out, seed=options.seed, outer_steps=options.outer_steps):
        out.print(part, highlight=False, markup=False)
