"""From an experiment's description to its problem, its network and its learner."""

from __future__ import annotations

from torch import nn

from metasym.experiments.config import Experiment
from metasym.learners import MAML, MSR, MTSR, Learner, MSRJoint
from metasym.models import (
    convolution1d,
    convolution2d,
    fully_connected,
    locally_connected,
    with_true_space,
)
from metasym.reparam import reparameterize
from metasym.tasks.sampling import mix, seeded
from metasym.tasks.synthetic import WIDTH, Problem, rotation, translation
from metasym.types import MetasymError

_START = 11


def build_problem(experiment: Experiment) -> Problem:
    """The training and test tasks of an experiment."""
    recipe, seed = experiment.recipe, experiment.data_seed
    family, variant, *size = experiment.problem.split("/")
    counts = {"train_tasks": recipe.train_tasks, "test_tasks": recipe.test_tasks}
    if family == "translation":
        return translation(int(variant.removeprefix("rank")), size[0], seed, **counts)
    if family == "rotation":
        return rotation(variant, recipe.image_size, seed, **counts)
    raise MetasymError(f"expected a translation or rotation problem, found {experiment.problem!r}")


def build_model(experiment: Experiment, problem: Problem) -> nn.Module:
    """The network of an experiment, reparameterized as its recipe says."""
    recipe = experiment.recipe
    generator = seeded(int(mix(recipe.seed, _START)))
    shape = problem.weight_shape
    if experiment.network == "fc":
        model = fully_connected(shape[1], shape[0], generator)
    elif experiment.network == "lc":
        model = locally_connected(shape[1], WIDTH, generator)
    elif experiment.network == "conv1d":
        model = convolution1d(WIDTH, generator)
    else:
        model = convolution2d(shape[1], shape[0], shape[2], generator)
    if recipe.symmetry == "none":
        return model
    if recipe.symmetry == "true":
        return with_true_space(
            model, problem.true_basis, filter_std=recipe.filter_std or 0.0, generator=generator
        )
    return reparameterize(
        model,
        recipe.symmetry,
        filter_size=recipe.filter_size if recipe.symmetry == "dense" else None,
        std=recipe.u_std,
        filter_std=recipe.filter_std,
        generator=generator,
    )


def build_learner(
    experiment: Experiment, problem: Problem, train_tasks: int, model: nn.Module | None = None
) -> Learner:
    """The learner of an experiment, at its start; ``train_tasks`` is how many tasks it trains on.

    ``model`` is given where an earlier stage has made it.
    """
    recipe = experiment.recipe
    model = build_model(experiment, problem) if model is None else model
    if experiment.method == "mtsr":
        return MTSR(
            model,
            train_tasks=train_tasks,
            test_steps=recipe.test_inner_steps,
            test_lr=recipe.inner_lr,
            filter_std=0.01 if recipe.filter_std is None else recipe.filter_std,
            seed=int(mix(recipe.seed, _START, 1)),
            map=recipe.map,
            chunk_size=recipe.chunk_size,
        )
    kinds: dict[str, type[MAML | MSR | MSRJoint]] = {
        "maml": MAML,
        "oracle": MAML,
        "msr": MSR,
        "msr-joint": MSRJoint,
    }
    return kinds[experiment.method](
        model,
        inner_steps=recipe.inner_steps,
        test_inner_steps=recipe.test_inner_steps,
        inner_lr=recipe.inner_lr,
        step_sizes=recipe.step_sizes,
        solver=recipe.solver,
        penalty=recipe.penalty,
        learn_start=recipe.learn_start,
        first_order=recipe.first_order,
        map=recipe.map,
        chunk_size=recipe.chunk_size,
        paths=recipe.paths,
    )
