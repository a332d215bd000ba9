"""The one place that checks the wording of errors: one line, what was expected, what was found.

Tests of behaviour assert an error's fields (``tests/refusals.py``), so that a sentence may be improved without
touching them. What every sentence has to be like is checked here, on the syntax tree of the whole package.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import metasym

SOURCE = Path(metasym.__file__).parent
KINDS = {"MetasymError"}
"""The error and its subclasses; those in the source are added below."""
MISSING = "?"
"""What stands for a value in an f-string."""

PASSED_ON = {
    ("cli/common.py", "? (see ? --help)"): "argparse's own sentence about a flag",
    ("cli/common.py", "unrecognized arguments: ? (see ? ? --help)"): "as argparse says it",
    (
        "cli/data.py",
        "?; the images were converted from there before: give another place with --from PATH",
    ): "another error with a remedy",
    ("inspection/layers.py", "?"): "the reasons of all layers, each a sentence of its own",
    ("report/page/run_folders.py", "?: ?"): "another error with its file",
    ("report/page/run_folders.py", "? (and so on: none of ? runs can be read)"): "the first error of many",
    ("runs/exporting_runs.py", "?: ?"): "another error with its file",
    ("runs/files/result_files.py", "?; move it away to run again"): "another error with a remedy",
    ("runs/learning/training_stages.py", "?"): "another error with a remedy",
    (
        "runs/learning/training_stages.py",
        "?; a smaller ? than ? may help",
    ): "another error with a remedy",
    ("symmetry/reparam.py", "module ?: ?"): "another error with its module",
    ("training/checkpoint.py", "??"): "another error, and the older checkpoint that is good",
}
"""Sentences made of others, which are checked where they are written: file, text and reason of each."""


def kinds(trees: list[ast.Module]) -> set[str]:
    """The names of MetasymError and of all classes under it."""
    found = set(KINDS)
    bases = [
        (node.name, {base.id for base in node.bases if isinstance(base, ast.Name)})
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    while new := {name for name, above in bases if above & found} - found:
        found |= new
    return found


def texts(node: ast.expr, names: dict[str, list[ast.expr]]) -> list[str]:
    """The texts that an expression may be, values written as ``MISSING``; local names and choices are read."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.FormattedValue):
        inner = node.value
        if isinstance(inner, ast.Name) and inner.id in names and node.conversion == -1:
            return [text for value in names[inner.id] for text in texts(value, {})]
        return [MISSING]
    if isinstance(node, ast.IfExp):
        return texts(node.body, names) + texts(node.orelse, names)
    if isinstance(node, ast.JoinedStr):
        whole = [""]
        for part in node.values:
            whole = [before + text for before in whole for text in texts(part, names)]
        return whole
    return [MISSING]


def sentences(tree: ast.Module, errors: set[str]) -> Iterator[tuple[int, str]]:
    """Line and text of every error that is made in a module, raised at once or returned to be raised."""
    scopes = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)] or [tree]
    seen = set()
    for scope in reversed(scopes):  # inner functions first: their names are nearer
        names: dict[str, list[ast.expr]] = {}
        for node in ast.walk(scope):
            if isinstance(node, ast.Assign) and isinstance(
                node.value, ast.Constant | ast.JoinedStr | ast.IfExp
            ):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        names.setdefault(target.id, []).append(node.value)
        for node in ast.walk(scope):
            if not isinstance(node, ast.Call) or node in seen or not node.args:
                continue
            if isinstance(node.func, ast.Name) and node.func.id in errors:
                seen.add(node)
                for text in texts(node.args[0], names):
                    yield node.lineno, text


def faults(text: str) -> list[str]:
    """What is wrong with a sentence."""
    found = []
    if "\n" in text:
        found.append("more than one line")
    if "expected" not in text:
        found.append("does not say what was expected")
    elif "found" not in text.split("expected", 1)[1]:
        found.append("does not say what was found")
    if text.rstrip().endswith(".") and not text.endswith("..."):
        found.append("ends with a period")
    if "  " in text:
        found.append("two spaces")
    if text != text.strip():
        found.append("a space at its end")
    return found


def parsed() -> dict[str, ast.Module]:
    """Every module of the package by its path."""
    return {str(p.relative_to(SOURCE)): ast.parse(p.read_text()) for p in sorted(SOURCE.rglob("*.py"))}


def test_every_error_says_in_one_line_what_was_expected_and_what_was_found() -> None:
    modules = parsed()
    errors = kinds(list(modules.values()))
    found = [(path, line, text) for path, tree in modules.items() for line, text in sentences(tree, errors)]
    wrong = [
        f"{path}:{line}: {fault}: {text}"
        for path, line, text in found
        if (path, text) not in PASSED_ON
        for fault in faults(text)
    ]
    assert not wrong, "\n".join(wrong)
    assert len(found) > 600
    assert PASSED_ON.keys() <= {(path, text) for path, _, text in found}  # no reason outlives its sentence


def nameless(tree: ast.Module, errors: set[str]) -> list[int]:
    """The lines of a module that make an error without ``about``."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in errors
        if node.args and not any(word.arg in ("about", None) for word in node.keywords)
    ]


def test_every_error_names_what_it_is_about() -> None:
    """Programs and tests read ``about`` and ``found``: no error leaves them to its sentence alone."""
    modules = parsed()
    errors = kinds(list(modules.values()))
    assert not [f"{path}:{line}" for path, tree in modules.items() for line in nameless(tree, errors)]
    assert nameless(ast.parse("MetasymError('expected a number, found none')"), KINDS) == [1]


@pytest.mark.parametrize(
    ("raised", "fault"),
    [
        ('MetasymError("bad input")', "does not say what was expected"),
        ('MetasymError(f"expected a number, not {x}")', "does not say what was found"),
        ('MetasymError(f"found {x}, expected a number")', "does not say what was found"),
        ('MetasymError(f"expected a number, found {x}.")', "ends with a period"),
        ('MetasymError(f"expected a number,  found {x}")', "two spaces"),
        ('MetasymError("expected a number, "\n  f"found {x}\\n")', "more than one line"),
        ('Own("expected a number, found none ")', "a space at its end"),
        ('MetasymError(f"{what}, seen {x}")', "does not say what was found"),
    ],
)
def test_a_bad_sentence_is_found(raised: str, fault: str) -> None:
    tree = ast.parse(
        f"class Own(MetasymError): ...\ndef work(x):\n  what = 'expected a number'\n  raise {raised}"
    )
    (found,) = [text for _, text in sentences(tree, kinds([tree]))]
    assert fault in faults(found)


def test_a_good_sentence_is_not() -> None:
    made = "what = f'{y}: expected a number'"
    tree = ast.parse(f"def work(x, y):\n  {made}\n  raise MetasymError(f'{{what}}, found {{x!r}}')")
    ((line, text),) = sentences(tree, kinds([tree]))
    assert (line, text, faults(text)) == (3, "?: expected a number, found ?", [])
