"""Labelled images and few-shot tasks made of them: Omniglot, MiniImagenet, a user's own."""

from metasym.tasks.images.classes import ImageClasses, from_arrays
from metasym.tasks.images.few_shot_tasks import FewShotTasks
from metasym.tasks.images.folder import from_folder
from metasym.tasks.images.mini_imagenet import mini_imagenet
from metasym.tasks.images.omniglot import omniglot

__all__ = ["FewShotTasks", "ImageClasses", "from_arrays", "from_folder", "mini_imagenet", "omniglot"]
