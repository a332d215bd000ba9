"""The command line of a run, as its result names it: it can be typed again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from metasym.storage.options import flag


def command_line(command: str, subject: str, flags: Sequence[str]) -> str:
    """``metasym COMMAND SUBJECT --out DIR`` with ``flags``."""
    return shlex.join(["metasym", command, subject, "--out", "DIR", *flags])


def flags(values: Mapping[str, Any]) -> list[str]:
    """The flags that set options to these values."""
    parts: list[str] = []
    for name, value in values.items():
        if isinstance(value, bool):
            parts.append(flag(name) if value else flag(f"no_{name}"))
        else:
            parts += [flag(name), "none" if value is None else str(value)]
    return parts
