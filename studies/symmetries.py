"""What ``metasym learn`` and ``metasym inspect`` find of symmetries that were planted in the tasks.

    python studies/symmetries.py found         ten families, five seeds
    python studies/symmetries.py tasks         how many tasks and examples are needed
    python studies/symmetries.py noise         noise on the outputs, one level after the other
    python studies/symmetries.py training      fewer and fewer outer steps
    python studies/symmetries.py nearly        tasks that have their symmetry only nearly
    python studies/symmetries.py table         all results as Markdown tables

Every cell is one run of the command line in a folder of its own under ``--work``; its result is one small JSON file
under ``results/inspect`` with the command, the commit and the seed. Cells that are there are not run again, so
that the study can be stopped (``--minutes``) and started again at any time.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import metasym as ms
from metasym.cli import main
from metasym.groups.signed_permutations import SignedPermutation
from metasym.inspection.spatial import turn_name
from metasym.runs.machine import commit
from metasym.storage.json_files import write_json
from metasym.tasks.planted import FAMILIES, planted, planted_basis
from metasym.tasks.synthetic import rotation_basis
from metasym.verdicts.layer_words import verdict_words
from metasym.verdicts.reports import LayerReport

EXPECTED = {
    "shifts12": ("Z_12", 12),
    "dihedral10": ("D_10", 20),
    "reflection10": ("Z_2", 2),
    "blocks9": ("S_3", 6),
    "grid10": ("Z_10", 10),
    "signed8": ("Z_8", 8),
    "none8": ("none", 1),
    "translation": ("shift by 1 on 67 of 68 rows", 1),
    "rot90": ("Z_4", 4),
    "rot45": ("Z_8", 8),
}
"""What was planted: the largest group with the family's sharing pattern (up to the sign), or a partial shift."""
WORDS = {
    "shifts12": "circular shifts of 12 points",
    "dihedral10": "rotations and reflections of 10 points",
    "reflection10": "reflection of 10 points",
    "blocks9": "S_3 permuting 3 blocks of 3",
    "grid10": "shifts of a 2 x 5 grid, Z_2 x Z_5",
    "signed8": "signed shifts of 8 points",
    "none8": "8 points, no symmetry",
    "translation": "the paper's rank 1, 70 -> 68",
    "rot90": "8 x 8 images, rotations by 90 degrees",
    "rot45": "8 x 8 images, rotations by 45 degrees",
}
FRESH = 7
"""Seeds from here on were run once, after the recipe was fixed: it was looked at with those before."""
SENSITIVE = ("shifts12", "dihedral10", "blocks9")
GUIDANCE = ("reflection10", "blocks9", "shifts12", "dihedral10")


@dataclass(frozen=True)
class Cell:
    """One run."""

    study: str
    family: str
    seed: int
    tasks: int = 500
    examples: int = 20
    noise: float = 0.0
    broken: float = 0.0
    flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """A file's name."""
        parts = [
            self.family,
            f"t{self.tasks}",
            f"e{self.examples}",
            f"n{self.noise:g}",
            *([f"b{self.broken:g}"] if self.broken else []),
            *self.flags,
            f"s{self.seed}",
        ]
        return "-".join(part.strip("-") for part in parts)


