"""Only the program changes the process's allocator, and only where it trains."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import metasym
from metasym.cli import main


def test_no_other_module_of_the_package_touches_the_allocator() -> None:
    source = Path(metasym.__file__).parent
    known = [str(p.relative_to(source)) for p in source.rglob("*.py") if "mallopt" in p.read_text()]
    assert known == ["cli/freed_memory.py"]


@pytest.mark.parametrize(
    ("command", "called"), [(["list"], 0), (["run", "no/such/experiment", "--out", "x"], 1)]
)
def test_commands_that_train_keep_freed_memory(
    command: list[str], called: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[None] = []
    monkeypatch.setattr(sys.modules["metasym.cli.main"], "keep_freed_memory", lambda: calls.append(None))
    main(command)
    assert len(calls) == called


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_a_freed_block_stays_with_the_process() -> None:
    """64 MiB, written and freed, are still resident: glibc alone would have given them back."""
    program = """
import ctypes, os, sys
from metasym.cli.freed_memory import keep_freed_memory
if sys.argv[1] == "keep": keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
block = libc.malloc(ctypes.c_size_t(2**26))
ctypes.memset(block, 1, 2**26)
libc.free(ctypes.c_void_p(block))
print(int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
"""
    kept, given_back = (
        int(subprocess.run([sys.executable, "-c", program, way], capture_output=True, check=True).stdout)
        for way in ("keep", "leave")
    )
    assert kept - given_back > 2**25
