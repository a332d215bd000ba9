"""The learning curves of EMLP's problems."""

from pathlib import Path

import numpy as np

from studies import learning_curves as study


def test_functions_are_those_of_emlp() -> None:
    # Written out again from the paper, example by example.
    truth = study.PROBLEMS["o5"](30)(1)
    a, b = truth.x[7, :5], truth.x[7, 5:]
    la, lb = np.sqrt(a @ a), np.sqrt(b @ b)
    assert np.isclose(truth.y[7], np.sin(la) - lb**3 / 2 + a @ b / (la * lb))
    truth = study.PROBLEMS["inertia"](30)(1)
    masses, places = truth.x[3, :5], truth.x[3, 5:].reshape(5, 3)
    whole = sum(m * (r @ r * np.eye(3) - np.outer(r, r)) for m, r in zip(masses, places, strict=True))
    assert (masses > 0).all()
    assert np.allclose(truth.y[3].reshape(3, 3), whole)
    truth = study.PROBLEMS["lorentz"](30)(1)
    p, metric = truth.x[5].reshape(4, 4), np.diag([1.0, -1, -1, -1])
    electron = np.outer(p[0], p[2]) - (p[0] @ metric @ p[2] - p[0] @ metric @ p[0]) * metric
    low = p @ metric
    muon = np.outer(low[1], low[3]) - (p[1] @ metric @ p[3] - p[1] @ metric @ p[1]) * metric
    assert np.isclose(truth.y[5], 4 * (electron * muon).sum())


def test_a_run_is_stored_counted_and_drawn(tmp_path: Path) -> None:
    first = study.run("o5", 30, 3, tmp_path / "runs")
    assert first == study.run("o5", 30, 3, tmp_path / "runs")
    assert first["verdict"] == "refused"  # 30 examples say nothing of ten inputs
    assert 0.2 < first["test_relative"] < 3
    assert "| o5 | 30 | 1 | 0, 0, 1, 0 |" in study.table(tmp_path / "runs")
    files = study.figure(tmp_path / "runs", tmp_path / "figure")
    assert [file.suffix for file in files] == [".png", ".svg"]
