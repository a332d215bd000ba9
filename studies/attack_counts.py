"""The counts of attacks as Markdown tables: what is wrong, and whether a warning names what is broken.

    python -m studies.attack_counts

Reads ``results/attacks``. A warning counts only if it names the assumption that a kind of family breaks
(``NAMES``) and appears in at most 5 % of the ordinary runs: one that is always there says nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from studies.certificate_attacks import ATTACKS, make
from studies.judged_runs import WARNINGS

FOLDER = Path("results/attacks")
ORDINARY = 0.05
"""The share of ordinary runs in which a warning may appear that counts."""
_BENT = frozenset({"not_linear"})
_REMEMBERED = frozenset({"examples_dependent", "dependent_examples"})
_UNEVEN = frozenset({"noise_unlike_model"})
NAMES: dict[str, frozenset[str]] = {
    "duplicates": frozenset({"copied_tasks"}),
    "whole-x": frozenset({"rounded_inputs"}),
    "drift-inside": _BENT,
    "noise-small-x": _UNEVEN,
    "noise-large-x": _UNEVEN,
    "noise-large-x-exact": _UNEVEN,
    "autocorrelated-exact": _REMEMBERED,
    "autocorrelated-near": _REMEMBERED,
    "autocorrelated-noise": _REMEMBERED,
    "censored-output": _BENT,
    "squared-5%": _BENT,
    "squared-20%": _BENT,
    "cubic-sensor": _BENT,
}
"""Which warnings name what a kind breaks. Of kinds that break an assumption and are not here none does."""

Row = dict[str, Any]


def rows(name: str) -> list[Row]:
    """The runs of a file of results."""
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text().splitlines()]


def said(row: Row) -> frozenset[str]:
    """The warnings of a run."""
    return WARNINGS.intersection([*row.get("reasons", ()), *row.get("findings", ())])


def rare(ordinary: Sequence[Row]) -> dict[str, float]:
    """The share of ordinary runs with each warning."""
    seen = Counter(word for row in ordinary for word in said(row))
    return {word: seen[word] / len(ordinary) for word in sorted(WARNINGS)}


def is_wrong(row: Row) -> bool:
    """Whether a bound is below the truth, or a share of further tasks too small."""
    return row["outcome"] == "wrong" or bool(row.get("share_wrong"))


def named(row: Row, shares: dict[str, float]) -> bool:
    """Whether a run names what its kind breaks, by a warning that ordinary runs rarely have."""
    accepted = {word for word, share in shares.items() if share <= ORDINARY}
    return bool(said(row) & NAMES.get(row["name"], frozenset()) & accepted)


def _seeds(found: Sequence[Row]) -> str:
    """``5003 to 5008, 6000 to 6002``."""
    seeds = sorted({row["seed"] for row in found})
    firsts = [seed for seed in seeds if seed - 1 not in seeds]
    lasts = [seed for seed in seeds if seed + 1 not in seeds]
    return ", ".join(f"{a} to {b}" if a < b else str(a) for a, b in zip(firsts, lasts, strict=True))


def _counted(found: Sequence[Row], *outcomes: str) -> str:
    return str(sum(row["outcome"] in outcomes for row in found))


def _by_code(files: Sequence[tuple[str, str]]) -> Iterator[tuple[str, list[Row]]]:
    """The runs of files: what the page calls the code, by default its commit, and the runs with it."""
    for name, code in files:
        found = rows(name)
        for commit in dict.fromkeys(row.get("commit") for row in found):
            some = [row for row in found if row.get("commit") == commit]
            yield code or f"`{str(commit)[:7]}`", some


def family_table(files: Sequence[tuple[str, str]], shares: dict[str, float]) -> list[str]:
    """Families made to break certificates: by code, and by whether what certificates assume is so."""
    lines = [
        "| seeds | code | assumptions | runs | whole group | subgroup | nothing | wrong bound | wrong share | "
        "warning names what is broken | wrong and no such warning |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    hold = {name: make(name, 0).assumptions_hold for name in ATTACKS}
    for code, runs in _by_code(files):
        for holds, word in ((True, "hold"), (False, "broken")):
            found = [row for row in runs if hold[row["name"]] is holds]
            cells = [
                _seeds(found),
                code,
                word,
                str(len(found)),
                *(_counted(found, one) for one in ("right", "subgroup", "nothing", "wrong")),
                str(sum(bool(row.get("share_wrong")) for row in found)),
                "-" if holds else str(sum(named(row, shares) for row in found)),
                str(sum(is_wrong(row) and not named(row, shares) for row in found)),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def ordinary_table(files: Sequence[tuple[str, str]]) -> list[str]:
    """Ordinary families."""
    lines = [
        "| seeds | code | runs | whole group | subgroup | nothing | wrong | with a warning |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for code, found in _by_code(files):
        cells = [_seeds(found), code, str(len(found))]
        cells += [_counted(found, one) for one in ("right", "subgroup", "nothing")]
        cells += [str(sum(map(is_wrong, found))), str(sum(bool(said(row)) for row in found))]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def function_table(files: Sequence[tuple[str, str]]) -> list[str]:
    """Functions made to break certificates."""
    lines = [
        "| seeds | code | kinds | runs | true claims | nothing | wrong | true symmetry refuted | errors |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for code, found in _by_code(files):
        cells = [_seeds(found), code, str(len({row["name"] for row in found})), str(len(found))]
        cells += [_counted(found, one) for one in ("claimed", "nothing", "wrong", "true refuted")]
        lines.append(f"| {' | '.join([*cells, _counted(found, 'error', 'defect')])} |")
    return lines


def mixed_table() -> list[str]:
    """Files with some odd tasks: how often each statement is false in each group of them, and how wide they are."""
    lines = [
        "| files with | files | bound false | share false | bound over true defect, median | "
        "bound on the share, median |",
        "|---|---|---|---|---|---|",
    ]
    for name, one in json.loads((FOLDER / "mixed-populations.json").read_text())["strata"].items():
        kind, value = name.split(" ", 1)
        match kind:
            case "share":
                words = f"{float(value):.0%} odd tasks"
            case "noise":
                words = f"noise of {float(value):.0%}"
            case "tasks":
                words = f"{value} tasks"
            case _:
                words = f"odd tasks: {value}"
        cells = [words, str(one["files"]), f"{one['false_bound']:.1%}", f"{one['false_share']:.1%}"]
        cells += [f"{one['bound_over_true_median']:.2f}", f"{one['share_upper_median']:.1%}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def tables() -> list[list[str]]:
    """All tables of the page, in their order; files from before runs named their commit have it here."""
    return [
        family_table(
            (
                ("families-before", "before"),
                ("families-fresh", "`a998a78`"),
                *((f"families-{first}", "") for first in (5000, 7000, 8000)),
            ),
            rare([row for first in (5000, 7000, 8000) for row in rows(f"ordinary-{first}")]),
        ),
        ordinary_table(
            (
                ("ordinary-before", "before"),
                ("ordinary-after", "`1f66615`"),
                ("ordinary-fresh", "`fca1ecd`"),
                *((f"ordinary-{first}", "") for first in (5000, 7000, 8000)),
            )
        ),
        function_table((("functions-fresh", "`1f66615`"), ("functions-5000", ""), ("functions-7000", ""))),
        mixed_table(),
    ]


if __name__ == "__main__":
    print("\n\n".join("\n".join(lines) for lines in tables()))
    print(
        {
            word: f"{share:.1%} of ordinary runs"
            for word, share in rare(
                [row for first in (5000, 7000, 8000) for row in rows(f"ordinary-{first}")]
            ).items()
        }
    )
