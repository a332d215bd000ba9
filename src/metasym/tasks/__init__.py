"""Families of tasks: the paper's problems, a user's own arrays and images, and how episodes are drawn."""

from metasym.tasks.arrays import ArrayTasks
from metasym.tasks.augment import (
    AugmentQuery,
    PaperTransform,
    augment_query,
    kornia_transform,
    paper_transform,
)
from metasym.tasks.images import FewShotTasks, ImageClasses, from_arrays, from_folder, mini_imagenet, omniglot
from metasym.tasks.planted import planted
from metasym.tasks.sampling import mix, sample, seeded
from metasym.tasks.subset import Subset, hold_out
from metasym.tasks.synthetic import Problem, RotationTasks, rotation, translation

__all__ = [
    "ArrayTasks",
    "AugmentQuery",
    "FewShotTasks",
    "ImageClasses",
    "PaperTransform",
    "Problem",
    "RotationTasks",
    "Subset",
    "augment_query",
    "from_arrays",
    "from_folder",
    "hold_out",
    "kornia_transform",
    "mini_imagenet",
    "mix",
    "omniglot",
    "paper_transform",
    "planted",
    "rotation",
    "sample",
    "seeded",
    "translation",
]
