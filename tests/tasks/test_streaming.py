"""Rows that are read a part at a time: the statistics of all of them, the same sample however they are read."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from metasym.diagnosis.samples import take
from metasym.evidence import TaskStatistics
from metasym.tasks import streaming
from metasym.tasks.many_rows import ArrowDataset, ParquetFiles, many_files
from metasym.tasks.reading import read_tasks, tasks_in
from metasym.tasks.stored import Layout, StoredTasks
from metasym.tasks.task_file import Reading
from tests.refusals import refused

arrow = pytest.importorskip("pyarrow")
READING = Reading(task="t", inputs="x*", outputs="y*", blocks="b")
N, M = 3, 2


def table(seed: int = 0, tasks: int = 8, most: int = 200) -> dict[str, np.ndarray]:
    """Rows of tasks of different lengths, mixed; each task's own rows in order."""
    draw = np.random.default_rng(seed)
    counts = draw.integers(most // 2, most, tasks)
    task = draw.permutation(np.repeat(np.arange(tasks), counts))
    x, y = draw.normal(5, 2, (len(task), N)), draw.normal(-3, 1, (len(task), M))
    columns = {f"x{i}": x[:, i] for i in range(N)} | {f"y{i}": y[:, i] for i in range(M)}
    return {"t": np.array([f"r{i}" for i in task]), "b": np.array([f"b{i // 2}" for i in task]), **columns}


def files(folder: Path, columns: dict[str, np.ndarray], parts: int = 3, group: int = 170) -> Path:
    from pyarrow import parquet

    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(columns["t"])), parts)):
        part = arrow.table({name: values[rows] for name, values in columns.items()})
        parquet.write_table(part, folder / f"part{number}.parquet", row_group_size=group)
    return folder


def test_few_rows_are_all_kept(tmp_path):
    """What fits is read as one table is: the same tasks, names, blocks and checksums."""
    from pyarrow import parquet

    columns = table()
    folder = files(tmp_path / "many", columns)
    parquet.write_table(arrow.table(columns), tmp_path / "one.parquet")
    one = read_tasks(tmp_path / "one.parquet", READING)
    for path in (folder, folder / "*.parquet"):
        many = read_tasks(path, READING)
        assert many.streamed is None
        np.testing.assert_array_equal(many.x, one.x)
        np.testing.assert_array_equal(many.y, one.y)
        for name in ("task_names", "blocks", "x_crc", "y_crc", "input_names", "columns"):
            assert getattr(many, name) == getattr(one, name), name


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("before", [0.0, 0.7])
def test_statistics_of_all_rows_are_those_of_the_rows_in_memory(tmp_path, offset, before, monkeypatch):
    """Every likelihood sees the same numbers, with blocks of any size and any layout of the network."""
    monkeypatch.setattr("metasym.tasks.streamed._NUMBERS", 400)
    columns = table()
    file = streaming.stream_tasks(many_files(files(tmp_path / "many", columns)), READING, kept=0)
    assert file.streamed is not None
    assert file.streamed.rows == len(columns["t"])
    assert file.counts.max() == streaming.LEAST_KEPT, "no task is so short that it is kept whole"
    layout = Layout((N,), (M,), 2.0, 0.5, (1.0, 2.0, 3.0), (-1.0, 4.0), (1.0, 10.0, 100.0), (3.0, 1.0))
    stored = StoredTasks(file, torch.tensor([5, 0, 3]), support=2, layout=layout)
    factors, counts = stored.factors(before)
    found = TaskStatistics.of_factors(factors, counts, N, offset=offset)
    x, y = [], []
    for name in (file.task_names[i] for i in (5, 0, 3)):
        rows = columns["t"] == name
        inside = (
            layout.inputs(np.stack([columns[f"x{i}"][rows] for i in range(N)], 1)),
            layout.targets(np.stack([columns[f"y{i}"][rows] for i in range(M)], 1)),
        )
        one, other = (torch.from_numpy(v[1:] - before * v[:-1] if before else v) for v in inside)
        x.append(one)
        y.append(other)
    wanted = TaskStatistics.of(x, y, offset=offset)
    assert found.counts.tolist() == wanted.counts.tolist()
    for made in (lambda s: s.grams, lambda s: s.factors.mT @ s.targets, lambda s: s.residual,
                 lambda s: s.x_mean, lambda s: s.y_mean):  # fmt: skip
        torch.testing.assert_close(made(found), made(wanted), rtol=1e-11, atol=1e-11)


def test_the_sample_is_of_the_rows_and_some_tasks_are_kept_in_order(tmp_path):
    columns = table()
    file = streaming.stream_tasks(many_files(files(tmp_path / "many", columns)), READING, kept=0)
    samples = take(file)
    for index, name in enumerate(file.task_names):
        own = np.stack([columns[f"x{i}"][columns["t"] == name] for i in range(N)], 1)
        at = [int(np.flatnonzero((own == row).all(1))[0]) for row in file.task(index)[0]]
        assert at == sorted(set(at))
        assert at != list(range(len(at))), "a sample of the rows, not the first ones"
        place = samples.ids.tolist().index(index)
        np.testing.assert_array_equal(samples.x[place][samples.there[place]], own)


