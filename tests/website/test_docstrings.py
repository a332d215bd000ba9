"""Docstrings of public functions: an ``Args`` section names every parameter, and examples print what they say."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from website.public_names import public_names

ENTRY = re.compile(r"^ {4}\*{0,2}(\w+)(?: \([^)]*\))?:", re.MULTILINE)
SECTION = re.compile(r"^Args:\n((?: {4}.*\n|\n)+)", re.MULTILINE)


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in sorted(public_names()):
        value: Any = importlib.import_module("metasym")
        for part in name.split(".")[1:]:
            value = getattr(value, part)
        if inspect.isroutine(value):
            yield name, value


FUNCTIONS = dict(functions())
CLASSES = ("metasym.learners.gradient", "metasym.symmetry.matrices", "metasym.tasks.arrays")
MODULES = sorted({f.__module__ for f in FUNCTIONS.values()} | set(CLASSES))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_arguments_are_listed(name: str) -> None:
    """The site renders an ``Args`` section as a table: running prose hides what can be set."""
    function = FUNCTIONS[name]
    section = SECTION.search(inspect.cleandoc(function.__doc__ or "") + "\n")
    listed = set(ENTRY.findall(section[1])) if section else set()
    parameters = {p for p in inspect.signature(function).parameters if not p.startswith("_")}
    assert listed == parameters


@pytest.mark.parametrize("module", MODULES)
def test_examples_print_what_they_say(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0
