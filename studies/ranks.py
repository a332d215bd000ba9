"""Several processes under torchrun: one is killed, stopped for a while, has other data, or a full disk.

``python -m studies.attack ranks`` kills a random one of two ranks at a random time, ``--each`` times. The last line
that torchrun prints has to be ours, and the same command has to end with the same bits as a run that was left alone.
A rank that is stopped (SIGSTOP) and continued changes nothing. Other data and full disks end in a line of ours.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests import forked

from studies.kills import content, learn, stage
from studies.tampering import circular

RANKS = 2
PAUSE = 3.0
PROGRAM = """
import os, signal, sys, time
from metasym.cli import main
rank, after, number = (float(os.environ[f"ATTACK_{word}"]) for word in ("RANK", "AFTER", "SIGNAL"))
if rank == int(os.environ["RANK"]) and number and not os.fork():
    time.sleep(after)
    os.kill(os.getppid(), int(number))
    if number == signal.SIGSTOP:
        time.sleep(PAUSE)
        os.kill(os.getppid(), signal.SIGCONT)
    os._exit(0)
sys.exit(main([word.replace("RANK", os.environ["RANK"]) for word in sys.argv[1:]]))
""".replace("PAUSE", str(PAUSE))

Said = subprocess.CompletedProcess[str]


def launched(work: Path, arguments: list[str], rank: int = 0, after: float = 0, number: int = 0) -> Said:
    """The command on all ranks; ``rank`` gets the signal ``number`` after so many seconds."""
    program = work / "program.py"
    program.write_text(PROGRAM)
    attack = {"ATTACK_RANK": rank, "ATTACK_AFTER": after, "ATTACK_SIGNAL": number}
    environment = {**os.environ, **{name: str(value) for name, value in attack.items()}}
    return forked.run([str(program), *arguments], env=environment, ranks=RANKS, timeout=300)


def last_line(done: Said) -> str:
    """The last line on stderr that says something."""
    return ["", *(line.strip() for line in done.stderr.splitlines() if line.strip("= "))][-1]


def _ours(done: Said) -> bool:
    """A failed command whose last line says in our words why."""
    return done.returncode != 0 and "metasym: error: " in last_line(done)


def _count(told: dict[str, Any], name: str, good: bool, faults: list[Any], found: str) -> None:
    one = told.setdefault(name, {"tried": 0, "as it has to be": 0})
    one["tried"] += 1
    one["as it has to be"] += good
    if not good:
        faults.append({"case": name, "found": found[-300:]})


def ranks(asked: argparse.Namespace, results: dict[str, Any], keep: Callable[[dict[str, Any]], bool]) -> None:
    """All cases, those that ``results`` has left out."""
    told, faults = results.setdefault("cases", {}), results.setdefault("faults", [])
    inputs, out = asked.work / "inputs", asked.work / "run"
    inputs.mkdir(exist_ok=True)
    circular(inputs / "tasks.npz")
    command = learn(inputs, out)
    if "files" not in results:
        shutil.rmtree(out, ignore_errors=True)
        began = time.monotonic()
        done = launched(asked.work, command)
        assert done.returncode == 0, done.stderr
        results |= {"seconds": time.monotonic() - began, "files": content(out)}
        if not keep(results):
            return
    while told.get("a killed rank: the last line is ours", {"tried": 0})["tried"] < asked.each:
        _kill(asked.work, command, out, random.Random(f"{asked.seed} {results.get('starts', 0)}"), results)
        if not keep(results):
            return
    for rank in range(RANKS):
        name = f"rank {rank} is stopped and continues: the same bits"
        if name not in told:
            shutil.rmtree(out, ignore_errors=True)
            done = launched(asked.work, command, rank, results["seconds"] / 3, signal.SIGSTOP)
            good = done.returncode == 0 and content(out) == results["files"]
            _count(told, name, good, faults, done.stderr)
            if not keep(results):
                return
    if "other data on a rank are refused" not in told:
        _other_data(asked.work, told, faults)
        if not keep(results):
            return
    for size in ("8k", "60k", "150k"):
        name = f"the disk of {size} of rank 0 is full: a line of ours"
        if name not in told:
            _full(
                asked.work,
                command,
                out,
                size,
                lambda done, name=name: _count(told, name, _ours(done), faults, done.stderr),
            )
            if not keep(results):
                return


def _kill(work: Path, command: list[str], out: Path, draw: random.Random, results: dict[str, Any]) -> None:
    told, faults = results["cases"], results["faults"]
    shutil.rmtree(out, ignore_errors=True)
    results["starts"] = results.get("starts", 0) + 1
    rank, after = draw.randrange(RANKS), draw.uniform(0, results["seconds"])
    done = launched(work, command, rank, after, signal.SIGKILL)
    if done.returncode == 0:
        return  # it had ended before
    where = f"rank {rank} {stage(out)}" if out.exists() else f"rank {rank} before the folder"
    results["killed"] = [*results.get("killed", []), where]
    ours = _ours(done) and "--resume" in last_line(done)
    _count(told, "a killed rank: the last line is ours", ours, faults, f"{where}: {last_line(done)}")
    again = launched(work, command)
    found = content(out) if again.returncode == 0 else {}
    wrong = sorted(n for n in {**results["files"], **found} if results["files"].get(n) != found.get(n))
    said = f"{where}: exit {again.returncode}, other: {wrong[:5]}"
    _count(told, "a killed rank: resumed to the same bits", not wrong, faults, said)


def _other_data(work: Path, told: dict[str, Any], faults: list[Any]) -> None:
    for rank in range(RANKS):
        draw = np.random.default_rng(rank)
        x, maps = draw.normal(size=(20, 6, 3)), draw.normal(size=(20, 3, 3))
        np.savez(work / f"data{rank}.npz", x=x, y=np.einsum("tei,tij->tej", x, maps))
    out = work / "other"
    done = launched(work, ["learn", str(work / "dataRANK.npz"), "--out", str(out), "--progress", "silent"])
    good = _ours(done) and not out.exists()
    _count(told, "other data on a rank are refused", good, faults, done.stderr)


def _full(work: Path, command: list[str], out: Path, size: str, judge: Callable[[Said], None]) -> None:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(out)], check=True)
    try:
        judge(launched(work, command))
    finally:
        with contextlib.suppress(OSError):
            subprocess.run(["umount", str(out)], check=False)
