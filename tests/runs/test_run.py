"""``ms.learn``: arrays, tensors, frames and files give the same run; it adapts, predicts, reports and is saved."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import metasym as ms
from metasym.cli import main
from metasym.verdicts.verdict import Status

N = 4


@pytest.fixture(scope="module")
def tasks():
    """Sixty circular convolutions on four points, twelve examples each, a little noise."""
    draw = np.random.default_rng(0)
    filters, x = draw.normal(size=(60, N)), draw.normal(size=(60, 12, N))
    maps = np.stack([np.stack([np.roll(f, i) for i in range(N)]) for f in filters])
    return x, np.einsum("tij,tej->tei", maps, x) + 0.01 * draw.normal(size=x.shape), maps


@pytest.fixture(scope="module")
def run(tasks):
    x, y, _ = tasks
    return ms.learn(x, y)


def test_what_was_found_and_how_well_it_does(run):
    assert run.verdict.status in (Status.CERTIFIED, Status.APPROXIMATE)
    assert run.symmetry[0].group.name == "Z_4"
    assert run.scores.metric == "mse"
    assert len(run.scores.per_task) == 12
    assert run.scores.mean < run.baseline.mean
    assert len(repr(run)) < 500


def test_it_predicts_what_the_adapted_module_does_for_arrays_and_tensors(run, tasks):
    x, y, maps = tasks
    found = run.predict(x[0, :2], y[0, :2], x[0, 2:])
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, x[0, 2:] @ maps[0].T, atol=0.2)
    network = run.adapt(x[0, :2], y[0, :2])
    query = torch.tensor(x[0, 2:], dtype=torch.float32)
    with torch.no_grad():
        np.testing.assert_array_equal(found, network(query).numpy())
    again = run.predict(torch.tensor(x[0, :2]), torch.tensor(y[0, :2]), torch.tensor(x[0, 2:]))
    assert isinstance(again, torch.Tensor)
    np.testing.assert_array_equal(again.numpy(), found)


def test_it_is_saved_opened_and_predicts_the_same_bits(run, tasks, tmp_path):
    x, y, _ = tasks
    saved = run.save(tmp_path / "kept")
    again = ms.open_run(saved)
    assert again.symmetry == run.symmetry
    assert again.scores == run.scores
    assert again.baseline == run.baseline
    first, second = (one.predict(x[1, :3], y[1, :3], x[1, 3:]) for one in (run, again))
    np.testing.assert_array_equal(first, second)
    with pytest.raises(ms.MetasymError):
        run.save(saved)
    assert run.score().mean == pytest.approx(run.scores.mean, rel=1e-6)


def test_a_saved_run_holds_no_links_and_is_readable_by_others(run, tmp_path, monkeypatch):
    saved = run.save(tmp_path / "kept")
    assert saved.stat().st_mode & 0o077 == (0o777 & ~current_umask()) & 0o077
    (tmp_path / "secret").write_text("mine")
    (saved / "notes.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(ms.MetasymError):
        ms.open_run(saved).save(tmp_path / "shared")
    assert not (tmp_path / "shared").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept", "secret"]
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert ms.open_run(run.save(".")).scores == run.scores
    for wrong in (tmp_path / "secret", tmp_path / "secret" / "below"):
        with pytest.raises(ms.MetasymError):
            run.save(wrong)


def current_umask() -> int:
    import os

    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_query_of_another_shape_or_with_holes_is_one_line(run, tasks):
    x, y, _ = tasks
    for query in (x[0, 5:, :3], x[0, 5], np.where(x[0, 5:] > 1, np.nan, x[0, 5:])):
        with pytest.raises(ms.MetasymError):
            run.predict(x[0, :5], y[0, :5], query)


def test_columns_that_nobody_named_are_found_by_their_numbers(tasks, run):
    pandas = pytest.importorskip("pandas")
    x, y, _ = tasks
    table = np.concatenate(
        [x.reshape(720, N), y.reshape(720, N), np.repeat(np.arange(60), 12)[:, None]], axis=1
    )
    found = ms.learn(
        pandas.DataFrame(table), task="8", inputs=["0", "1", "2", "3"], outputs=["4", "5", "6", "7"]
    )
    assert found.scores == run.scores


def test_it_writes_its_page(run, tmp_path):
    path = run.report(tmp_path / "page.html")
    assert path == tmp_path / "page.html"
    assert "Z_4" in path.read_text(encoding="utf-8")


def test_temporary_files_go_with_the_run(tasks):
    x, y, _ = tasks
    one = ms.learn(
        torch.tensor(x[:20], dtype=torch.float32), torch.tensor(y[:20], dtype=torch.float32), baseline=False
    )
    assert one.baseline is None
    folder = one.folder
    assert folder.is_dir()
    del one
    assert not folder.exists()


def test_the_command_line_and_python_give_the_same_run(tasks, run, tmp_path):
    x, y, _ = tasks
    np.savez(tmp_path / "tasks.npz", x=x, y=y)
    assert (
        main(["learn", str(tmp_path / "tasks.npz"), "--out", str(tmp_path / "run"), "--progress", "silent"])
        == 0
    )
    typed = ms.open_run(tmp_path / "run")
    assert typed.scores == run.scores
    assert typed.symmetry == run.symmetry
    called = ms.learn(tmp_path / "tasks.npz", out=tmp_path / "called", baseline=False)
    assert called.scores == run.scores
    assert called.folder == tmp_path / "called"
    assert "--no-baseline" in json.loads((tmp_path / "called" / "result.json").read_text())["command"]


def frame_of(kind: str, tasks):
    """The tasks as a frame, columns in another order than they are learned in."""
    x, y, _ = tasks
    columns = {"other": np.arange(720) % 5, **{f"y{i}": y[..., i].ravel() for i in range(N)}}
    columns |= {f"x{i}": x[..., i].ravel() for i in range(N)}
    columns["robot"] = np.repeat([f"r{t}" for t in range(60)], 12)
    if kind == "pandas":
        return pytest.importorskip("pandas").DataFrame(columns)
    if kind == "polars":
        return pytest.importorskip("polars").DataFrame(columns)
    return pytest.importorskip("pyarrow").table(columns)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_a_frame_gives_the_same_run_with_its_names(kind, tasks, run):
    frame = frame_of(kind, tasks)
    found = ms.learn(frame, task="robot", inputs=["x*"], outputs="y0,y1,y2,y3")
    assert found.scores == run.scores
    assert found.symmetry[0].input_names == ("x0", "x1", "x2", "x3")
    assert found.columns.outputs == ("y0", "y1", "y2", "y3")
    some = frame.slice(0, 12) if kind != "pandas" else frame[:12]
    x, y, _ = tasks
    np.testing.assert_array_equal(found.predict(some, some, some), run.predict(x[0], y[0], x[0]))


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [
        ((np.zeros((3, 2, 2)),), {}),
        ((np.zeros((9, 5)), np.zeros((9, 5))), {}),
        ((np.zeros((9, 5, 2)), np.zeros((9, 4, 2))), {}),
        ((np.zeros((3, 5, 2)), np.zeros((3, 5, 2))), {}),
        ((np.zeros((9, 5, 2)), np.array([["a"] * 5] * 9)), {}),
        ((np.full((9, 5, 2), np.nan), np.zeros((9, 5, 2))), {}),
        ((np.ones((9, 5, 2)), np.ones((9, 5, 2))), {"inputs": "a"}),
        ((np.ones((9, 5, 2)), np.ones((9, 5, 2))), {"supports": 3}),
        ((np.ones((9, 5, 2)), np.arange(90.0).reshape(9, 5, 2)), {"seed": "a"}),
        ((np.ones((9, 5, 2)), np.arange(90.0).reshape(9, 5, 2)), {"support": 2.5}),
        ((np.ones((9, 5, 2)), np.arange(90.0).reshape(9, 5, 2)), {"baseline": 1}),
        ((np.ones((9, 5, 2)), np.arange(90.0).reshape(9, 5, 2)), {"max_minutes": "x"}),
        ((np.ones((9, 5, 2)), np.arange(90.0).reshape(9, 5, 2)), {"model": object()}),
        ((np.ones((9, 5, 2)), np.arange(90.0).reshape(9, 5, 2)), {"progress": "loud"}),
        (("nowhere.npz",), {}),
        ((None,), {}),
        ((None, None), {}),
    ],
)
def test_bad_input_is_one_line(arguments, keywords):
    with pytest.raises(ms.MetasymError) as caught:
        ms.learn(*arguments, **keywords)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_a_frame_with_a_hole_or_text_names_the_row_and_column(kind, tasks):
    module = pytest.importorskip(kind)
    make = module.table if kind == "pyarrow" else module.DataFrame
    good = {"t": ["a", "b"] * 20, "x": [1.0] * 40, "y": [2.0] * 40}
    for column, value in (("x", None), ("y", float("nan")), ("t", None)):
        bad = {**good, column: [*good[column][:3], value, *good[column][4:]]}
        with pytest.raises(ms.MetasymError) as caught:
            ms.learn(make(bad), task="t", inputs="x", outputs="y")
        assert "row 3" in str(caught.value)
        assert repr(column) in str(caught.value)
    with pytest.raises(ms.MetasymError):
        ms.learn(make({**good, "x": ["one"] * 40}), task="t", inputs="x", outputs="y")
    with pytest.raises(ms.MetasymError):
        ms.learn(make(good))


def test_every_public_name_is_shown():
    assert set(ms.__all__) <= set(dir(ms))
