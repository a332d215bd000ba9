"""Several processes under torchrun: one is killed, stopped for a while, has other data, or a full disk.

``python -m studies.attack ranks`` kills a random one of two ranks at a random time, ``--each`` times. The last line
that torchrun prints has to be ours, and the same command has to end with the same bits as a run that was left alone.
A rank that is stopped (SIGSTOP) for three seconds changes nothing; one that is stopped for longer than others wait
ends the run as a killed one does. Other data and full disks end in a line of ours, and so does a file that is changed
while both ranks map it; a run whose disk was full goes on when there is room.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tests import forked

from studies.kills import content, learn, stage
from studies.tampering import circular

RANKS = 2
PAUSE, LONG_PAUSE = 3, 60
"""Seconds that a rank is stopped: the others wait for 45."""
LEFT = 1000
"""Bytes of a mapped file that is cut off."""
PROGRAM = """
import os, resource, subprocess, sys
from metasym.cli import main
if os.environ["RANK"] == os.environ["ATTACK_RANK"]:
    if os.environ["ATTACK_FULL"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    subprocess.Popen(["sh", "-c", os.environ["ATTACK"]], env={**os.environ, "PID": str(os.getpid())})
if os.environ["ATTACK_MAPPED"]:
    import metasym.tasks.reading
    metasym.tasks.reading.available_memory = lambda: 1000
sys.exit(main([word.replace("RANK", os.environ["RANK"]) for word in sys.argv[1:]]))
"""

Said = subprocess.CompletedProcess[str]


def launched(
    work: Path,
    arguments: list[str],
    rank: int = 0,
    attack: str = "",
    *,
    full: bool = False,
    mapped: bool = False,
) -> Said:
    """The command on all ranks; ``rank``, of the process ``$PID``, begins with what ``attack`` says to the shell.

    ``full``: it cannot write a byte. ``mapped``: all read the data from the disk, as those that do not fit.
    """
    program = work / "program.py"
    program.write_text(PROGRAM)
    of = {"_RANK": str(rank), "": attack or ":", "_FULL": "1" * full, "_MAPPED": "1" * mapped}
    environment = {**os.environ, **{f"ATTACK{name}": value for name, value in of.items()}}
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
    for name, work in _cases(asked.work, command, out, results):
        if name not in told:
            shutil.rmtree(out, ignore_errors=True)
            good, said = work()
            _count(told, name, good, faults, said)
            if not keep(results):
                return


Judged = tuple[bool, str]
"""Whether it was as it has to be, and what the ranks said."""


def _cases(
    work: Path, command: list[str], out: Path, results: dict[str, Any]
) -> Iterator[tuple[str, Callable[[], Judged]]]:
    """What is tried once, each by its name."""
    begun = _begun(out)

    def same(done: Said) -> Judged:
        return done.returncode == 0 and content(out) == results["files"], done.stderr

    def paused(rank: int, seconds: int) -> Said:
        attack = f"{begun}; kill -STOP $PID; sleep {seconds}; kill -CONT $PID"
        return launched(work, command, rank, attack)

    def lost(rank: int) -> Judged:
        done = paused(rank, LONG_PAUSE)
        good, said = same(launched(work, command))
        return _ours(done) and good, f"{done.stderr[-300:]} then {said}"

    for rank in range(RANKS):
        yield (
            f"rank {rank} is stopped for {PAUSE} s: the same bits",
            partial(lambda r: same(paused(r, PAUSE)), rank),
        )
        yield (
            f"rank {rank} is stopped for {LONG_PAUSE} s: a line of ours, resumed to the same bits",
            partial(lost, rank),
        )
    yield "other data on a rank are refused", partial(_other_data, work)
    yield "rank 1 cannot write a byte: the same bits", lambda: same(launched(work, command, 1, full=True))
    for size in ("8k", "60k", "150k"):
        name = f"the disk of {size} of rank 0 is full: a line of ours, with room resumed to the same bits"
        yield name, partial(_full, work, command, out, size, same)
    for how in ("rewritten", "cut off"):
        yield f"a mapped file is {how} during a run: a line of ours", partial(_changed, work, out, how)


def _begun(out: Path) -> str:
    """For the shell: wait for the first step of the run."""
    return f"while kill -0 $PID && [ ! -s {out}/find/metrics.jsonl ]; do sleep 0.02; done"


def _kill(work: Path, command: list[str], out: Path, draw: random.Random, results: dict[str, Any]) -> None:
    told, faults = results["cases"], results["faults"]
    shutil.rmtree(out, ignore_errors=True)
    results["starts"] = results.get("starts", 0) + 1
    rank, after = draw.randrange(RANKS), draw.uniform(0, results["seconds"])
    done = launched(work, command, rank, f"sleep {after}; kill -KILL $PID")
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


def _other_data(work: Path) -> Judged:
    for rank in range(RANKS):
        _tasks(work / f"data{rank}.npz", rank)
    out = work / "other"
    done = launched(work, ["learn", str(work / "dataRANK.npz"), "--out", str(out), "--progress", "silent"])
    return _ours(done) and not out.exists(), done.stderr


def _tasks(path: Path, seed: int) -> None:
    draw = np.random.default_rng(seed)
    x, maps = draw.normal(size=(20, 6, 3)), draw.normal(size=(20, 3, 3))
    np.savez(path, x=x, y=np.einsum("tei,tij->tej", x, maps))


def _full(work: Path, command: list[str], out: Path, size: str, same: Callable[[Said], Judged]) -> Judged:
    out.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(out)], check=True)
    try:
        done = launched(work, command)
        subprocess.run(["mount", "-o", "remount,size=10m", str(out)], check=True)
        good, said = same(launched(work, command))
        return _ours(done) and good, f"{done.stderr[-300:]} then {said}"
    finally:
        subprocess.run(["umount", str(out)], check=False)


def _changed(work: Path, out: Path, how: str) -> Judged:
    """Other tasks in the same bytes of the file, or a file that ends early: the system ends who reads on."""
    data, other = work / "mapped.npz", work / "other.npz"
    _tasks(data, 0)
    _tasks(other, 1)
    change = f"cat {other} > {data}" if how == "rewritten" else f"truncate -s {LEFT} {data}"
    command = [
        word if word != str(work / "inputs" / "tasks.npz") else str(data)
        for word in learn(work / "inputs", out)
    ]
    done = launched(work, command, 0, f"{_begun(out)}; {change}", mapped=True)
    return _ours(done), done.stderr
