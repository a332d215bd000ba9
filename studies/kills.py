"""Runs that are killed (SIGKILL) at a random time and started again: they have to end with the same bits."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from metasym.cli.main import main
from metasym.storage.serialization import unpack

_TIMES = {"seconds", "test_seconds", "cpu_seconds", "peak_memory_mb", "starts", "steps_per_second"}
_TIMES |= {"outer_steps_per_second", "date"}
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


def started(arguments: list[str], log: Path) -> int:
    """The command in a process of its own, which has imported everything already; its number."""
    process = os.fork()
    if process:
        return process
    status = 1
    random.seed(0)  # Python draws a new seed in every process, and a checkpoint holds its state
    # Half a second of images in place of a minute's: the command wants Omniglot's number of characters.
    importlib.import_module("metasym.tasks.images.omniglot").CHARACTERS = 40  # type: ignore[attr-defined]
    try:
        with log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            with contextlib.suppress(SystemExit):
                status = main(arguments)
            sys.stdout.flush()
            sys.stderr.flush()
    finally:
        os._exit(status)


def content(folder: Path) -> dict[str, str]:
    """Every file of a run by a digest of what it says, times left out."""
    found = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
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
    return f"after {'/'.join(newest.relative_to(folder).parts[-2:])}"


def kill(each: int, seed: int) -> dict[str, Any]:
    """``each`` kills, the commands in turns; every run is then started again until it ends by itself."""
    from studies.attack import circular

    counts: dict[str, Counter[str]] = {name: Counter(kills=0) for name in COMMANDS}
    stages: dict[str, Counter[str]] = {name: Counter() for name in COMMANDS}
    faults: list[dict[str, str]] = []
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as made:
        inputs = Path(made) / "inputs"
        inputs.mkdir()
        circular(inputs / "tasks.npz")
        omniglot(inputs / "omniglot")
        whole: dict[str, tuple[float, dict[str, str]]] = {}
        for name, command in COMMANDS.items():
            out, began = Path(made) / "run", time.monotonic()
            status = os.waitpid(started(command(inputs, out), Path(made) / "log"), 0)[1]
            assert status == 0, (name, (Path(made) / "log").read_text())
            whole[name] = time.monotonic() - began, content(out)
            shutil.rmtree(out)
            print(f"{name}: {whole[name][0]:.1f} s, {len(whole[name][1])} files", flush=True)
        for number in range(each):
            name = list(COMMANDS)[number % len(COMMANDS)]
            out, (seconds, expected) = Path(made) / "run", whole[name]
            process = started(COMMANDS[name](inputs, out), Path(made) / "log")
            time.sleep(draw.uniform(0, seconds))
            os.kill(process, signal.SIGKILL)
            ended = os.waitpid(process, 0)[1]
            counts[name]["kills"] += 1
            stages[name][stage(out) if os.WIFSIGNALED(ended) else "already finished"] += 1
            status = os.waitstatus_to_exitcode(
                os.waitpid(started(COMMANDS[name](inputs, out), Path(made) / "log"), 0)[1]
            )
            said = (Path(made) / "log").read_text().strip().splitlines()
            if status == 0:
                found = content(out)
                wrong = sorted(
                    file for file in {**expected, **found} if expected.get(file) != found.get(file)
                )
                counts[name]["other bits" if wrong else "same bits"] += 1
                if wrong:
                    faults.append({"command": name, "found": f"other content: {', '.join(wrong[:5])}"})
            elif status == 2 and said and said[-1].startswith("metasym: error: "):
                counts[name]["refused in one line"] += 1
                faults.append({"command": name, "found": said[-1]})
            else:
                counts[name]["traceback"] += 1
                faults.append({"command": name, "found": f"exit {status}: {said[-1:]}"})
            shutil.rmtree(out, ignore_errors=True)
    told = {name: {"counts": dict(counts[name]), "killed": dict(stages[name])} for name in COMMANDS}
    print(json.dumps(told, indent=1))
    return {"commands": told, "faults": faults}
