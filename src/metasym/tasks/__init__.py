"""Families of tasks: the paper's synthetic problems, a user's own arrays, and how episodes are drawn."""

from metasym.tasks.arrays import ArrayTasks
from metasym.tasks.sampling import mix, sample, seeded
from metasym.tasks.subset import Subset, hold_out
from metasym.tasks.synthetic import Problem, RotationTasks, rotation, translation

__all__ = [
    "ArrayTasks",
    "Problem",
    "RotationTasks",
    "Subset",
    "hold_out",
    "mix",
    "rotation",
    "sample",
    "seeded",
    "translation",
]
