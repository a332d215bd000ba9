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


def _named(name: str) -> Any:
    value: Any = importlib.import_module("metasym")
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in sorted(public_names()):
        value = _named(name)
        if inspect.isroutine(value):
            yield name, value


FUNCTIONS = dict(functions())
MOST_USED = {
    *(
        "MSR",
        "EvidenceMSR",
        "bake",
        "check_equivariance",
        "discover",
        "evaluate",
        "inspect",
        "learn",
        "load",
        "train",
    ),
    *(
        "groups.cyclic",
        "groups.dihedral",
        "groups.symmetric",
        "groups.symmetry_matrix",
        "reparameterize",
        "split",
    ),
    *("structured", "tasks.ArrayTasks", "tasks.planted", "testing.assert_equivariant"),
}
"""The twenty names that users meet first: each has an example."""


def examples() -> Iterator[doctest.DocTest]:
    """Those of every public name. It is not asked of the modules: doctest skips functions that a decorator wraps."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    for name in sorted(public_names()):
        value = _named(name)
        if callable(value):
            found = finder.find(value, name, module=False, globs={})  # type: ignore[arg-type]
            yield from (test for test in found if test.examples)


EXAMPLES = list({test.name: test for test in examples()}.values())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_arguments_are_listed(name: str) -> None:
    """The site renders an ``Args`` section as a table: running prose hides what can be set."""
    function = FUNCTIONS[name]
    section = SECTION.search(inspect.cleandoc(function.__doc__ or "") + "\n")
    listed = set(ENTRY.findall(section[1])) if section else set()
    parameters = {p for p in inspect.signature(function).parameters if not p.startswith("_")}
    assert listed == parameters


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_prints_what_it_says(example: doctest.DocTest) -> None:
    found = doctest.DocTestRunner().run(example)
    assert found.failed == 0
    assert found.attempted == sum(doctest.SKIP not in one.options for one in example.examples)


def test_the_most_used_names_have_examples() -> None:
    assert len(MOST_USED) == 20
    run = {test.name for test in EXAMPLES if any(doctest.SKIP not in one.options for one in test.examples)}
    assert {f"metasym.{name}" for name in MOST_USED} <= run
