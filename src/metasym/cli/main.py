"""The parser of all commands, and how errors leave the program."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import metasym
from metasym.cli.common import Parser
from metasym.cli.freed_memory import keep_freed_memory
from metasym.cli.terminal import escaped, safe_output
from metasym.errors import LostRankError, MetasymError, MetasymWarning, on_command_line
from metasym.storage.system import address_limit

_GOES_ON = {
    "run": "use --resume to continue an interrupted run",
    "learn": "use --resume to continue an interrupted run",
    "discover": "use --resume to continue an interrupted run",
    "reproduce": "run the same command again to continue",
    "data": "run the same command again: downloads continue, conversions start over",
}
"""What to do after an interrupt, by command; commands that cannot be continued are not listed."""

_MODULES = {
    "demo": ("demo",),
    "learn": ("learn",),
    "discover": ("discover",),
    "mirror": ("mirror",),
    "experiments": ("list", "run", "reproduce", "cost"),
    "inspect": ("inspect",),
    "export": ("export",),
    "angles": ("angles",),
    "report": ("report",),
    "data": ("data",),
    "doctor": ("doctor",),
}
"""The commands of each module, in the order of the help."""

_LEAST_ADDRESSES = 2**30
"""Bytes of address space that torch and scipy need to be loaded; with less torch ends the process without a word."""
_UNLOADED = "failed to map segment"
"""What the loader of libraries says where a library does not fit."""

_TRAINING = ("angles", "demo", "learn", "reproduce", "run")
"""Commands whose steps use the same large buffers repeatedly."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    with safe_output(), on_command_line():
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    options = argparse.Namespace(part=None)
    try:
        _check_address_space()
        typed = sys.argv[1:] if arguments is None else list(arguments)
        _check_not_empty(typed)
        part = typed[0] if typed else None
        with _last_words(part), warnings.catch_warnings():
            options = parser(part).parse_args(typed)
            if part in _TRAINING:
                keep_freed_memory()
            warnings.simplefilter("always", MetasymWarning)
            warnings.showwarning = _warn(warnings.showwarning)
            options.command(options)
            sys.stdout.flush()
    except MetasymError as error:
        if isinstance(error, LostRankError) and options.part in _GOES_ON:
            error.args = (f"{error}; {_GOES_ON[options.part]}",)
        return _refuse(error)
    except KeyboardInterrupt:
        hint = _GOES_ON.get(options.part)
        line = f"metasym: interrupted{f'; {hint}' if hint else ''}"
        print(line, file=sys.stderr)
        _tell_torchrun(line)
        return 130
    except BrokenPipeError:  # the reader of a pipe, such as head, has seen enough
        _drop_output()
    except OSError as error:
        # Where a file is opened, its errors are explained; a full or failing disk can show anywhere.
        where = f"{error.filename}: " if error.filename else ""
        _drop_output()
        found = error.strerror or str(error)
        return _refuse(
            MetasymError(
                f"{where}expected files to be read and written, found {found}",
                about=None if error.filename is None else str(error.filename),
                found=found,
            )
        )
    except (MemoryError, RuntimeError, ImportError) as error:
        if not _out_of_memory(error):
            raise
        said = str(error).splitlines()
        more = f" ({said[0]})" if said and said[0] else ""
        return _refuse(
            MetasymError(
                f"expected enough memory, found too little{more}: fewer tasks at once or a smaller network need less",
                about="memory",
            )
        )
    return 0


def _warn(others: Callable[..., None]) -> Callable[..., None]:
    """Show a warning of metasym as one line, without the place in the source that Python would print."""

    def show(message: Warning | str, *more: Any) -> None:
        if isinstance(message, MetasymWarning):
            print(f"metasym: note: {' '.join(str(message).split())}", file=sys.stderr)
        else:
            others(message, *more)

    return show


def _check_address_space() -> None:
    limit = address_limit()
    if limit is not None and limit < _LEAST_ADDRESSES:
        raise MetasymError(
            f"expected a limit (ulimit -v) of at least {_LEAST_ADDRESSES // 2**20:,} MB of address space for torch, "
            f"found {limit // 2**20:,} MB",
            about="ulimit -v",
            found=limit,
        )


def _refuse(error: MetasymError) -> int:
    """Say in one line what was wrong; the exit status."""
    line = f"metasym: error: {' '.join(str(error).split())}"
    with contextlib.suppress(OSError):  # stderr may be what is full
        print(line, file=sys.stderr)
    _tell_torchrun(escaped(line))
    return 2


def _check_not_empty(typed: Sequence[str]) -> None:
    """Refuse ``--out ""``, which a script types where a variable is not set: as a folder it would be this one."""
    for place, word in enumerate(typed):
        if not word or (word.startswith("--") and word.endswith("=")):
            before = word[:-1] if word else typed[place - 1] if place else "metasym"
            raise MetasymError(
                f"expected a value after {before}, found an empty one",
                about=before.removeprefix("--"),
                found="",
            )


@contextlib.contextmanager
def _last_words(part: str | None) -> Iterator[None]:
    """Under torchrun, leave beforehand what it shall print of a process that is killed and cannot say it itself."""
    hint = _GOES_ON.get(part or "")
    rank = os.environ.get("RANK", "?")
    _tell_torchrun(
        f"metasym: error: rank {rank} was killed, or its machine was lost{f': {hint}' if hint else ''}"
    )
    try:
        yield
    except (MetasymError, KeyboardInterrupt):
        raise  # their own line is written in its place
    except BaseException:
        _tell_torchrun("")
        raise


def _tell_torchrun(line: str) -> None:
    """Leave the line, or none, for torchrun, which prints it at the end of the long trace of a failed process."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path and not line:
        Path(path).unlink(missing_ok=True)
    elif path:
        said = {"message": line, "extraInfo": {"py_callstack": line, "timestamp": str(int(time.time()))}}
        with contextlib.suppress(OSError):
            Path(path).write_text(json.dumps({"message": said}), encoding="utf-8")


def _out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out; torch on the CPU and the loader of libraries have no error class of their own."""
    if isinstance(error, MemoryError):
        return True
    said = str(error)
    return type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in said or _UNLOADED in said


def _drop_output() -> None:
    """Discard what is still to be written to stdout: Python would try again when it ends, and fail again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser of all commands, or of the command ``only``: what it does not need is not imported."""
    whole = Parser(
        prog="metasym",
        description="Learn the symmetries that a family of tasks shares, and build them into a network.",
        epilog="Use metasym COMMAND --help for the details of a command.",
    )
    whole.add_argument("--version", action="version", version=f"metasym {metasym.__version__}")
    commands = whole.add_subparsers(required=True, metavar="COMMAND", dest="part")
    wanted = [name for name, its in _MODULES.items() if only in its]
    for name in wanted or _MODULES:
        importlib.import_module(f"metasym.cli.{name}").add(commands)
    if not wanted:
        importlib.import_module("metasym.cli.completion").add(commands, whole)
    return whole
