"""Findings about the tasks as a family: how many there are, whether they differ, which are unlike all others."""

from __future__ import annotations

import math

import numpy as np

from metasym.diagnosis.findings import CAUTION, NOTE, Finding
from metasym.diagnosis.linear_part import LinearPart
from metasym.diagnosis.samples import Floats, Ints, Samples
from metasym.tasks.plain_facts import Array
from metasym.tasks.task_file import TaskFile, parts, present

_FEW = 100
_FAR = 8.0
"""How many robust standard deviations above the median, on a logarithmic scale, a task is an outlier."""
_LEAST_SPREAD = 0.1
"""The least that the logarithm of tasks' sizes is taken to vary by: 10 %."""
_MOST_OUTLIERS = 0.1
_ALIKE, _NOISE = 1e-4, 0.05
"""Tasks are one map, or its multiples, if that leaves no more than this part of y, and of its noise, besides it."""
_ROUNDS = 30


def few_tasks(file: TaskFile) -> list[Finding]:
    """A word where there are so few tasks that much of what they share is left to chance."""
    if file.tasks >= _FEW:
        return []
    weights = ""
    if file.x.ndim == 3 and not file.classes:
        weights = f" of the {file.x.shape[2]} x {math.prod(file.y.shape[2:])} weights"
    return [
        Finding(
            "few_tasks",
            NOTE,
            f"There are only {file.tasks} tasks. A symmetry that leaves few weights free can still be found, but "
            f"directions{weights} in which these tasks do not differ stay unknown",
            {"tasks": file.tasks},
        )
    ]


def outlying_tasks(file: TaskFile) -> tuple[list[Finding], tuple[int, ...]]:
    """Tasks whose inputs or outputs are far larger than those of all others."""
    ids = sorted({index for array in (file.x, file.y) for index in _far(sizes(array, file.counts))})
    if not ids or len(ids) > _MOST_OUTLIERS * file.tasks:
        return [], ()
    shown = ", ".join(file.name_of_task(i).removeprefix("task ") for i in ids[:6])
    more = f" and {len(ids) - 6} more" if len(ids) > 6 else ""
    return [
        Finding(
            "outlying_tasks",
            CAUTION,
            f"{len(ids)} of {file.tasks} tasks {'is' if len(ids) == 1 else 'are'} far larger than all "
            "others (task"
            f"{'s' if len(ids) > 1 else ''} {shown}{more}): excluded from training and validation, kept in the test",
            {"tasks": ids},
        )
    ], tuple(ids)


def sizes(array: Array, counts: Ints) -> Floats:
    """``[tasks]``: the root mean square of the numbers of each task around its own mean."""
    found = []
    for first, part in parts(array):
        values = part.reshape(*part.shape[:2], -1).astype(np.float64)
        there = present(counts, first, part)[..., None]
        count = counts[first : first + len(part), None, None]
        mean = (values * there).sum(1, keepdims=True) / count
        squares = (((values - mean) * there) ** 2).sum(1) / count[:, 0]
        found.append(np.sqrt(squares.mean(1)))
    return np.concatenate(found)


def _far(size: Floats) -> list[int]:
    """Which of ``size [tasks]`` are far above the others, on a logarithmic scale."""
    positive = size > 0
    if not positive.any():
        return []
    logs = np.full(len(size), -np.inf)
    logs[positive] = np.log(size[positive])
    middle = float(np.median(logs[positive]))
    spread = max(_LEAST_SPREAD, 1.4826 * float(np.median(np.abs(logs[positive] - middle))))
    return [int(i) for i in np.flatnonzero(logs > middle + _FAR * spread)]


def tasks_alike(samples: Samples, part: LinearPart, scales: Floats) -> list[Finding]:
    """Tasks that are all one map, or multiples of one map: nothing differs that a symmetry could be read from."""
    if len(samples.ids) < 2 or part.variance == 0:
        return []
    x = samples.within("x")
    y = samples.y / scales
    y = (y - y.sum(1, keepdims=True) / samples.counts[:, None, None]) * samples.there[..., None]
    total, noise = float((y**2).sum()), part.unexplained or 0.0
    grams, cross = x.transpose(0, 2, 1) @ x, x.transpose(0, 2, 1) @ y
    ones = np.ones(len(x))
    common = _left(x, y, ones, _shared(grams, cross, ones)) / total
    if common - noise <= _ALIKE + _NOISE * noise:
        return [
            Finding(
                "tasks_alike",
                CAUTION,
                "All tasks are the same map. A symmetry that is found is one of this map; these tasks do not show "
                "which symmetries other tasks would have",
                {"left": common, "noise": noise},
            )
        ]
    factors = _leading(grams, cross)
    for _ in range(_ROUNDS):
        W = _shared(grams, cross, factors)
        fitted = x @ W
        norm = (fitted**2).sum((1, 2))
        factors = (fitted * y).sum((1, 2)) / np.where(norm > 0, norm, np.inf)
    multiples = _left(x, y, factors, _shared(grams, cross, factors)) / total
    if multiples - noise <= _ALIKE + _NOISE * noise:
        return [
            Finding(
                "tasks_multiples",
                CAUTION,
                "All tasks are multiples of one map. A symmetry that is found is one of this map; these tasks do not "
                "show which symmetries other tasks would have",
                {"left": multiples, "noise": noise},
            )
        ]
    return []


def _shared(grams: Floats, cross: Floats, factors: Floats) -> Floats:
    """The map W ``[inputs, outputs]`` with which ``factors[t] * W`` fits all tasks best."""
    gram = np.tensordot(factors**2, grams, 1)
    found: Floats = np.linalg.lstsq(gram, np.tensordot(factors, cross, 1), rcond=1e-12)[0]
    return found


def _leading(grams: Floats, cross: Floats) -> Floats:
    """Each task's factor in the one map that explains most, as a start."""
    pooled = np.linalg.pinv(grams.sum(0), rcond=1e-10, hermitian=True)
    flat = (pooled @ cross).reshape(len(cross), -1)
    if len(flat) <= flat.shape[1]:
        found: Floats = np.linalg.eigh(flat @ flat.T)[1][:, -1]
    else:
        found = flat @ np.linalg.eigh(flat.T @ flat)[1][:, -1]
    found /= math.sqrt(float((found**2).mean()))
    return found


def _left(x: Floats, y: Floats, factors: Floats, W: Floats) -> float:
    return float(((y - factors[:, None, None] * (x @ W)) ** 2).sum())
