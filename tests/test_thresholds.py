"""Numbers that decide a verdict stand in the record of their room; every number says what it decides."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import metasym

SOURCE = Path(metasym.__file__).parent
RECORDS = {
    "discovery": "discovery/claim_thresholds.py",
    "inspection": "inspection/reading_thresholds.py",
    "certification": "certification/certificate_thresholds.py",
    "robots": "robots/mirror_thresholds.py",
    "verdicts": "verdicts/status_thresholds.py",
}


def is_number(node: ast.expr | None) -> bool:
    """Whether an expression is made of numbers alone."""
    match node:
        case ast.Constant():
            return isinstance(node.value, int | float) and not isinstance(node.value, bool)
        case ast.BinOp():
            return is_number(node.left) and is_number(node.right)
        case ast.UnaryOp():
            return is_number(node.operand)
        case ast.Tuple():
            return bool(node.elts) and all(map(is_number, node.elts))
    return False


def undocumented(body: list[ast.stmt]) -> Iterator[str]:
    """The names of numbers in a module, or in its records, that no line below them explains."""
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef) and node.name.endswith("Thresholds"):
            yield from undocumented(node.body)
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(target, ast.Name | ast.Tuple):
            continue
        said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if is_number(node.value) and not said:
            yield ast.unparse(target)


ROUNDING = 1e-6
"""Numbers up to this are rounding: of float64 and float32, of solvers, against division by 0."""


def own_numbers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Comparisons with a fraction that stands in the code: what they decide and what set it is said nowhere."""
    for node in ast.walk(tree):
        numbers = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
        if isinstance(node, ast.Compare) and any(
            isinstance(one, float) and abs(one) > ROUNDING and 2 * one % 1 for one in numbers
        ):
            yield node.lineno, ast.unparse(node)


def test_the_test_sees_a_number_without_a_line() -> None:
    assert list(undocumented(ast.parse("A = 2 ** 3\nB = -1.0\n'''what B is'''").body)) == ["A"]
    assert list(undocumented(ast.parse("A, B = 1, 2").body)) == ["(A, B)"]
    assert list(own_numbers(ast.parse("x < 0.1 * y"))) == [(1, "x < 0.1 * y")]
    assert not list(
        own_numbers(ast.parse("x < 1e-9 * y and 0.0 < z <= 2 and angle % 90 == 0 and cosine > 0.5**0.5"))
    )
    assert list(undocumented(ast.parse("class CThresholds:\n  a: float = 0.5\n  b = 'text'").body)) == ["a"]


@pytest.mark.parametrize("room", RECORDS)
def test_every_number_of_a_room_that_judges_says_what_it_decides(room: str) -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {name}"
        for path in sorted((SOURCE / room).rglob("*.py"))
        for name in undocumented(ast.parse(path.read_text(encoding="utf-8")).body)
    ]
    assert not found


@pytest.mark.parametrize("room", RECORDS)
def test_no_comparison_of_a_room_that_judges_has_a_fraction_of_its_own(room: str) -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {text}"
        for path in sorted((SOURCE / room).rglob("*.py"))
        for line, text in own_numbers(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found


@pytest.mark.parametrize("record", RECORDS.values())
def test_every_threshold_says_what_set_it(record: str) -> None:
    """By hand, counted, set on which seeds, from which law or study: a reader knows how far to trust it."""
    set_by = (
        "by hand",
        "chosen",
        "counted",
        "set ",
        "from ",
        "law",
        "inequality",
        "gaussian",
        "rounding",
        "proposes",
    )
    module = ast.parse((SOURCE / record).read_text(encoding="utf-8"))
    bodies = [module.body, *(one.body for one in module.body if isinstance(one, ast.ClassDef))]
    thresholds = [
        (node, after)
        for body in bodies
        for node, after in zip(body, [*body[1:], None], strict=True)
        if isinstance(node, ast.Assign | ast.AnnAssign) and is_number(node.value)
    ]
    assert len(thresholds) > 5
    silent = [
        ast.unparse(node)
        for node, after in thresholds
        if not isinstance(after, ast.Expr)
        or not isinstance(after.value, ast.Constant)
        or not any(word in " ".join(str(after.value.value).lower().split()) for word in set_by)
    ]
    assert not silent
