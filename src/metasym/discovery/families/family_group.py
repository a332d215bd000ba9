"""Finite symmetries that the functions of a family of tasks share: ``f_t(g x) = g' f_t(x)`` for every task t.

The best linear map of each task is equivariant wherever the task is, whatever else the task does, so that entries
that a symmetry ties are tied in all maps. Those ties give the group; functions fitted without it then judge it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc

from metasym.certification.beta import Beta, beta
from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.families.common_violation import shared_breaking
from metasym.discovery.families.tie_violation import ROUNDING, Shared, linear_maps, shared_violation
from metasym.discovery.models.gaussian_processes import Hyper, choose, posterior, squares
from metasym.groups.pattern_groups import pattern_group
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.types import MetasymError

CERTIFIED = 0.35
"""The part of the tasks that takes no part in the search."""
TIED = 6.0
"""Mean squares of entries, or of differences, in units of their noise, that may be none: 1 but for chance
and for what a linear map leaves, which depends on x."""
DEAD = 3.0
"""Entries below this are zero; between both it is unclear."""
GAP = 3.0
"""How many times larger the smallest difference that is none must be than the largest that is."""
MOST_ELEMENTS = 256
MOST_ENTRIES = 1500
SHARED = 0.001
"""The largest violation that all tasks share, as a part of their linear maps' power, with which one is named."""
COMMON = 0.002
"""The same as a part of the variance, where a polynomial shows it."""
VIOLATION = 0.01
"""The largest violation along what fitted functions add, as a part of the variance."""
LAW = 1e-3
"""Means that differ by less likely a chance than this are those of inputs with different laws."""

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FamilyClaim:
    """A finite group that all tasks of a family keep."""

    name: str
    order: int
    generators: tuple[SignedPermutation, ...]
    beta: Beta
    shared: Shared
    common: Beta
    """That of a function which all tasks share."""

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for ``result.json``."""
        return {
            "kind": "finite",
            "name": self.name,
            "order": self.order,
            "inputs": sorted({i for g in self.generators for i, p in enumerate(g.inputs) if i != p}),
            "generators": [g.as_dict() for g in self.generators],
            "violation_upper": max(self.beta.violation_upper, self.shared.upper, self.common.violation_upper),
            "beta": self.beta.value,
            "beta_ci": [self.beta.low, self.beta.high],
        }


@dataclass(frozen=True, eq=False)
class TaskModel:
    """How a function is fitted to one task: a kernel, its noise, and units for x and y that all tasks share."""

    hyper: Hyper
    centre: Array
    scale: float
    unit: float

    def scaled(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Examples in these units."""
        return (x - self.centre) / self.scale, y / self.unit

    def about(self, generators: tuple[SignedPermutation, ...]) -> TaskModel:
        """The same about the nearest point that a group keeps.

        About any other point a permutation of scaled inputs is none of the inputs themselves: it moves them, too, by
        the differences of the centre's own coordinates.
        """
        return replace(self, centre=SignedGroup(generators, generators[0].shape).average_inputs(self.centre))


def keeps_law(x: Array, generators: tuple[SignedPermutation, ...]) -> bool:
    """Whether the group keeps the means and mean squares of ``x [tasks, examples, n]`` up to chance.

    Elsewhere fitted functions are asked where no example is: what they say there refutes nothing.
    """
    group = SignedGroup(generators, generators[0].shape)
    for power, signed in ((x, True), (x**2, False)):
        each = power.mean(1)  # a task's inputs may depend on each other
        apart = each - (group if signed else group.unsigned).average_inputs(each)
        error = apart.std(0, ddof=1) / len(each) ** 0.5
        far = np.abs(apart.mean(0)) > ROUNDING * np.sqrt((x**2).mean()) ** (1 if signed else 2)
        score = np.where(far, apart.mean(0) / np.maximum(error, 1e-300), 0.0)
        if chdtrc(x.shape[2], float((score**2).sum())) < LAW:
            return False
    return True


