from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from metasym.learners import MAML, MSR, MTSR, MSRJoint
from metasym.paper import find, names
from metasym.paper.best_recipes import BEST, BEST_EXACT, best_changes
from metasym.paper.build import build_learner, build_model, build_problem
from metasym.paper.config import Recipe, experiment_from
from metasym.paper.image_cells import TABLE3
from metasym.paper.synthetic_cells import STEP_SIZES, TABLE1, TABLE2, Printed
from metasym.symmetry.reparam import split, symmetries
from metasym.tasks.sampling import sample
from tests.refusals import refused

SMALL = {"train_tasks": 6, "test_tasks": 3}


def test_every_cell_of_the_paper_has_a_name():
    table1 = [
        f"translation/rank{rank}/{size}/{method}"
        for rank in (1, 2, 5)
        for size in ("small", "large")
        for method in ("maml-fc", "maml-lc", "maml-conv", "mtsr-fc", "msr-joint-fc", "msr-fc")
    ]
    assert len(table1) == 36
    assert set(TABLE1) == set(table1)
    rotations = [
        f"rotation/{k}/{m}" for k in ("rot90", "rot45", "rot45-flip") for m in ("maml-conv", "msr-conv")
    ]
    assert set(table1) | set(rotations) <= set(names())
    assert set(TABLE2) <= set(rotations)
    table3 = [
        f"aug-{data}/{column}/{method}"
        for data, columns in (
            ("omniglot", ("5way-1shot", "5way-5shot", "20way-1shot", "20way-5shot")),
            ("miniimagenet", ("5way-1shot", "5way-5shot")),
        )
        for column in columns
        for method in ("maml", "maml-big", "anil", "protonet", "maml-d8", "msr")
    ]
    assert set(TABLE3) == set(table3) == set(names("aug-*"))
    assert len(names()) == 42 + 9 + 36
    assert names("translation/*/msr-fc") == [n for n in names() if n.endswith("/msr-fc")]
    assert names("aug-omniglot/20way-1shot/maml") == ["aug-omniglot/20way-1shot/maml"]  # not maml-big too
    assert len(names("20way-1shot/maml")) == 3


@pytest.mark.paper
def test_numbers_as_the_paper_prints_them():
    assert str(TABLE1["translation/rank1/small/msr-fc"]) == ".07 ± .02"
    assert str(TABLE1["translation/rank5/large/mtsr-fc"]) == ".07 ± .01"
    assert str(TABLE1["translation/rank2/small/maml-fc"]) == "2.1 ± .35"
    assert TABLE1["translation/rank1/large/maml-conv"].rounding == 0.005
    assert TABLE1["translation/rank1/large/maml-fc"].rounding == 0.05
    assert TABLE2["rotation/rot45-flip/msr-conv"].mean == 0.001
    assert STEP_SIZES["translation/rank5/small/msr-joint-fc"] == {
        "U": Printed("-0.052"),
        "v": Printed("0.401"),
    }
    assert len(STEP_SIZES) == 6


@pytest.mark.paper
def test_the_papers_recipes():
    msr = find("translation/rank1/small/msr-fc").recipe
    assert (msr.outer_steps, msr.tasks_per_step, msr.outer_lr) == (1000, 32, 5e-4)
    assert (msr.inner_steps, msr.test_inner_steps, msr.inner_lr, msr.step_sizes) == (3, 9, 0.02, "layer")
    assert (msr.filter_size, msr.u_std, msr.filter_std) == (70, 0.01, 1 / 68)
    mtsr = find("translation/rank5/large/mtsr-fc").recipe
    assert (mtsr.outer_steps, mtsr.outer_lr, mtsr.tasks_per_step) == (500, 1e-3, 800)
    assert (mtsr.test_inner_steps, mtsr.inner_lr) == (500, 1e-3)
    turned = find("rotation/rot45/msr-conv").recipe
    assert (turned.inner_steps, turned.test_inner_steps, turned.inner_lr) == (1, 1, 0.1)
    assert turned.outer_lr == 5e-4
    assert find("rotation/rot45/msr-conv", "paper-1e-3").recipe.outer_lr == 1e-3


@pytest.mark.parametrize(
    ("name", "kind", "inner"),
    [
        ("maml-fc", MAML, {"W": (68, 70)}),
        ("maml-lc", MAML, {"W": (68, 3)}),
        ("maml-conv", MAML, {"W": (1, 1, 3)}),
        ("msr-fc", MSR, {"v": (70,)}),
        ("msr-joint-fc", MSRJoint, {"v": (70,), "U": (4760, 70)}),
        ("oracle-fc", MAML, {"v": (6,)}),
    ],
)
def test_learners_adapt_what_their_method_says(name, kind, inner):
    experiment = find(f"translation/rank2/small/{name}", **SMALL)
    problem = build_problem(experiment)
    learner = build_learner(experiment, problem, 6)
    assert type(learner) is kind
    parameters = dict(learner.model.named_parameters())
    assert sorted(tuple(parameters[n].shape) for n in learner.inner_names) == sorted(inner.values())
    scores = learner.scores(sample(problem.test, torch.arange(3), 0), learner.loss)
    assert scores.shape == (3,)
    assert torch.isfinite(scores).all()


