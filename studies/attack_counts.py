"""The counts of attacks as Markdown tables: what is wrong, and whether a warning names what is broken.

    python -m studies.attack_counts

Reads ``results/attacks``. A warning counts only if it names the assumption that a kind of family breaks
(``NAMES``) and appears in at most 5 % of the ordinary runs: one that is always there says nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
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
    seeds = sorted({row["seed"] for row in found})
    return f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])


def _commit(found: Sequence[Row]) -> str:
    return ", ".join(sorted({f"`{row['commit'][:7]}`" for row in found if row.get("commit")})) or "-"


def _counted(found: Sequence[Row], *outcomes: str) -> str:
    return str(sum(row["outcome"] in outcomes for row in found))


def family_table(files: Sequence[tuple[str, str]], shares: dict[str, float]) -> list[str]:
    """Families made to break certificates: by file, and by whether what certificates assume is so."""
    lines = [
        "| seeds | code | assumptions | runs | whole group | subgroup | too large, within its bound | nothing | "
        "wrong bound | wrong share | named what is broken | wrong and silent |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    hold = {name: make(name, 0).assumptions_hold for name in ATTACKS}
    for name, code in files:
        for holds, word in ((True, "hold"), (False, "broken")):
            found = [row for row in rows(name) if hold[row["name"]] is holds]
            wrong = [row for row in found if is_wrong(row)]
            cells = [
                _seeds(found),
                code or _commit(found),
                word,
                str(len(found)),
                *(_counted(found, one) for one in ("right", "subgroup", "too large", "nothing", "wrong")),
                str(sum(bool(row.get("share_wrong")) for row in found)),
                "-" if holds else str(sum(named(row, shares) for row in found)),
                str(sum(not named(row, shares) for row in wrong)),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def ordinary_table(files: Sequence[tuple[str, str]]) -> list[str]:
    """Ordinary families."""
    lines = [
        "| seeds | code | runs | whole group | subgroup | nothing | wrong | with a warning |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, code in files:
        found = rows(name)
        cells = [_seeds(found), code or _commit(found), str(len(found))]
        cells += [_counted(found, one) for one in ("right", "subgroup", "nothing")]
        cells += [str(sum(map(is_wrong, found))), str(sum(bool(said(row)) for row in found))]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def function_table(files: Sequence[str]) -> list[str]:
    """Functions made to break certificates."""
    lines = [
        "| seeds | code | kinds | runs | true claims | nothing | wrong | true symmetry refuted | errors |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in files:
        found = rows(name)
        cells = [_seeds(found), _commit(found), str(len({row["name"] for row in found})), str(len(found))]
        cells += [_counted(found, one) for one in ("claimed", "nothing", "wrong", "true refuted")]
        lines.append(f"| {' | '.join([*cells, _counted(found, 'error', 'defect')])} |")
    return lines


def tables() -> list[list[str]]:
    """All tables of the page, in their order."""
    shares = rare(rows("ordinary-fresh"))
    return [
        family_table((("families-before", "before"), ("families-fresh", "")), shares),
        ordinary_table((("ordinary-before", "before"), ("ordinary-after", "after"), ("ordinary-fresh", ""))),
        function_table(("functions-fresh",)),
    ]


if __name__ == "__main__":
    print("\n\n".join("\n".join(lines) for lines in tables()))
    print({word: f"{share:.1%} of ordinary runs" for word, share in rare(rows("ordinary-fresh")).items()})
