"""Runs of ``ms.learn`` on made files whose true maps are known, judged against these and kept as lines of JSON."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import metasym as ms
from metasym.groups.signed_groups import weight_orbits
from metasym.groups.signed_permutations import SignedPermutation
from metasym.runs.machine import commit
from studies.scoring import elements
from studies.true_group import Element, defect, order, true_group

Array = npt.NDArray[np.float64]
EXACT = 1e-6


@dataclass(frozen=True)
class Made:
    """A file of tasks and what is true of it."""

    x: Array
    y: Array
    maps: Array
    """``[tasks, m, n]``: the best linear map of every task of the file."""
    usual: Array | None = None
    """Maps without what was done to break the certificate: their group is what could have been named."""
    further: Array | None = None
    """Maps of many further tasks of the same population; None where there is none."""
    function_defect: Callable[[list[Element]], float] | None = None
    """The defect of what the tasks truly compute, where that is not linear."""
    options: dict[str, Any] = field(default_factory=dict)
    assumptions_hold: bool = True
    """Whether what the certificate assumes is true of this file; else a warning that names it counts as right."""


def examples_of(
    maps: Array,
    generator: np.random.Generator,
    *,
    examples: int,
    noise: float,
    **more: Any,
) -> Made:
    """Gaussian inputs, outputs with independent noise: ``noise`` is its part of the outputs' standard deviation."""
    x = generator.standard_normal((len(maps), examples, maps.shape[2]))
    y = np.einsum("tmn,ten->tem", maps, x)
    y += noise * float(np.sqrt(np.mean(y**2))) * generator.standard_normal(y.shape)
    return Made(x, y, maps, **more)


def group_defect(maps: Array, generators: list[Element]) -> float:
    """The largest relative root mean square defect of a generator over all maps."""
    return max((defect(maps, g) for g in generators), default=0.0)


def single_defects(maps: Array, generators: list[Element]) -> Array:
    """``[tasks]``: the root mean square over the group of ``|W - g W|``, relative to the typical ``|W|``."""
    shape = maps.shape[1], maps.shape[2]
    signed = tuple(SignedPermutation(g.outputs, g.inputs, g.output_signs, g.input_signs) for g in generators)
    flat = torch.from_numpy(maps.reshape(len(maps), -1))
    left = flat - weight_orbits(signed, shape).average(flat)
    return np.sqrt(2 * left.square().sum(1).numpy() / np.mean(np.sum(maps**2, (1, 2))))


def judge(made: Made, report: Any) -> dict[str, Any]:
    """How a run's first layer compares with the truth."""
    layer = report["layers"][0]
    claim = layer["group"]
    named = elements(claim)
    usual = made.maps if made.usual is None else made.usual
    truth = true_group(usual[:40])
    best = order(truth)
    row: dict[str, Any] = {"true_order": best, "order": 1, "status": layer["verdict"]["status"]}
    row["reasons"] = [r["kind"] for r in layer["verdict"]["reasons"]]
    row["words"] = layer["verdict"]["words"]
    row["notes"] = layer["notes"]
    if claim is None:
        row["outcome"] = "right" if best == 1 else "nothing"
        return row
    true = group_defect(made.maps, named)
    if made.function_defect is not None:
        true = max(true, made.function_defect(named))
    row |= {"order": order(named), "true_defect": true, "upper": claim["defect_upper"]}
    if true > claim["defect_upper"] + 1e-9:
        row["outcome"] = "wrong"
    elif group_defect(usual, named) > EXACT:
        row["outcome"] = "too large"
    else:
        row["outcome"] = "right" if row["order"] == best else "subgroup"
    differing = layer.get("differing")
    if differing is not None and differing.get("share_upper") is not None:
        row["share_upper"], row["visible"] = differing["share_upper"], differing["visible"]
        row["differing"] = differing["tasks"]
        if made.further is not None:
            share = float(np.mean(single_defects(made.further, named) > differing["visible"]))
            row["share_wrong"] = share > differing["share_upper"]
    return row


def one(made: Made) -> dict[str, Any]:
    """One run, with its processor seconds."""
    began = time.process_time()
    try:
        run = ms.learn(made.x, made.y, baseline=False, **made.options)
        row = judge(made, run.symmetry.to_json())
        findings = run.config.get("findings") or run.config.get("diagnosis") or []
        row["findings"] = [f["kind"] for f in findings if isinstance(f, dict) and "kind" in f]
    except ms.MetasymError as error:
        row = {"outcome": "error", "words": str(error)}
    return {**row, "seconds": round(time.process_time() - began, 2)}


def run_all(wanted: Iterable[tuple[str, int]], make: Callable[[str, int], Made], out: Path) -> None:
    """Run those that are not in ``out``, a line each, with the commit of the code."""
    out.parent.mkdir(parents=True, exist_ok=True)
    code = commit()
    done = {(row["name"], row["seed"]) for row in rows(out)}
    for name, seed in wanted:
        if (name, seed) in done:
            continue
        row = {"name": name, "seed": seed, **one(make(name, seed)), "commit": code}
        with out.open("a") as file:
            file.write(json.dumps(row) + "\n")


WARNINGS = frozenset(
    {
        *("not_linear", "noise_unlike_model", "examples_dependent"),
        *("dependent_examples", "copied_tasks", "rounded_inputs"),
    }
)
"""Reasons of verdicts and findings that name an assumption that does not hold."""


def warned(row: dict[str, Any]) -> bool:
    """Whether a run says which assumption is broken."""
    return bool(WARNINGS.intersection([*row.get("reasons", ()), *row.get("findings", ())]))


def by_assumptions(found: list[dict[str, Any]], holds: Callable[[str], bool]) -> str:
    """What is wrong where the assumptions hold and elsewhere, and how often a warning names what is broken."""
    lines = []
    for said, some in (
        ("assumptions hold", [row for row in found if holds(row["name"])]),
        ("assumptions broken", [row for row in found if not holds(row["name"])]),
    ):
        wrong = [row for row in some if row["outcome"] == "wrong" or row.get("share_wrong")]
        silent = sum(not warned(row) for row in wrong)
        lines.append(
            f"{said}: {len(some)} runs, wrong {len(wrong)}, of these without a warning {silent}; warned "
            f"{sum(map(warned, some))}"
        )
    return "\n".join(lines)


def rows(out: Path) -> list[dict[str, Any]]:
    """The runs that are there."""
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def table(out: Path) -> str:
    """Outcomes by name, and of all."""
    found: dict[str, Counter[str]] = {}
    for row in rows(out):
        found.setdefault(row["name"], Counter())[row["outcome"]] += 1
    total = sum(found.values(), Counter())
    lines = [f"{name:28s} {dict(counts)}" for name, counts in found.items()]
    seconds = sum(row["seconds"] for row in rows(out))
    return "\n".join([*lines, f"{'all':28s} {dict(total)}, {seconds:.0f} s"])
