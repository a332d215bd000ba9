"""An attack on purpose: tampered files of every kind, and runs that are killed at any time.

``python -m studies.attack tamper`` changes one thing in one file of a finished or unfinished run (a field of
``config.json``, ``result.json``, ``metrics.jsonl``; bytes, or re-sealed content, of checkpoints and symmetries; an
``npz``) and opens it with every command that reads it. A file may be refused, with exit status 2 and one line on
stderr, or taken; a traceback or a command that does not end within five minutes is a defect.

``python -m studies.attack kill`` is in :mod:`studies.kills`, ``python -m studies.attack hostile`` (links, kernels,
pipes, limits, names) in :mod:`studies.hostile`, ``python -m studies.attack ranks`` (torchrun) in
:mod:`studies.ranks`. All write their counts, with what went wrong, as JSON.

The code that is attacked is the ``metasym`` that Python imports. With ``PYTHONPATH=OLD/src:.`` that is older code,
for counts of what it did before a change; a result names the commit of both.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import metasym as ms
from metasym.cli.main import main
from metasym.storage.json_files import read_json, write_json
from studies.tampering import circular, odd_npz, tampered

SECONDS = 300
LEARN = ["--find-steps", "6", "--outer-steps", "6", "--tasks-per-step", "4", "--progress", "silent"]
EVIDENCE = ["--outer-steps", "6", "--no-baseline", "--progress", "silent"]
DISCOVER = ["--no-finite", "--progress", "silent"]
RUN = ["rotation/rot90/msr-conv", "--image-size", "5", "--outer-steps", "6", "--train-tasks", "6"]
RUN += ["--test-tasks", "4", "--tasks-per-step", "3", "--checkpoint-every", "3", "--progress", "silent"]
HOSTILE = ("links", "kernels", "pipes", "limits", "names")
KINDS = ("config", "result", "metrics", "checkpoint", "symmetry", "npz")

Outcome = tuple[str, str]
"""``refused``, ``left out`` of a page, ``taken``, ``traceback`` or ``slow``, and the line that says why."""


def outcome(work: Callable[[], int | None]) -> Outcome:
    """What a command does with a file."""

    def give_up(_number: int, _frame: object) -> None:
        raise TimeoutError

    said = io.StringIO()
    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            status = work()
    except TimeoutError:
        return "slow", ""
    except ms.MetasymError as error:  # of a function of the library
        return ("refused", str(error)) if "\n" not in str(error) else ("traceback", "several lines")
    except BaseException as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        ours = [f for f in traceback.extract_tb(error.__traceback__) if "metasym" in f.filename]
        where = ours[-1] if ours else frame
        return (
            "traceback",
            f"{type(error).__name__}: {error!s:.120} at {Path(where.filename).name}:{where.lineno}",
        )
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    lines = said.getvalue().splitlines()
    if not status:
        left_out = [line for line in lines if line.startswith("metasym: left out: ")]
        return ("left out", left_out[0]) if left_out else ("taken", "")
    good = status == 2 and lines and lines[-1].startswith("metasym: error: ")
    return ("refused", lines[-1]) if good else ("traceback", f"exit {status}: {lines[-1:]}")


def prepare(folder: Path) -> None:
    """The runs that are tampered with: finished ones, and one that stopped before its end."""
    circular(folder / "tasks.npz")
    tasks = str(folder / "tasks.npz")
    assert main(["learn", tasks, "--out", str(folder / "learn"), *LEARN]) == 0
    assert main(["learn", tasks, "--out", str(folder / "learn-evidence"), *EVIDENCE]) == 0
    draw = np.random.default_rng(0)
    x = draw.standard_normal((80, 3))
    np.savez(folder / "data.npz", x=x, y=np.hypot(x[:, 0], x[:, 1]) + x[:, 2])
    found = ["discover", str(folder / "data.npz"), "--out", str(folder / "discover"), *DISCOVER]
    assert main(found) == 0
    assert main(["run", *RUN, "--out", str(folder / "run")]) == 0
    shutil.copytree(folder / "learn", folder / "learn-unfinished")
    for part in (folder / "learn-unfinished", folder / "learn-unfinished" / "maml"):
        (part / "result.json").unlink()
    shutil.copytree(folder / "run", folder / "run-unfinished")
    (folder / "run-unfinished" / "result.json").unlink()
    for name in ("checkpoint.safetensors", "metrics.jsonl"):
        place = folder / "run-unfinished" / name
        if name.endswith("safetensors"):
            place.with_name("checkpoint.previous.safetensors").replace(place)
        else:
            place.write_text("".join(place.read_text().splitlines(keepends=True)[:3]))


def targets(kind: str) -> list[tuple[str, str]]:
    """Which run and which of its files."""
    names = {"config": "config.json", "result": "result.json", "metrics": "metrics.jsonl"}
    names |= {"checkpoint": "checkpoint.safetensors", "symmetry": "symmetry.safetensors"}
    if kind == "npz":
        return [("learn", "../tasks.npz")]
    if kind == "symmetry":
        return [("learn", names[kind]), ("learn-evidence", names[kind])]
    finished = [("run", names[kind]), ("learn", names[kind]), ("learn", f"maml/{names[kind]}")]
    if kind != "metrics":  # neither has outer steps
        other = "model.safetensors" if kind == "checkpoint" else names[kind]
        finished += [("learn-evidence", names[kind]), ("discover", other)]
    if kind == "result":
        return finished
    found = [*finished, ("run-unfinished", names[kind]), ("learn-unfinished", names[kind])]
    if kind == "checkpoint":
        found += [("learn", f"find/{names[kind]}"), ("run", "checkpoint.previous.safetensors")]
    return found


def commands(run: Path, file: Path, tasks: Path) -> dict[str, Callable[[], int | None]]:
    """Everything that opens the run."""
    if file.suffix == ".npz":
        return {"learn": lambda: main(["learn", str(file), "--out", str(run / "new"), *LEARN])}
    if file.name == "symmetry.safetensors":
        model = torch.nn.Linear(4, 4, bias=False)
        return {
            "inspect": lambda: main(["inspect", str(file)]),
            "load": lambda: ms.load_symmetry(file, model) and None,
        }
    how = EVIDENCE if run.name == "learn-evidence" else LEARN
    again = (
        ["run", *RUN, "--out", str(run), "--resume"]
        if run.name.startswith("run")
        else ["discover", str(tasks.with_name("data.npz")), "--out", str(run), "--resume", *DISCOVER]
        if run.name == "discover"
        else ["learn", str(tasks), "--out", str(run), "--resume", *how]
    )
    found: dict[str, Callable[[], int | None]] = {
        "report": lambda: main(["report", str(run), "--out", str(run / "page.html")]),
        "inspect": lambda: main(["inspect", str(file.parent)]),
        "resume": lambda: main(again),
    }
    if run.name == "discover":
        del found["inspect"]
        found["load"] = lambda: ms.open_run(run).model and None
    if run.name.startswith("learn"):
        found["load"] = lambda: ms.open_run(file.parent) and None
    return found


Results = dict[str, Any]
Keep = Callable[[Results], bool]
"""Stores what was counted so far; whether there is time for more."""


def tamper(asked: argparse.Namespace, results: Results, keep: Keep) -> None:
    """Tampered files of each kind, and what became of them; goes on behind what ``results`` has."""
    base = asked.work / "base"
    if not base.exists():
        making = Path(tempfile.mkdtemp(dir=asked.work))
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            prepare(making)
        making.rename(base)
    counts = results.setdefault("counts", {})
    for kind in asked.kinds:
        count = counts.setdefault(kind, {"files": 0})
        while count["files"] < asked.each:
            with tempfile.TemporaryDirectory() as made:
                one_file(
                    base, Path(made), kind, random.Random(f"{asked.seed} {kind} {count['files']}"), results
                )
            count["files"] += 1
            if not keep(results):
                return
        print(f"{kind}: {dict(sorted(count.items()))}", flush=True)


def one_file(base: Path, place: Path, kind: str, draw: random.Random, results: Results) -> None:
    """Change one file in a copy of a run, and open it with everything that reads it."""
    name, file = draw.choice(targets(kind))
    shutil.copytree(base / name, place / name)
    for data in base.glob("*.npz"):
        shutil.copy(data, place)
    path = (place / name / file).resolve()
    what = odd_npz(path, draw) if kind == "npz" else tampered(path, kind, draw)
    kept, where = path.read_bytes(), f"{name}/{file}: {what}"
    count, faults = results["counts"][kind], results.setdefault("faults", [])
    taken = results.setdefault("taken", {}).setdefault(kind, {})
    for command, work in commands(place / name, path, place / "tasks.npz").items():
        found, why = outcome(work)
        count[f"{command}: {found}"] = count.get(f"{command}: {found}", 0) + 1
        wrong = ""
        if found == "taken":
            taken.setdefault(where, []).append(command)
        if found in ("traceback", "slow"):
            wrong = f"{found} {why}"
        elif kind == "checkpoint" and (command, found) == ("report", "taken") and "sealed" not in what:
            wrong = "not a word"
        elif (command, found) == ("resume", "refused") and path.read_bytes() != kept:
            wrong = "changed the file"
        if wrong:
            faults.append({"kind": kind, "command": command, "what": where, "found": wrong})


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("tamper", "kill", "hostile", "ranks"))
    parser.add_argument("--each", type=int, default=200, help="tampered files of each kind, or kills in all")
    parser.add_argument(
        "--kinds", nargs="+", choices=(*KINDS, *HOSTILE), help="of tamper or hostile; default: all"
    )
    parser.add_argument("--only", help="hostile: a pattern, such as 'links: report*', of the cases to run")
    parser.add_argument("--every", type=int, default=1, help="hostile: every so many cases, from the first")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file for the counts; continues what is there")
    parser.add_argument("--work", type=Path, help="folder that keeps the runs which are attacked")
    parser.add_argument(
        "--patience",
        type=float,
        default=15,
        help="hostile: seconds after which a command that waits has hung",
    )
    parser.add_argument("--seconds", type=float, help="stop after so many, to go on another time")
    return parser.parse_args()


def commit(module: str) -> str:
    """The commit of a file's repository; of the metasym that is attacked where it may be an older one."""
    where = ["git", "-C", str(Path(module).parent), "rev-parse", "HEAD"]
    return subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip()


