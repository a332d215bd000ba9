"""What several commands share: the parser's errors, a recipe's flags, the console, files."""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from metasym.errors import MetasymError

Commands: TypeAlias = "argparse._SubParsersAction[Any]"

PROGRESS = ("auto", "plain", "silent")


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are errors like all others: one line, exit status 2."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse has it, but what is not known to a command sends to that command's help."""
        options, rest = self.parse_known_args(args, namespace)
        if rest:
            raise MetasymError(
                f"unrecognized arguments: {' '.join(rest)} (see {self.prog} {options.part} --help)",
                about="arguments",
                found=tuple(rest),
            )
        return options

    def error(self, message: str) -> NoReturn:
        """Raised, not printed: :func:`metasym.cli.main` prints it."""
        cause = sys.exc_info()[1]  # argparse names the argument there, where one is wrong
        about = cause.argument_name if isinstance(cause, argparse.ArgumentError) else None
        raise MetasymError(f"{message} (see {self.prog} --help)", about=about or "arguments")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Write what --help has printed now, while a full disk can still be reported in one line."""
        sys.stdout.flush()
        super().exit(status, message)


def console() -> Any:
    """A rich console; as wide as ``COLUMNS`` says where the output is not a terminal, else 140."""
    from metasym.cli.safe_console import SafeConsole

    known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return SafeConsole(width=None if known else 140)


def interval(mean: float | None, ci95: float | None) -> str:
    """A score with its interval, which a single task does not have. None and NaN are shown as not finite."""
    if mean is None or not math.isfinite(mean):
        return "not finite"
    return f"{mean:.4g}" if ci95 is None or not math.isfinite(ci95) else f"{mean:.4g} ± {ci95:.2g}"


def say(text: str) -> None:
    """A line of progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def write_text(path: Path, text: str) -> None:
    """A text file, whole or not at all."""
    from metasym.storage.atomic import as_bytes, make_folder, write_atomically

    make_folder(path.parent)
    write_atomically(path, as_bytes(text), what="a table")
