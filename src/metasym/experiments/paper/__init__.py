"""The paper's experiments by name: the catalogue of cells, their recipes, running one, running a whole table."""

from metasym.experiments.paper.catalogue import find, names
from metasym.experiments.paper.config import Experiment, Recipe
from metasym.experiments.paper.experiment_run import run

__all__ = ["Experiment", "Recipe", "find", "names", "run"]
