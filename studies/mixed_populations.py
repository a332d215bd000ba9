"""Do both statements of a certificate hold where a few tasks differ? Synthetic files with 1 to 10 % odd tasks.

    python -m studies.mixed_populations --files 1000 --out results/attacks/mixed-populations.json

Every file is drawn from a cell of: the share of odd tasks, what is wrong with them, the noise, the number of tasks.
The group is the one that all other tasks have. (a) is false if ``defect_upper`` is below the relative root mean
square defect over the file's tasks; (b) if of the population a larger share than stated has a larger defect than the
one that single tasks show. Beside it how wide they are: the bound over the true defect, and the share over the true.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from metasym.certification.all_tasks import AllTasks
from metasym.certification.certificate import certify_all
from metasym.certification.own_weights import own_weights
from metasym.groups.signed_permutations import SignedPermutation
from metasym.runs.machine import commit
from studies.judged_runs import Array, examples_of, group_defect, single_defects
from studies.ordinary_families import FAMILIES
from studies.true_group import Element

SHARES = (0.01, 0.03, 0.06, 0.1)
NOISES = (0.01, 0.05, 0.2)
TASKS = (40, 80, 160)
_FURTHER = 4000


def _gain(factor: float) -> Callable[[np.random.Generator, Array], Array]:
    def spoil(_: np.random.Generator, maps: Array) -> Array:
        found = maps.copy()
        found[:, :, 1] *= factor
        return found

    return spoil


def _unrelated(generator: np.random.Generator, maps: Array) -> Array:
    return generator.standard_normal(maps.shape) * np.sqrt(np.mean(maps**2))


FAULTS: dict[str, Callable[[np.random.Generator, Array], Array]] = {
    "sensor at 0.8": _gain(0.8),
    "sensor at 0.5": _gain(0.5),
    "unrelated": _unrelated,
}
GROUPS = {
    "ring6": [(1, 2, 3, 4, 5, 0), (0, 5, 4, 3, 2, 1)],
    "path5": [(4, 3, 2, 1, 0)],
    "star5": [(0, 2, 3, 4, 1), (0, 2, 1, 3, 4)],
}


def one(seed: int) -> dict[str, Any]:
    """One file, and whether the statements about it hold."""
    g = np.random.default_rng([seed, 77])
    share, noise = float(g.choice(SHARES)), float(g.choice(NOISES))
    tasks, fault = int(g.choice(TASKS)), str(g.choice(list(FAULTS)))
    name = str(g.choice(list(GROUPS)))

    def population(count: int) -> Array:
        maps = FAMILIES[name](g, count)
        odd = g.random(count) < share
        if odd.any():
            maps[odd] = FAULTS[fault](g, maps[odd])
        return maps

    maps = population(tasks)
    n = maps.shape[2]
    made = examples_of(maps, g, examples=2 * n + 8, noise=noise)
    own = own_weights(list(torch.from_numpy(made.x)), list(torch.from_numpy(made.y)))
    assert own is not None
    ids = torch.arange(tasks)
    found = certify_all(AllTasks(own, ids % 5 == 0, ids), [SignedPermutation(p, p) for p in GROUPS[name]])
    elements = [Element(p, p, (1,) * n, (1,) * n) for p in GROUPS[name]]
    true = group_defect(maps, elements)
    assert found.visible is not None
    further = float(np.mean(single_defects(population(_FURTHER), elements) > found.visible))
    stated = 1.0 if found.share_upper is None else found.share_upper
    return {
        "share": share,
        "noise": noise,
        "tasks": tasks,
        "fault": fault,
        "true": true,
        "upper": found.defect_upper,
        "false_bound": found.defect_upper < true - 1e-12,
        "further": further,
        "share_upper": stated,
        "false_share": stated < further,
        "visible": found.visible,
        "refuted": found.refuted,
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How often each statement is false in each stratum, and how wide they are."""
    found: dict[str, Any] = {}
    for key in ("share", "noise", "tasks", "fault"):
        for value in sorted({row[key] for row in rows}, key=str):
            some = [row for row in rows if row[key] == value]
            ratios = [row["upper"] / row["true"] for row in some if row["true"] > 1e-6]
            found[f"{key} {value}"] = {
                "files": len(some),
                "false_bound": round(float(np.mean([row["false_bound"] for row in some])), 4),
                "false_share": round(float(np.mean([row["false_share"] for row in some])), 4),
                "bound_median": round(float(np.median([row["upper"] for row in some])), 4),
                "bound_over_true_median": round(float(np.median(ratios)), 3),
                "share_upper_median": round(float(np.median([row["share_upper"] for row in some])), 4),
                "visible_median": round(float(np.median([row["visible"] for row in some])), 4),
            }
    return found


def main() -> None:
    """Draw the files and write the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--first", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    rows = [one(given.first + k) for k in range(given.files)]
    found = summary(rows)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    line = f"python -m studies.mixed_populations --files {given.files} --first {given.first}"
    head = {"command": line, "commit": commit(), "files": given.files, "first": given.first}
    given.out.write_text(json.dumps({**head, "strata": found}, indent=1))
    for name, numbers in found.items():
        print(f"{name:22s} {numbers}")


if __name__ == "__main__":
    main()
