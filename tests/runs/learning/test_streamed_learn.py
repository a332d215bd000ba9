"""Learning from more rows than are held: the same prior, symmetry and bounds as from all of them in memory."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
import torch

import metasym as ms
from metasym.runs.learning import task_statistics
from metasym.tasks import streaming

arrow = pytest.importorskip("pyarrow")
KEYS = {"task": "t", "inputs": "x*", "outputs": "y*"}
N, TASKS = 3, 40


def rows(dependent: float, ragged: bool) -> dict[str, np.ndarray]:
    """Tasks with the symmetry of a ring, an offset, and noise that may go on in the next row."""
    draw, found = np.random.default_rng(4), []
    for task in range(TASKS):
        count = int(draw.integers(30, 160)) if ragged else 120
        kernel = draw.standard_normal(N)
        W = np.stack([np.roll(kernel, k) for k in range(N)])
        x, noise = draw.standard_normal((count, N)), 0.1 * draw.standard_normal((count, N))
        for i in range(1, count):
            noise[i] += dependent * noise[i - 1]
            x[i] += dependent * x[i - 1]
        table = np.column_stack([np.full(count, task), np.arange(count), x, x @ W.T + noise + 2])
        found.append(table)
    table = np.concatenate(found)
    table = table[np.lexsort((table[:, 0], table[:, 1]))]  # tasks mixed, the rows of each in order
    columns = {f"{name}{i}": table[:, 2 + j * N + i] for j, name in enumerate("xy") for i in range(N)}
    return {"t": table[:, 0].astype(int), **columns}


@pytest.mark.parametrize(("dependent", "ragged"), [(0.0, False), (0.6, True)])
def test_the_same_is_learned_from_rows_that_go_by(tmp_path, monkeypatch, dependent, ragged):
    from pyarrow import parquet

    table = arrow.table(rows(dependent, ragged))
    for number in range(3):
        some = table.slice(number * 1500, 1500 if number < 2 else None)
        parquet.write_table(some, tmp_path / f"part{number}.parquet", row_group_size=700)
    whole = ms.learn(table, **KEYS, support=5, baseline=False)
    monkeypatch.setattr(streaming, "stream_tasks", functools.partial(streaming.stream_tasks, kept=0))
    used = []
    monkeypatch.setattr(
        task_statistics,
        "own_weights_of_rows",
        lambda *a: used.append(1) or task_statistics_own(*a),
    )
    streamed = ms.learn(str(tmp_path / "*.parquet"), **KEYS, support=5, baseline=False)
    assert used, "the rows were read once more for the tasks' own noise"
    assert streamed.tasks is not None
    assert streamed.tasks.counts.max() < whole.tasks.counts.max()
    assert streamed.verdict.status == whole.verdict.status
    one, other = streamed.symmetry[0], whole.symmetry[0]
    assert one.group.name == other.group.name
    for mine, theirs in zip(one.ladder, other.ladder, strict=True):
        assert mine.defect_upper == pytest.approx(theirs.defect_upper, rel=1e-7)
    states = [run.learner.state_dict() for run in (streamed, whole)]
    for name, value in states[0].items():
        wanted = states[1][name]
        if value.ndim == 2:  # directions are known up to a rotation
            value, wanted = value @ value.T, wanted @ wanted.T
        torch.testing.assert_close(value, wanted, rtol=1e-7, atol=1e-7)
    kinds = {finding["kind"]: finding["numbers"] for finding in streamed.config["findings"]}
    assert kinds["sampled_rows"]["rows"] == len(table)
    assert ("dependent_examples" in kinds) == bool(dependent)


task_statistics_own = task_statistics.own_weights_of_rows


def test_a_run_of_a_pattern_is_opened_and_scored_again(tmp_path, monkeypatch):
    from pyarrow import parquet

    parquet.write_table(arrow.table(rows(0.0, False)), tmp_path / "part.parquet")
    monkeypatch.setattr(streaming, "stream_tasks", functools.partial(streaming.stream_tasks, kept=0))
    run = ms.learn(tmp_path / "p*.parquet", **KEYS, baseline=False, out=tmp_path / "run")
    again = ms.open_run(tmp_path / "run")
    assert again.score().mean == pytest.approx(run.scores.mean, rel=1e-9)
    assert again.config["data"]["rows"] == TASKS * 120
    assert Path(again.config["data"]["path"]).name == "p*.parquet"
