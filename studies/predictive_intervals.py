"""How often ``run.predict(..., interval=0.9)`` holds on fresh tasks of planted families and simulators.

    python -m studies.predictive_intervals --seed 9100 --minutes 15 --out results/intervals/seed9100.json

A run learns from 200 tasks of 20 examples; 400 further tasks of the same population are predicted from 1, 2, 5 and 10
of their examples. Counted are the numbers of y, of the other examples, that lie inside their intervals. Cases that
are there are not run again. Seeds below 1,000 were used while the method was made.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import metasym as ms
from metasym.runs.machine import commit
from metasym.storage.json_files import read_json, write_json
from studies.families import FAMILIES, family
from studies.simulators import SIMULATORS, Simulated, simulate

LEVEL = 0.9
SUPPORTS = (1, 2, 5, 10)
LEARNED, FRESH = 200, 400
NOISE = (0.01, 0.1)


def made(name: str, noise: float, seed: int) -> Simulated:
    """Tasks to learn from, then further ones."""
    if name in FAMILIES:
        return family(name, seed, noise=noise, tasks=LEARNED + FRESH, examples=20)
    return simulate(name, seed, noise=noise, tasks=LEARNED + FRESH, examples=20)


def covered(run: Any, x: Any, y: Any, support: int) -> tuple[float, float]:
    """The share of numbers inside their intervals, and half of the mean width over the deviation of y."""
    inside, width = [], []
    for one, other in zip(x, y, strict=True):
        found = run.predict(one[:support], other[:support], one[support:], interval=LEVEL)
        rest = other[support:]
        inside.append(np.mean((found.lower <= rest) & (rest <= found.upper)))
        width.append(np.mean(found.upper - found.lower) / 2)
    return float(np.mean(inside)), float(np.mean(width) / y.std())


def one_case(name: str, noise: float, seed: int) -> dict[str, Any]:
    """One run, and its intervals on fresh tasks."""
    data = made(name, noise, seed)
    run = ms.learn(data.x[:LEARNED], data.y[:LEARNED], baseline=False, seed=seed)
    fresh = data.x[LEARNED:], data.y[LEARNED:]
    found = {str(k): covered(run, *fresh, k) for k in SUPPORTS if k < data.x.shape[1]}
    return {
        "name": name,
        "noise": noise,
        "status": str(run.verdict.status),
        "coverage": {k: one[0] for k, one in found.items()},
        "width": {k: one[1] for k, one in found.items()},
    }


def main() -> None:
    """Run the cases that are missing, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--only", choices=("families", "simulators"))
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {
        "command": f"python -m studies.predictive_intervals --seed {given.seed}",
        "commit": commit(),
        "seed": given.seed,
        "level": LEVEL,
        "cases": [],
    }
    if given.out.exists():
        results = read_json(given.out, "results of the study")
    done = {(row["name"], row["noise"]) for row in results["cases"]}
    names = {"families": FAMILIES, "simulators": SIMULATORS}.get(given.only, (*FAMILIES, *SIMULATORS))
    began = time.monotonic()
    for name, noise in [(name, noise) for noise in NOISE for name in names]:
        if (name, noise) in done:
            continue
        if time.monotonic() - began > 60 * given.minutes:
            break
        results["cases"].append(one_case(name, noise, given.seed))
        write_json(given.out, results)
    for kind, members in (("families", FAMILIES), ("simulators", SIMULATORS)):
        for support in map(str, SUPPORTS):
            rows = [row["coverage"].get(support) for row in results["cases"] if row["name"] in members]
            there = [value for value in rows if value is not None]
            if there:
                print(
                    f"{kind}, {support} support examples: {len(there)} cases, mean {np.mean(there):.3f}, "
                    f"{min(there):.3f} to {max(there):.3f}"
                )


if __name__ == "__main__":
    main()
