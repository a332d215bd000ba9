"""What ``metasym inspect --function`` prints: the networks that runs adapt to their test tasks, and a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metasym.cli.common import console
from metasym.verdicts.status_thresholds import TRANSFORM_TOLERANCE
from metasym.verdicts.transform_ranges import range_words

if TYPE_CHECKING:
    from metasym.verdicts.function_reports import AdaptedFunctions, ElementOfFunctions


def show_functions(asked: list[tuple[str, AdaptedFunctions]]) -> None:
    """Lines about one run, or one table about several."""
    if len(asked) > 1:
        _show_beside(asked)
        return
    console().print("\n".join(_function_lines(asked[0][1])), highlight=False, markup=False, soft_wrap=True)


def _show_beside(asked: list[tuple[str, AdaptedFunctions]]) -> None:
    """One table: a row for each element of the group, columns for each run."""
    from rich.table import Table

    from metasym.verdicts.function_reports import Held

    first = asked[0][1]
    table = Table(
        title=f"Input to output, networks adapted to test tasks, group {first.group}", title_justify="left"
    )
    table.add_column("element")
    for name, functions in asked:
        table.add_column(f"{name}: violation, at most", justify="right")
        table.add_column("same class" if functions.labels else "holds", justify="right")
        table.add_column("accuracy" if functions.labels else "mse", justify="right")
    names = [element.name for element in first.elements]
    for move in names:
        row = [move]
        for _, functions in asked:
            [element] = [one for one in functions.elements if one.name == move]
            score = f"{element.score:.1%}" if functions.labels else f"{element.score:.4g}"
            kept = str(element.held) if element.same_class is None else f"{element.same_class:.1%}"
            row += [f"{element.violation:.3g}, {element.violation_upper:.3g}", kept, score]
        table.add_row(*row)
    out = console()
    out.print(table, highlight=False, markup=False)
    for name, functions in asked:
        by_held = {held: [e.name for e in _moving(functions) if e.held is held] for held in Held}
        said = "; ".join(f"{held}: {', '.join(found)}" for held, found in by_held.items() if found)
        said = range_words(functions.ranges) if functions.ranges else said
        out.print(f"{name}, {functions.tasks} tasks: {said}", highlight=False, markup=False, soft_wrap=True)
    out.print(
        "Violations are shares of the variance of the answers: 0 exact, 2 unrelated; at most at 95 %.",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _moving(functions: AdaptedFunctions) -> tuple[ElementOfFunctions, ...]:
    """The elements but the identity, which comes first in a group; transforms of images have none."""
    if functions.ranges:
        return functions.elements
    return functions.elements[1:] or functions.elements


def _function_lines(functions: AdaptedFunctions) -> list[str]:
    """A line for each element of the group but the identity."""
    metric = "accuracy" if functions.labels else "mean squared error"
    score = f"{functions.score:.1%}" if functions.labels else f"{functions.score:.4g}"
    lines = [
        f"input to output, networks adapted to {functions.tasks} test tasks ({metric} {score}), "
        f"group {functions.group}:",
        "  violation is a share of the variance of the answers: 0 exact, 2 unrelated",
    ]
    width = max(len(element.name) for element in functions.elements)
    for element in _moving(functions):
        kept = "" if element.same_class is None else f", same class for {element.same_class:.1%}"
        score = f"{element.score:.1%}" if functions.labels else f"{element.score:.4g}"
        lines.append(
            f"  {element.name:<{width}}  {element.held:<13}  violation {element.violation:.3g}, "
            f"at most {element.violation_upper:.3g} at 95 %{kept}, {metric} {score}"
        )
    if functions.ranges:
        lines.append(f"  within {TRANSFORM_TOLERANCE:.0%}, {range_words(functions.ranges)}")
    return lines + ([f"  note: {functions.note}"] if functions.note else [])
