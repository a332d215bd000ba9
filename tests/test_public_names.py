"""The public names and their signatures, held against ``public_names.txt``: what others write programs with.

A change on purpose: ``python -m tests.test_public_names`` writes the file anew, and the change shows in the diff.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path

import metasym as ms

SNAPSHOT = Path(__file__).with_name("public_names.txt")
MODULES = {
    "": ms,
    "groups.": ms.groups,
    "models.": ms.models,
    "nn.": ms.nn,
    "sklearn.": ms.sklearn,
    "tasks.": ms.tasks,
    "testing.": ms.testing,
}


def signature(value: object) -> str:
    try:
        found = str(inspect.signature(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # what is written in C, or has none
        return ""
    return re.sub(r" at 0x[0-9a-f]+", "", found)


def members(of: type) -> Iterator[str]:
    """The public methods and properties that the class, or one of ours that it comes from, defines."""
    names = {
        name: value
        for base in reversed(of.__mro__)
        if base.__module__.startswith("metasym")
        for name, value in vars(base).items()
        if not name.startswith("_")
    }
    for name, value in sorted(names.items()):
        if isinstance(value, property):
            yield f".{name}"
        elif inspect.isfunction(value):
            yield f".{name}{signature(value)}"
        elif isinstance(value, classmethod | staticmethod):
            yield f".{name}{signature(value.__func__)}"


def public() -> Iterator[str]:
    for prefix, module in MODULES.items():
        for name in sorted(module.__all__):
            value = getattr(module, name)
            if isinstance(value, types.ModuleType):
                continue
            yield f"{prefix}{name}{signature(value)}"
            if isinstance(value, type):
                yield from (f"{prefix}{name}{member}" for member in members(value))


def test_public_names_are_those_of_the_snapshot() -> None:
    assert list(public()) == SNAPSHOT.read_text().splitlines()


def test_dir_lists_every_public_name() -> None:
    assert set(ms.__all__) <= set(dir(ms))
    assert {name for name in ms.__all__ if not hasattr(ms, name)} == set()


if __name__ == "__main__":
    SNAPSHOT.write_text("\n".join(public()) + "\n")
