"""Every synthetic cell of the paper: its problem, its recipe, and the numbers that the paper printed.

Those with images are in ``image_cells``.
"""

from __future__ import annotations

from metasym.paper import image_cells
from metasym.paper.config import Experiment, Recipe
from metasym.paper.published_numbers import Printed as Printed
from metasym.tasks.synthetic import KINDS, OUTPUTS, RANKS, SIZES
from metasym.types import MetasymError

RECIPES = ("paper", "paper-1e-3", *image_cells.BUDGETS.values(), "best", "best-exact")
"""``paper-1e-3``: the rotation recipe with the outer rate that Table 2 seems to have been made with;
``paper-cpu`` and ``paper-day``: Table 3 in what a CPU can do in an hour a cell, in a day a column; ``best-exact``:
our rotation recipe with an exact inner solve (our translation recipe has one already)."""

TRANSLATION_METHODS = {  # method, network, symmetry
    "maml-fc": ("maml", "fc", "none"),
    "maml-lc": ("maml", "lc", "none"),
    "maml-conv": ("maml", "conv1d", "none"),
    "mtsr-fc": ("mtsr", "fc", "dense"),
    "msr-joint-fc": ("msr-joint", "fc", "dense"),
    "msr-fc": ("msr", "fc", "dense"),
    "oracle-fc": ("oracle", "fc", "true"),
}
ROTATION_METHODS = {
    "maml-conv": ("maml", "conv2d", "none"),
    "msr-conv": ("msr", "conv2d", "kronecker"),
    "oracle-conv": ("oracle", "conv2d", "true"),
}


_COLUMNS = [f"translation/rank{rank}/{size}" for size in SIZES for rank in RANKS]
_TABLE1 = {
    "maml-fc": "3.4 .60  2.1 .35  1.0 .10  3.4 .49  2.0 .27  1.1 .11",
    "maml-lc": "2.9 .53  1.8 .24  .87 .08  2.9 .42  1.6 .23  .89 .08",
    "maml-conv": ".00 .00  .43 .09  .41 .04  .00 .00  .53 .08  .49 .04",
    "mtsr-fc": "3.2 .49  1.4 .17  .86 .06  .12 .03  .07 .02  .07 .01",
    "msr-joint-fc": ".25 .16  .12 .04  .21 .03  .01 .00  .08 .02  .12 .02",
    "msr-fc": ".07 .02  .07 .02  .16 .02  .00 .00  .05 .01  .09 .01",
}
_LRS = {
    "U": "-0.017 -0.011 -0.052 -0.009 -0.021 -0.039",
    "v": "0.241 0.326 0.401 0.241 0.307 0.312",
}

TABLE1: dict[str, Printed] = {
    f"{column}/{row}": Printed(*text.split())
    for row, line in _TABLE1.items()
    for column, text in zip(_COLUMNS, line.split("  "), strict=True)
}
"""Table 1: mean squared error on test tasks, by the name of the experiment."""

TABLE2: dict[str, Printed] = {
    "rotation/rot45/maml-conv": Printed(".504"),
    "rotation/rot45/msr-conv": Printed(".004"),
    "rotation/rot45-flip/maml-conv": Printed(".507"),
    "rotation/rot45-flip/msr-conv": Printed(".001"),
}
"""Table 2: mean squared error on test tasks, by the name of the experiment."""

STEP_SIZES: dict[str, dict[str, Printed]] = {
    f"{column}/msr-joint-fc": {row: Printed(line.split()[i]) for row, line in _LRS.items()}
    for i, column in enumerate(_COLUMNS)
}
"""The appendix's step sizes that MSR-Joint learns for U and for v."""


def cells() -> dict[str, Experiment]:
    """Every experiment of this module, by its name, with the paper's recipe."""
    found = {}
    for rank in RANKS:
        for size in SIZES:
            for label, (method, network, symmetry) in TRANSLATION_METHODS.items():
                problem = f"translation/rank{rank}/{size}"
                recipe = _translation_recipe(method, symmetry, rank)
                found[f"{problem}/{label}"] = Experiment(
                    f"{problem}/{label}", problem, method, network, recipe=recipe
                )
    for kind in KINDS:
        for label, (method, network, symmetry) in ROTATION_METHODS.items():
            problem = f"rotation/{kind}"
            name = f"{problem}/{label}"
            found[name] = Experiment(name, problem, method, network, recipe=_rotation_recipe(symmetry))
    return found


def check_recipe(name: str, recipe: str) -> None:
    """Refuse a recipe that is not known, or not for the experiment ``name``."""
    if recipe not in RECIPES:
        raise MetasymError(
            f"expected recipe to be one of {', '.join(RECIPES)}, found {recipe!r}",
            about="recipe",
            found=recipe,
        )
    if recipe in ("paper-1e-3", "best-exact") and not name.startswith("rotation/"):
        raise MetasymError(
            f"expected a rotation experiment for the recipe {recipe}, found {name}",
            about="recipe",
            found=(recipe, name),
        )


def variant(experiment: Experiment, recipe: str) -> Experiment:
    """``experiment`` with one of the paper's own recipes."""
    if recipe in image_cells.BUDGETS.values():
        return image_cells.cheaper(experiment, recipe)
    return experiment if recipe == "paper" else experiment.replace(outer_lr=1e-3)


def _translation_recipe(method: str, symmetry: str, rank: int) -> Recipe:
    if method == "mtsr":
        return Recipe(
            outer_steps=500,
            tasks_per_step={1: 400}.get(rank, 800),  # the full batch
            outer_lr=1e-3,
            test_inner_steps=500,
            inner_lr=1e-3,
            symmetry=symmetry,
            filter_size=70,
            filter_std=1 / OUTPUTS,
        )
    if symmetry == "none":
        return Recipe()
    return Recipe(
        symmetry=symmetry,
        filter_size=70 if symmetry == "dense" else None,
        filter_std=1 / OUTPUTS,
    )


def _rotation_recipe(symmetry: str) -> Recipe:
    return Recipe(
        inner_steps=1,
        test_inner_steps=1,
        inner_lr=0.1,
        symmetry=symmetry,
        filter_std=1 / OUTPUTS if symmetry == "true" else None,
    )
