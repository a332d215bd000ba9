"""The paper's experiments by name: the catalogue of cells, their recipes, what they are built of."""

from metasym.paper.catalogue import find, names
from metasym.paper.config import Experiment, Recipe

__all__ = ["Experiment", "Recipe", "find", "names"]