def attack() -> None:
    """Run what the command line asks for, or go on with it where ``--out`` has a part of it by the same code."""
    from studies.hostile import hostile
    from studies.kills import kill
    from studies.ranks import ranks

    torch.set_num_threads(1)
    asked, began = options(), time.monotonic()
    asked.kinds = asked.kinds or list(HOSTILE if asked.part == "hostile" else KINDS)
    kinds = "" if asked.part in ("kill", "ranks") else f" --kinds {' '.join(asked.kinds)}"
    line = f"python -m studies.attack {asked.part} --each {asked.each} --seed {asked.seed}{kinds}"
    if asked.part == "hostile":
        line = f"python -m studies.attack hostile --patience {asked.patience:g}{kinds}"
        line += f" --only {shlex.quote(asked.only)}" if asked.only else ""
        line += f" --every {asked.every}" if asked.every > 1 else ""
    results: Results = {"command": line, "commit": commit(ms.__file__), "study": commit(__file__)}
    results["seed"] = asked.seed
    if asked.out and asked.out.exists():
        before = read_json(asked.out, "counts of an attack")
        if all(before.get(key) == value for key, value in results.items()):
            results = before

    def keep(now: Results) -> bool:
        if asked.out:
            write_json(asked.out, now)
        return asked.seconds is None or time.monotonic() - began < asked.seconds

    with tempfile.TemporaryDirectory() as made:
        asked.work = asked.work or Path(made)
        asked.work.mkdir(parents=True, exist_ok=True)
        {"tamper": tamper, "kill": kill, "hostile": hostile, "ranks": ranks}[asked.part](asked, results, keep)
    faults = results.get("faults", [])
    for fault in faults[:40]:
        print(fault)
    print(f"{len(faults)} faults; {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    attack()