class Rank:
    """One of two processes, as threads: what ``training.distributed.Ranks`` does by messages."""

    def __init__(self, rank: int, size: int, shared: dict, meet: threading.Barrier) -> None:
        self.rank, self.size, self._shared, self._meet = rank, size, shared, meet

    def _all(self, value):
        self._shared[self.rank] = value
        self._meet.wait(20)
        found = [self._shared[i] for i in range(self.size)]
        self._meet.wait(20)
        return found

    def gather(self, value):
        found = self._all(value)
        return found if self.rank == 0 else []

    def on_main(self, work):
        return self._all(work() if self.rank == 0 else None)[0]

    def sum(self, tensors):
        return [torch.stack(parts).sum(0) for parts in zip(*self._all(list(tensors)), strict=True)]


@pytest.mark.parametrize("kind", ["files", "dataset"])
def test_two_processes_read_a_share_each_and_know_the_same(tmp_path, kind):
    import pyarrow.dataset

    folder = files(tmp_path / "many", table())
    read = []

    def source():
        made = many_files(folder) if kind == "files" else ArrowDataset(pyarrow.dataset.dataset(folder))
        parts = made.parts

        def counted(*arguments):
            for part in parts(*arguments):
                read.append((arguments[1], part.batch.num_rows))
                yield part

        made.parts = counted
        return made

    alone = streaming.stream_tasks(source(), READING, kept=0)
    rows = sum(count for _, count in read)
    read.clear()
    shared, meet, found = {}, threading.Barrier(2), {}

    def work(rank: int) -> None:
        found[rank] = streaming.stream_tasks(source(), READING, Rank(rank, 2, shared, meet), kept=0)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shares = [sum(count for rank, count in read if rank == which) for which in (0, 1)]
    assert sum(shares) == rows
    assert min(shares) > 0.3 * rows
    for file in found.values():
        np.testing.assert_array_equal(file.x, alone.x)
        assert (file.x_crc, file.y_crc, file.task_names) == (alone.x_crc, alone.y_crc, alone.task_names)
        np.testing.assert_array_equal(take(file).x, take(alone).x)
        grams = [f.streamed.factors.values.mT @ f.streamed.factors.values for f in (file, alone)]
        torch.testing.assert_close(*grams, rtol=1e-12, atol=1e-9)
    assert torch.equal(found[0].streamed.factors.values, found[1].streamed.factors.values)


def test_a_filtered_data_set_and_labels(tmp_path):
    import pyarrow.compute as pc
    import pyarrow.dataset

    columns = table()
    columns["label"] = np.where(columns["y0"] > -3, "up", "down")
    folder = files(tmp_path / "many", columns)
    dataset = pyarrow.dataset.dataset(folder).filter(pc.field("x0") > 5)
    file = tasks_in(dataset, None, Reading(task="t", inputs="x*", outputs="label", labels=True))
    assert file.output_names == ("down", "up")
    assert int(file.counts.sum()) == int((columns["x0"] > 5).sum())
    name = file.task_names[2]
    rows = (columns["t"] == name) & (columns["x0"] > 5)
    assert file.task(2)[1].tolist() == (columns["label"][rows] == "up").astype(int).tolist()


def test_another_file_is_known_by_its_sums(tmp_path):
    columns = table()
    first = streaming.stream_tasks(many_files(files(tmp_path / "a", columns)), READING, kept=0)
    again = streaming.stream_tasks(many_files(files(tmp_path / "b", columns, 5, 31)), READING, kept=0)
    assert first.describe()["x"] == again.describe()["x"]
    columns["x1"][7] += 1e-9
    other = streaming.stream_tasks(many_files(files(tmp_path / "c", columns)), READING, kept=0)
    assert first.x_crc != other.x_crc
    assert first.y_crc == other.y_crc
    (tmp_path / "a" / "part1.parquet").write_bytes(b"changed")
    with refused(str(tmp_path / "a" / "part1.parquet"), "changed"):
        first.check_unchanged()


def test_what_is_wrong_is_said_with_its_file_and_row(tmp_path):
    columns = table()
    columns["y1"][250] = np.nan
    folder = files(tmp_path / "nan", columns, 2)
    number = 250 - len(np.array_split(columns["t"], 2)[0])
    file = "part1" if number >= 0 else "part0"
    row = (number if number >= 0 else 250) + 1
    with refused(f"{folder / file}.parquet: row {row}, column y1", "nan"):
        read_tasks(folder, READING)
    with refused(str(tmp_path / "*.parquet"), "no file of that name"):
        read_tasks(tmp_path / "*.parquet", READING)
    (tmp_path / "empty").mkdir()
    with refused(str(tmp_path / "empty"), "a folder"):
        read_tasks(tmp_path / "empty", READING)
    (tmp_path / "rows.csv").write_text("t\n")
    with refused(str(tmp_path / "r*"), "rows.csv"):
        read_tasks(tmp_path / "r*", READING)
    columns = table()
    columns["b"][3] = "elsewhere"
    with refused(f"{files(tmp_path / 'blocks', columns)}: blocks"):
        read_tasks(tmp_path / "blocks", READING)
    with refused(f"{tmp_path / 'blocks'}: tasks"):
        streaming.stream_tasks(many_files(tmp_path / "blocks"), Reading("t", "x*", "y*"), memory=1000)


def test_a_file_too_large_for_memory_is_streamed(tmp_path):
    from pyarrow import parquet

    parquet.write_table(arrow.table(table()), tmp_path / "one.parquet")
    rows = ParquetFiles(tmp_path / "one.parquet", [tmp_path / "one.parquet"]).rows
    file = read_tasks(tmp_path / "one.parquet", READING, memory=8 * rows * (N + M + 2) * 3)
    assert file.streamed is None  # all rows fit: they are read a part at a time, and kept
    assert int(file.counts.sum()) == rows