def plan(study: str, seeds: list[int]) -> list[Cell]:
    """The cells of a study, one seed after the other."""
    cells: list[Cell] = []
    for seed in seeds:
        if study == "found":
            cells += [Cell(study, family, seed) for family in FAMILIES]
        elif study == "tasks":
            cells += [
                Cell(study, family, seed, tasks, examples)
                for family in GUIDANCE
                for tasks, examples in ((12, 20), (25, 20), (50, 20), (150, 20), (500, 5), (500, 10))
            ]
        elif study == "noise":
            levels = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # the last two beyond what anyone should hope for
            cells += [Cell(study, family, seed, noise=level) for family in SENSITIVE for level in levels]
        elif study == "nearly":
            shares = (0.02, 0.05, 0.1, 0.2, 0.3)
            cells += [Cell(study, family, seed, broken=share) for family in SENSITIVE for share in shares]
        elif study == "training":
            cells += [
                Cell(
                    study, family, seed, flags=("--find-steps", str(n), "--outer-steps", str(max(1, n // 4)))
                )
                for family in SENSITIVE
                for n in (5, 10, 20, 40, 80)
            ]
    return cells


def run(cell: Cell, work: Path, results: Path) -> dict[str, Any]:
    """One run of the command line, and what it found."""
    out = results / cell.study / f"{cell.name}.json"
    if out.exists():
        return dict(json.loads(out.read_text()))
    folder = work / cell.study / cell.name
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "tasks.npz"
    data = planted(
        cell.family,
        tasks=cell.tasks,
        examples=cell.examples,
        noise=cell.noise,
        broken=cell.broken,
        seed=1000 + cell.seed,
    )
    np.savez(file, x=data.x.numpy(), y=data.y.numpy())
    flags = [*cell.flags, "--seed", str(cell.seed)]
    if cell.study != "found" or cell.seed > 0:
        flags.append("--no-baseline")
    arguments = ["learn", str(file), "--out", str(folder / "run"), "--resume", "--progress", "silent", *flags]
    began = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = main(arguments)
    if status != 0:
        raise SystemExit(status)
    learned = json.loads((folder / "run" / "result.json").read_text())
    report = ms.inspect(ms.open_run(folder / "run").model)[0]
    baseline = folder / "run" / "maml" / "result.json"
    maml = json.loads(baseline.read_text()) if baseline.exists() else None
    found = {
        "study": cell.study,
        "family": cell.family,
        "seed": cell.seed,
        "tasks": cell.tasks,
        "examples": cell.examples,
        "noise": cell.noise,
        "broken": cell.broken,
        "flags": list(cell.flags),
        "planted": EXPECTED[cell.family],
        **judged(cell.family, report),
        "filter_size": report.filter_size,
        "effective_filter_size": report.effective_filter_size,
        "given_back": None if learned["completed"] is None else learned["completed"]["strength"],
        "free_weights": int(planted_basis(cell.family).shape[1]),
        "error": None if report.group is None else report.group.error,
        "approximate": report.group is not None and report.group.approximate,
        "residual": report.residual,
        "margin": report.margin,
        "verdict": verdict_words(report),
        "support": learned["support"],
        "msr": [learned["mean"], learned["ci95"]],
        "maml": None if maml is None else [maml["mean"], maml["ci95"]],
        "outer_steps": learned["outer_steps"],
        "cpu_seconds": time.process_time() - began,
        "command": f"python studies/symmetries.py {cell.study} --seeds {cell.seed} --only {cell.family}",
        "learn": " ".join(["metasym", "learn", "TASKS.npz", "--out", "DIR", *flags]),
        "commit": commit(),
        "versions": learned["versions"],
    }
    write_json(out, found)
    if cell.study == "found" and cell.seed == 0:
        (folder / "printed.txt").write_text(printed.getvalue())
    else:
        shutil.rmtree(folder)
    return found


def judged(family: str, report: LayerReport) -> dict[str, Any]:
    """What was named, and whether it is what was planted, less, or something that is not there."""
    name, order = EXPECTED[family]
    group = report.group
    named = None if group is None else group.name
    if family == "translation":
        shifts = [p.description for p in report.partial]
        right = name in shifts and report.effective_filter_size == 3
        outcome = "right" if right else "nothing" if group is None and not shifts else "less"
        return {
            "group": named,
            "order": 1,
            "partial": shifts,
            "outcome": "wrong" if group is not None else outcome,
        }
    if group is None:
        outcome = "right" if family == "none8" else "nothing"
        return {
            "group": None,
            "order": 1,
            "partial": [p.description for p in report.partial],
            "outcome": outcome,
        }
    real = all(is_real(family, g) for g in group.generators)
    outcome = "wrong" if not real else "right" if group.order == order and named == name else "less"
    return {"group": named, "order": group.order, "partial": [], "outcome": outcome}


def is_real(family: str, g: SignedPermutation) -> bool:
    """Whether an element that was named fixes every weight of the family, up to one sign: independent of inspect."""
    basis = planted_basis(family)
    if family in ("rot90", "rot45"):
        return _turns(family, g)
    n = len(g.outputs)
    weights = basis.T.reshape(-1, n, len(g.inputs))
    signs = torch.tensor(g.output_signs)[:, None] * torch.tensor(g.input_signs)[None, :]
    moved = torch.zeros_like(weights)
    moved[:, torch.tensor(g.outputs)[:, None], torch.tensor(g.inputs)[None, :]] = weights * signs
    return bool(torch.allclose(moved, weights, atol=1e-9) or torch.allclose(moved, -weights, atol=1e-9))


def _turns(family: str, g: SignedPermutation) -> bool:
    """Whether a rotation of the kernels and the permutation of channels are those of the family's own fields."""
    rotations = 4 if family == "rot90" else 8
    turns = {turn_name(360 * turn / rotations): turn for turn in range(rotations)}
    if g.transform not in turns:
        return False
    fields, turn = rotation_basis(family).channels_out // rotations, turns[g.transform]
    ways = [
        [f * rotations + (c + way) % rotations for f in range(fields) for c in range(rotations)]
        for way in (turn, -turn)
    ]
    return list(g.outputs) in ways


def tables(results: Path) -> str:
    """All results as Markdown."""
    cells = [
        json.loads(path.read_text())
        for path in sorted(results.glob("*/*.json"))
        if path.parent.name != "transfer"
    ]
    lines: list[str] = []
    chosen = [c for c in cells if c["study"] == "found"]
    if chosen:
        lines += [
            "| planted | free weights | right | fresh seeds | found (seed 0) | residual | margin | MSR | MAML |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for family in FAMILIES:
            own = sorted((c for c in chosen if c["family"] == family), key=lambda c: c["seed"])
            if own:
                lines.append(_found_row(family, own))
    for study, key in (("tasks", "tasks"), ("noise", "noise"), ("training", "flags")):
        chosen = [c for c in cells if c["study"] == study]
        if study == "tasks":
            chosen += [c for c in cells if c["study"] == "found" and c["family"] in GUIDANCE]
        if study == "noise":
            chosen += [c for c in cells if c["study"] == "found" and c["family"] in SENSITIVE]
        if chosen:
            lines += ["", *_sweep(chosen, key)]
    chosen = [c for c in cells if c["study"] == "nearly"]
    if chosen:
        lines += ["", *_nearly(chosen)]
    return "\n".join(lines) + "\n"


def _found_row(family: str, own: list[dict[str, Any]]) -> str:
    first = own[0]
    known, fresh = ([c for c in own if (c["seed"] >= FRESH) is new] for new in (False, True))
    right = [
        f"{sum(c['outcome'] == 'right' for c in part)} of {len(part)}" if part else "-"
        for part in (known, fresh)
    ]
    residual = [c["residual"] for c in own if c["residual"] is not None]
    margin = [c["margin"] for c in own if c["margin"] is not None]
    name = first["group"] or ("; ".join(first["partial"]) or "no symmetry")
    order = f", order {first['order']}" if first["group"] else ""
    spans = [f"{min(v):.2g} to {max(v):.2g}" if v else "-" for v in (residual, margin)]
    maml = "-" if first["maml"] is None else f"{first['maml'][0]:.2g}"
    return (
        f"| {WORDS[family]}: {EXPECTED[family][0]} | {first['free_weights']} | {right[0]} | {right[1]} | "
        f"{name}{order}; {first['effective_filter_size']} filter entries | {spans[0]} | {spans[1]} | "
        f"{first['msr'][0]:.2g} | {maml} |"
    )


def _nearly(cells: list[dict[str, Any]]) -> list[str]:
    """What was said of tasks that have their symmetry only nearly."""
    shares = sorted({c["broken"] for c in cells})
    lines = [f"| | {' | '.join(f'{share:.0%}' for share in shares)} |", "|---|" + "---|" * len(shares)]
    for family in dict.fromkeys(
        c["family"] for c in sorted(cells, key=lambda c: FAMILIES.index(c["family"]))
    ):
        row = []
        for share in shares:
            said = [
                "none" if c["group"] is None
                else f"{'nearly ' if c['approximate'] else ''}{c['group']}, error {c['error']:.2g}"
                for c in cells if c["family"] == family and c["broken"] == share
            ]  # fmt: skip
            row.append("; ".join(said) or "-")
        lines.append(f"| {EXPECTED[family][0]} ({family}) | {' | '.join(row)} |")
    return lines


def _sweep(cells: list[dict[str, Any]], key: str) -> list[str]:
    def level(c: dict[str, Any]) -> str:
        if key == "tasks":
            return f"{c['tasks']} x {c['examples']}"
        return f"{c['noise']:.0%}" if key == "noise" else f"{c['flags'][1]} + {c['flags'][3]} steps"

    def place(c: dict[str, Any]) -> tuple[float, float]:
        return (
            (c["tasks"], c["examples"])
            if key == "tasks"
            else (c["noise"], float(c["flags"][1]) if c["flags"] else 0)
        )

    levels = list(dict.fromkeys(level(c) for c in sorted(cells, key=place)))
    families = [f for f in FAMILIES if any(c["family"] == f for c in cells)]
    lines = [f"| | {' | '.join(levels)} |", "|---|" + "---|" * len(levels)]
    for family in families:
        row = []
        for one in levels:
            own = [c for c in cells if c["family"] == family and level(c) == one]
            counts = {w: sum(c["outcome"] == w for c in own) for w in ("right", "less", "nothing", "wrong")}
            row.append(", ".join(f"{n} {w}" for w, n in counts.items() if n) or "-")
        lines.append(f"| {EXPECTED[family][0]} ({family}) | {' | '.join(row)} |")
    return lines


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", choices=["found", "tasks", "noise", "training", "nearly", "table"])
    parser.add_argument("--work", type=Path, default=Path("runs/inspect"), help="folder for the runs")
    parser.add_argument("--results", type=Path, default=Path("results/inspect"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--only", nargs="+", choices=FAMILIES, help="only these families")
    parser.add_argument("--minutes", type=float, help="begin no run after so many minutes")
    return parser.parse_args()


if __name__ == "__main__":
    options = _parse()
    if options.study == "table":
        print(tables(options.results), end="")
        sys.exit()
    started = time.monotonic()
    for each in plan(options.study, options.seeds):
        if options.only and each.family not in options.only:
            continue
        if options.minutes is not None and time.monotonic() - started > 60 * options.minutes:
            print("stopped: time is up", flush=True)
            break
        cell_result = run(each, options.work, options.results)
        print(f"{each.study} {each.name}: {cell_result['outcome']}: {cell_result['verdict']}", flush=True)
