"""Errors of the operating system: one line, exit status 2, nothing half written."""

from __future__ import annotations

import errno
import io
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from metasym import LostRankError, MetasymError
from metasym.cli import main
from tests import forked
from tests.cli.test_cli import ENVIRONMENT, FEW, NAME
from tests.refusals import refused_command


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert main(["run", NAME, "--out", str(folder), *FEW, "--filter-size", "2"]) == 0
    return folder


def tasks() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    return {"x": draw.normal(size=(20, 5, 3)), "y": draw.normal(size=(20, 5, 3))}


LONG = "x" * 300


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "RUN", "--out", "FILE/page.html"],
        ["report", "RUN", "--out", f"{LONG}.html"],
        ["report", "FILE"],
        ["report", LONG],
        ["inspect", "FILE"],
        ["inspect", f"{LONG}.safetensors"],
        ["run", NAME, "--out", "FILE", *FEW],
        ["run", NAME, "--out", LONG, *FEW],
        ["learn", "TASKS", "--out", "FILE/below"],
        ["learn", f"{LONG}.npz", "--out", "new"],
        ["reproduce", "table1", "--quick", "--out", "FILE", "--only", NAME],
        ["data", "omniglot", "--from", LONG, "--data", "new"],
        ["angles", LONG, "--out", "new"],
    ],
    ids=lambda arguments: " ".join(a[:12] for a in arguments[:4]),
)
def test_a_file_for_a_folder_and_names_that_are_too_long(tmp_path, monkeypatch, run, arguments):
    monkeypatch.chdir(tmp_path)
    np.savez("tasks.npz", **tasks())
    Path("file").write_text("")
    names = {"RUN": str(run), "TASKS": "tasks.npz"}
    before = sorted(p.name for p in run.iterdir())
    assert refused_command([names.get(a, a.replace("FILE", "file")) for a in arguments]).about is not None
    assert Path("file").read_text() == ""
    assert sorted(p.name for p in run.iterdir()) == before


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("command", ["report", "learn", "run"])
def test_a_folder_that_cannot_be_written_to(tmp_path, monkeypatch, run, code, command):
    real = os.open

    def refuse(path, flags, *rest, **options):
        if flags & (os.O_WRONLY | os.O_RDWR) and str(path) != os.devnull:
            raise OSError(code, os.strerror(code), str(path))
        return real(path, flags, *rest, **options)

    np.savez(tmp_path / "tasks.npz", **tasks())
    before = {p.name: p.read_bytes() for p in run.iterdir() if p.is_file()}
    monkeypatch.setattr(os, "open", refuse)
    arguments = {
        "report": ["report", str(run)],
        "learn": ["learn", str(tmp_path / "tasks.npz"), "--out", str(tmp_path / "new")],
        "run": ["run", NAME, "--out", str(tmp_path / "new"), *FEW],
    }[command]
    error = refused_command(arguments)
    monkeypatch.undo()
    assert os.strerror(code) in str(error.found)
    assert {p.name: p.read_bytes() for p in run.iterdir() if p.is_file()} == before
    assert not list(tmp_path.rglob("*.tmp"))


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))


def test_a_disk_that_is_full_after_some_bytes(run):
    """The limit on a file's size fails in the midst of a write, as a full disk does."""
    done = forked.run(
        ["-m", "metasym", "report", str(run), "--out", str(run / "full.html")],
        env=ENVIRONMENT,
        first=small_files,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith(
        f"metasym: error: {run}/full.html: expected to write a page"
    )
    assert "Traceback" not in done.stderr
    assert not list(run.glob("full.html*"))


def test_a_full_output_is_one_line():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "metasym", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "metasym: error: expected files to be read and written, found No space left on device"
    ]


def test_a_full_place_for_errors_does_not_change_the_exit_status():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-m", "metasym", "report", "none"], stderr=full, check=False)
    assert done.returncode == 2


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 9. TiB"),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried"),
    ],
)
def test_too_little_memory_is_one_line(monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr("metasym.cli.experiments.names", fail)
    refused_command(["list"], "memory")


def test_other_errors_of_torch_are_not_hidden(monkeypatch):
    def fail(*_):
        raise RuntimeError("a defect")

    monkeypatch.setattr("metasym.cli.experiments.names", fail)
    with pytest.raises(RuntimeError, match="a defect"):
        main(["list"])


def test_a_rank_that_lost_another_says_how_to_go_on(monkeypatch):
    def fail(*_, **_more):
        raise LostRankError("expected every rank to answer, found one gone")

    monkeypatch.setattr("metasym.runs.learning.learn.learn_tasks", fail)
    assert "--resume" in str(refused_command(["learn", "t.npz", "--out", "o"]))


def test_torchrun_has_a_last_line_before_anything_large_is_imported(tmp_path, monkeypatch):
    """A rank that is killed while it imports torch, for seconds, cannot leave it then."""
    left = tmp_path / "error.json"

    def killed(*_):
        assert "rank 3 was killed" in left.read_text()
        assert "--resume" in left.read_text()
        raise MetasymError("seen")

    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(left))
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setattr(sys.modules["metasym.cli.main"], "parser", killed)
    refused_command(["learn", "t.npz", "--out", "o"])
    assert "seen" in left.read_text()


@pytest.mark.slow
def test_under_torchrun_the_line_is_the_last_that_is_read(tmp_path):
    (tmp_path / "file").write_text("")
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launch, "-m", "metasym", "run", NAME, "--out", str(tmp_path / "file"), *FEW],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode != 0
    last = [line for line in done.stderr.splitlines() if line.strip("= ")][-1]
    assert last.strip().endswith("file: expected a folder to write to, found File exists")
    assert "metasym: error: " in last


def test_a_closed_stderr_does_not_matter(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert main(["inspect", "nothing there"]) == 2
