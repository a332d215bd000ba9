"""Every command that writes, where the operating system does not let it: one line, nothing half written.

The commands run in forked processes that may write files of a few bytes only (a full disk fails in the midst of a
write too), or that have given up root's right to write everywhere.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from metasym.cli import main
from tests.cli.test_cli import FEW, NAME
from tests.tasks.images.builders import omniglot_module, write_npz

ROOT = Path(__file__).parents[2]
TABLE = ["--task", "t", "--inputs", "a", "--outputs", "b"]
WRITES = {
    "demo": ["demo", "--outer-steps", "1", "--out", "OUT"],
    "learn": ["learn", "TASKS", "--progress", "silent", "--out", "OUT"],
    "learn, a table": ["learn", "TABLE", *TABLE, "--progress", "silent", "--out", "OUT"],
    "learn, outer steps": ["learn", "TASKS", "--find-steps", "2", "--outer-steps", "2", "--out", "OUT"],
    "discover": ["discover", "DATA", "--progress", "silent", "--out", "OUT"],
    "run": ["run", NAME, *FEW, "--out", "OUT"],
    "reproduce": ["reproduce", "table1", "--quick", "--only", NAME, "--out", "OUT"],
    "report": ["report", "RUN", "--out", "OUT/page.html"],
    "export .pt2": ["export", "RUN", "--out", "OUT/model.pt2"],
    "export .onnx": ["export", "RUN", "--out", "OUT/model.onnx"],
    "angles": ["angles", "ANGLES", "--out", "OUT"],
    "angles --markdown": ["angles", "ANGLES", "--out", "FREE", "--markdown", "OUT/table.md"],
    "data": ["data", "omniglot", "--from", "IMAGES", "--data", "OUT", "--progress", "silent"],
}
"""What is typed; OUT is the place that cannot be written to."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("files")
    draw = np.random.default_rng(0)
    np.savez(place / "tasks.npz", x=draw.normal(size=(20, 6, 3)), y=draw.normal(size=(20, 6, 3)))
    np.savez(place / "data.npz", x=draw.normal(size=(40, 2)), y=draw.normal(size=40))
    rows = [f"{i // 6},{a:.4f},{b:.4f}" for i, (a, b) in enumerate(draw.normal(size=(120, 2)))]
    (place / "table.csv").write_text("\n".join(["t,a,b", *rows]))
    assert main(["run", NAME, "--out", str(place / "run"), *FEW, "--filter-size", "2"]) == 0
    (place / "free").mkdir()
    angles = sorted((ROOT / "results" / "table3" / "angles").glob("*.json"))[0]
    write_npz(place / "omniglot.npz")
    return {
        "TASKS": str(place / "tasks.npz"),
        "DATA": str(place / "data.npz"),
        "TABLE": str(place / "table.csv"),
        "RUN": str(place / "run"),
        "FREE": str(place / "free"),
        "ANGLES": str(angles),
        "IMAGES": str(place / "omniglot.npz"),
    }


def forked(arguments: list[str], before: Callable[[], None]) -> tuple[int, str]:
    """The exit status of a command and what it says on stderr, in a process that has done ``before()``."""
    read, write = os.pipe()
    process = os.fork()
    if not process:
        status = 99
        try:
            os.close(read)
            os.dup2(write, 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.stderr, sys.stdout = (os.fdopen(n, "w", closefd=False) for n in (2, 1))
            torch.set_num_threads(1)
            omniglot_module.CHARACTERS, omniglot_module.DRAWERS, omniglot_module.SIZES = 6, 3, (3, 1, 2)
            before()
            status = main(arguments)
            sys.stdout.flush()
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), said


def full() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (60, 60))


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Rights(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("kept", ctypes.c_uint32))


def ordinary() -> None:
    """Without root's right to write where the permissions do not allow it."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        rights = (_Rights * 2)()
        if libc.capset(ctypes.byref(_Header(0x20080522, 0)), ctypes.byref(rights)):
            raise OSError(ctypes.get_errno(), "capset")


def below_a_file(out: Path) -> Path:
    out.write_text("mine")
    return out / "below"


def unwritable(out: Path) -> Path:
    out.mkdir()
    out.chmod(0o555)
    return out / "new"


def unwritable_itself(out: Path) -> Path:
    out.mkdir()
    out.chmod(0o555)
    return out


def too_long(out: Path) -> Path:
    return out / ("x" * 300)


PLACES: dict[str, tuple[Callable[[Path], Path], Callable[[], None], int]] = {
    "a full disk": (lambda out: out, full, errno.EFBIG),
    "a file for a folder": (below_a_file, lambda: None, errno.ENOTDIR),
    "a name that is too long": (too_long, lambda: None, errno.ENAMETOOLONG),
    "a folder without permission": (unwritable, ordinary, errno.EACCES),
    "a folder that is there, without permission": (unwritable_itself, ordinary, errno.EACCES),
}


@pytest.mark.parametrize(
    ("command", "place"),
    # Images that can be read but not written beside are converted into the user's cache.
    [
        (c, p)
        for c in WRITES
        for p in PLACES
        if (c, p) != ("data", "a folder that is there, without permission")
    ],
)
def test_one_line_and_nothing_half_written(
    tmp_path: Path, files: dict[str, str], monkeypatch: pytest.MonkeyPatch, command: str, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    make, before, why = PLACES[place]
    out = make(tmp_path / "out")
    names = {**files, "OUT": str(out)}
    arguments = [names.get(a, a.replace("OUT", str(out))) for a in WRITES[command]]
    status, said = forked(arguments, before)
    (tmp_path / "out").chmod(0o755) if (tmp_path / "out").exists() else None
    lines = said.splitlines()
    assert "Traceback" not in said, said
    assert status == 2, said
    assert lines[-1].startswith("metasym: error: "), said
    assert f", found {os.strerror(why)}" in lines[-1], said
    left = [p for p in tmp_path.rglob("*") if p.is_file() and p.read_text() != "mine"]
    assert [p for p in left if p.stat().st_size] == []
    assert not [p for p in left if p.suffix == ".tmp"]


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["learn", "--help"], ["list"], ["cost", NAME], ["completion", "bash"], ["inspect", "RUN"]],
    ids=" ".join,
)
def test_an_output_that_cannot_be_written_is_one_line(files: dict[str, str], arguments: list[str]) -> None:
    def no_room() -> None:
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
        sys.stdout = os.fdopen(1, "w", closefd=False)

    status, said = forked([files.get(a, a) for a in arguments], no_room)
    assert status == 2
    assert said.splitlines() == [
        "metasym: error: expected files to be read and written, found No space left on device"
    ]


def test_doctor_looks_at_places_that_cannot_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells, and does not fail: to find such places is what it is for."""
    folder = unwritable(tmp_path / "out")
    for name in ("METASYM_DATA", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(folder))
    status, said = forked(["doctor"], ordinary)
    assert (status, "Traceback" in said) == (0, False), said
