"""The parser of all commands, and how errors leave the program."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

import metasym
from metasym.cli import angles, data, demo, experiments, inspect, learn, report
from metasym.cli.common import Parser
from metasym.types import MetasymError

_GOES_ON = {
    "run": "a run that has begun goes on with --resume",
    "learn": "a run that has begun goes on with --resume",
    "reproduce": "the same command goes on where it stopped",
    "data": "the same command goes on with a download, and begins a conversion again",
}
"""What to do after an interrupt, by command; nothing where there is nothing to go on with."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    # Names of files need not be Unicode; stderr is made so by Python itself.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    options = argparse.Namespace(part=None)
    try:
        options = _parser().parse_args(arguments)
        options.command(options)
        sys.stdout.flush()
    except MetasymError as error:
        print(f"metasym: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        hint = _GOES_ON.get(options.part)
        print(f"metasym: interrupted{f'; {hint}' if hint else ''}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe, head say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="metasym",
        description="Learn the symmetries that a family of tasks shares, and build them into a network.",
        epilog="metasym COMMAND --help tells all about a command.",
    )
    parser.add_argument("--version", action="version", version=f"metasym {metasym.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="part")
    for group in (demo, learn, experiments, inspect, angles, report, data):
        group.add(commands)
    return parser
