"""Symmetries of functions that are called: what ``ms.discover(f, x)`` claims, compared with what is known.

    python -m studies.callables [--seed N] [--minutes M] [--data]

writes results/callables/functions-N.json, or with ``--data`` data-N.json: the same functions as data sets of 300
points. A case that is in the file is not run again. Every claim is checked here, at other points and by other code:
exact ones to rounding, near ones against their bound. ``wrong`` is a claim that fails this check, or a group that is
larger than what is known; ``subgroup`` is a claim that is smaller.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import metasym as ms
from metasym.runs.machine import commit
from metasym.storage.json_files import write_json
from studies.called_functions import Array, Case, cases

OUT = Path(__file__).parent.parent / "results" / "callables"
SAID = ("right", "subgroup", "wrong")
DATA = (
    "gravity, 3 bodies in space",
    "energy of 4 bodies",
    "three tops",
    "springs, cycle of 10",
    "determinant 3 x 3",
    "deep set of 8",
    "odd network of 16 inputs",
    "graph network, Petersen",
)
"""Those that are data sets too: up to 16 inputs, each kind once."""


def numbers(case: Case, x: Array) -> Array:
    """Outputs ``[points, m]``, without noise."""
    given, f = x.reshape(len(x), *case.shape), case.without_noise or case.f
    if not case.tensors:
        return np.asarray(f(given)).reshape(len(x), -1)
    with torch.no_grad():
        return f(torch.tensor(given, dtype=torch.float32)).double().numpy().reshape(len(x), -1)


def checked(case: Case, claim: Any, draw: np.random.Generator) -> dict[str, Any]:
    """A claim's worst defect at points of our own, of generators and random products; and whether its bound holds."""
    x, other = (draw.normal(size=(2000, math.prod(case.shape))) for _ in range(2))
    y = numbers(case, x)
    centre = np.array(claim.centre) if claim.centre else np.zeros(x.shape[1])
    elements = list(claim.moves)
    for _ in range(8):
        g = elements[0]
        for i in draw.integers(len(claim.moves), size=12):
            g = g @ claim.moves[i]
        elements.append(g)
    worst = 0.0
    for g in elements:
        moved = list(g.moved_inputs)
        if not moved:
            continue
        replaced = x.copy()
        replaced[:, moved] = other[:, moved]
        carried = ((y - numbers(case, replaced)) ** 2).sum(1).mean() / 2
        apart = ((numbers(case, g.on_inputs(x - centre) + centre) - g.on_outputs(y)) ** 2).sum(1).mean()
        worst = max(worst, math.sqrt(apart / carried))
    bound = claim.defect_upper
    exact = claim.defect is not None and claim.defect < 1e-5  # of data: no defect by calls
    return {
        "group": claim.name,
        "order": str(claim.size),
        "exact": exact,
        "defect": claim.defect,
        "bound": bound,
        "defect_here": worst,
        "holds": worst < 1e-4 if exact else worst <= bound,
    }


def one(case: Case, seed: int, index: int) -> dict[str, Any]:
    """A case, called."""
    used = time.process_time()
    run = ms.discover(case.f, case.draw, continuous=False, seed=seed + index, **case.options)
    cpu = time.process_time() - used
    claims = [checked(case, c, np.random.default_rng([seed, index])) for c in run.verdict.claims]
    counted = [
        c.size
        for c, row in zip(run.verdict.claims, claims, strict=True)
        if row["exact"] or case.without_noise is not None
    ]
    order = max(counted, default=1)
    wrong = not all(row["holds"] for row in claims) or order > case.order
    row = {"name": case.name, "inputs": math.prod(case.shape), "control": case.control}
    row |= {"known": str(case.order), "found": str(order)}
    row |= {"said": "wrong" if wrong else "right" if order == case.order else "subgroup", "claims": claims}
    row |= {"cpu_seconds": round(cpu, 2), "points": int(run.notes[-1].split()[2])}
    return row | {"refused": [refused["words"] for refused in run.refused]}


def as_data(case: Case, seed: int) -> dict[str, Any]:
    """A case as a data set of 300 points."""
    x = np.random.default_rng(seed).normal(size=(300, *case.shape))
    used = time.process_time()
    run = ms.discover(x.reshape(300, -1), numbers(case, x), continuous=False, seed=seed)
    cpu = time.process_time() - used
    claims = [checked(case, c, np.random.default_rng(seed)) for c in run.verdict.claims if c.kind == "finite"]
    order = max((c.size for c in run.verdict.claims), default=1)
    row = {"name": case.name, "control": case.control, "known": str(case.order), "found": str(order)}
    return row | {"said": str(run.verdict), "claims": claims, "cpu_seconds": round(cpu, 2)}


def main() -> None:
    """All cases that are missing, or as many as the time allows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=7100)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--data", action="store_true")
    options = parser.parse_args()
    path = OUT / f"{'data' if options.data else 'functions'}-{options.seed}.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    done = {(row["name"], row["control"]) for row in rows}
    until = time.monotonic() + 60 * options.minutes
    OUT.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for index, case in enumerate(cases(options.seed)):
        if (case.name, case.control) in done or (
            options.data and (case.name not in DATA or case.control not in (None, 0.3))
        ):
            continue
        if time.monotonic() > until:
            return
        row = as_data(case, options.seed) if options.data else one(case, options.seed, index)
        rows.append(row)
        counts = {said: sum(row["said"] == said for row in rows) for said in SAID}
        head = {"command": f"python -m studies.callables --seed {options.seed}", "commit": commit()}
        write_json(path, {**head, **({} if options.data else {"counts": counts}), "rows": rows})
        print(row["said"], case.name, case.control or "", row["found"], "of", row["known"], flush=True)


if __name__ == "__main__":
    main()
