"""Which tasks differ and what breaks a symmetry, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from metasym.verdicts.reports import Breaking, DifferingTasks, LayerReport

_SMALLEST = 1e-4
"""Percent that are printed, at least."""
_LISTED = 6
"""Tasks that are named one by one."""
LARGEST_DEFECT = 2.0
"""No map has a larger one: ``|W - g W|`` is at most twice ``|W|``."""


def differing_words(found: DifferingTasks, layer: LayerReport) -> str:
    """Which tasks differ from the others, what they have in common, and how many of those to come may."""
    if found.visible >= LARGEST_DEFECT and not found.tasks:
        return "single tasks are too noisy to show which of them differ"
    beyond = percent(min(found.visible, LARGEST_DEFECT))
    share, blocks = f"at most {percent(found.share_upper)}", found.blocks is not None
    if not found.tasks:
        further = f"{share} of further {'blocks' if blocks else 'tasks'} have one"
        return f"none of the {found.of} tasks shows a difference above {beyond}; {further} (95 %)"
    listed = ", ".join(found.names[:_LISTED])
    more = f" and {len(found.names) - _LISTED} more" if len(found.names) > _LISTED else ""
    common = "" if found.common is None else f": {breaking_words(found.common, layer)}"
    verb = "differs" if len(found.tasks) == 1 else "differ"
    further = "of further blocks have tasks that differ" if blocks else "of further tasks differ"
    return (
        f"{len(found.tasks)} of {found.of} tasks {verb} ({listed}{more}{common}); {share} {further} by more than "
        f"{beyond} (95 %)"
    )


def breaking_words(breaking: Breaking, layer: LayerReport) -> str:
    """``input 3 at 0.5 times the weight that the symmetry requires``."""
    if breaking.part == "weight":
        column, row = (
            _name(names, i or 0)
            for names, i in ((layer.input_names, breaking.column), (layer.output_names, breaking.index))
        )
        one = f"the weight of input {column} in output {row}"
    else:
        names = layer.output_names if breaking.part == "output" else layer.input_names
        one = f"{breaking.part} {_name(names, breaking.index)}"
    carried = f"{100 * breaking.share:.0f} % of the squared defect"
    if not breaking.alone:
        return f"no single output or input; {one} has the largest part, {carried}"
    if breaking.factor is None:
        return f"{one}, which carries {carried}"
    times = f"{breaking.factor:.2g} times"
    if breaking.part == "weight":
        return f"{one}, which is {times} what the symmetry requires"
    return f"{one} at {times} the weight that the symmetry requires"


def faint_words(faint: Sequence[tuple[int, int]], layer: LayerReport) -> str:
    """Which weights are too faint: ``the faint weights are those of input a in output p, input b in output q``."""
    listed = [
        f"input {_name(layer.input_names, j)} in output {_name(layer.output_names, i)}"
        for i, j in faint[:_LISTED]
    ]
    more = f" and {len(faint) - _LISTED} more" if len(faint) > _LISTED else ""
    return f"the faint weights are those of {', '.join(listed)}{more}"


def _name(names: Sequence[str], index: int) -> str:
    return names[index] if index < len(names) else str(index)


def negatable_words(blocks: int) -> str:
    """Return the sign changes that every matrix with unconnected blocks has; empty without such blocks."""
    return f" (except sign changes of its {blocks} blocks, which no weight connects)" if blocks else ""


def capital(words: str) -> str:
    """Return the words with a capital letter at the start."""
    return f"{words[:1].upper()}{words[1:]}"


def sentences(first: str = "", *rest: str) -> str:
    """Join sentences. The first keeps its small letter, and the last has no full stop."""
    return ". ".join([first, *map(capital, rest)])


def measured(share: float) -> str:
    """Return what was measured, a share of 1, as percent with two significant digits."""
    value = 100 * share
    if abs(value) <= _SMALLEST:
        return "less than 0.0001 %"
    return f"{float(f'{value:.2g}'):.10g} %"


def percent(share: float) -> str:
    """Return a bound, a share of 1, as percent with two significant digits, rounded up."""
    value = 100 * share
    if value <= _SMALLEST:
        return "0.0001 %"
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / step - 1e-9) * step:.10g} %"
