"""Tasks from tables: the same as from arrays, and one line with row and column about what is wrong."""

from __future__ import annotations

import csv
import errno
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from metasym.tasks.reading import read_tasks
from metasym.tasks.task_file import Reading
from tests.refusals import refused, within

NAMES = ["arm", "u1", "u2", "v"]
COLUMNS = Reading(task="arm", inputs="u*", outputs="v")
SIZES = {"b": 3, "a": 2, "d": 5, "c": 2}


def rows(seed: int = 0) -> list[list[str]]:
    """Rows of four tasks of different sizes, mixed; the tasks appear in the order b, a, d, c."""
    draw = np.random.default_rng(seed)
    left, found = dict(SIZES), []
    while any(left.values()):
        for name in SIZES:
            if left[name]:
                left[name] -= 1
                found.append([name, *(repr(float(v)) for v in draw.standard_normal(3))])
    return found


def written(path: Path, table: list[list[str]], header: list[str] = NAMES, delimiter: str = ",") -> Path:
    with path.open("w", newline="") as stream:
        csv.writer(stream, delimiter=delimiter).writerows([header, *table])
    return path


def test_a_table_holds_each_task_once_in_the_order_of_its_rows(tmp_path):
    table = rows()
    file = read_tasks(written(tmp_path / "t.csv", table), COLUMNS)
    assert file.task_names == ("b", "a", "d", "c")
    assert file.counts.tolist() == [3, 2, 5, 2]
    assert file.ragged
    assert (file.input_names, file.output_names) == (("u1", "u2"), ("v",))
    for index, name in enumerate(file.task_names):
        own = np.array([[float(c) for c in row[1:]] for row in table if row[0] == name])
        x, y = file.task(index)
        assert np.array_equal(x, own[:, :2])
        assert np.array_equal(y, own[:, 2:])
        assert not file.x[index, len(own) :].any()
    assert file.x_rms == pytest.approx(
        np.sqrt(np.mean([float(c) ** 2 for row in table for c in row[1:3]]))
    )  # without the padding


@pytest.mark.parametrize(("suffix", "delimiter"), [(".csv", ";"), (".csv", "\t"), (".tsv", "\t")])
def test_other_separators_and_a_byte_order_mark(tmp_path, suffix, delimiter):
    wanted = read_tasks(written(tmp_path / "t.csv", rows()), COLUMNS)
    path = written(tmp_path / f"other{suffix}", rows(), delimiter=delimiter)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes() + b"\r\n")
    found = read_tasks(path, COLUMNS)
    assert np.array_equal(found.x, wanted.x)
    assert found.describe()["x"]["crc32"] == wanted.describe()["x"]["crc32"]


def test_parquet_reads_as_csv_does(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = rows()
    columns = {name: [row[i] if i == 0 else float(row[i]) for row in table] for i, name in enumerate(NAMES)}
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    found = read_tasks(tmp_path / "t.parquet", COLUMNS)
    wanted = read_tasks(written(tmp_path / "t.csv", table), COLUMNS)
    assert np.array_equal(found.x, wanted.x)
    assert np.array_equal(found.y, wanted.y)
    assert found.task_names == wanted.task_names
    columns["u2"][3] = None
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    with refused(f"{tmp_path / 't.parquet'}: row 4, column u2", "an empty cell"):
        read_tasks(tmp_path / "t.parquet", COLUMNS)
    columns["u2"] = [row[0] for row in table]
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    with refused(f"{tmp_path / 't.parquet'}: row 1, column u2", "'b' of type string"):
        read_tasks(tmp_path / "t.parquet", COLUMNS)
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "t.parquet").read_bytes()[:-9])
    for name in ("cut.parquet", "none.parquet"):
        with refused(str(tmp_path / name)):
            read_tasks(tmp_path / name, COLUMNS)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with refused("pyarrow"):
        read_tasks(tmp_path / "t.parquet", COLUMNS)


