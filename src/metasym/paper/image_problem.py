"""The tasks of Table 3: few-shot classification in which only query images are augmented (Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass

from metasym.paper.config import Experiment
from metasym.paper.image_cells import setting
from metasym.tasks.augment import AugmentQuery, paper_transform
from metasym.tasks.images import FewShotTasks, ImageClasses, mini_imagenet, omniglot
from metasym.tasks.images.classes import SPLITS
from metasym.types import MetasymError, Tasks

PAPER_TEST_TASKS = 1000
VALIDATION_TASKS, VALIDATION_QUERIES = 64, 5
"""For the learning curves: always the same tasks, of classes that nothing is trained or tested on."""
CHOOSING_TASKS = 256
"""Further tasks of these classes, for choices that are made once, when training is over."""


@dataclass(frozen=True, eq=False)
class ImageProblem:
    """Tasks of telling classes apart; only query images are augmented, in training and at test."""

    name: str
    description: str
    train: Tasks
    validation: Tasks
    """Tasks of classes that are neither trained nor tested on."""
    choosing: Tasks
    """More tasks of those classes, for choices made when training is over."""
    test: Tasks
    plain_test: Tasks
    """The test tasks with their query images as they are."""
    input_shape: tuple[int, ...]
    """The shape of one image."""
    output_shape: tuple[int, ...]
    """The number of classes of a task."""


def image_classes(experiment: Experiment) -> list[ImageClasses]:
    """The classes to train on, to validate on and to test on: the same ones for every seed."""
    recipe = experiment.recipe
    if setting(experiment.problem).data == "omniglot":
        return [omniglot(split, data=recipe.data, rotated_classes=recipe.rotated_classes) for split in SPLITS]
    if recipe.rotated_classes:
        raise MetasymError(
            f"expected rotated_classes with Omniglot only, found {experiment.name}",
            about="rotated_classes",
            found=experiment.name,
        )
    return [mini_imagenet(split, data=recipe.data) for split in SPLITS]


def build_image_problem(experiment: Experiment) -> ImageProblem:
    """The training, validation and test tasks of a cell of Table 3."""
    recipe, column = experiment.recipe, setting(experiment.problem)
    train, validation, test = image_classes(experiment)
    many = {} if recipe.train_tasks is None else {"tasks": recipe.train_tasks}

    def tasks(classes: ImageClasses, queries: int, **options: int) -> FewShotTasks:
        return FewShotTasks(
            classes,
            ways=column.ways,
            shots=column.shots,
            queries=queries,
            seed=experiment.data_seed,
            **options,
        )

    transform = paper_transform(column.input_shape[-1])
    plain_test = tasks(test, recipe.test_queries, tasks=recipe.test_tasks or PAPER_TEST_TASKS)
    return ImageProblem(
        name=experiment.problem,
        description=(
            f"{column.data}, {column.ways}-way {column.shots}-shot, {len(train)} classes to train on, "
            f"{len(validation)} to validate, {len(test)} to test; {recipe.queries} query images per class in "
            f"training, {recipe.test_queries} at test, augmented; support images as they are"
        ),
        train=AugmentQuery(tasks(train, recipe.queries, **many), transform),
        validation=AugmentQuery(tasks(validation, VALIDATION_QUERIES, tasks=VALIDATION_TASKS), transform),
        choosing=AugmentQuery(tasks(validation, VALIDATION_QUERIES, tasks=CHOOSING_TASKS), transform),
        test=AugmentQuery(plain_test, transform),
        plain_test=plain_test,
        input_shape=column.input_shape,
        output_shape=(column.ways,),
    )
