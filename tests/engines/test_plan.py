"""The cost model's plumbing: what is parsed, chosen, forced and written down."""

from __future__ import annotations

import json

import torch
from torch import nn

import metasym as ms
from metasym.engines.plan import WAYS, Choice, Sizes, as_dict, choose, parse, settled
from metasym.types import Batch, Episode
from tests.refusals import refused


def test_the_cheapest_way_is_taken_and_ties_go_to_the_first() -> None:
    assert choose("contract", {"input": 2.0, "filter": 3.0}, {}).way == "input"
    assert choose("contract", {"input": 3.0, "filter": 3.0}, {}).way == WAYS["contract"][0]
    forced = choose("contract", {"input": 2.0, "filter": 3.0}, {"contract": "filter"})
    assert (forced.way, forced.why, forced.milliseconds) == (
        "filter",
        "forced",
        {"filter": 3.0, "input": 2.0},
    )


def test_a_rule_that_leaves_no_choice_refuses_another() -> None:
    assert settled("engine", "mapped", "not a linear model", {}).way == "mapped"
    with refused("engine", ("closed", "not a linear model")):
        settled("engine", "mapped", "not a linear model", {"engine": "closed"})


def test_what_is_forced_is_checked() -> None:
    assert parse("auto") == parse(None) == {}
    assert parse("engine=mapped, contract=filter") == {"engine": "mapped", "contract": "filter"}
    assert parse({"map": "loop"}) == {"map": "loop"}
    for bad, about, found in (
        ("motor=fast", "paths", "motor"),
        ("engine=fast", "engine", "fast"),
        ("engine", "engine", ""),
        ("", "paths", ""),
        ("engine=mapped;map=loop", "engine", "mapped;map=loop"),
    ):
        with refused(about, found):
            parse(bad)
    with refused("paths", 3):
        parse(3)  # type: ignore[arg-type]


def test_a_plan_is_plain_data_and_readable() -> None:
    plan = (Choice("contract", "input", "estimate", {"filter": 1.23456, "input": 0.5}),)
    assert json.loads(json.dumps(as_dict(plan))) == {
        "contract": {"way": "input", "why": "estimate", "milliseconds": {"filter": 1.23, "input": 0.5}}
    }
    assert str(plan[0]) == "contract: input (estimate: filter 1.23 ms, input 0.5 ms)"


def test_sizes_are_those_of_the_episodes() -> None:
    s, q = (Batch(torch.zeros(4, n, 1, 5, 5), torch.zeros(4, n, 2)) for n in (1, 3))
    episodes = Episode(s, q, torch.arange(4))
    assert Sizes.of(episodes) == Sizes(4, 1, 3, (1, 5, 5), (2,))
    assert Sizes.of(episodes, 32).tasks == 32


def test_a_learner_says_what_is_forced() -> None:
    learner = ms.MAML(nn.Linear(2, 2), paths="map=loop")
    assert learner.describe()["paths"] == {"map": "loop"}
    assert learner.map == "loop"
    assert "paths" not in ms.MAML(nn.Linear(2, 2)).describe()  # as older checkpoints have it
