"""What ``metasym learn`` claims of tasks whose symmetries are known, beside the truth.

    python -m studies.evidence simulators       seven simulators, noise 0, 1, 5 and 20 %
    python -m studies.evidence families         planted families: plain, decaying, correlated, few examples, few tasks
    python -m studies.evidence controls         data without the symmetry that a careless reading would see
    python -m studies.evidence table            all results as Markdown tables

Every run is one ``metasym learn`` and one ``metasym inspect --json``, as a user types them. The results of one case
(a simulator at one noise level) are one small JSON file under ``results/evidence``, with the command, the commit and
the seeds. Seeds that are there are not run again, so that the study can be stopped (``--minutes``) and started again.
Seeds below 1,000 were used while the method was made; seeds from 1,000 on were run once, at one commit.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import json
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metasym.cli import main
from metasym.runs.machine import commit
from metasym.storage.json_files import write_json
from studies.calibration import share
from studies.controls import CONTROLS, control
from studies.families import CONDITIONS, FAMILIES, family
from studies.scoring import OUTCOMES, elements, score
from studies.simulators import SIMULATORS, Simulated, simulate

LEVELS = (0.0, 0.01, 0.05, 0.2)


@dataclass(frozen=True)
class Case:
    """One kind of data; every seed of it is a run."""

    suite: str
    name: str
    condition: str = "plain"
    noise: float = 0.0
    flags: tuple[str, ...] = ()
    """For ``metasym learn``."""

    @property
    def file(self) -> str:
        """Where its results are, below the folder of results."""
        condition = self.condition.replace(" ", "").replace("%", "")
        return f"{self.suite}/{self.name}-{condition}-n{self.noise:g}.json"

    def make(self, seed: int) -> Simulated:
        """The tasks of a seed."""
        if self.suite == "simulators":
            return simulate(self.name, seed, noise=self.noise, tasks=400)
        if self.suite == "families":
            condition = self.condition if self.condition in CONDITIONS else "plain"
            return family(self.name, seed, condition=condition, noise=self.noise)
        return control(self.name, seed, noise=self.noise)


def cases(suite: str) -> Iterator[Case]:
    """All cases of a suite."""
    if suite == "simulators":
        for level in LEVELS:
            yield from (Case(suite, name, noise=level) for name in SIMULATORS)
    elif suite == "families":
        for condition in CONDITIONS:
            yield from (Case(suite, name, condition) for name in FAMILIES)
        yield Case(suite, "blocks9", noise=1.0)
        yield Case(suite, "blocks9", "tolerance 40 %", 1.0, ("--tolerance=0.4",))
    else:
        for level in (0.0, 0.05):
            yield from (Case(suite, name, noise=level) for name in CONTROLS)


def run(case: Case, seed: int, work: Path, flags: list[str]) -> dict[str, Any]:
    """One run of the command line, and how its claim compares with the truth."""
    made = case.make(seed)
    folder = work / case.suite / f"{case.name}-{case.condition}-n{case.noise:g}-s{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    np.savez(folder / "tasks.npz", x=made.x, y=made.y)
    began, clock = time.process_time(), time.monotonic()
    arguments = [
        "learn",
        str(folder / "tasks.npz"),
        "--out",
        str(folder / "run"),
        "--progress",
        "silent",
        *case.flags,
        *flags,
    ]
    printed = _typed(arguments)
    seconds, waited = time.process_time() - began, time.monotonic() - clock
    layer = json.loads(_typed(["inspect", str(folder / "run"), "--json"]))["layers"][0]
    claim = layer["group"]  # however wide its bound: what is named is claimed
    truth = CONTROLS[case.name].truth if case.suite == "controls" else "maps"
    judged = score(elements(claim), made.maps, nothing_is_true=truth != "maps")
    if truth == "deviations" and claim is None:
        told = any("deviations" in note and "Z_8" in note for note in layer["notes"])
        judged = dataclasses.replace(judged, outcome="right" if told else "nothing")
    shutil.rmtree(folder)
    return {
        "seed": seed,
        **dataclasses.asdict(judged),
        "group": None if claim is None else claim["name"],
        "defect_upper": None if claim is None else claim.get("defect_upper"),
        "verdict": layer["verdict"]["words"],
        "notes": layer["notes"],
        "ladder": [
            {key: rung[key] for key in ("name", "order", "defect", "defect_upper", "refuted")}
            for rung in layer.get("ladder") or []
        ],
        "printed": [
            line for line in printed.splitlines() if line.startswith(("In ", "What ", "The ", "  note"))
        ],
        "cpu_seconds": round(seconds, 2),
        "seconds": round(waited, 2),
    }


def _typed(arguments: list[str]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = main(arguments)
    if status != 0:
        raise SystemExit(status)
    return printed.getvalue()


def study(case: Case, seeds: list[int], options: argparse.Namespace, until: float) -> None:
    """Runs the seeds of a case that are not there yet."""
    out = options.results / case.file
    stored = json.loads(out.read_text()) if out.exists() else {"records": []}
    for seed in seeds:
        if any(record["seed"] == seed for record in stored["records"]) or time.monotonic() > until:
            continue
        found = run(case, seed, options.work, options.flags)
        stored["records"] = sorted([*stored["records"], found], key=lambda record: record["seed"])
        write_json(
            out,
            {
                **dataclasses.asdict(case),
                "command": f"python -m studies.evidence {case.suite} --only {case.name} --seeds "
                f"{stored['records'][0]['seed']} ... {stored['records'][-1]['seed']}",
                "learn": " ".join(["metasym learn TASKS.npz --out DIR", *case.flags, *options.flags]),
                "commit": commit(),
                "records": stored["records"],
            },
        )
        print(
            f"{case.name} {case.condition} n{case.noise:g} s{seed}: {found['outcome']} "
            f"({found['claimed_order']} of {found['true_order']}, defect {found['true_defect']:.2g}, "
            f"bound {found['defect_upper']}): {found['verdict']} [{found['seconds']:.0f} s]",
            flush=True,
        )


def counts(records: list[dict[str, Any]]) -> str:
    """``9 right, 1 subgroup``."""
    found = {word: sum(r["outcome"] == word for r in records) for word in OUTCOMES}
    return ", ".join(f"{n} {word}" for word, n in found.items() if n) or "-"


def tables(results: Path) -> str:
    """All results as Markdown: a row for each name, a column for each condition and noise level."""
    lines: list[str] = []
    for suite in ("simulators", "families", "controls"):
        stored = [json.loads(path.read_text()) for path in sorted((results / suite).glob("*.json"))]
        columns = list(dict.fromkeys((c.condition, c.noise) for c in cases(suite)))
        columns = [c for c in columns if any((s["condition"], s["noise"]) == c for s in stored)]
        names = [
            n for n in dict.fromkeys(c.name for c in cases(suite)) if any(s["name"] == n for s in stored)
        ]
        if not names:
            continue
        heads = [f"{condition}, {noise:.0%} noise" for condition, noise in columns]
        lines += ["", f"| {suite} | order | {' | '.join(heads)} |", "|---|---|" + "---|" * len(columns)]
        for name in names:
            own = {(s["condition"], s["noise"]): s["records"] for s in stored if s["name"] == name}
            true = next(iter(own.values()))[0]["true_order"]
            cells = [counts(own[c]) if c in own else "-" for c in columns]
            lines.append(f"| {name} | {true} | {' | '.join(cells)} |")
        every = [record for s in stored for record in s["records"]]
        wrong = sum(record["outcome"] == "wrong" for record in every)
        lines += ["", f"All {suite}: {counts(every)}; wrong: {share(wrong, len(every))}."]
    return "\n".join(lines) + "\n"


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", choices=["simulators", "families", "controls", "table"])
    parser.add_argument("--work", type=Path, default=Path("runs/evidence"), help="folder for the runs")
    parser.add_argument("--results", type=Path, default=Path("results/evidence"))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1000, 1010)))
    parser.add_argument("--only", nargs="+", help="only these names")
    parser.add_argument("--conditions", nargs="+", help="only these conditions")
    parser.add_argument("--noise", type=float, nargs="+", help="only these noise levels")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no run after so many minutes")
    parser.add_argument(
        "--flags", nargs="*", default=["--no-baseline"], help="flags for metasym learn, given with ="
    )
    return parser.parse_args()


if __name__ == "__main__":
    chosen = _parse()
    if chosen.suite == "table":
        print(tables(chosen.results), end="")
        sys.exit()
    end = time.monotonic() + 60 * chosen.minutes
    for each in cases(chosen.suite):
        wanted = (
            (not chosen.only or each.name in chosen.only)
            and (not chosen.conditions or each.condition in chosen.conditions)
            and (chosen.noise is None or each.noise in chosen.noise)
        )
        if wanted:
            study(each, chosen.seeds, chosen, end)
