"""An attack on purpose: tampered files of every kind, and runs that are killed at any time.

``python -m studies.attack tamper`` changes one thing in one file of a finished or unfinished run (a field of
``config.json``, ``result.json``, ``metrics.jsonl``; bytes, or re-sealed content, of checkpoints and symmetries; an
``npz``) and opens it with every command that reads it. A file may be refused, with exit status 2 and one line on
stderr, or taken; a traceback or a command that does not end within a minute is a defect.

``python -m studies.attack kill`` is in :mod:`studies.kills`. Both write their counts, with what went wrong, as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import random
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import metasym as ms
from metasym.cli.main import main
from metasym.experiments.machine import commit
from metasym.storage.json_files import write_json
from metasym.storage.serialization import pack, unpack

SECONDS = 60
LEARN = ["--find-steps", "6", "--outer-steps", "6", "--tasks-per-step", "4", "--progress", "silent"]
EVIDENCE = ["--outer-steps", "6", "--no-baseline", "--progress", "silent"]
DISCOVER = ["--no-finite", "--progress", "silent"]
RUN = ["rotation/rot90/msr-conv", "--image-size", "5", "--outer-steps", "6", "--train-tasks", "6"]
RUN += ["--test-tasks", "4", "--tasks-per-step", "3", "--checkpoint-every", "3", "--progress", "silent"]
KINDS = ("config", "result", "metrics", "checkpoint", "symmetry", "npz")

Outcome = tuple[str, str]
"""``refused``, ``left out`` of a page, ``taken``, ``traceback`` or ``slow``, and the line that says why."""


def deep(levels: int) -> list[Any]:
    """A list in a list in a list."""
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


POISONS: tuple[Any, ...] = (
    *(-1, 0, 1, 7, 10**6, 10**12, 2**63, 2**70, 10**400, -0.5, 1e-300, 1e308, float("nan"), float("inf")),
    *({}, {"a": 1}, [], [1], ["a"], [None], deep(50), deep(500), None, True, False),
    *("", "x", "x" * 10**5, "../../etc/passwd", "\ud800", "<script>", "cuda", "os:system"),
)


def poisoned(tree: Any, draw: random.Random, poisons: tuple[Any, ...] = POISONS) -> tuple[Any, str]:
    """A copy of a nested value with one place changed, removed or added; and which."""
    tree = copy.deepcopy(tree)
    places = list(_places(tree, ()))
    path = draw.choice(places)
    holder = tree
    for step in path[:-1]:
        holder = holder[step]
    what = draw.random()
    name = ".".join(map(str, path))
    if what < 0.1 and isinstance(holder, dict):
        del holder[path[-1]]
        return tree, f"{name} removed"
    if what < 0.15 and isinstance(holder, dict):
        holder["unknown"] = draw.choice(poisons)
        return tree, f"{name} beside an unknown field"
    holder[path[-1]] = draw.choice(poisons)
    return tree, f"{name} = {holder[path[-1]]!r:.40}"


def _places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        # Of a long list some entries stand for all: else nothing but scores of tasks would be tried.
        if not isinstance(value, list) or key < 3:
            yield from _places(item, (*path, key))


def flipped(data: bytes, draw: random.Random) -> tuple[bytes, str]:
    """Bytes with one bit changed, cut off, or with some of them replaced."""
    what, at = draw.random(), draw.randrange(len(data))
    if what < 0.6:
        bit = draw.randrange(8)
        return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :], f"bit {bit} of byte {at}"
    if what < 0.8:
        return data[:at], f"cut at {at}"
    return data[:at] + draw.randbytes(8) + data[at + 8 :], f"8 bytes at {at}"


def resealed(data: bytes, draw: random.Random) -> tuple[bytes, str]:
    """A sealed file whose content was changed by someone who can seal it again."""
    odd = (torch.zeros(0), torch.ones(3, 3), torch.tensor(float("nan")), torch.ones(2, dtype=torch.int64))
    poisons = (*(p for p in POISONS if p != "\ud800"), *odd)
    while True:
        state, what = poisoned(unpack(data, "x"), draw, poisons)
        with contextlib.suppress(Exception):  # a few cannot be packed: too deep
            return pack(state), f"sealed again, {what}"


def tampered(path: Path, kind: str, draw: random.Random) -> str:
    """Change one thing in the file; what."""
    if kind == "metrics":
        lines = path.read_text().splitlines()
        number = draw.randrange(len(lines))
        if draw.random() < 0.2:
            data, what = flipped(path.read_bytes(), draw)
            path.write_bytes(data)
            return what
        record, what = poisoned(json.loads(lines[number]), draw)
        lines[number] = json.dumps(record)
        path.write_text("\n".join(lines) + "\n")
        return f"line {number + 1}: {what}"
    if kind in ("config", "result"):
        value, what = poisoned(json.loads(path.read_text()), draw)
        path.write_text(json.dumps(value))
        return what
    data, what = (resealed if draw.random() < 0.5 else flipped)(path.read_bytes(), draw)
    path.write_bytes(data)
    return what


def odd_npz(path: Path, draw: random.Random) -> str:
    """A file of tasks with something wrong in it, or in its bytes."""
    if draw.random() < 0.6:
        data, what = flipped(path.read_bytes(), draw)
        path.write_bytes(data)
        return what
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in ("x", "y")}
    name = draw.choice(("x", "y"))
    good = arrays[name]
    odd: dict[str, Any] = {
        "nan": np.where(np.arange(good.size).reshape(good.shape) == 3, np.nan, good),
        "infinite": good * np.inf,
        "zeros": good * 0,
        "huge": good * 1e300,
        "text": good.astype(str),
        "objects": np.array([{"a": 1}], dtype=object),
        "complex": good.astype(complex),
        "empty": good[:0],
        "one number": np.float64(3),
        "two dimensions": good[:, :, 0],
        "other tasks": good[:-1],
        "other examples": good[:, :-1],
        "whole numbers": good.astype(np.int64),
        "negative labels": -np.ones(good.shape[:2], dtype=np.int64),
        "one task": good[:1],
        "one example": good[:, :1],
        "many dimensions": good.reshape(*good.shape, 1, 1, 1),
        "times": good.astype("datetime64[s]"),
        "big-endian": good.astype(">f8"),
        "half": good.astype(np.float16),
    }
    what = draw.choice(list(odd))
    arrays[name] = odd[what]
    if draw.random() < 0.1:
        del arrays[name]
        what = "missing"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return f"{name}: {what}"


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


def circular(path: Path) -> None:
    """Tasks for ``metasym learn``: circular convolutions of 4 points."""
    draw = np.random.default_rng(0)
    filters, x = draw.standard_normal((24, 4)), draw.standard_normal((24, 6, 4))
    y = np.stack([np.einsum("tpq,teq->tep", np.stack([np.roll(filters, i, 1) for i in range(4)], 1), x)])[0]
    np.savez(path, x=x, y=y)


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
        found["load"] = lambda: ms.load_discovered(run) and None
    if run.name.startswith("learn"):
        found["load"] = lambda: ms.load_learned(file.parent) and None
    return found


def tamper(each: int, seed: int, kinds: list[str]) -> dict[str, Any]:
    """Tampered files of each kind, and what became of them."""
    counts: dict[str, Counter[str]] = {}
    faults: list[dict[str, str]] = []
    taken: dict[str, dict[str, list[str]]] = {kind: {} for kind in kinds}
    with tempfile.TemporaryDirectory() as made:
        base = Path(made) / "base"
        base.mkdir()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            prepare(base)
        for kind in kinds:
            draw = random.Random(f"{seed} {kind}")
            count = counts.setdefault(kind, Counter(files=0))
            while count["files"] < each:
                name, file = draw.choice(targets(kind))
                place = Path(made) / "now"
                shutil.copytree(base / name, place / name)
                for data in base.glob("*.npz"):
                    shutil.copy(data, place)
                path = (place / name / file).resolve()
                what = odd_npz(path, draw) if kind == "npz" else tampered(path, kind, draw)
                count["files"] += 1
                kept = path.read_bytes()
                for command, work in commands(place / name, path, place / "tasks.npz").items():
                    found, why = outcome(work)
                    count[f"{command}: {found}"] += 1
                    if found == "taken":
                        taken[kind].setdefault(f"{name}/{file}: {what}", []).append(command)
                    if found in ("traceback", "slow"):
                        where = f"{name}/{file}: {what}"
                        faults.append(
                            {"kind": kind, "command": command, "what": where, "found": f"{found} {why}"}
                        )
                    if (
                        command == "report"
                        and kind == "checkpoint"
                        and found == "taken"
                        and "sealed" not in what
                    ):
                        faults.append({"kind": kind, "command": command, "what": what, "found": "not a word"})
                    if command == "resume" and found == "refused" and path.read_bytes() != kept:
                        faults.append(
                            {"kind": kind, "command": command, "what": what, "found": "changed the file"}
                        )
                shutil.rmtree(place)
            print(f"{kind}: {dict(sorted(count.items()))}", flush=True)
    every = {kind: dict(sorted(c.items())) for kind, c in counts.items()}
    return {"counts": every, "faults": faults, "taken": taken}


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("tamper", "kill"))
    parser.add_argument("--each", type=int, default=200, help="tampered files of each kind, or kills in all")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file for the counts")
    return parser.parse_args()


def attack() -> None:
    """Run what the command line asks for."""
    from studies.kills import kill

    torch.set_num_threads(1)
    asked, began = options(), time.time()
    found = (
        tamper(asked.each, asked.seed, asked.kinds)
        if asked.part == "tamper"
        else kill(asked.each, asked.seed)
    )
    for fault in found["faults"][:40]:
        print(fault)
    print(f"{len(found['faults'])} faults in {time.time() - began:.0f} s")
    if asked.out:
        kinds = f" --kinds {' '.join(asked.kinds)}" if asked.part == "tamper" else ""
        line = f"python -m studies.attack {asked.part} --each {asked.each} --seed {asked.seed}{kinds}"
        write_json(asked.out, {"command": line, "commit": commit(), "seed": asked.seed, **found})


if __name__ == "__main__":
    attack()
