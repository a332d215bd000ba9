"""Accuracy by the inner steps at test: as the run's own test has it, and paired over the same tasks."""

from __future__ import annotations

import json

import pytest
from studies.inner_steps import measured, table

from metasym.paper import find
from metasym.runs.reproducing.experiment_run import run
from metasym.storage.json_files import write_json
from tests.refusals import refused
from tests.runs.reproducing.tiny_images import FEW, tiny

__all__ = ["tiny"]

PROBLEM = "aug-omniglot/5way-1shot"


def test_three_steps_are_the_runs_own_test_and_another_result_stops_the_study(tiny, tmp_path):
    changes = {**FEW, "test_tasks": 4, "test_queries": 3, "test_inner_steps": 3}
    run(find(f"{PROBLEM}/maml", "paper-cpu", **changes), tmp_path, progress="silent")
    found = measured(tmp_path)
    own = json.loads((tmp_path / "result.json").read_text())
    assert found["scores"]["3"]["per_task"] == pytest.approx(own["per_task"], abs=1e-4)
    assert set(found["scores"]) == {"1", "2", "3"}
    write_json(tmp_path / "result.json", {**own, "mean": own["mean"] + 0.01})
    with refused(str(tmp_path), pytest.approx(own["mean"], abs=1e-4)):
        measured(tmp_path)


def test_the_lead_is_paired():
    def score(values: list[float]) -> dict:
        return {"mean": sum(values) / 3, "ci95": 0.01, "per_task": values}

    def of(method: str, one: list[float]) -> dict:
        scores = {"1": score(one), "2": score([0.5] * 3), "3": score([0.4] * 3)}
        return {"experiment": f"{PROBLEM}/{method}", "recipe": "paper-day", "seed": 0, "scores": scores}

    rows = table([of("msr", [0.5, 0.7, 0.9]), of("maml", [0.4, 0.6, 0.8])]).rows
    assert rows == (
        (f"{PROBLEM}, paper-day, seed 0", "maml", "60.0 ± 1.0", "50.0 ± 1.0", "40.0 ± 1.0", "+10.0 ± 0.0"),
        (f"{PROBLEM}, paper-day, seed 0", "msr", "70.0 ± 1.0", "50.0 ± 1.0", "40.0 ± 1.0", "-"),
    )
