"""Functions made to break certificates, and whether ``ms.discover`` says something false of them.

    python -m studies.function_attacks --seeds 0:3 --out results/attacks/functions.jsonl

Each kind knows its function, so that a claim is checked by calling it: at the rows of the file and at fresh ones
of the same law. *Wrong*: the part of the variance that a claimed symmetry does not keep is larger than its
``violation_upper``, there or among the fresh rows. *Refuted*: a symmetry that the function has is called refuted
(the name of a refuted candidate is that of a true one, or nothing has a name and all are refuted), and no claim is
made. Seeds below 1,000 were used while thresholds were set; seeds from 1,000 on are fresh.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import expm

import metasym as ms
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.runs.machine import commit
from studies.attacked_functions import ATTACKS, CONTROLS, Made

Array = npt.NDArray[np.float64]
FRESH = 4000
SAMPLED = 48
"""Elements of a large group that its average is made of."""
ROUNDING = 1e-6
GENERATORS = 1e-4
"""Generators of algebras are found to finite accuracy: changes below this are none."""


def broken(made: Made, claim: dict[str, Any], x: Array) -> tuple[float, float]:
    """The part of the variance at ``x`` that a claim does not keep: of all outputs together, and the worst of one."""
    here = made.function(x)
    if claim["kind"] == "finite":
        moves = tuple(SignedPermutation.of(**g) for g in claim["generators"])
        group = SignedGroup(moves, moves[0].shape)
        found = [
            g.inverse.on_outputs(made.function(g.on_inputs(x)))
            for g in group.some_elements(SAMPLED, np.random.default_rng(0))
        ]
        left = here - np.mean(found, axis=0)
    else:
        left = _flown(made, claim, x) - here
        left /= 2**0.5
    squares = (left**2).mean(0)
    spread = here.var(0)
    own = float((squares / np.maximum(spread, 1e-300)).max())
    return float(squares.sum() / spread.sum()), own


def _flown(made: Made, claim: dict[str, Any], x: Array) -> Array:
    """Values at ``x`` moved a quarter of a standard deviation along a random combination of generators, and back."""
    draw = np.random.default_rng(1)
    generators = np.array(claim["generators"])
    outer = claim.get("output_generators")
    weights = draw.normal(size=len(generators))
    inner = np.einsum("d,dij->ij", weights, generators)
    moved = np.c_[x, np.ones(len(x))] @ inner.T
    step = 0.25 * float(np.sqrt((x.var(0)).sum() / max((moved**2).sum(1).mean(), 1e-300)))
    found = made.function(_exponential(step * inner, x))
    if outer is None:
        return found
    return _exponential(-step * np.einsum("d,dij->ij", weights, np.array(outer)), found)


def _exponential(field: Array, x: Array) -> Array:
    matrix = expm(np.r_[field, np.zeros((1, field.shape[1]))])
    return np.asarray((np.c_[x, np.ones(len(x))] @ matrix.T)[:, :-1])


def judge(made: Made, run: Any) -> dict[str, Any]:
    """How a run compares with the truth."""
    fresh = made.law(np.random.default_rng(99), FRESH)
    row: dict[str, Any] = {"claims": [], "refused": []}
    outcome = ""
    for claim in run.symmetries:
        there = [broken(made, claim, x) for x in (made.x, fresh)]
        true, own = max(one[0] for one in there), max(one[1] for one in there)
        allowed = claim["violation_upper"] + (ROUNDING if claim["kind"] == "finite" else GENERATORS)
        row["claims"].append(
            {"name": claim["name"], "upper": claim["violation_upper"], "true": true, "own": own}
        )
        outcome = "wrong" if true > allowed or outcome == "wrong" else "claimed"
    for one in run.refused:
        row["refused"].append(f"{one['outcome']}: {one['words']}")
        if not outcome and _true_refuted(made, one):
            outcome = "true refuted"
    row["outcome"] = outcome or "nothing"
    row["notes"] = list(run.notes)
    row["errors"] = [run.plain.relative, None if run.symmetric is None else run.symmetric.relative]
    return row


def _true_refuted(made: Made, candidate: dict[str, Any]) -> bool:
    names = made.finite if candidate["kind"] == "finite" else made.continuous
    if candidate["outcome"] != "refuted" or not names:
        return False
    if candidate["what"] == "rotations" and not any(name.startswith("so(") for name in names):
        return False  # a space that has none of them
    if candidate["what"] == "translations" and "R" not in names:
        return False
    said = [reason.get("name") for reason in candidate["reasons"]]
    return any(name is None or name.split(" (")[0] in names for name in said)


def one(made: Made) -> dict[str, Any]:
    """One run, with its processor seconds."""
    began = time.process_time()
    try:
        row = judge(made, ms.discover(made.x, made.y))
    except ms.MetasymError as error:
        row = {"outcome": "error", "words": str(error)}
    except Exception as error:  # a defect of ours, counted too
        row = {"outcome": "defect", "words": f"{type(error).__name__}: {error}"}
    return {**row, "seconds": round(time.process_time() - began, 2)}


def rows(out: Path) -> list[dict[str, Any]]:
    """The runs that are there."""
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def table(out: Path) -> str:
    """Outcomes by kind, and of all."""
    found: dict[str, Counter[str]] = {}
    for row in rows(out):
        found.setdefault(row["name"], Counter())[row["outcome"]] += 1
    total = sum(found.values(), Counter())
    seconds = sum(row["seconds"] for row in rows(out))
    lines = [f"{name:24s} {dict(counts)}" for name, counts in found.items()]
    return "\n".join([*lines, f"{'all':24s} {dict(total)}, {seconds:.0f} s"])


def make(name: str, seed: int) -> Made:
    """The data of a kind and seed."""
    kinds: dict[str, Callable[[np.random.Generator], Made]] = {**ATTACKS, **CONTROLS}
    draw = np.random.default_rng([seed, *name.encode()])
    made = kinds[name](draw)
    return dataclasses.replace(made, x=np.asarray(made.x), y=np.asarray(made.y))


def main() -> None:
    """Run what is asked for and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:2")
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    low, high = map(int, given.seeds.split(":"))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    done = {(row["name"], row["seed"]) for row in rows(given.out)}
    code = commit()
    for seed in range(low, high):
        for name in [n for n in (*ATTACKS, *CONTROLS) if given.only in n]:
            if (name, seed) in done:
                continue
            row = {"name": name, "seed": seed, **one(make(name, seed)), "commit": code}
            with given.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
    print(table(given.out))


if __name__ == "__main__":
    main()
