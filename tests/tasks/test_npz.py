"""A user's file: what is wrong with it in one line, and large ones that stay on the disk."""

from __future__ import annotations

import errno
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from metasym.tasks import npz
from metasym.tasks.reading import read_tasks
from metasym.tasks.sampling import sample
from metasym.tasks.stored import Layout, StoredTasks, evenly, split_tasks
from metasym.tasks.task_file import Reading
from tests.refusals import refused, within

DRAW = np.random.default_rng(0)
X = DRAW.standard_normal((6, 4, 3)).astype(np.float32)
Y = DRAW.standard_normal((6, 4, 2)).astype(np.float32)


def stored(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)
    return path


def with_nan(value: float) -> np.ndarray:
    x = X.copy()
    x[4, 2, 1] = value
    return x


BAD = {
    "no x": ({"y": Y}, "", ["x"]),
    "no y": ({"x": X, "z": Y}, "", ["y"]),
    "neither": ({"a": X}, "", ["x", "y"]),
    "other tasks": ({"x": X, "y": Y[:5]}, "x, y", ((6, 4, 3), (5, 4, 2))),
    "other examples": ({"x": X, "y": Y[:, :3]}, "x, y", ((6, 4, 3), (6, 3, 2))),
    "no examples": ({"x": np.zeros(6), "y": np.zeros(6)}, "x, y", ((6,), (6,))),
    "no features": ({"x": X[..., :0], "y": Y}, "numbers an example", ((6, 4, 0), (6, 4, 2))),
    "one task": ({"x": X[:1], "y": Y[:1]}, "tasks", 1),
    "one example": ({"x": X[:, :1], "y": Y[:, :1]}, "examples", 1),
    "NaN": ({"x": with_nan(np.nan), "y": Y}, "x", (1, (4, 2))),
    "infinity": ({"x": X, "y": np.full_like(Y, -np.inf)}, "y", (48, (0, 0))),
    "overflow": ({"x": X.astype(np.float64) * 1e300, "y": Y}, "x", "numbers whose squares are infinite"),
    "complex": ({"x": X * 1j, "y": Y}, "x", "complex64"),
    "text": ({"x": X.astype(str), "y": Y}, "x", "<U32"),
    "labels with gaps": ({"x": X, "y": np.array([[0, 1, 3, 0]] * 6)}, "y", (2, 3)),
    "negative labels": ({"x": X, "y": np.array([[0, -1, 1, 0]] * 6)}, "y", -1),
    "one label": ({"x": X, "y": np.zeros((6, 4), int)}, "labels", 0),
    "labels of vectors": ({"x": X, "y": Y.astype(int)}, "y", ("int64", (6, 4, 2))),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_line(tmp_path, name):
    arrays, part, found = BAD[name]
    path = stored(tmp_path / "tasks.npz", **arrays)
    with refused(within(path, part), found):
        read_tasks(path)


class Trap:
    """Unpickling it would leave a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_objects_are_refused_and_nothing_is_unpickled(tmp_path):
    trap = np.empty((6, 4), dtype=object)
    trap.fill(Trap(tmp_path / "sprung"))
    with refused(f"{tmp_path / 'tasks.npz'}: x", "Python objects"):
        read_tasks(stored(tmp_path / "tasks.npz", x=trap, y=Y))
    assert not (tmp_path / "sprung").exists()


def test_paths_that_are_no_such_file(tmp_path):
    np.save(tmp_path / "single.npy", X)
    (tmp_path / "text.npz").write_text("x, y")
    (tmp_path / "empty.npz").write_bytes(b"")
    whole = stored(tmp_path / "whole.npz", x=X, y=Y).read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[:-40])
    damaged = bytearray(whole)
    damaged[whole.index(X.tobytes()[:16]) + 5] ^= 1
    (tmp_path / "damaged.npz").write_bytes(damaged)
    for name, found in {
        "": "a folder",
        "missing.npz": os.strerror(errno.ENOENT),
        "single.npy": ".npy",
        "text.npz": "another kind of file",
        "empty.npz": "another kind of file",
        "cut.npz": "another kind of file",
        "damaged.npz": "a damaged file",
    }.items():
        with refused(str(tmp_path / name), found):
            read_tasks(tmp_path / name)


def test_a_header_that_promises_more_than_there_is(tmp_path):
    path = tmp_path / "tasks.npz"
    stored(tmp_path / "whole.npz", x=X, y=Y)
    with zipfile.ZipFile(tmp_path / "whole.npz") as whole, zipfile.ZipFile(path, "w") as short:
        short.writestr("x.npy", whole.read("x.npy")[:-8])
        short.writestr("y.npy", whole.read("y.npy"))
    with refused(f"{tmp_path / 'tasks.npz'}: x", 280):
        read_tasks(path)


def test_a_compressed_file_that_does_not_fit_is_refused_with_its_size_before_it_is_read(
    tmp_path, monkeypatch
):
    path = tmp_path / "tasks.npz"
    np.savez_compressed(path, x=X, y=Y)
    monkeypatch.setattr(npz, "_read", lambda *_: pytest.fail("it was read"))
    with refused(f"{tmp_path / 'tasks.npz'}: x", 288):
        read_tasks(path, memory=100)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_file_that_does_not_fit_stays_on_the_disk(tmp_path, order):
    path = stored(tmp_path / "tasks.npz", y=Y, x=np.asarray(X, order=order))
    mapped, read = read_tasks(path, memory=100), read_tasks(path)
    assert mapped.mapped
    assert isinstance(mapped.x, np.memmap)
    assert not read.mapped
    assert mapped.x_rms == read.x_rms == pytest.approx(np.sqrt((X.astype(float) ** 2).mean()))
    parts = [StoredTasks(f, range(6), support=1, layout=Layout((3,), (2,))) for f in (mapped, read)]
    one, other = (sample(tasks, torch.tensor([5, 2]), 3) for tasks in parts)
    assert torch.equal(one.query.x, other.query.x)
    assert torch.equal(one.query.y, other.query.y)
    for row, task in enumerate((5, 2)):
        seen = torch.cat([one.support.x[row], one.query.x[row]])
        assert {tuple(r.tolist()) for r in seen} == {tuple(r.tolist()) for r in torch.from_numpy(X[task])}


def test_scales_and_shapes(tmp_path):
    file = read_tasks(stored(tmp_path / "tasks.npz", x=X.astype(np.float16), y=Y[..., 0]))
    tasks = StoredTasks(file, [1, 3], support=2, layout=Layout((1, 3), (1,), 2.0, 0.5))
    episode = tasks.episode(1, torch.Generator().manual_seed(0))
    assert episode.support.x.shape == (2, 1, 3)
    assert episode.query.y.shape == (2, 1)
    assert episode.query.x.dtype == torch.float32
    seen = torch.cat([episode.support.y, episode.query.y]).flatten().sort().values
    assert torch.allclose(seen, torch.from_numpy(Y[3, :, 0] * 2).sort().values)


def test_classes_take_turns():
    labels = torch.tensor([[0, 0, 0, 1, 1, 2], [2, 2, 1, 1, 0, 0]])
    order = evenly(labels, 3)
    turns = labels.gather(1, order)
    assert sorted(turns[0, :3].tolist()) == sorted(turns[1, :3].tolist()) == [0, 1, 2]
    assert torch.equal(order.sort(1).values, torch.arange(6).expand(2, 6))
    assert turns[0].tolist() == [0, 1, 2, 0, 1, 0]


def test_labels_are_split_evenly(tmp_path):
    y = np.tile(np.arange(3, dtype=np.uint8), (6, 4))
    file = read_tasks(stored(tmp_path / "tasks.npz", x=np.zeros((6, 12, 2)), y=y))
    assert file.classes == 3
    episodes = sample(StoredTasks(file, range(6), support=6, layout=Layout((2,), ())), torch.arange(6), 0)
    assert episodes.support.y.dtype == torch.int64
    assert (torch.nn.functional.one_hot(episodes.support.y, 3).sum(1) == 2).all()


def test_parts_are_disjoint_and_complete():
    order = torch.randperm(50, generator=torch.Generator().manual_seed(0))
    parts = split_tasks(50, 0.1, 0.2, order)
    assert [len(part) for part in parts] == [35, 5, 10]
    assert sorted(torch.cat(parts).tolist()) == list(range(50))
    assert [len(part) for part in split_tasks(4, 0.1, 0.2, torch.arange(4))] == [1, 1, 2]
    with refused("validation, test", (5, 45)):
        split_tasks(50, 0.1, 0.9, order)


SHAPES = {
    "x of two dimensions": (
        {"x": X[..., 0], "y": Y},
        {},
        "x",
        (6, 4),
    ),
    "x all zero": ({"x": X * 0, "y": Y}, {}, "x", "the same in all examples"),
    "x the same": ({"x": X * 0 + X[0, 0], "y": Y}, {}, "x", "the same in all examples"),
    "y all zero": ({"x": X, "y": Y * 0}, {}, "y", 0.0),
    "y constant": ({"x": X, "y": Y * 0 + 3}, {}, "y", 3.0),
    "rows that differ": (
        {"x": X[0], "y": Y[0], "task": np.arange(3)},
        {},
        "rows",
        {"x": (4, 3), "y": (4, 2), "task": (3,)},
    ),
    "tasks of floats": (
        {"x": X[0], "y": Y[0], "task": np.zeros(4)},
        {},
        "task",
        "float64",
    ),
    "one task in rows": (
        {"x": X[0], "y": Y[0], "task": np.zeros(4, int)},
        {},
        "the array task",
        1,
    ),
    "names of numbers": (
        {"x": X, "y": Y, "input_names": np.arange(3)},
        {},
        "input_names",
        "int64",
    ),
    "names as a table": ({"x": X, "y": Y, "input_names": np.array([["a"]])}, {}, "input_names", (1, 1)),
    "two names of three": (
        {"x": X, "y": Y, "input_names": np.array(["a", "b"])},
        {},
        "input_names",
        2,
    ),
    "labels that are none": (
        {"x": X, "y": np.full((6, 4), 0.5)},
        {"labels": True},
        "y",
        (0.5, 0, 0),
    ),
    "a column of an archive": ({"x": X, "y": Y}, {"task": "a"}, "task", "t.npz"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_what_a_file_may_not_mean_is_one_line(tmp_path, name):
    arrays, reading, part, found = SHAPES[name]
    path = stored(tmp_path / "t.npz", **arrays)
    with refused(within(path, part), found):
        read_tasks(path, Reading(**reading))


def test_scalars_labels_and_names_that_a_user_asks_for(tmp_path):
    path = stored(tmp_path / "t.npz", x=X[..., 0], y=np.array([[0.0, 1.0, 2.0, 1.0]] * 6))
    file = read_tasks(path, Reading(scalar_x=True, labels=True, input_names="torque", output_names="a, b,c"))
    assert file.classes == 3
    assert file.y.dtype == np.int64
    assert (file.input_names, file.output_names) == (("torque",), ("a", "b", "c"))
    assert file.describe()["reading"]["labels"] is True
    assert read_tasks(path, Reading(scalar_x=True)).classes == 0
    whole = stored(tmp_path / "whole.npz", x=X, y=np.arange(48).reshape(6, 4, 2))
    assert read_tasks(whole, Reading(labels=False)).classes == 0
    named = stored(tmp_path / "named.npz", x=X, y=Y, input_names=np.array(["a", "b", "c"]))
    assert read_tasks(named).input_names == ("a", "b", "c")
    assert read_tasks(named, Reading(input_names="p,q,r")).input_names == ("p", "q", "r")
    assert read_tasks(named).describe()["input_names"] == ["a", "b", "c"]


def test_memory_that_the_machine_does_not_give(tmp_path, monkeypatch):
    """Numpy has no room for what seemed to fit: the file is mapped, or the line says the size and the remedy."""

    def no_room(*_: object) -> np.ndarray:
        raise MemoryError

    monkeypatch.setattr(npz, "_read", no_room)
    assert read_tasks(stored(tmp_path / "t.npz", x=X, y=Y)).mapped
    np.savez_compressed(tmp_path / "small.npz", x=X, y=Y)
    with refused(f"{tmp_path / 'small.npz'}: x", X.nbytes):
        read_tasks(tmp_path / "small.npz")
    monkeypatch.setattr(npz, "_map", no_room)
    with refused(str(tmp_path / "t.npz"), (tmp_path / "t.npz").stat().st_size):
        read_tasks(tmp_path / "t.npz")
