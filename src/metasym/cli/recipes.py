"""Flags that choose a recipe of the paper's experiments."""

from __future__ import annotations

import argparse

from metasym.cli.flags import add_flags, given
from metasym.paper.catalogue import find
from metasym.paper.config import Experiment, Recipe
from metasym.paper.image_cells import BUDGETS
from metasym.paper.synthetic_cells import RECIPES

BUDGET_HELP = (
    "Table 3 on a CPU, most cells within an hour, or a column within a day: the recipes "
    f"{' and '.join(BUDGETS.values())}"
)


def add_recipe(parser: argparse.ArgumentParser) -> None:
    """``--recipe`` and one flag for each of a recipe's fields, which override it."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--recipe", choices=RECIPES, help="default: paper")
    which.add_argument("--budget", choices=list(BUDGETS), help=BUDGET_HELP)
    add_flags(parser, Recipe, "fields of the recipe, to override it")


def chosen(options: argparse.Namespace) -> Experiment:
    """The experiment that the command line names, with its recipe."""
    recipe = BUDGETS[options.budget] if options.budget else options.recipe or "paper"
    return find(options.name, recipe, **given(options, Recipe))
