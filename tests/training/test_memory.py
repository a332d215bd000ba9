"""Long runs do not grow."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from metasym.training.evaluation import evaluate
from metasym.training.loop import train
from tests.training.toy_learner import Lines, msr


def resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_5000_steps_do_not_grow_the_process(tmp_path):
    options = {"tasks_per_step": 1, "progress": "silent", "out": tmp_path, "resume": True}
    options |= {"validation": Lines(2), "validate_every": 50}
    made = msr()
    list(train(made, Lines(), outer_steps=200, **options))
    before = resident_megabytes()
    for _ in train(made, Lines(), outer_steps=5200, **options):
        pass
    evaluate(made, Lines(500), tasks_per_chunk=8)
    assert resident_megabytes() - before < 50
