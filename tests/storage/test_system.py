"""What other systems lack is done without: the package imports and works where Linux's own calls are missing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import metasym
from metasym.storage import system

SOURCE = Path(metasym.__file__).parent

LINUX_ONLY = {"fcntl", "resource", "pwd", "grp", "termios", "posix", "pty", "syslog"}

LIKE_WINDOWS = """
import builtins, os, sys
import matplotlib.pyplot, tempfile, torch, numpy, scipy.linalg, sympy, kornia, rich.console, subprocess
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in ("sysconf", "fchmod", "sched_getaffinity", "getuid", "geteuid", "fork", "uname"):
    if hasattr(os, name):
        delattr(os, name)
opened = os.open
def no_folders(path, flags, *rest, **more):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", str(path))
    return opened(path, flags, *rest, **more)
os.open = no_folders
real = builtins.open
def no_proc(file, *rest, **more):
    if str(file).startswith(("/proc", "/sys")):
        raise FileNotFoundError(2, "No such file or directory", str(file))
    return real(file, *rest, **more)
builtins.open = no_proc
import io; io.open = no_proc
"""
"""Run first in a process of its own: what Windows does not have is gone."""


def test_modules_of_unix_are_imported_in_one_place_behind_a_guard() -> None:
    wrong = []
    for path in SOURCE.rglob("*.py"):
        guarded = set()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Try):
                guarded |= {id(inner) for inner in ast.walk(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import) and id(node) not in guarded:
                wrong += [f"{path.name}: {alias.name}" for alias in node.names if alias.name in LINUX_ONLY]
    assert not wrong


def test_text_is_read_and_written_in_utf8_everywhere() -> None:
    """Windows would take its own encoding where none is named."""
    wrong = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("read_text", "write_text")
        and not any(keyword.arg == "encoding" for keyword in node.keywords)
    ]
    assert not wrong


@pytest.mark.slow
def test_a_run_learns_resumes_and_is_reported_without_what_windows_lacks(tmp_path: Path) -> None:
    program = (
        LIKE_WINDOWS
        + """
import metasym as ms
from metasym.cli import main
data = ms.tasks.planted("signed8", tasks=20, examples=8)
numpy.savez("tasks.npz", x=data.x, y=data.y)
few = ["--find-steps", "3", "--outer-steps", "3", "--progress", "silent"]
assert main(["learn", "tasks.npz", "--out", "run", *few]) == 0
assert main(["inspect", "run"]) == 0
assert main(["report", "run"]) == 0
classes = ms.tasks.from_arrays(torch.zeros(20, 1, 8, 8).byte(), torch.arange(20) // 2)
print("done", len(classes))
"""
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines()[-1] == "done 10"
    assert (tmp_path / "run" / "report.html").exists()


def test_limits_on_the_process_count_as_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system.resource, "getrlimit", lambda _: (system.address_space() + 10**6, -1))
    assert system.available_memory() <= 10**6


def test_without_limits_and_numbers_some_memory_is_taken_for_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "resource", None)
    monkeypatch.delattr(system.os, "sysconf")
    monkeypatch.setattr(system.Path, "read_text", lambda *_, **__: (_ for _ in ()).throw(OSError()))
    assert system.available_memory() == system._UNKNOWN_MEMORY
    assert system.peak_memory() == 0.0
