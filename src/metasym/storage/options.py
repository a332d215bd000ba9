"""Options as fields of a dataclass, each with its help, its bounds and its choices."""

from __future__ import annotations

import dataclasses
import functools
import math
import typing
from typing import Any

from metasym.errors import asked
from metasym.types import MetasymError

MOST = 10**8
"""The largest whole number of an option that names no other bound; a larger one is a slip."""
LARGEST_SEED = 2**63 - 1
"""The largest whole number that torch's and NumPy's generators take."""
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def option(
    default: Any,
    about: str,
    choices: tuple[str, ...] | None = None,
    *,
    least: float | None = None,
    most: float | None = None,
) -> Any:
    """A field that a user may set: what it is, and what it may be."""
    metadata = {"help": about, "choices": choices, "least": least, "most": most}
    return dataclasses.field(default=default, metadata=metadata)


@functools.cache
def kinds(described: Any) -> dict[str, tuple[type, bool]]:
    """Of every field its plain type, and whether it may be None."""
    found = {}
    for name, hint in typing.get_type_hints(described).items():
        parts = [part for part in typing.get_args(hint) if part is not type(None)]
        found[name] = (parts[0], True) if parts else (hint, False)
    return found


def check_options(options: Any) -> None:
    """Refuse an option of another type, beyond its bounds, or not among its choices."""
    described: Any = type(options)
    of = kinds(described)
    for field in dataclasses.fields(options):
        value: Any = getattr(options, field.name)
        kind, optional = of[field.name]
        if value is None and optional:
            continue
        name, about = asked(field.name), field.metadata
        wanted: Any = (int, float) if kind is float else kind
        if not isinstance(value, wanted) or isinstance(value, bool) is not (kind is bool):
            raise MetasymError(
                f"expected {name} to be {_KINDS[kind]}, found {value!r:.60}", about=field.name, found=value
            )
        if about["choices"] is not None and value not in about["choices"]:
            raise MetasymError(
                f"expected {name} to be one of {', '.join(about['choices'])}, found {value!r:.60}",
                about=field.name,
                found=value,
            )
        if kind not in (int, float):
            continue
        if not math.isfinite(value):
            raise MetasymError(f"expected {name} to be finite, found {value}", about=field.name, found=value)
        if about["least"] is not None and not value >= about["least"]:
            raise MetasymError(
                f"expected {name} >= {about['least']:g}, found {value}", about=field.name, found=value
            )
        most = MOST if about["most"] is None and kind is int else about["most"]
        if most is not None and value > most:
            raise MetasymError(
                f"expected {name} of at most {most:,}, found {value}", about=field.name, found=value
            )


def flag(name: str) -> str:
    """How the command line spells an option."""
    return f"--{name.replace('_', '-')}"


def changed(options: Any, usual: Any = None) -> dict[str, Any]:
    """The options that differ from ``usual``, or from the defaults."""
    before = type(options)() if usual is None else usual
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    return {name: value for name, value in values.items() if value != getattr(before, name)}
