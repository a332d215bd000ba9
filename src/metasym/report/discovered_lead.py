"""The first paragraph and the glossary of a page about ``metasym discover``, for someone new to symmetries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.report.page.html_words import number, plural
from metasym.types import MetasymError
from metasym.verdicts.defect_words import percent
from metasym.verdicts.defects import defect_of
from metasym.verdicts.group_words import moves_words

_MOST_NAMES = 6

GLOSSARY = (
    (
        "symmetry",
        "A way to move the inputs, and the outputs where they are listed, that leaves the function unchanged.",
    ),
    (
        "continuous",
        "A move by any amount, such as a rotation. The dimension is the number of independent moves: so(2) rotates "
        "two coordinates, so(3) three, and so(1,n) mixes time and n places as in relativity. A translation shifts.",
    ),
    (
        "finite",
        "A list of moves, such as exchanging two inputs or changing signs. Z_n turns a ring of n, D_n turns and "
        "reflects it, S_n permutes n things freely. The order is the number of moves.",
    ),
    ("generator", "One of the few moves from which all others are composed."),
    (
        "violation",
        "The largest part of the variance of y that may break the symmetry, according to the data. No data can show "
        "that it is 0.",
    ),
    (
        "beta",
        "A check on held-out examples: 0 for a true symmetry, 1 if a model without the symmetry predicts something "
        "that the symmetric model has lost.",
    ),
)
"""Words that the page uses."""


def lead(found: dict[str, Any], names: Sequence[str]) -> list[str]:
    """Return the sentences of one paragraph: what was found, how sure it is, what it is worth."""
    symmetries = [one for one in found["symmetries"] if isinstance(one, dict)]
    what = "tasks" if found.get("family") else "examples"
    called = found["plain"] is None
    of = (
        "functions behind the tasks"
        if found.get("family")
        else "function" + ("" if called else " behind the data")
    )
    if not symmetries:
        return [
            f"No symmetry of the {of} is claimed: there is none of the kinds that were tested, or these {what} "
            "cannot decide."
        ]
    said = " and ".join(_said(one, names) for one in symmetries[:3])
    more = f", and {len(symmetries) - 3} more" if len(symmetries) > 3 else ""
    keep = "keep their" if found.get("family") else "keeps its"
    sentences = [f"The {of} {keep} answers under {said}{more}."]
    worst = max(float(one["violation_upper"]) for one in symmetries)
    if called:
        sentences.append(
            f"How sure: calls at {symmetries[0]['tested_on']} fresh points allow a defect of at most "
            f"{percent(defect_of(worst))} (root mean square, 95 %)."
        )
        return sentences
    sentences.append(
        f"How sure: at most {percent(worst)} of the variance of y breaks {'it' if len(symmetries) == 1 else 'them'} "
        "(95 %)."
    )
    plain, symmetric = found["plain"], found.get("symmetric")
    if isinstance(symmetric, dict):
        words = "accuracy" if plain["metric"] == "accuracy" else "mean squared error"
        sentences.append(
            f"What it is worth: on {found['held_out']} held-out {what} the {words} is {_score(symmetric)} with the "
            f"symmetry built in, and {_score(plain)} for a model without symmetry."
        )
    return sentences


def _said(one: dict[str, Any], names: Sequence[str]) -> str:
    places = [names[i] if i < len(names) else f"input {i}" for i in one.get("inputs") or ()]
    on = f", moving {', '.join(places[:_MOST_NAMES])}" if places else ""
    on += f" and {len(places) - _MOST_NAMES} more" if len(places) > _MOST_NAMES else ""
    if one["kind"] == "continuous":
        return f"{one['name']} (continuous, of dimension {one.get('dimension', '?')}{on})"
    moves = plural(one["order"], "move") if "order" in one else "finite"
    does = _does(one, names)
    return f"{one['name']} ({moves}{f': {does}' if does else on})"


def _does(one: dict[str, Any], names: Sequence[str]) -> str:
    """What a finite group does, in words; nothing where the file does not hold its generators."""
    try:
        moves = tuple(SignedPermutation.of(**g) for g in one.get("generators", ()))
        group = SignedGroup(moves, moves[0].shape, known_order=one.get("order")) if moves else None
    except (MetasymError, TypeError, ValueError):
        return ""
    return "" if group is None else moves_words(group, names, one.get("output_names", ()))


def _score(score: dict[str, Any]) -> str:
    return f"{number(score['mean'])} ± {number(score['ci95'], 2)}"
