"""Finite symmetries that the functions of a family of tasks share: ``f_t(g x) = g' f_t(x)`` for every task t.

The best linear map of each task is equivariant wherever the task is, whatever else the task does, so that entries
that a symmetry ties are tied in all maps. Those ties give the group; functions fitted without it then judge it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import chdtrc

from metasym.certification.beta import Beta, beta
from metasym.certification.judge import judge_tasks
from metasym.diagnosis.linear_part import fit_tasks
from metasym.diagnosis.samples import Samples
from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.beta_reasons import against
from metasym.discovery.claim_thresholds import FAMILIES, TOLERANCE
from metasym.discovery.families.common_violation import shared_breaking
from metasym.discovery.families.tie_violation import ROUNDING, linear_maps, shared_violation
from metasym.discovery.models.gaussian_processes import Hyper, choose_kernel, posterior, squares
from metasym.groups.pattern_groups import pattern_group
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.types import MetasymError
from metasym.verdicts.claims import Claim
from metasym.verdicts.defects import defect_of, share_of
from metasym.verdicts.discovery_reasons import AnyDiscoveryReason
from metasym.verdicts.family_reasons import (
    CommonAllows,
    InputsElsewhere,
    JudgesDiffer,
    MapsAllow,
    MapTooLarge,
    NoGapInTies,
    NoLinearPart,
    NoPermutationOfTies,
    RefutedByTasks,
    TasksAllow,
    TiesDiffer,
    TiesNotClasses,
    TooFewExamples,
    ZerosUnclear,
)
from metasym.verdicts.reports import FoundGroup
from metasym.verdicts.verdict import Reason

MOST_ELEMENTS = 256
"""Elements that a larger group is represented by."""
MOST_ENTRIES = 1500
"""Entries of a linear map up to which ties are searched for: the cost grows with their square."""

Labels = npt.NDArray[np.int64]


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
        if chdtrc(x.shape[2], float((score**2).sum())) < FAMILIES.same_law:
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
        raise MetasymError(
            "expected outputs y that vary inside tasks, found constants in every task",
            about="y",
            found="constants",
        )
    scaled_x, scaled_y = model.scaled(x[some], y[some])
    draw = np.random.default_rng([seed, 13])
    start = squares(n, 0.5, n**0.5, 0.5 / n**2)
    chosen = [
        choose_kernel(a, b - b.mean(0), [start], 0.05, draw) for a, b in zip(scaled_x, scaled_y, strict=True)
    ]
    middle = sorted(chosen, key=lambda h: h.noise)[len(chosen) // 2]
    return TaskModel(middle, model.centre, model.scale, model.unit)


def split_tasks_of(tasks: int, seed: int) -> tuple[Labels, Labels]:
    """Which tasks are searched, and which judge what was found."""
    order = np.random.default_rng([seed, 11]).permutation(tasks)
    held = max(4, round(FAMILIES.held_out * tasks))
    return order[held:], order[:held]


def family_symmetry(
    x: Array,
    y: Array,
    model: TaskModel,
    seed: int,
    note: Callable[[str], None] = lambda _: None,
    tolerance: float = TOLERANCE,
) -> Claim | AnyDiscoveryReason:
    """The claim of ``x [tasks, examples, n]``, ``y [tasks, examples, m]``; or why there is none.

    ``tolerance`` is the largest violation with which a symmetry is named, as a share of the variance.
    """
    tasks, examples, n = x.shape
    m = y.shape[2]
    if examples < n + 4:
        return TooFewExamples(n + 4, n, examples)
    if m * n > MOST_ENTRIES:
        return MapTooLarge(MOST_ENTRIES, m, n)
    find, fresh = split_tasks_of(tasks, seed)
    classes = tied_entries(x[find], y[find])
    if isinstance(classes, Reason):
        return classes
    group = pattern_group(classes)
    if not group.generators:
        return NoPermutationOfTies()
    note(f"{group.name}, of order {group.order}, preserves the ties between entries; certifying")
    return judged_group(x, y, group, model, seed, fresh, tolerance)


def judged_group(
    x: Array,
    y: Array,
    group: SignedGroup | FoundGroup,
    model: TaskModel,
    seed: int,
    fresh: Labels,
    tolerance: float = TOLERANCE,
) -> Claim | AnyDiscoveryReason:
    """The claim that the tasks have a group, or why not; the tasks ``fresh`` are held out.

    Linear tasks are judged as ``learn`` judges them. Functions fitted to the tasks judge what is not linear.
    """
    name, generators = group.name, group.generators
    wider, linear = tolerance / TOLERANCE, _linear(x, y)
    maps = (
        _linear_maps_allow(x, y, name, generators, fresh, tolerance)
        if linear
        else _ties_allow(x, y, name, generators, seed, wider)
    )
    if isinstance(maps, Reason):
        return maps
    elements = group_elements(generators, seed)
    judged = judge_functions(x[fresh], y[fresh], elements, model.about(generators), seed)
    found = judged.beta
    interval = found.value, found.low, found.high
    if found.contradicts and not keeps_law(x, generators):
        return InputsElsewhere(name)
    if found.contradicts and linear:
        return JudgesDiffer(name, *interval, defect_of(maps))
    if found.contradicts:
        return against(name, found, "tasks")
    if found.violation_upper > FAMILIES.violation * wider:
        return TasksAllow(name, *interval, found.violation_upper, FAMILIES.violation * wider)
    common = shared_breaking(
        judged.x, judged.left, elements, judged.spread, np.random.default_rng([seed, 16])
    )
    if common.violation_upper > FAMILIES.common * wider:
        return CommonAllows(name, common.violation_upper, FAMILIES.common * wider)
    return Claim.of_group(
        name,
        group.order,
        generators,
        violation_upper=max(found.violation_upper, maps, common.violation_upper),
        beta=found.value,
        beta_ci=(found.low, found.high),
        tested_on=len(fresh),
    )


def _linear_maps_allow(
    x: Array, y: Array, name: str, generators: tuple[SignedPermutation, ...], fresh: Labels, tolerance: float
) -> float | RefutedByTasks | MapsAllow:
    """The violation that the linear maps of all tasks allow, by the judge of ``learn``; or why that is too much."""
    largest = defect_of(tolerance)
    held = torch.zeros(len(x), dtype=torch.bool)
    held[torch.from_numpy(fresh)] = True
    inputs, outputs = list(torch.from_numpy(x)), list(torch.from_numpy(y))
    found = judge_tasks(generators, inputs, outputs, held, tolerance=largest)
    upper = found.bound if np.isfinite(found.bound) else None
    if found.refuted:
        return RefutedByTasks(name, found.defect, upper)
    if upper is None or upper > largest:
        return MapsAllow(name, found.defect, upper, largest)
    return share_of(upper)


def _ties_allow(
    x: Array, y: Array, name: str, generators: tuple[SignedPermutation, ...], seed: int, wider: float
) -> float | TiesDiffer:
    """The same of tasks that are not linear: what is not in their linear maps is no noise, and bounds nothing.

    All tasks: what was searched can only make this stricter, and a small gain by position shows in many alone.
    """
    shared = shared_violation(x, y, generators, np.random.default_rng([seed, 14]))
    if shared.refutes or shared.upper > FAMILIES.ties_differ * wider:
        upper = shared.upper if np.isfinite(shared.upper) else None
        return TiesDiffer(name, shared.value, upper, FAMILIES.ties_differ * wider)
    return shared.upper


def _linear(x: Array, y: Array) -> bool:
    """Whether the tasks show no bend: ``learn`` takes such tasks for linear."""
    tasks, examples, _ = x.shape
    samples = Samples(x, y, np.ones((tasks, examples), dtype=bool), np.arange(tasks))
    return fit_tasks(samples, np.ones(1)).bend == 0


def tied_entries(x: Array, y: Array) -> Labels | ZerosUnclear | NoLinearPart | NoGapInTies | TiesNotClasses:
    """Which entries of the tasks' linear maps are tied in all tasks: ``[m, n]`` labels, opposite ones negative."""
    maps, noise = linear_maps(x, y)
    tasks, m, n = maps.shape
    flat, level = maps.reshape(tasks, m * n), noise.reshape(tasks, m * n)
    strength = (flat**2 / level).mean(0)
    if ((strength > FAMILIES.zero) & (strength < FAMILIES.tied)).any():
        return ZerosUnclear()
    zero = strength <= FAMILIES.zero
    equal, opposite = np.empty((m * n, m * n)), np.empty((m * n, m * n))
    for i in range(m * n):  # every task counts alike: differences in units of its own noise
        both = level[:, i : i + 1] + level
        equal[i] = ((flat[:, i : i + 1] - flat) ** 2 / both).mean(0)
        opposite[i] = ((flat[:, i : i + 1] + flat) ** 2 / both).mean(0)
    near = np.minimum(equal, opposite)
    pairs = near[np.triu_indices(m * n, 1)][~(zero[:, None] | zero[None, :])[np.triu_indices(m * n, 1)]]
    if not len(pairs):
        return NoLinearPart()
    cut = _cut(pairs)
    if cut is None:
        return NoGapInTies()
    close = (near < cut) & ~zero[:, None] & ~zero[None, :]
    labels = np.zeros(m * n, dtype=np.int64)
    number = 0
    for i in range(m * n):
        if zero[i] or labels[i]:
            continue
        members = np.flatnonzero(close[i] | (np.arange(m * n) == i))
        if any(labels[j] for j in members) or not _clique(close, members):
            return TiesNotClasses()
        number += 1
        for j in members:
            labels[j] = number if j == i or equal[i, j] <= opposite[i, j] else -number
    return labels.reshape(m, n)


def _clique(close: npt.NDArray[np.bool_], members: Labels) -> bool:
    inside = close[np.ix_(members, members)] | np.eye(len(members), dtype=bool)
    return bool(inside.all()) and int(close[members].sum()) == int(close[np.ix_(members, members)].sum())


def _cut(pairs: Array) -> float | None:
    """Between differences that are noise and those that are not: in the middle of the largest gap near 1."""
    ordered = np.sort(pairs)
    if ordered[0] > FAMILIES.tied or ordered[-1] < FAMILIES.tied:
        return None
    last = int((ordered < FAMILIES.tied).sum())
    ratios = ordered[1 : last + 1] / np.maximum(ordered[:last], 1.0)
    best = int(np.argmax(ratios))
    if ratios[best] < FAMILIES.gap:
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
