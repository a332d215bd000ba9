"""Folders, files, limits and names that somebody has prepared, and what every command does with them.

``python -m studies.attack hostile`` runs each command of :mod:`studies.hostile_cases` in a process of its own. It
counts tracebacks (and exits other than 0 and 2), hangs (a command that waits for 15 seconds, or uses as many of the
processor), what changed outside the folder that the command was given, and control characters that reached the
terminal. Waiting is measured against the clock; on a busy machine ``--patience`` gives more than 15 seconds.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import os
import resource
import shutil
import signal
import stat
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from metasym.cli.main import main

CPU_SECONDS = 15


@dataclass
class Case:
    """A command, and what somebody has prepared for it."""

    kind: str
    name: str
    arguments: list[str]
    prepare: Callable[[Path], int] = lambda _: 0
    """Plants things below the sandbox; how many."""
    limits: dict[int, int] = field(default_factory=dict)
    """Limits on the process, by ``resource.RLIMIT_*``; those of address space count from what it has already."""
    work: Callable[[], int | None] | None = None
    """What is done in place of the command line."""
    finish: Callable[[Path], None] = lambda _: None


def snapshot(root: Path, without: Path) -> dict[str, tuple[Any, ...]]:
    """Everything below ``root`` except the folder that may be written to: kind, size, contents, times."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path == without or without in path.parents:
            continue
        about = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(about.st_mode) else ""
        when = about.st_mtime_ns if not stat.S_ISDIR(about.st_mode) else 0
        found[str(path)] = (about.st_mode, content, when)
    return found


def ran(case: Case, box: Path, patience: float) -> dict[str, Any]:
    """The exit status, what was said, seconds; in a forked process."""
    said = box.parent / f"{box.name}.said"
    began = time.monotonic()
    process = os.fork()
    if not process:
        _child(case, box, said)
    waited, status, used = 0, 0, None
    hung = False
    while not waited:
        waited, status, used = os.wait4(process, os.WNOHANG)
        if not waited and time.monotonic() - began > patience:
            hung = True
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)
    assert used is not None
    cpu = used.ru_utime + used.ru_stime
    text = said.read_bytes()
    said.unlink()
    return {
        "status": os.waitstatus_to_exitcode(status),
        "said": text,
        "cpu": cpu,
        "hung": hung or cpu > CPU_SECONDS,
        "seconds": time.monotonic() - began,
    }


def _child(case: Case, box: Path, said: Path) -> None:
    status = 99
    try:
        handle = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False, errors="surrogateescape") for n in (1, 2))
        os.chdir(box)
        os.setpgid(0, 0)
        torch.set_num_threads(1)
        for kind, value in case.limits.items():
            has = (
                int(Path("/proc/self/statm").read_text().split()[0]) * 4096
                if kind == resource.RLIMIT_AS
                else 0
            )
            resource.setrlimit(kind, (has + value, has + value))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as Python has it; a fork of ours may have changed it
        status = (main(case.arguments) if case.work is None else case.work()) or 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
        status = 98
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def judged(found: dict[str, Any], changed: list[str]) -> list[str]:
    """What is wrong with how the command ended."""
    text = found["said"]
    wrong = []
    if found["hung"]:
        wrong.append(f"hang: {found['seconds']:.0f} s, {found['cpu']:.0f} s of the processor")
    elif b"Traceback" in text or found["status"] not in (0, 2):
        last = text.decode(errors="replace").strip().splitlines()[-1:]
        wrong.append(f"traceback: exit {found['status']}: {last}")
    if any(mark in text for mark in (b"\x1b", b"\x07", "\u202e".encode())):
        wrong.append("control characters")
    return wrong + [f"touched outside: {name}" for name in changed]


def hostile(asked: Any, results: dict[str, Any], keep: Callable[[dict[str, Any]], bool]) -> None:
    """Run all cases, or those behind what ``results`` has."""
    from studies.hostile_cases import cases

    counts, faults = results.setdefault("counts", {}), results.setdefault("faults", [])
    done = results.setdefault("done", [])
    base = asked.work / "base"
    for number, case in enumerate(cases(base, asked.kinds)):
        key = f"{case.kind}: {case.name}"
        if number % asked.every:
            continue
        if key in done or (asked.only and not fnmatch.fnmatchcase(key, asked.only)):
            continue
        box = Path(tempfile.mkdtemp(dir=asked.work))
        try:
            planted = case.prepare(box)
            allowed = box / "out"
            before = snapshot(box, allowed)
            found = ran(case, box, asked.patience)
            after = snapshot(box, allowed)
            changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
        finally:
            case.finish(box)
            shutil.rmtree(box, ignore_errors=True)
        count = counts.setdefault(
            case.kind, {"commands": 0, "planted": 0, "taken": 0, "refused": 0, "tracebacks": 0, "hangs": 0}
        )
        count.setdefault("files touched outside", 0)
        count.setdefault("control characters", 0)
        count["commands"] += 1
        count["planted"] += planted
        count["slowest, processor"] = round(max(count.get("slowest, processor", 0), found["cpu"]), 1)
        wrong = judged(found, changed)
        for word, name in (("traceback", "tracebacks"), ("hang", "hangs"), ("control", "control characters")):
            count[name] += any(line.startswith(word) for line in wrong)
        count["files touched outside"] += len(changed)
        if not wrong:
            count["refused" if found["status"] else "taken"] += 1
        faults += [{"case": key, "found": line} for line in wrong]
        done.append(key)
        if not keep(results):
            return
