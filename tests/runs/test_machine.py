"""How many threads a run takes."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pytest
import threadpoolctl
import torch

import metasym as ms
from metasym.cli import main
from metasym.runs.machine import enough_threads


@pytest.fixture
def two_threads():
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def episodes(*shape: int) -> ms.Episode:
    batch = ms.Batch(torch.ones(1, 10, *shape), torch.ones(1, 10, 2))
    return ms.Episode(batch, batch, torch.zeros(1, dtype=torch.int64))


def test_one_thread_for_a_small_network_and_torchs_own_for_a_large_one(two_threads):
    small = ms.reparameterize(torch.nn.Linear(9, 9), "dense")
    large = torch.nn.Sequential(torch.nn.Conv2d(1, 32, 3), torch.nn.Conv2d(32, 32, 3))
    assert enough_threads(small, episodes(9), 32) == 1
    assert enough_threads(large, episodes(1, 28, 28), 32) == 2
    assert enough_threads(small, episodes(7), 32) == 2  # what does not fit is said where a step is taken
    assert torch.get_num_threads() == 2


def test_a_run_takes_as_many_as_it_needs_or_was_told(two_threads, tmp_path):
    few = ["rotation/rot90/maml-conv", "--outer-steps", "1", "--train-tasks", "3", "--test-tasks", "2"]
    few += ["--tasks-per-step", "1", "--image-size", "5", "--progress", "silent"]
    assert main(["run", *few, "--out", str(tmp_path / "a")]) == 0
    assert main(["run", *few, "--out", str(tmp_path / "b"), "--threads", "2"]) == 0
    found = [json.loads((tmp_path / name / "result.json").read_text())["threads"] for name in "ab"]
    assert found == [1, 2]
    assert torch.get_num_threads() == 2


def test_an_inspection_and_a_page_take_one_thread(two_threads, tmp_path, monkeypatch):
    few = ["translation/rank1/small/msr-fc", "--outer-steps", "1", "--train-tasks", "3", "--test-tasks", "2"]
    assert main(["run", *few, "--filter-size", "2", "--progress", "silent", "--out", str(tmp_path)]) == 0
    counted = []
    # Both are imported before either is replaced: else the page's module would hold the replacement of the other.
    places = {
        place: getattr(importlib.import_module(place.rpartition(".")[0]), place.rpartition(".")[2])
        for place in ("metasym.inspection.inspect", "metasym.report.page.layer_section.inspect_layers")
    }
    for place, inspect in places.items():

        def counting(*arguments, inspect=inspect, **options):
            counted.append(torch.get_num_threads())
            return inspect(*arguments, **options)

        monkeypatch.setattr(place, counting)
    assert main(["inspect", str(tmp_path)]) == 0
    assert main(["report", str(tmp_path)]) == 0
    assert counted == [1, 1]
    assert torch.get_num_threads() == 2


def test_discover_takes_one_thread_unless_more_are_asked_for() -> None:
    seen: list[set[int]] = []

    def look(_: str) -> None:
        pools = {pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
        seen.append(pools | {torch.get_num_threads()})

    before = torch.get_num_threads()
    x = np.random.default_rng(0).normal(size=(60, 2))
    torch.set_num_threads(2)
    try:
        with threadpoolctl.threadpool_limits(2):
            ms.discover(x, x[:, 0] + x[:, 1] ** 2, finite=False, note=look)
            assert torch.get_num_threads() == 2
        assert all(pools == {1} for pools in seen)
        seen.clear()
        ms.discover(x, x[:, 0] + x[:, 1] ** 2, finite=False, threads=2, note=look)
        assert all(2 in pools for pools in seen)
    finally:
        torch.set_num_threads(before)
    assert seen
