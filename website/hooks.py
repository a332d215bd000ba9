"""The page about the command line is made from the parser itself, so that it cannot say anything else."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import Any

MARKER = "<!-- every command's --help -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the help of all commands where the page asks for it."""
    return markdown.replace(MARKER, "\n\n".join(_sections())) if MARKER in markdown else markdown


def _sections() -> Iterator[str]:
    from metasym.cli.main import parser

    os.environ["COLUMNS"] = "88"
    for command in _commands(parser()):
        yield f"## {command.prog}\n\n```text\n{command.format_help().rstrip()}\n```"


def _commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The commands that can be typed: those without commands of their own."""
    inner = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not inner:
        yield parser
    for action in inner:
        for child in action.choices.values():
            yield from _commands(child)
