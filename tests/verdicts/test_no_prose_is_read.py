"""Nothing outside the renderer takes a verdict's or a reason's words apart: programs use its values."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import metasym

SOURCE = Path(metasym.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = ("studies", "website", "examples", "benchmarks")
"""Programs beside the package that read its verdicts."""
TAKEN_APART = {
    "startswith",
    "endswith",
    "split",
    "partition",
    "rpartition",
    "replace",
    "removeprefix",
    "find",
}
VERDICTS = {"verdict", "reason", "reasons", "refused", "refusal"}
WORDS = VERDICTS | {"words"}
"""Of fields; a local variable ``words`` may be about anything."""
RENDERERS = {"layer_words.py", "discovery_words.py"}


def _about(node: ast.expr) -> bool:
    """Whether an expression is a verdict or a reason: ``x.verdict``, ``found["reason"]``, ``reason``."""
    if isinstance(node, ast.Attribute):
        return node.attr in WORDS
    if isinstance(node, ast.Subscript):
        key = node.slice
        return (isinstance(key, ast.Constant) and key.value in WORDS) or _about(node.value)
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        made = called in _renderers() or (called in ("str", "lower", "strip") and any(map(_about, node.args)))
        return made or (
            isinstance(node.func, ast.Attribute) and called in ("lower", "strip") and _about(node.func.value)
        )
    return isinstance(node, ast.Name) and node.id in VERDICTS


@functools.cache
def _renderers() -> frozenset[str]:
    """The public functions that make words of verdicts."""
    return frozenset(
        node.name
        for name in RENDERERS
        for node in ast.parse((SOURCE / "verdicts" / name).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    )


def _wrong(tree: ast.AST) -> list[int]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in TAKEN_APART and _about(node.func.value):
                found.append(node.lineno)
        elif isinstance(node, ast.Compare):
            for op, right in zip(node.ops, node.comparators, strict=True):
                if isinstance(op, ast.In | ast.NotIn) and _about(right):
                    found.append(node.lineno)
                text = isinstance(right, ast.Constant) and isinstance(right.value, str)
                if isinstance(op, ast.Eq | ast.NotEq) and text and _about(node.left):
                    found.append(node.lineno)
    return found


def test_the_test_sees_what_it_is_about() -> None:
    for text in (
        "layer.verdict.startswith('no')",
        "found['reason'].split(';')",
        "note in report.verdict",
        "reason.replace('a', 'b')",
        "'near' in one['words']",
        "candidate.words.startswith('Z_2')",
        "found['verdict'] == 'no symmetry is claimed'",
        "verdict_words(layer).startswith('no')",
        "'near' in str(reason)",
        "'near' in report.verdict.words.lower()",
    ):
        assert _wrong(ast.parse(text)), text
    assert not _wrong(ast.parse("layer.verdict.status in (1, 2); name.split(',')"))


def test_no_code_outside_the_renderer_reads_words() -> None:
    places = [SOURCE, *(ROOT / name for name in OUTSIDE)]
    paths = [path for place in places for path in sorted(place.rglob("*.py")) if path.name not in RENDERERS]
    assert {path.parts[len(ROOT.parts)] for path in paths} == {"src", *OUTSIDE}
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in paths
        for line in _wrong(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not wrong


def test_templates_take_no_words_apart() -> None:
    """The pages print verdicts and reasons as the renderer made them."""
    fields, methods = "|".join(sorted(WORDS)), "|".join(sorted(TAKEN_APART))
    taken = re.compile(rf"\b({fields})\b[\w.\[\]'\"]*\.({methods})\(|\bin \w+\.({fields})\b")
    assert taken.search("{{ layer.verdict.words.split(';') }}")
    assert taken.search("{% if 'no' in layer.verdict.words %}")
    templates = sorted(SOURCE.rglob("*.html"))
    assert len(templates) > 2
    assert not [path.name for path in templates if taken.search(path.read_text(encoding="utf-8"))]


def test_searches_give_reasons_as_values() -> None:
    """Where a search in ``discovery/`` ends without a claim it returns no text."""
    wrong = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted((SOURCE / "discovery").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)
        for part in node.value.elts
        if isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Constant) and isinstance(part.value, str))
    ]
    assert not wrong
