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
ABOUT_VERDICTS = re.compile(
    r"(verdict|reason|refusal|refused|claim|claims|candidate|answer|judgement)_words$"
)
PATTERNS = {"search", "match", "fullmatch", "findall", "finditer", "sub"}
"""Of regular expressions."""


def _about(node: ast.expr, names: frozenset[str] = frozenset()) -> bool:
    """Whether an expression is a verdict or a reason: ``x.verdict``, ``found["reason"]``, ``reason``.

    ``names`` are local variables that stand for words of one.
    """
    match node:
        case ast.Attribute():
            return node.attr in WORDS
        case ast.Subscript():
            key = node.slice
            return (isinstance(key, ast.Constant) and key.value in WORDS) or _about(node.value, names)
        case ast.JoinedStr():
            return any(
                _about(part.value, names) for part in node.values if isinstance(part, ast.FormattedValue)
            )
        case ast.NamedExpr():
            return _about(node.value, names)
        case ast.BinOp():
            return _about(node.left, names) or _about(node.right, names)
        case ast.Call():
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in _renderers():
                return True
            if called in ("str", "join"):
                return any(_about(one, names) for one in node.args)
            same = isinstance(node.func, ast.Attribute) and called in ("lower", "strip", "casefold")
            return same and _about(node.func.value, names)
    return isinstance(node, ast.Name) and (node.id in VERDICTS or node.id in names)


@functools.cache
def _renderers() -> frozenset[str]:
    """The public functions that make words of verdicts, in any room."""
    return frozenset(
        node.name
        for room in ("verdicts", "robots")
        for path in (SOURCE / room).glob("*_words.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and ABOUT_VERDICTS.search(node.name)
    )


@functools.cache
def _sentences() -> frozenset[str]:
    """Names of the package that stand for a text of several words."""
    return frozenset(
        name.id
        for path in SOURCE.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        for name, value in _each(target, node.value)
        if isinstance(value, ast.Constant) and isinstance(value.value, str) and " " in value.value
    )


def _each(target: ast.expr, value: ast.expr) -> list[tuple[ast.Name, ast.expr]]:
    """What an assignment gives to which name."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return [pair for both in zip(target.elts, value.elts, strict=False) for pair in _each(*both)]
    return [(target, value)] if isinstance(target, ast.Name) else []


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    return getattr(node, "attr", getattr(node, "id", "")) in _sentences()


def _words_in(scope: ast.AST) -> frozenset[str]:
    """Local variables of a function that are given words of a verdict."""
    given = [node for node in ast.walk(scope) if isinstance(node, ast.Assign | ast.NamedExpr)]
    names: frozenset[str] = frozenset()
    while True:
        more = frozenset(
            name.id
            for node in given
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            for name, value in _each(target, node.value)
            if not isinstance(value, ast.BinOp) and _about(value, names)
        )
        if more <= names:
            return names
        names |= more


def _wrong(tree: ast.AST) -> list[int]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    return sorted({line for scope in (tree, *functions) for line in _wrong_in(scope)})


def _wrong_in(scope: ast.AST) -> list[int]:
    names = frozenset() if isinstance(scope, ast.Module) else _words_in(scope)
    found = []
    for node in ast.walk(scope):
        match node:
            case ast.Call(func=ast.Attribute()):
                taken = node.func.attr in TAKEN_APART and _about(node.func.value, names)
                by_pattern = getattr(node.func.value, "id", "") == "re" or node.func.attr in PATTERNS
                if taken or (by_pattern and any(_about(one, names) for one in node.args)):
                    found.append(node.lineno)
            case ast.Subscript(slice=ast.Slice()):
                if isinstance(node.value, ast.Attribute) and node.value.attr == "words":
                    found.append(node.lineno)
            case ast.Match():
                cases = [case.pattern for case in node.cases]
                texts = any(isinstance(one, ast.MatchValue) and _is_text(one.value) for one in cases)
                if texts and _about(node.subject, names):
                    found.append(node.subject.lineno)
            case ast.Compare():
                for op, right in zip(node.ops, node.comparators, strict=True):
                    if isinstance(op, ast.In | ast.NotIn) and _about(right, names):
                        found.append(node.lineno)
                    words = any(getattr(one, "attr", "") == "words" for one in (node.left, right))
                    text = _is_text(right) and _about(node.left, names)
                    if isinstance(op, ast.Eq | ast.NotEq) and (words or text):
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
        "def f(layer):\n  text = layer.verdict.words\n  return text.split(';')",
        "def f(layer):\n  first, text = 1, str(layer.verdict)\n  more = text.lower()\n  return 'no' in more",
        "def f(one):\n  if (said := claim_words(one)).startswith('Z'): pass",
        "re.search('order (.*)', layer.verdict.words)",
        "ORDER.search(candidate.words)",
        "'near' in f'{layer.verdict}'",
        "'near' in ', '.join(found['reasons'])",
        "layer.verdict.words[:9]",
        "one.refused == NOTHING",
        "[one for word in WORDS if one.words == word]",
        "match layer.verdict.words:\n  case 'no symmetry': pass",
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
