"""Data sets of any size: a bounded, seeded sample of their rows, the same from every kind of file."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import metasym.tasks.dataset as reading
from metasym.tasks import csv_table
from metasym.tasks.dataset import DataSet, dataset, family, read_dataset
from metasym.tasks.row_sample import RowSample, sampled_rows
from tests.refusals import refused


def numbers(rows: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    return draw.standard_normal((rows, 3)), draw.standard_normal(rows)


def write_csv(path: Path, x: np.ndarray, y: np.ndarray) -> Path:
    lines = [",".join(map(repr, map(float, (*row, value)))) for row, value in zip(x, y, strict=True)]
    path.write_text("\n".join(["a,b,c,out", *lines]) + "\n")
    return path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cap of 40 rows, read 7 at a time."""
    monkeypatch.setattr(reading, "MOST_EXAMPLES", 40)
    monkeypatch.setattr(csv_table, "_ROWS", 7)


def test_a_sample_depends_on_the_seed_and_not_on_the_blocks() -> None:
    values = np.arange(1000)
    for step in (1, 13, 1000):
        sample = RowSample(50, 3)
        for first in range(0, 1000, step):
            sample.add({"n": values[first : first + step]})
        assert sample.seen == 1000
        found = sample.columns()["n"]
        np.testing.assert_array_equal(found, sampled_rows(1000, 50, 3))
    assert len(found) == 50
    assert (np.diff(found) > 0).all()
    other = sampled_rows(1000, 50, 4)
    assert other is not None
    assert not np.array_equal(found, other)
    means = [float(np.mean(sampled_rows(1000, 50, seed))) for seed in range(200)]  # type: ignore[arg-type]
    assert abs(float(np.mean(means)) - 499.5) < 4 * 290 / (50 * 200) ** 0.5  # every row is as likely


@pytest.mark.usefixtures("small")
def test_arrays_and_tables_give_the_same_sample(tmp_path: Path) -> None:
    x, y = numbers(200)
    np.savez(tmp_path / "d.npz", x=x, y=y)
    pyarrow = pytest.importorskip("pyarrow")
    columns = {**{name: x[:, i] for i, name in enumerate("abc")}, "out": y}
    pyarrow.parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "d.parquet", row_group_size=60)
    rows = sampled_rows(200, 40, 5)
    found = [
        dataset(x, y, seed=5),
        read_dataset(tmp_path / "d.npz", seed=5),
        read_dataset(write_csv(tmp_path / "d.csv", x, y), outputs="out", seed=5),
        read_dataset(tmp_path / "d.parquet", outputs="out", seed=5),
    ]
    for one in found:
        assert isinstance(one, DataSet)
        np.testing.assert_array_equal(one.x, x[rows])
        np.testing.assert_array_equal(one.y, y[rows, None])
        assert one.sampled is not None
        assert one.describe()["sampled"] == {"rows": 40, "of": 200, "seed": 5}
        assert str(one.sampled) == "fitted on a random sample of 40 of 200 rows, seed 5"
    assert found[2].input_names == ("a", "b", "c")  # type: ignore[union-attr]


@pytest.mark.usefixtures("small")
def test_up_to_the_cap_nothing_is_left_out(tmp_path: Path) -> None:
    x, y = numbers(40)
    for one in (dataset(x, y), read_dataset(write_csv(tmp_path / "d.csv", x, y), outputs="out")):
        assert isinstance(one, DataSet)
        np.testing.assert_array_equal(one.x, x)
        np.testing.assert_array_equal(one.y, y[:, None])
        assert one.sampled is None
        assert "sampled" not in one.describe()


@pytest.mark.usefixtures("small")
def test_rows_that_are_not_kept_are_checked_too(tmp_path: Path) -> None:
    x, y = numbers(200)
    kept = sampled_rows(200, 40, 0)
    left_out = next(i for i in range(150, 200) if i not in kept)  # type: ignore[operator]
    x[left_out, 1] = np.nan
    with refused("discover: x", (1, left_out)):
        dataset(x, y)
    with refused(f"{tmp_path / 'd.csv'}: row {left_out + 2}, column b", "nan"):
        read_dataset(write_csv(tmp_path / "d.csv", x, y), outputs="out")
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    missing = [None if np.isnan(v) else float(v) for v in x[:, 1]]
    parquet.write_table(pyarrow.table({"a": x[:, 0], "b": missing, "out": y}), tmp_path / "d.parquet")
    with refused(f"{tmp_path / 'd.parquet'}: row {left_out + 1}, column b", "an empty cell"):
        read_dataset(tmp_path / "d.parquet", outputs="out")


@pytest.mark.usefixtures("small")
def test_labels_of_a_sample_are_those_of_its_rows(tmp_path: Path) -> None:
    x, y = numbers(200)
    names = np.where(y > 0, "up", "down")
    lines = [",".join([*map(str, row), name]) for row, name in zip(x, names, strict=True)]
    (tmp_path / "d.csv").write_text("\n".join(["a,b,c,out", *lines]))
    found = read_dataset(tmp_path / "d.csv", outputs="out", labels=True)
    assert isinstance(found, DataSet)
    assert (found.classes, found.output_names) == (2, ("down", "up"))
    np.testing.assert_array_equal(found.y[:, 1], names[sampled_rows(200, 40, 0)] == "up")


def test_a_large_family_is_a_sample_of_its_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_IN_TASKS", 100)
    draw = np.random.default_rng(0)
    x, y = draw.standard_normal((30, 5, 2)), draw.standard_normal((30, 5, 1))
    found = family(x, y, seed=2)
    np.testing.assert_array_equal(found.x, x[sampled_rows(30, 20, 2)])
    assert str(found.sampled) == "fitted on a random sample of 20 of 30 tasks, seed 2"
    assert family(x[:20], y[:20]).sampled is None


def test_memory_does_not_grow_with_the_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What Python and NumPy hold at once, counted by tracemalloc: far less than the file or the array."""
    monkeypatch.setattr(reading, "MOST_EXAMPLES", 100)
    monkeypatch.setattr(csv_table, "_ROWS", 100)
    monkeypatch.setattr("metasym.tasks.row_sample._BLOCK", 1000)
    x, y = numbers(200_000)
    path = write_csv(tmp_path / "d.csv", x[:20_000], y[:20_000])
    for read, most in (
        (lambda: dataset(x.astype(np.float32), y), x.nbytes),  # half of it is the array itself
        (lambda: read_dataset(path, outputs="out"), path.stat().st_size / 4),
    ):
        monkeypatch.setattr(reading, "_BLOCK", 1000)
        tracemalloc.start()
        read()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < most