def test_mtsr_has_a_filter_for_each_training_task():
    experiment = find("translation/rank1/small/mtsr-fc", **SMALL)
    learner = build_learner(experiment, build_problem(experiment), 6)
    assert isinstance(learner, MTSR)
    assert learner.train_tasks == 6
    assert learner.test_steps == 500


@pytest.mark.parametrize("kind", ["rot90", "rot45", "rot45-flip"])
def test_the_rotation_oracle_is_frozen_and_equivariant(kind):
    experiment = find(f"rotation/{kind}/oracle-conv", image_size=6, **SMALL)
    problem = build_problem(experiment)
    model = build_model(experiment, problem)
    (symmetry,) = symmetries(model).values()
    assert not symmetry.learnable
    w = model.weight.double().flatten()
    torch.testing.assert_close(problem.true_basis @ (problem.true_basis.T @ w), w, atol=1e-7, rtol=1e-5)


def test_a_kronecker_start_is_the_plain_convolution():
    plain, turned = (find(f"rotation/rot90/{m}-conv", image_size=4, **SMALL) for m in ("maml", "msr"))
    problem = build_problem(plain)
    model = build_model(turned, problem)
    assert torch.equal(build_model(plain, problem).weight, model.weight)
    assert len(split(model).U) == 3


def test_the_start_depends_on_the_seed_and_not_on_the_global_generator():
    experiment = find("translation/rank1/small/msr-fc", **SMALL)
    problem = build_problem(experiment)
    torch.manual_seed(1)
    first = build_model(experiment, problem)
    torch.manual_seed(2)
    again = build_model(experiment, problem)
    other = build_model(experiment.replace(seed=1), problem)
    assert torch.equal(first.weight, again.weight)
    assert not torch.equal(first.weight, other.weight)


def test_configurations_survive_json():
    experiment = find("rotation/rot90/msr-conv", "best", image_size=8)
    assert experiment_from(experiment.as_dict(), "config.json") == experiment
    with refused("config.json: problem"):
        experiment_from({"name": "x"}, "config.json")


def test_best_changes_only_known_fields_of_known_cells():
    known = {field.name for field in dataclasses.fields(Recipe)}
    for pattern, changes in (*BEST.items(), *BEST_EXACT.items()):
        assert names(pattern), pattern
        assert set(changes) <= known
    for name in names():
        base = find(name, "paper-day" if name.startswith("aug-") else "paper").recipe
        assert find(name, "best").recipe == dataclasses.replace(base, **best_changes(name))
    for name in names("rotation/*"):
        best, exact = find(name, "best").recipe, find(name, "best-exact").recipe
        assert (best.solver, exact.solver) == ("sgd", "ridge")
        assert best.test_inner_steps == 1  # the paper's one inner step


@pytest.mark.parametrize(
    ("call", "about", "found"),
    [
        (lambda: find("zzz"), "name", "zzz"),
        (
            lambda: find("translation/rank1/small/msr-fc", "best-exact"),
            "recipe",
            ("best-exact", "translation/rank1/small/msr-fc"),
        ),
        (
            lambda: find("translation/rank1/small/msr-fc", image_size=8),
            "image_size",
            "translation/rank1/small/msr-fc",
        ),
        (lambda: find("rotation/rot45/msr-conv", seed=2**63), "seed", 2**63),
        (
            lambda: find("rotation/rot45/msr-conv", inner_lr=math.inf),
            "inner_lr",
            math.inf,
        ),
        (lambda: find("rotation/rot45/msr-conv", "good"), "recipe", "good"),
        (
            lambda: find("translation/rank1/small/msr-fc", "paper-1e-3"),
            "recipe",
            ("paper-1e-3", "translation/rank1/small/msr-fc"),
        ),
        (lambda: find("rotation/rot45/msr-conv", outer_steps=0), "outer_steps", 0),
        (lambda: find("rotation/rot45/msr-conv", solver="magic"), "solver", "magic"),
        (lambda: find("rotation/rot45/msr-conv", colour=1), "colour", None),
        (
            lambda: find("rotation/rot45/msr-conv", validate_every=5),
            "validation_fraction, validate_every",
            (0.0, 5),
        ),
        (
            lambda: find("rotation/rot45/msr-conv", outer_lr=math.nan),
            "outer_lr",
            pytest.approx(math.nan, nan_ok=True),
        ),
    ],
)
def test_bad_input(call, about, found):
    with refused(about, found):
        call()


@pytest.mark.parametrize("name", ["translation/rank1/smal/msr-fc", "msr-fc"])
def test_a_name_that_is_nearly_one_is_answered_with_that_one(name):
    with refused("name", name) as caught:
        find(name)
    assert "translation/rank1/small/msr-fc" in str(caught.value)
