"""Runs that are killed (SIGKILL) and started again: they have to end with the same bits.

Every second kill comes at a random time. The others come at a random one of the moments at which a run touches its
files (a line of metrics, bytes on the disk, a file moved to its name), just before or just after it: most of the time
of a short run passes before its first file, but what can go wrong goes wrong between two of these.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import io
import json
import math
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from metasym.cli.main import main
from metasym.storage.serialization import unpack
from studies.tampering import circular

_TIMES = {"seconds", "test_seconds", "cpu_seconds", "peak_memory_mb", "starts", "steps_per_second"}
_TIMES |= {"outer_steps_per_second", "validation_seconds", "date"}
"""Fields that differ between two runs that are otherwise equal."""

Command = Callable[[Path, Path], list[str]]
"""``command(inputs, out)``: what is typed, the first time and every time after a kill."""


def learn(inputs: Path, out: Path) -> list[str]:
    """Two stages, the symmetry, the baseline."""
    few = ["--find-steps", "12", "--outer-steps", "12", "--tasks-per-step", "8", "--progress", "silent"]
    return ["learn", str(inputs / "tasks.npz"), "--out", str(out), "--resume", *few]


def best(_inputs: Path, out: Path) -> list[str]:
    """A recipe with a first stage that prunes."""
    few = ["--recipe", "best", "--find-steps", "10", "--outer-steps", "12", "--train-tasks", "20"]
    few += ["--test-tasks", "8", "--tasks-per-step", "4", "--checkpoint-every", "3", "--filter-size", "8"]
    name = "translation/rank1/small/msr-fc"
    return ["run", name, "--out", str(out), "--resume", *few, "--progress", "silent"]


def reproduce(_inputs: Path, out: Path) -> list[str]:
    """Several runs one after the other, and their table."""
    places = ["--out", str(out), "--results", str(out / "results"), "--markdown", str(out / "table.md")]
    return [
        "reproduce",
        "table1",
        "--quick",
        "--only",
        "translation/rank1/small/maml-[fl]c",
        *places,
        "--progress",
        "silent",
    ]


def data(inputs: Path, out: Path) -> list[str]:
    """A conversion of images."""
    return ["data", "omniglot", "--from", str(inputs / "omniglot"), "--data", str(out)]


COMMANDS: dict[str, Command] = {
    "learn": learn,
    "run --recipe best": best,
    "reproduce": reproduce,
    "data": data,
}


def omniglot(folder: Path) -> None:
    """A small data set in Omniglot's layout: characters of random lines."""
    folder.mkdir()
    draw = np.random.default_rng(0)
    for part, alphabets in (("images_background", 3), ("images_evaluation", 2)):
        with zipfile.ZipFile(folder / f"{part}.zip", "w") as archive:
            for alphabet in range(alphabets):
                for character in range(1, 9):
                    for drawer in range(1, 21):
                        page = np.ones((105, 105), bool)
                        row, column = draw.integers(5, 80, 2)
                        page[row : row + 6, column : column + 20] = False
                        file = io.BytesIO()
                        Image.fromarray(page).save(file, "PNG")
                        number = 20 * alphabet + character + 500 * (part != "images_background")
                        inside = f"{part}/{part[7:]}{alphabet}/character{character:02d}/{number:04d}_{drawer:02d}.png"
                        archive.writestr(inside, file.getvalue())


def started(arguments: list[str], log: Path, moment: int = -1, *, after: bool = False) -> int:
    """The command in a process of its own, which has imported everything already; its number.

    It ends itself before, or ``after``, the ``moment``-th time that it touches a file. How often it did is in the
    file ``moments`` beside the log.
    """
    process = os.fork()
    if process:
        return process
    status = 1
    touched = _hooked(moment, after=after)
    # Global generators differ from process to process, as those of separate commands do.
    random.seed()
    np.random.seed()  # noqa: NPY002
    torch.seed()
    # Half a second of images in place of a minute's: the command wants Omniglot's number of characters.
    importlib.import_module("metasym.tasks.images.omniglot").CHARACTERS = 40  # type: ignore[attr-defined]
    try:
        with log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            with contextlib.suppress(SystemExit):
                status = main(arguments)
            log.with_name("moments").write_text(str(touched[0]))
            sys.stdout.flush()
            sys.stderr.flush()
    finally:
        os._exit(status)