def task_model(x: Array, y: Array, seed: int) -> TaskModel:
    """The kernel of the median of some tasks ``x [tasks, examples, n]``, ``y [tasks, examples, m]``."""
    n = x.shape[2]
    model = TaskModel(Hyper(None, 0.0, 0.0), x.mean((0, 1)), float(x.std()), float(y.std()))
    spread = y.std(1).max(1)
    some = np.flatnonzero(spread > ROUNDING * spread.max())[
        :8
    ]  # constant outputs would choose no noise, no kernel
    if not len(some):
        raise MetasymError("expected outputs y that vary inside tasks, found constants in every task")
    scaled_x, scaled_y = model.scaled(x[some], y[some])
    draw = np.random.default_rng([seed, 13])
    start = squares(n, 0.5, n**0.5, 0.5 / n**2)
    chosen = [choose(a, b - b.mean(0), [start], 0.05, draw) for a, b in zip(scaled_x, scaled_y, strict=True)]
    middle = sorted(chosen, key=lambda h: h.noise)[len(chosen) // 2]
    return TaskModel(middle, model.centre, model.scale, model.unit)


def split_tasks_of(tasks: int, seed: int) -> tuple[Labels, Labels]:
    """Which tasks are searched, and which judge what was found."""
    order = np.random.default_rng([seed, 11]).permutation(tasks)
    held = max(4, round(CERTIFIED * tasks))
    return order[held:], order[:held]


def family_symmetry(
    x: Array, y: Array, model: TaskModel, seed: int, note: Callable[[str], None] = lambda _: None
) -> tuple[FamilyClaim | None, str]:
    """The group of ``x [tasks, examples, n]``, ``y [tasks, examples, m]``, or None; and the reason in words."""
    tasks, examples, n = x.shape
    m = y.shape[2]
    if examples < n + 4:
        return None, f"expected at least {n + 4} examples a task for {n} inputs, found {examples}"
    if m * n > MOST_ENTRIES:
        return None, f"expected at most {MOST_ENTRIES} entries of a linear map, found {m} x {n}"
    find, fresh = split_tasks_of(tasks, seed)
    classes, reason = tied_entries(x[find], y[find])
    if classes is None:
        return None, reason
    group = pattern_group(classes)
    if not group.generators:
        return None, "the ties between entries of the tasks' linear maps are kept by no permutation"
    name, size, generators = group.name, group.order, group.generators
    note(f"ties between entries are kept by {name}, of order {size}; certifying")
    # All tasks: what was searched can only make this stricter, and a small gain by position shows in many alone.
    shared = shared_violation(x, y, generators, np.random.default_rng([seed, 14]))
    judged = judge_functions(
        x[fresh], y[fresh], group_elements(generators, seed), model.about(generators), seed
    )
    found = judged.beta
    common = shared_breaking(
        judged.x,
        judged.left,
        group_elements(generators, seed),
        judged.spread,
        np.random.default_rng([seed, 16]),
    )
    if shared.refutes or shared.upper > SHARED:
        return None, (
            f"{name} cannot be told from a near symmetry: entries of the tasks' linear maps differ, in all tasks "
            f"alike, by {shared.value:.2g} of their power, at most {shared.upper:.2g} (named up to {SHARED:g})"
        )
    interval = f"beta {found.value:.2g} ({found.low:.2g} to {found.high:.2g})"
    if found.refutes and not keeps_law(x, generators):
        return None, (
            f"{name} cannot be decided: it takes inputs to where there are none, since their means or sizes differ"
        )
    if found.refutes:
        return None, f"{name} is refuted by functions fitted to fresh tasks: {interval}"
    if found.violation_upper > VIOLATION:
        return None, (
            f"{name} cannot be told from a near symmetry: {interval} allows a violation of "
            f"{found.violation_upper:.2g} of the variance (named up to {VIOLATION:g})"
        )
    if common.violation_upper > COMMON:
        return None, (
            f"{name} cannot be told from a near symmetry: what all tasks share allows a violation of "
            f"{common.violation_upper:.2g} of the variance (named up to {COMMON:g})"
        )
    return FamilyClaim(name, size, generators, found, shared, common), f"{name} is kept"


def tied_entries(x: Array, y: Array) -> tuple[Labels | None, str]:
    """Which entries of the tasks' linear maps are tied in all tasks: ``[m, n]`` labels, opposite ones negative."""
    maps, noise = linear_maps(x, y)
    tasks, m, n = maps.shape
    flat, level = maps.reshape(tasks, m * n), noise.reshape(tasks, m * n)
    strength = (flat**2 / level).mean(0)
    if ((strength > DEAD) & (strength < TIED)).any():
        return None, "it is unclear which entries of the tasks' linear maps are zero"
    zero = strength <= DEAD
    equal, opposite = np.empty((m * n, m * n)), np.empty((m * n, m * n))
    for i in range(m * n):  # every task counts alike: differences in units of its own noise
        both = level[:, i : i + 1] + level
        equal[i] = ((flat[:, i : i + 1] - flat) ** 2 / both).mean(0)
        opposite[i] = ((flat[:, i : i + 1] + flat) ** 2 / both).mean(0)
    near = np.minimum(equal, opposite)
    pairs = near[np.triu_indices(m * n, 1)][~(zero[:, None] | zero[None, :])[np.triu_indices(m * n, 1)]]
    if not len(pairs):
        return None, "the tasks have no linear part to read"
    cut = _cut(pairs)
    if cut is None:
        return None, "no gap separates entries that are tied in all tasks from others"
    close = (near < cut) & ~zero[:, None] & ~zero[None, :]
    labels = np.zeros(m * n, dtype=np.int64)
    number = 0
    for i in range(m * n):
        if zero[i] or labels[i]:
            continue
        members = np.flatnonzero(close[i] | (np.arange(m * n) == i))
        if any(labels[j] for j in members) or not _clique(close, members):
            return None, "ties between entries of the tasks' linear maps do not form classes"
        number += 1
        for j in members:
            labels[j] = number if j == i or equal[i, j] <= opposite[i, j] else -number
    return labels.reshape(m, n), ""


def _clique(close: npt.NDArray[np.bool_], members: Labels) -> bool:
    inside = close[np.ix_(members, members)] | np.eye(len(members), dtype=bool)
    return bool(inside.all()) and int(close[members].sum()) == int(close[np.ix_(members, members)].sum())


def _cut(pairs: Array) -> float | None:
    """Between differences that are noise and those that are not: in the middle of the largest gap near 1."""
    ordered = np.sort(pairs)
    if ordered[0] > TIED or ordered[-1] < TIED:
        return None
    last = int((ordered < TIED).sum())
    ratios = ordered[1 : last + 1] / np.maximum(ordered[:last], 1.0)
    best = int(np.argmax(ratios))
    if ratios[best] < GAP:
        return None
    return float(np.sqrt(ordered[best] * ordered[best + 1]))


def group_elements(generators: tuple[SignedPermutation, ...], seed: int) -> tuple[SignedPermutation, ...]:
    """All elements of the group, or random ones where it is large; the identity first."""
    group = SignedGroup(generators, generators[0].shape)
    return group.some_elements(MOST_ELEMENTS, np.random.default_rng([seed, 12]))


@dataclass(frozen=True, eq=False)
class Judged:
    """Functions fitted to some examples of each fresh task, judged on its others."""

    beta: Beta
    plain: Array
    """``[tasks]``: the mean squared error of the functions, in units of y."""
    averaged: Array
    """``[tasks]``: that of their averages over the group."""
    variance: float
    x: Array
    """``[tasks, examples, n]``, scaled."""
    left: Array
    """``[tasks, examples, m]``: what the averages leave, scaled."""
    spread: float
    """The variance of one example over all outputs, scaled."""


def judge_functions(
    x: Array, y: Array, elements: Sequence[SignedPermutation], model: TaskModel, seed: int, folds: int = 4
) -> Judged:
    """Beta over fresh tasks, and what averaging over the group does to the error."""
    tasks, examples, _ = x.shape
    x, y = model.scaled(x, y)
    draw = np.random.default_rng([seed, 15])
    left, breaking = np.zeros_like(y), np.zeros_like(y)
    for t in range(tasks):
        for part in np.array_split(draw.permutation(examples), folds):
            kept = np.setdiff1d(np.arange(examples), part)
            fit = posterior(model.hyper, x[t, kept], y[t, kept])
            plain = fit(x[t, part])
            average = np.zeros_like(plain)
            for g in elements:
                average += g.inverse.on_outputs(fit(g.on_inputs(x[t, part]))) / len(elements)
            left[t, part], breaking[t, part] = y[t, part] - average, plain - average
    variance = float(((y - y.mean(1, keepdims=True)) ** 2).sum(2).mean())
    found = beta(left.reshape(tasks, -1), breaking.reshape(tasks, -1), variance * examples)
    square = model.unit**2
    return Judged(
        found,
        ((left - breaking) ** 2).mean((1, 2)) * square,
        (left**2).mean((1, 2)) * square,
        variance / y.shape[2] * square,
        x,
        left,
        variance,
    )
