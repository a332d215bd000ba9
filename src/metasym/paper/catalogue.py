"""All experiments by name."""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
from functools import cache
from typing import Any

from metasym.paper import image_cells, synthetic_cells
from metasym.paper.best_recipes import best_changes
from metasym.paper.config import Experiment, Recipe
from metasym.paper.published_numbers import Printed
from metasym.paper.synthetic_cells import TABLE1, TABLE2, check_recipe, variant
from metasym.types import MetasymError


@cache
def _cells() -> dict[str, Experiment]:
    return {**synthetic_cells.cells(), **image_cells.cells()}


def printed(name: str) -> Printed | None:
    """The number that the paper prints for the experiment ``name``, if it does."""
    return TABLE1.get(name) or TABLE2.get(name) or image_cells.TABLE3.get(name)


def names(pattern: str | None = None) -> list[str]:
    """The names of all experiments, or of those that match ``pattern`` or contain it.

    A whole name stands for that experiment alone, even where others begin with it (``.../maml``, ``.../maml-big``).
    """
    found = list(_cells())
    if pattern is None:
        return found
    if pattern in found:
        return [pattern]
    return [name for name in found if fnmatch.fnmatchcase(name, pattern) or pattern in name]


def find(name: str, recipe: str = "paper", **changes: Any) -> Experiment:
    """The experiment ``name`` with a recipe (``RECIPES``) and with some of its fields changed."""
    if name not in _cells():
        near = difflib.get_close_matches(name, _cells(), n=3, cutoff=0.5) or names(name)[:3]
        hint = f"did you mean {' or '.join(near)}?" if near else "see metasym list"
        raise MetasymError(
            f"expected the name of an experiment, found {name!r}: {hint}", about="name", found=name
        )
    check_recipe(name, recipe)
    experiment = _cells()[name]
    if recipe.startswith("best"):
        # In Table 3, ``best`` is the best with the same number of tasks as a day's budget.
        base = variant(experiment, image_cells.BUDGETS["day"]) if experiment.has_classes else experiment
        experiment = base.replace(**best_changes(name, recipe))
    else:
        experiment = variant(experiment, recipe)
    usual = Recipe().image_size
    if name.startswith("translation/") and changes.get("image_size", usual) != usual:
        raise MetasymError(
            f"expected a rotation experiment for an image size, found {name}", about="image_size", found=name
        )
    return dataclasses.replace(experiment, recipe_name=recipe).replace(**changes)
