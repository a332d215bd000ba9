"""The scores of single tasks as one score, with its interval."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import stdtrit

from metasym.types import Score


def summarise(values: np.ndarray[Any, np.dtype[np.float64]], metric: str = "loss") -> Score:
    """The Score of per-task ``values [tasks]``; the median counts NaN as infinite."""
    count = len(values)
    with np.errstate(invalid="ignore", over="ignore"):
        mean = float(values.mean())
        spread = float(values.std(ddof=1)) if count > 1 else math.nan
    return Score(
        per_task=tuple(float(v) for v in values),
        mean=mean,
        ci95=float(stdtrit(count - 1, 0.975)) * spread / math.sqrt(count),
        median=float(np.median(np.where(np.isnan(values), np.inf, values))),
        metric=metric,
        diverged=int((~np.isfinite(values)).sum()),
    )
