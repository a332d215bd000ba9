"""One function selects: what is forced is taken or refused with a reason, and plans say what runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from metasym.engines.description import Setting
from metasym.engines.kernels import engine_kernels as compiled
from metasym.learners import MAML, MSR, MTSR, Learner
from metasym.types import Batch, Episode
from tests.engines.engine_models import (
    convolution,
    dense_layer,
    images_to_images,
    labelled_images,
    network,
    rows,
)
from tests.refusals import refused


@pytest.mark.parametrize(
    ("make", "data", "about", "found", "why"),
    [
        (
            lambda: MSR(dense_layer(), paths="convolve=direct"),
            rows(5, 1, 1),
            "convolve",
            "direct",
            "not a chain of layers with batch norms",
        ),
        (
            lambda: MAML(convolution("plain"), paths="contract=input"),
            images_to_images(convolution("plain")),
            "contract",
            "input",
            "not one dense linear layer whose filter alone adapts",
        ),
        (
            lambda: MAML(network("plain", None), F.cross_entropy, paths="engine=closed"),
            labelled_images(),
            "engine",
            "closed",
            "not the squared loss",
        ),
        (
            lambda: MTSR(dense_layer(), train_tasks=3, paths="engine=closed"),
            rows(5, 1, 1),
            "engine",
            "closed",
            "parameters that differ between tasks",
        ),
        (
            lambda: MTSR(dense_layer(), train_tasks=3, paths="engine=chain"),
            rows(5, 1, 1),
            "engine",
            "chain",
            "each task has its own parameters",
        ),
    ],
)
def test_what_is_forced_and_cannot_be_taken_is_an_error(
    make: Callable[[], Learner], data: Episode, about: str, found: str, why: str
) -> None:
    """When it is planned and when it is computed."""
    learner = make()
    for ask in (lambda: learner.plan(Setting.of(data)), lambda: learner.outer_gradient(data)):
        with refused(about) as caught:
            ask()
        way, reasons = caught.value.found  # of several engines, joined
        assert way == found
        assert why in reasons


def test_a_forced_decision_brings_the_engine_that_has_it() -> None:
    """Whatever the estimates say of engines that have no such decision to take."""
    data = labelled_images(tasks=64)
    assert MAML(network("plain", None), F.cross_entropy).plan(Setting.of(data))[0].way == "mapped"
    plan = MAML(network("plain", None), F.cross_entropy, paths="convolve=direct").plan(Setting.of(data))
    assert [choice.way for choice in plan] == ["chain", "direct"]


@pytest.mark.parametrize("way", ["vmap", "loop"])
def test_mtsr_maps_as_paths_say(way: str) -> None:
    learner = MTSR(dense_layer(), train_tasks=3, paths=f"map={way}")
    assert learner.map == way
    assert [choice.way for choice in learner.plan(Setting.of(rows(5, 1, 1)))] == ["mapped", way]
    assert learner.describe()["paths"] == {"map": way}


def test_two_wishes_about_mapping_have_to_agree() -> None:
    assert MAML(nn.Linear(2, 2), map="loop", paths="map=loop").map == "loop"
    with refused("map", ("loop", "vmap")):
        MAML(nn.Linear(2, 2), map="loop", paths="map=vmap")


def test_a_model_without_sizes_is_planned_where_it_is() -> None:
    learner = MSR(dense_layer(dtype=torch.float32))
    data = rows(5, 1, 1)
    assert learner.plan(Setting.of(data).sizes)[0].way == "closed"
    assert learner.plan(Setting.of(data))[0].why == "data of another type than the layer's"  # float64
    single = Episode(*(Batch(b.x.float(), b.y.float()) for b in data[:2]), data.ids)
    assert learner.plan(Setting.of(single))[0].way == "closed"


def test_what_bits_depend_on_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = images_to_images(convolution("plain"))
    found = MAML(convolution("plain")).computed_by(data)
    assert found == {
        "engine": "closed",
        "patch_moments": "compiled" if compiled.library("patch_moments") else "torch",
    }
    monkeypatch.setattr("metasym.engines.kernels.engine_kernels.library", lambda name: None)
    assert MAML(convolution("plain")).computed_by(data)["patch_moments"] == "torch"
    mapped = MAML(convolution("plain"), map="loop").computed_by(data)
    assert mapped == {"engine": "mapped", "map": "loop"}