def test_labels_of_a_table_are_named_after_its_cells(tmp_path):
    table = [[task, str(i), word] for task in "abcd" for i, word in enumerate(["cat", "ant", "cat"])]
    path = written(tmp_path / "t.csv", table, ["t", "u", "kind"])
    file = read_tasks(path, Reading(task="t", inputs="u", outputs="kind", labels=True))
    assert file.classes == 2
    assert file.output_names == ("ant", "cat")
    assert file.y.tolist() == [[1, 0, 1]] * 4
    with refused(f"{tmp_path / 't.csv'}: row 2, column kind", "'cat'"):
        read_tasks(path, Reading(task="t", inputs="u", outputs="kind"))
    numbers = [[task, "0.5", n] for task in "abcd" for n in ("10", "2", "10")]
    file = read_tasks(
        written(path, numbers, ["t", "u", "n"]), Reading(task="t", inputs="u", outputs="n", labels=True)
    )
    assert file.output_names == ("2", "10")


def changed(row: int, column: int, cell: str | None) -> list[list[str]]:
    table = rows()
    if cell is None:
        del table[row][column]
    else:
        table[row][column] = cell
    return table


BAD = {
    "ragged columns": (changed(4, 2, None), {}, "row 6", 3),
    "text": (changed(2, 1, "n/a"), {}, "row 4, column u1", "'n/a'"),
    "decimal comma": (changed(0, 3, "1,5"), {}, "row 2, column v", "'1,5'"),
    "empty cell": (changed(1, 2, " "), {}, "row 3, column u2", "an empty cell"),
    "NaN": (changed(1, 2, "NaN"), {}, "row 3, column u2", "NaN"),
    "no task": (changed(1, 0, ""), {}, "row 3, column arm", "an empty cell"),
    "one task": (
        [["a", *r[1:]] for r in rows()],
        {},
        "column 'arm'",
        1,
    ),
    "a task a row": (
        [[str(i), *r[1:]] for i, r in enumerate(rows())],
        {},
        "column 'arm'",
        0,
    ),
    "no rows": ([], {}, "rows", 0),
    "unknown column": (
        rows(),
        {"outputs": "vv"},
        "outputs",
        "vv",
    ),
    "pattern without": (rows(), {"inputs": "w*"}, "inputs", "w*"),
    "unknown task": (rows(), {"task": "robot"}, "task", "robot"),
    "two task columns": (rows(), {"task": "u*"}, "task", ["u1", "u2"]),
    "input and output": (rows(), {"outputs": "u1"}, "u1", "twice"),
    "no task flag": (rows(), {"task": None}, "task", None),
    "no outputs": (rows(), {"outputs": None}, "outputs", None),
    "two label columns": (
        rows(),
        {"outputs": "u1,v", "inputs": "u2", "labels": True},
        "outputs",
        2,
    ),
    "constant": ([[*r[:3], "2"] for r in rows()], {}, "y", 2.0),
    "zero": ([[*r[:3], "0"] for r in rows()], {}, "y", 0.0),
    "few names": (rows(), {"input_names": "a"}, "input_names", 1),
    "twice the same": (rows(), {"input_names": "a,a"}, "input_names", "a"),
    "empty name": (rows(), {"output_names": ""}, "output_names", ""),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_table_is_one_line(tmp_path, name):
    table, changes, part, found = BAD[name]
    path = written(tmp_path / "t.csv", table)
    with refused(within(path, part), found):
        read_tasks(path, Reading(**{"task": "arm", "inputs": "u1,u2", "outputs": "v", **changes}))


def test_files_that_are_no_tables(tmp_path):
    (tmp_path / "empty.csv").write_bytes(b"")
    (tmp_path / "latin.csv").write_bytes("arm,größe\n".encode("latin-1"))
    (tmp_path / "twice.csv").write_text("arm,u1,u1\n")
    (tmp_path / "folder.csv").mkdir()
    for name, (part, found) in {
        "empty.csv": ("", "an empty file"),
        "latin.csv": ("", 0xF6),
        "twice.csv": ("header", "u1"),
        "folder.csv": ("", os.strerror(errno.EISDIR)),
        "none.csv": ("", os.strerror(errno.ENOENT)),
    }.items():
        with refused(within(tmp_path / name, part), found):
            read_tasks(tmp_path / name, COLUMNS)


def test_one_very_long_task_is_refused_with_its_size(tmp_path):
    path = written(tmp_path / "t.csv", rows())
    with refused(f"{tmp_path / 't.csv'}: task 'd'", 5):
        read_tasks(path, COLUMNS, memory=900)
