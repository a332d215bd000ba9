"""The paper's experiments by name: what each is, running one, running a whole table."""

from metasym.experiments.catalogue import find, names
from metasym.experiments.config import Experiment, Recipe
from metasym.experiments.run import run

__all__ = ["Experiment", "Recipe", "find", "names", "run"]