def _hooked(moment: int, *, after: bool) -> list[int]:
    """Count how often this process touches a file, and end it at a given one."""
    touched = [0]

    def counting(real: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            touched[0] += 1
            last = touched[0] == moment
            if last and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            found = real(*arguments, **options)
            if last:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        return counted

    os.fsync, os.replace = counting(os.fsync), counting(os.replace)
    metrics = importlib.import_module("metasym.training.metrics")
    metrics.MetricsFile.write = counting(metrics.MetricsFile.write)
    return touched


def content(folder: Path) -> dict[str, str]:
    """Every file of a run by a digest of what it says, times left out."""
    found = {}
    # An empty file of a lock that nobody holds is taken away by whoever converts next.
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock"):
        name = str(path.relative_to(folder))
        if path.suffix == ".safetensors":
            value: Any = _plain(unpack(path.read_bytes(), name))
        elif path.suffix == ".json":
            value = _timeless(json.loads(path.read_text()), str(folder))
        elif path.suffix == ".jsonl":
            value = [_timeless(json.loads(line), "") for line in path.read_text().splitlines()]
        else:
            value = path.read_bytes().hex()
        if name not in ("spent.json", "log") and not name.endswith("/spent.json"):
            found[name] = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return [str(value.dtype), list(value.shape), value.contiguous().view(-1).numpy().tobytes().hex()]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _timeless(value: Any, folder: str) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(item, folder) for key, item in value.items() if key not in _TIMES}
    if isinstance(value, list):
        return [_timeless(item, folder) for item in value]
    return value.replace(folder, "") if isinstance(value, str) and folder else value


def stage(folder: Path) -> str:
    """What a run had done when it was killed, by its newest file."""
    files = [p for p in folder.rglob("*") if p.is_file()]
    if not files:
        return "before the first file"
    newest = max(files, key=lambda p: p.stat().st_mtime_ns)
    name = re.sub(r"\.[a-z0-9_]{8}\.tmp$", ".*.tmp", "/".join(newest.relative_to(folder).parts[-2:]))
    return f"after {name}"


def kill(asked: argparse.Namespace, results: dict[str, Any], keep: Callable[[dict[str, Any]], bool]) -> None:
    """So many kills, the commands in turns; every run is then started again and has to end by itself."""
    inputs, out, log = asked.work / "inputs", asked.work / "run", asked.work / "log"
    if not inputs.exists():
        making = Path(tempfile.mkdtemp(dir=asked.work))
        circular(making / "tasks.npz")
        omniglot(making / "omniglot")
        making.rename(inputs)
    told = results.setdefault("commands", {})
    faults = results.setdefault("faults", [])
    for name, command in COMMANDS.items():
        if name not in told:
            shutil.rmtree(out, ignore_errors=True)
            began = time.monotonic()
            status = os.waitpid(started(command(inputs, out), log), 0)[1]
            assert status == 0, (name, log.read_text())
            told[name] = {"seconds": time.monotonic() - began, "files": content(out), "kills": 0, "starts": 0}
            told[name]["moments"] = int(log.with_name("moments").read_text())
            told[name] |= {
                "same bits": 0,
                "other bits": 0,
                "refused in one line": 0,
                "traceback": 0,
                "killed": {},
            }
            print(f"{name}: {told[name]['seconds']:.1f} s, {len(told[name]['files'])} files", flush=True)
            if not keep(results):
                return
    while sum(one["kills"] for one in told.values()) < asked.each:
        name = min(told, key=lambda one: told[one]["kills"])
        _one_kill(name, told[name], asked, faults)
        if not keep(results):
            return
    print(
        json.dumps({n: {k: v for k, v in one.items() if k != "files"} for n, one in told.items()}, indent=1)
    )


def _one_kill(
    name: str, told: dict[str, Any], asked: argparse.Namespace, faults: list[dict[str, str]]
) -> None:
    inputs, out, log = asked.work / "inputs", asked.work / "run", asked.work / "log"
    shutil.rmtree(out, ignore_errors=True)
    draw = random.Random(f"{asked.seed} {name} {told['starts']}")
    told["starts"] += 1
    by_moment = told["starts"] % 2 == 0
    moment = draw.randint(1, told["moments"]) if by_moment else -1
    began = time.monotonic()
    process = started(COMMANDS[name](inputs, out), log, moment, after=draw.random() < 0.5)
    until = math.inf if by_moment else began + draw.uniform(0, told["seconds"])
    while time.monotonic() < until:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended and os.WIFSIGNALED(status):
            break
        if ended:
            told["seconds"] = time.monotonic() - began  # it ended before: the machine has more time now
            return
        time.sleep(0.002)
    else:
        os.kill(process, signal.SIGKILL)
        if not os.WIFSIGNALED(os.waitpid(process, 0)[1]):
            return
    told["kills"] += 1
    where = stage(out)
    told["killed"][where] = told["killed"].get(where, 0) + 1
    status = os.waitstatus_to_exitcode(os.waitpid(started(COMMANDS[name](inputs, out), log), 0)[1])
    said = log.read_text().strip().splitlines()
    if status == 0:
        expected, found = told["files"], content(out)
        wrong = sorted(file for file in {**expected, **found} if expected.get(file) != found.get(file))
        told["other bits" if wrong else "same bits"] += 1
        if wrong:
            faults.append(
                {"command": name, "killed": where, "found": f"other content: {', '.join(wrong[:5])}"}
            )
    elif status == 2 and said and said[-1].startswith("metasym: error: "):
        told["refused in one line"] += 1
        faults.append({"command": name, "killed": where, "found": said[-1]})
    else:
        told["traceback"] += 1
        faults.append({"command": name, "killed": where, "found": f"exit {status}: {said[-1:]}"})
