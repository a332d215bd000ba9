"""Are the certificates true? Many small problems whose defects are known exactly.

    python -m studies.calibration run --seeds 1000 2200      one problem a seed; results/evidence/calibration.json
    python -m studies.calibration table                      shares, with intervals
    python -m studies.calibration figure                     docs/figures/calibration.svg

A problem draws size, symmetry (or none), how far it is broken, noise, tasks and examples. The prior is learned from
two thirds of the tasks; the groups that it suggests, and the planted one, are certified on the last third. Every
certificate says a bound: the true defect must not be larger in more than 5 % of them.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import torch
from scipy import stats

from metasym.certification import SignedPermutation, certify
from metasym.certification.ladder import climb
from metasym.evidence import TaskStatistics
from metasym.evidence.fitting import robust_prior
from metasym.runs.machine import commit
from metasym.storage.json_files import write_json
from studies.calibration_problems import Problem, planted_generators, problem
from studies.true_group import Element, order

EXACT = 1e-9


def run_one(seed: int) -> dict[str, Any]:
    """What is claimed of one problem, beside the truth."""
    began = time.process_time()
    made = problem(seed)
    tasks = TaskStatistics.of(torch.from_numpy(made.x), torch.from_numpy(made.y))
    count = len(tasks)
    train, validation, fresh = (
        tasks[slice(start, stop)]
        for start, stop in ((0, count // 2), (count // 2, 2 * count // 3), (2 * count // 3, count))
    )
    prior = robust_prior(train, validation).prior
    ladder = climb(prior, train, fresh)
    rungs = [
        _certificate(made, rung.group.generators, rung.certificate) | {"named": rung is ladder.certified}
        for rung in ladder.rungs
    ]
    planted = None
    if made.planted != "none":
        elements = planted_generators(made.planted, made.x.shape[2])
        asked = [SignedPermutation(g.outputs, g.inputs, g.output_signs, g.input_signs) for g in elements]
        planted = _certificate(made, elements, certify(fresh, asked, power=prior.power, noise=prior.noise))
    return {
        "seed": seed,
        "planted": made.planted,
        "planted_order": order(planted_generators(made.planted, made.x.shape[2])),
        "inputs": made.x.shape[2],
        "broken": made.broken,
        "noise": made.noise,
        "tasks": count,
        "examples": made.x.shape[1],
        "rungs": rungs,
        "planted_certificate": planted,
        "cpu_seconds": round(time.process_time() - began, 2),
    }


def _certificate(made: Problem, generators: Any, certificate: Any) -> dict[str, Any]:
    elements = [
        Element(tuple(g.outputs), tuple(g.inputs), tuple(g.output_signs), tuple(g.input_signs))
        for g in generators
    ]
    upper = certificate.defect_upper
    return {
        "order": order(elements),
        "true_defect": max(made.defect(g) for g in elements),
        "defect": certificate.defect,
        "defect_upper": upper if math.isfinite(upper) else None,
        "refuted": certificate.refuted,
    }


def run(out: Path, seeds: range, minutes: float) -> None:
    """Runs the seeds that are not there yet."""
    stored = json.loads(out.read_text())["records"] if out.exists() else []
    there = {record["seed"] for record in stored}
    until = time.monotonic() + 60 * minutes
    for seed in seeds:
        if seed in there:
            continue
        if time.monotonic() > until:
            break
        stored.append(run_one(seed))
        if seed % 25 == 0:
            _write(out, stored)
            print(f"{len(stored)} problems", flush=True)
    _write(out, stored)


def _write(out: Path, records: list[dict[str, Any]]) -> None:
    command = f"python -m studies.calibration run --seeds {records[0]['seed']} {records[-1]['seed'] + 1}"
    write_json(out, {"command": command, "commit": commit(), "records": records})


def share(hits: int, of: int) -> str:
    """``3 of 900 (0.3 %, 95 % interval 0.1 to 1.0 %)``, by Clopper and Pearson."""
    low = 0.0 if hits == 0 else stats.beta.ppf(0.025, hits, of - hits + 1)
    high = 1.0 if hits == of else stats.beta.ppf(0.975, hits + 1, of - hits)
    return f"{hits} of {of} ({hits / max(1, of):.1%}, 95 % interval {low:.2%} to {high:.2%})"


def exceeds(certificate: dict[str, Any]) -> bool:
    """Whether the true defect is larger than the bound."""
    upper = certificate["defect_upper"]
    return upper is not None and certificate["true_defect"] > upper + EXACT


def table(out: Path) -> str:
    """Shares as Markdown."""
    records = json.loads(out.read_text())["records"]
    named = [(r, c) for r in records for c in r["rungs"] if c["named"]]
    every = [c for r in records for c in r["rungs"]]
    planted = [r["planted_certificate"] for r in records if r["planted_certificate"]]
    exact = [r for r in records if r["planted"] != "none" and r["broken"] == 0]
    true = [c for c in planted + every if c["true_defect"] <= EXACT]
    rows = [
        ("problems", f"{len(records)}"),
        (
            "bounds of named groups below the true defect",
            share(sum(exceeds(c) for _, c in named), len(named)),
        ),
        ("bounds of all rungs below the true defect", share(sum(exceeds(c) for c in every), len(every))),
        (
            "bounds of the planted group below the true defect",
            share(sum(map(exceeds, planted)), len(planted)),
        ),
        ("true symmetries refuted", share(sum(c["refuted"] for c in true), len(true))),
    ]
    whole = [(r, c) for r, c in named if r["broken"] == 0]
    wrong = sum(c["true_defect"] > EXACT for _, c in whole)
    rows.append(("unbroken problems: named groups that the tasks do not have", share(wrong, len(whole))))
    none = [r for r in records if r["planted"] == "none" and r["broken"] == 0]
    rows.append(
        (
            "problems without symmetry: some group named",
            share(sum(any(c["named"] for c in r["rungs"]) for r in none), len(none)),
        )
    )
    near = [c for r, c in named if r["broken"] > 0]
    rows.append(
        (
            "named although slightly broken (true defect within the bound)",
            f"{sum(not exceeds(c) for c in near)}",
        )
    )
    for level in sorted({r["noise"] for r in exact}):
        own = [r for r in exact if r["noise"] == level]
        right = sum(any(c["named"] and c["order"] >= r["planted_order"] for c in r["rungs"]) for r in own)
        rows.append((f"symmetric problems, {level:.0%} noise: whole group named", share(right, len(own))))
    return "\n".join(["| | |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)]) + "\n"


def figure(out: Path, to: Path) -> None:
    """Certified bound over true defect."""
    from matplotlib.figure import Figure

    records = json.loads(out.read_text())["records"]
    found = [(c, "named" if c["named"] else "other rungs") for r in records for c in r["rungs"]]
    found += [(r["planted_certificate"], "planted group") for r in records if r["planted_certificate"]]
    drawing = Figure(figsize=(6, 5), layout="constrained")
    axes = drawing.add_subplot()
    least = 1e-9
    for label, colour in (("planted group", "0.6"), ("other rungs", "tab:orange"), ("named", "tab:blue")):
        own = [c for c, kind in found if kind == label and c["defect_upper"] is not None]
        axes.plot(
            [max(least, c["true_defect"]) for c in own],
            [max(least, c["defect_upper"]) for c in own],
            ".",
            ms=3,
            color=colour,
            label=label,
        )
    axes.plot([least, 2], [least, 2], color="black", lw=0.8)
    axes.set(
        xscale="log", yscale="log", xlabel="true defect (exact ones at 1e-9)", ylabel="certified bound, 95 %"
    )
    axes.legend(fontsize=8, loc="upper left")
    drawing.savefig(to, metadata={"Date": None})


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["run", "table", "figure"])
    parser.add_argument("--out", type=Path, default=Path("results/evidence/calibration.json"))
    parser.add_argument("--figure", type=Path, default=Path("docs/figures/calibration.svg"))
    parser.add_argument("--seeds", type=int, nargs=2, default=[1000, 2200], metavar=("FROM", "TO"))
    parser.add_argument("--minutes", type=float, default=1e6)
    return parser.parse_args()


if __name__ == "__main__":
    chosen = _parse()
    if chosen.what == "run":
        run(chosen.out, range(*chosen.seeds), chosen.minutes)
    elif chosen.what == "table":
        print(table(chosen.out), end="")
    else:
        figure(chosen.out, chosen.figure)
