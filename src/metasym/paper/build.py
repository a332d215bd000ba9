"""From an experiment's description to its problem, its network and its learner."""

from __future__ import annotations

import torch.nn.functional as F
from torch import nn

from metasym.learners import ANIL, MAML, MSR, MTSR, Learner, MSRJoint, ProtoNet
from metasym.models import (
    convolution1d,
    convolution2d,
    few_shot_network,
    fully_connected,
    locally_connected,
    with_true_space,
)
from metasym.paper.config import Experiment
from metasym.paper.image_cells import setting
from metasym.paper.image_problem import ImageProblem, build_image_problem
from metasym.symmetry.reparam import reparameterize
from metasym.tasks.sampling import mix, seeded
from metasym.tasks.synthetic import WIDTH, Problem, rotation, translation
from metasym.types import MetasymError

_START = 11

AnyProblem = Problem | ImageProblem


def build_problem(experiment: Experiment) -> AnyProblem:
    """The training and test tasks of an experiment."""
    if experiment.has_classes:
        return build_image_problem(experiment)
    return _synthetic_problem(experiment)


def _synthetic_problem(experiment: Experiment) -> Problem:
    recipe, seed = experiment.recipe, experiment.data_seed
    family, variant, *size = experiment.problem.split("/")
    counts = {"train_tasks": recipe.train_tasks, "test_tasks": recipe.test_tasks}
    if family == "translation":
        return translation(int(variant.removeprefix("rank")), size[0], seed, **counts)
    if family == "rotation":
        return rotation(variant, recipe.image_size, seed, **counts)
    raise MetasymError(
        f"expected a translation or rotation problem, found {experiment.problem!r}",
        about="problem",
        found=experiment.problem,
    )


def build_model(experiment: Experiment, problem: AnyProblem) -> nn.Module:
    """The network of an experiment, reparameterized as its recipe says."""
    if not isinstance(problem, Problem):
        return build_few_shot_model(experiment)
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


def build_few_shot_model(experiment: Experiment) -> nn.Module:
    """The network of a cell of Table 3; needs no data.

    Square Kronecker factors start as identities, so that MSR starts as the plain network of the same seed.
    """
    recipe, column = experiment.recipe, setting(experiment.problem)
    generator = seeded(int(mix(recipe.seed, _START)))
    model = few_shot_network(
        column.data, column.shots, column.ways, experiment.network, generator, fields=recipe.d8_fields
    )
    if recipe.symmetry == "none":
        return model
    if recipe.symmetry != "kronecker":
        raise MetasymError(
            f"expected symmetry none or kronecker for {experiment.name}, found {recipe.symmetry!r}",
            about="symmetry",
            found=recipe.symmetry,
        )
    return reparameterize(model, "kronecker")


def build_learner(
    experiment: Experiment, problem: AnyProblem, train_tasks: int, model: nn.Module | None = None
) -> Learner:
    """The learner of an experiment, at its start; ``train_tasks`` is how many tasks it trains on.

    ``model`` is given where an earlier stage has made it.
    """
    return learner_of(experiment, build_model(experiment, problem) if model is None else model, train_tasks)


def learner_of(experiment: Experiment, model: nn.Module, train_tasks: int) -> Learner:
    """The learner that trains ``model`` as the experiment says."""
    recipe = experiment.recipe
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
            paths=recipe.paths,
        )
    loss = F.cross_entropy if experiment.has_classes else F.mse_loss
    if experiment.method == "protonet":
        return ProtoNet(model, loss, map=recipe.map, chunk_size=recipe.chunk_size, paths=recipe.paths)
    kinds: dict[str, type[MAML | ANIL | MSR | MSRJoint]] = {
        "maml": MAML,
        "anil": ANIL,
        "oracle": MAML,
        "msr": MSR,
        "msr-joint": MSRJoint,
    }
    return kinds[experiment.method](
        model,
        loss,
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
