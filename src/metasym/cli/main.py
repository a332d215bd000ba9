"""The parser of all commands, and how errors leave the program."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import metasym
from metasym.cli.common import Parser
from metasym.cli.freed_memory import keep_freed_memory
from metasym.types import MetasymError

_GOES_ON = {
    "run": "a run that has begun goes on with --resume",
    "learn": "a run that has begun goes on with --resume",
    "discover": "a run that has begun goes on with --resume",
    "reproduce": "the same command goes on where it stopped",
    "data": "the same command goes on with a download, and begins a conversion again",
}
"""What to do after an interrupt, by command; nothing where there is nothing to go on with."""

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

_TRAINING = ("angles", "demo", "learn", "reproduce", "run")
"""Commands whose steps use the same large buffers again and again."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    # File names need not be Unicode. Python sets up stderr for that by itself, but not stdout.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    options = argparse.Namespace(part=None)
    try:
        typed = sys.argv[1:] if arguments is None else list(arguments)
        options = parser(typed[0] if typed else None).parse_args(typed)
        if options.part in _TRAINING:
            keep_freed_memory()
        options.command(options)
        sys.stdout.flush()
    except MetasymError as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        hint = _GOES_ON.get(options.part)
        print(f"metasym: interrupted{f'; {hint}' if hint else ''}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe, such as head, has seen enough
        _drop_output()
    except OSError as error:
        # Where a file is opened, its errors are explained; a full or failing disk can show anywhere.
        where = f"{error.filename}: " if error.filename else ""
        _drop_output()
        return _refuse(f"{where}expected files to be read and written, found {error.strerror or error}")
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        said = str(error).splitlines()
        more = f" ({said[0]})" if said and said[0] else ""
        return _refuse(
            f"expected enough memory, found too little{more}: fewer tasks at once or a smaller network need less"
        )
    return 0


def _refuse(message: str) -> int:
    """Say in one line what was wrong; the exit status."""
    line = f"metasym: error: {' '.join(message.split())}"
    print(line, file=sys.stderr)
    _tell_torchrun(line)
    return 2


def _tell_torchrun(line: str) -> None:
    """Leave the line for torchrun, which prints a long trace when a process fails, and this line at its end."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path:
        said = {"message": line, "extraInfo": {"py_callstack": line, "timestamp": str(int(time.time()))}}
        with contextlib.suppress(OSError):
            Path(path).write_text(json.dumps({"message": said}), encoding="utf-8")


def _out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out; on the CPU torch has no error class of its own for that."""
    if isinstance(error, MemoryError):
        return True
    return type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)


def _drop_output() -> None:
    """Discard what is still to be written to stdout: Python would try again when it ends, and fail again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser of all commands, or of the command ``only``: what it does not need is not imported."""
    whole = Parser(
        prog="metasym",
        description="Learn the symmetries that a family of tasks shares, and build them into a network.",
        epilog="metasym COMMAND --help tells all about a command.",
    )
    whole.add_argument("--version", action="version", version=f"metasym {metasym.__version__}")
    commands = whole.add_subparsers(required=True, metavar="COMMAND", dest="part")
    wanted = [name for name, its in _MODULES.items() if only in its]
    for name in wanted or _MODULES:
        importlib.import_module(f"metasym.cli.{name}").add(commands)
    if not wanted:
        importlib.import_module("metasym.cli.completion").add(commands, whole)
    return whole
