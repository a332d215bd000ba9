"""Whether ``learn`` and ``discover`` say the same of the same file: neither may certify what the other refutes.

    python -m studies.one_judge --seed 9000 --minutes 5 --out results/one_judge/agreement.json

Sixty files of linear families: cyclic, dihedral and symmetric groups, products, groups with signs, and none; 3 to 12
points; noise 0, 1 and 10 %. Both search at the same tolerance, a defect of 8 % (for ``discover`` the share 0.0032 of
the variance). Then both are asked about the same groups: the true one, a larger one that is false, and what either
found. Seeds below 1,000 were used while the code was made. Files that are there are not run again.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import metasym as ms
from metasym.certification.judge import judge_tasks
from metasym.discovery.families.family_group import judged_group, split_tasks_of, task_model
from metasym.groups.bases import equivariant_basis
from metasym.groups.group import Group
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.inspection.given_groups import hypothesis
from metasym.runs.machine import commit
from metasym.storage.json_files import read_json, write_json
from metasym.verdicts.claims import Claim
from metasym.verdicts.defects import share_of
from metasym.verdicts.outcomes import Outcome
from metasym.verdicts.verdict import NearestRefuted, Status

TOLERANCE = 0.08
TASKS = 80
NOISE = (0.0, 0.01, 0.1)
POINTS = {
    "cyclic": (3, 5, 8, 12),
    "dihedral": (4, 6, 9, 11),
    "symmetric": (3, 4, 6, 10),
    "product": (4, 6, 8, 9),
    "signed": (3, 6),
    "none": (4, 7),
}
"""Of each kind, the numbers of points: with three levels of noise 60 files."""


def planted(kind: str, n: int) -> Group | None:
    """The group of a kind on n points; None: no symmetry."""
    if kind == "cyclic":
        return ms.groups.cyclic(n)
    if kind == "dihedral":
        return ms.groups.dihedral(n)
    if kind == "symmetric":
        return ms.groups.symmetric(n) if n <= 6 else None
    if kind == "product":
        sides = {4: (2, 2), 6: (2, 3), 8: (2, 4), 9: (3, 3)}[n]
        return ms.groups.cyclic(sides[0]).product(ms.groups.cyclic(sides[1]), "product")
    if kind == "signed":  # a turn whose last step changes the sign
        turn = torch.roll(torch.eye(n, dtype=torch.float64), 1, 0)
        turn[0] *= -1
        return ms.groups.from_generators([turn])
    return None


def maps_of(kind: str, n: int, draw: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float64]]:
    """``[tasks, n, n]``: random combinations of what the group allows, of mean square 1 / n."""
    group = planted(kind, n)
    if kind == "symmetric" and group is None:  # S_n beyond a table: a multiple of 1 and of the mean
        basis = np.stack([np.eye(n).ravel() / n**0.5, (1 - np.eye(n)).ravel() / (n * (n - 1)) ** 0.5], 1)
    elif group is None:
        basis = np.eye(n * n)
    else:
        basis = equivariant_basis(group, group).numpy()
    found = (draw.standard_normal((TASKS, basis.shape[1])) @ basis.T).reshape(TASKS, n, n)
    return found / np.sqrt((found**2).mean() * n)


def asked_groups(kind: str, n: int) -> dict[str, SignedGroup]:
    """Groups that both judges are asked about: the true one, and all permutations, false but for ``symmetric``."""
    found = {"all": hypothesis("permutations", n, n).group, "shifts": hypothesis("shifts", n, n).group}
    group = planted(kind, n)
    if group is not None:
        found["true"] = hypothesis(group, n, n).group
    return found


def by_learn(x: list[torch.Tensor], y: list[torch.Tensor], group: SignedGroup) -> dict[str, Any]:
    """What ``learn`` says of a given group: all tasks are held out."""
    fresh = torch.ones(len(x), dtype=torch.bool)
    found = judge_tasks(group.generators, x, y, fresh, tolerance=TOLERANCE, offset=False)
    said = "certified" if found.within(TOLERANCE) else "refuted" if found.refuted else "open"
    return {"said": said, "defect": found.defect, "upper": found.bound if np.isfinite(found.bound) else None}


def by_discover(x: Any, y: Any, group: SignedGroup, model: Any) -> dict[str, Any]:
    """What ``discover`` says of a given group."""
    fresh = split_tasks_of(len(x), 0)[1]
    found = judged_group(x, y, group, model, 0, fresh, share_of(TOLERANCE))
    if isinstance(found, Claim):
        return {"said": "certified", "upper": found.defect_upper}
    kind = type(found).__name__
    return {"said": "refuted" if found.outcome is Outcome.REFUTED else "open", "reason": kind}


def one_file(kind: str, n: int, noise: float, seed: int) -> dict[str, Any]:
    """Both searches, and both judges on the same groups."""
    draw = np.random.default_rng([seed, n, int(1000 * noise), *kind.encode()])
    maps = maps_of(kind, n, draw)
    x = draw.standard_normal((TASKS, n + 8, n))
    y = np.einsum("tmn,ten->tem", maps, x)
    y += noise * np.sqrt((y**2).mean()) * draw.standard_normal(y.shape)
    began = time.process_time()
    learned = ms.learn(x, y, baseline=False, tolerance=TOLERANCE)
    layer = learned.symmetry[0]
    claims = ms.discover(x, y, tolerance=share_of(TOLERANCE)).symmetries
    groups = asked_groups(kind, n)
    found: dict[str, tuple[SignedPermutation, ...]] = {}
    if layer.group is not None:
        found["found by learn"] = layer.group.generators
    if claims:
        found["found by discover"] = tuple(
            SignedPermutation.of(g["outputs"], g["inputs"], g["output_signs"], g["input_signs"])
            for g in claims[0]["generators"]
        )
    groups |= {name: SignedGroup(generators, (n, n)) for name, generators in found.items()}
    model = task_model(x, y, 0)
    tensors = list(torch.from_numpy(x)), list(torch.from_numpy(y))
    asked, seen = {}, {}
    for name, group in groups.items():
        key = group.orbits.classes.tobytes()
        if key not in seen:
            seen[key] = {"learn": by_learn(*tensors, group), "discover": by_discover(x, y, group, model)}
        asked[name] = seen[key]
    refuted = any(isinstance(reason, NearestRefuted) for reason in layer.verdict.reasons)
    pairs = [(a["learn"]["said"], a["discover"]["said"]) for a in asked.values()]
    return {
        "kind": kind,
        "points": n,
        "noise": noise,
        "learn": {
            "status": str(layer.verdict.status),
            "group": None if layer.group is None else [layer.group.name, layer.group.order],
            "nearest_refuted": refuted,
        },
        "discover": None if not claims else [claims[0]["name"], claims[0]["order"]],
        "asked": asked,
        "contradictions": sum(set(pair) == {"certified", "refuted"} for pair in pairs)
        + int(layer.verdict.status is Status.NONE and bool(claims)),
        "seconds": round(time.process_time() - began, 1),
    }


def main() -> None:
    """Run the files that are missing, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {
        "command": f"python -m studies.one_judge --seed {given.seed}",
        "commit": commit(),
        "seed": given.seed,
        "tolerance": TOLERANCE,
        "files": [],
    }
    if given.out.exists():
        results = read_json(given.out, "results of the study")
    done = {(row["kind"], row["points"], row["noise"]) for row in results["files"]}
    began = time.monotonic()
    wanted = [(kind, n, noise) for kind, sizes in POINTS.items() for n in sizes for noise in NOISE]
    for kind, n, noise in wanted:
        if (kind, n, noise) in done:
            continue
        if time.monotonic() - began > 60 * given.minutes:
            break
        results["files"].append(one_file(kind, n, noise, given.seed))
        write_json(given.out, results)
    rows = results["files"]
    named = sum(row["learn"]["group"] is not None for row in rows)
    claimed = sum(row["discover"] is not None for row in rows)
    against = sum(row["contradictions"] for row in rows)
    print(
        f"{len(rows)} of {len(wanted)} files: learn names {named}, discover {claimed}, contradictions {against}"
    )
    for row in rows:
        if row["contradictions"]:
            print(row)


if __name__ == "__main__":
    main()
