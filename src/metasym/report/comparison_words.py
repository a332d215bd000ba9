"""Whether what was learned pays, compared with the plain network, for every number of support examples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import stdtrit

EXACT = 1e-5
"""An error below this fraction of the error of predicting the mean counts as 0: it is rounding in 32 bits."""
_SURE = 0.975


def judgement(learned: Mapping[str, Any], plain: Mapping[str, Any], what: str) -> str:
    """Return one sentence about ``what`` was learned, from two results with ``by_support``.

    The two are compared task by task if both results have the score of each task, else by their intervals.
    """
    sides: dict[str, list[int]] = {"better": [], "worse": [], "exact": [], "same": []}
    for count, ours in learned["by_support"].items():
        theirs = plain["by_support"].get(count)
        if theirs is not None:
            sides[_side(learned, ours, theirs)].append(int(count))
    better, worse, exact = sides["better"], sides["worse"], sides["exact"]
    from_ = f"from {_counts(exact)} both are exact"
    if better and worse:
        return (
            f"{what} pays from {_counts(better)} support example{_s(better)}; "
            f"from {_counts(worse)} the plain network is significantly better "
            "(95 %)" + (f"; {from_}." if exact else ".")
        )
    if better:
        rest = [from_] if exact else []
        rest += [f"from {_counts(sides['same'])} the difference is not significant"] if sides["same"] else []
        return (
            f"{what} pays: from {_counts(better)} support example{_s(better)} its score is significantly better than "
            f"the plain network's (95 %){''.join(f'; {part}' for part in rest)}."
        )
    if worse:
        return (
            f"{what} does not pay here: from {_counts(worse)} support example{_s(worse)} the plain network is "
            "significantly better (95 %)."
        )
    if exact and not sides["same"]:
        return f"Both networks are exact from {_counts(exact)} support example{_s(exact)}: there is nothing to gain."
    return "On these test tasks the two networks do not differ significantly (95 %)" + (
        f"; {from_}." if exact else "."
    )


def bought(result: Mapping[str, Any], *, different: bool = False) -> str | None:
    """Return what averaging U over the certified symmetry gains, from the chosen number of examples.

    Both scores use the symmetry; without averaging, as far as U has learned it. ``judgement`` compares with a plain
    network. ``different``: return None also if the difference is not significant.
    """
    without, count = result.get("without_symmetry"), str(result.get("support"))
    ours = (result.get("by_support") or {}).get(count)
    theirs = (without or {}).get(count)
    if not ours or not theirs or None in (ours["mean"], theirs["mean"]):
        return None
    side = _side(result, ours, theirs)
    if different and side in ("exact", "same"):
        return None
    compared = {
        "better": "the averaged U is significantly better (95 %)",
        "worse": "the averaged U is significantly worse (95 %)",
        "exact": "both are exact",
        "same": "the difference is not significant",
    }[side]
    words = "mean squared error" if result["metric"] == "mse" else str(result["metric"])
    return (
        f"From {count} support example{_s([int(count)])} the {words} is {ours['mean']:.4g} with U averaged over the "
        f"symmetry and {theirs['mean']:.4g} with U as learned; {compared}."
    )


def linear_instead(result: Mapping[str, Any]) -> str | None:
    """Return that one linear layer is significantly better than the network, from the chosen number of examples."""
    count = str(result.get("support"))
    ours = (result.get("by_support") or {}).get(count)
    linear = (result.get("linear") or {}).get(count)
    if not ours or not linear or _side(result, ours, linear) != "worse":
        return None
    return (
        f"One linear layer is significantly better than this network (95 %): from {count} support "
        f"example{_s([int(count)])} its mean squared error is {linear['mean']:.4g}, the network's "
        f"{ours['mean']:.4g}. Use --model fc to learn it."
    )


def given_back(given: Mapping[str, Any]) -> str:
    """Return that U had too few directions for the validation tasks, and what restoring them gained."""
    how = (
        "as plain weights"
        if given["strength"] == 1
        else f"with {given['strength']:g} of the largest strength"
    )
    few, many = (
        f"from {given[f'before{which}']:.4g} to {given[f'after{which}']:.4g}" for which in ("", "_train")
    )
    return (
        "U lacked directions that the tasks need: they were pruned, or training did not show them. They were "
        f"restored {how}. The validation error changes {few} (from {given['support']} support examples) and {many} "
        f"(from {given['train_support']})."
    )


def _side(result: Mapping[str, Any], ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """Return which of two scores from the same number of examples is significantly better."""
    low = result["metric"] == "mse"
    if None in (ours["mean"], theirs["mean"]):  # a score that is not finite
        return "same"
    exact = EXACT * float(result.get("mean_prediction") or 0.0)
    if low and max(ours["mean"], theirs["mean"]) <= exact:
        return "exact"
    gain, error = _gain(ours, theirs)
    if not low:
        gain = -gain
    if not math.isfinite(gain) or not math.isfinite(error) or abs(gain) <= error:
        return "same"
    return "better" if gain > 0 else "worse"


def _gain(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[float, float]:
    """Return how much lower ours is, and the half-width of its 95 % interval."""
    a, b = ours.get("per_task"), theirs.get("per_task")
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b) > 1 and None not in (*a, *b):
        difference = np.asarray(b, dtype=np.float64) - np.asarray(a, dtype=np.float64)
        spread = float(difference.std(ddof=1)) / math.sqrt(len(difference))
        return float(difference.mean()), float(stdtrit(len(difference) - 1, _SURE)) * spread
    if None in (ours["ci95"], theirs["ci95"]):
        return math.nan, math.nan
    return theirs["mean"] - ours["mean"], ours["ci95"] + theirs["ci95"]


def _counts(counts: Sequence[int]) -> str:
    words = [str(count) for count in sorted(counts)]
    return "".join(words) if len(words) < 2 else f"{', '.join(words[:-1])} and {words[-1]}"


def _s(counts: Sequence[int]) -> str:
    return "" if list(counts) == [1] else "s"
