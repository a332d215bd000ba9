"""A symmetry tested on held-out tasks: refuted or not, and the largest defect that they still allow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from metasym.certification.all_tasks import (
    AllTasks,
    differing_tasks,
    group_form,
    mean_square,
)
from metasym.certification.bounds import Forbidden, Limit, Noise, forbidden, noise_of
from metasym.certification.breaking import what_breaks
from metasym.certification.certificate_thresholds import BREAKING, FILE, LIMITS, NEGLIGIBLE_DEFECT, TOLERANCE
from metasym.certification.own_weights import OwnWeights
from metasym.evidence.statistics import TaskStatistics
from metasym.groups.signed_groups import WeightOrbits, weight_orbits
from metasym.groups.signed_permutations import SignedPermutation
from metasym.verdicts.reports import Breaking


@dataclass(frozen=True)
class Certificate:
    """What fresh tasks say about a group of signed permutations of outputs and inputs."""

    defect: float
    """``|W - g W| / |W|``, root mean square over tasks, of the generator g with the largest; noise subtracted."""
    defect_upper: float
    """What it is at most, at 95 %; infinite where the inputs do not tell."""
    class_defect: float
    """The same with every class of tied weights counted by its own size: weak weights count as strong ones do."""
    class_defect_upper: float
    refuted: bool
    """Whether held-out tasks rule the symmetry out, at 98 %; those that differ from all others do not count."""
    tasks: int
    """How many tasks this rests on."""
    differing: tuple[int, ...] = ()
    """The tasks of the file that contradict the group where the others do not."""
    visible: float | None = None
    """The defect from which a single task would be among them; None where single tasks do not tell."""
    share_upper: float | None = None
    """The largest share of further tasks with a larger defect than ``visible``, at 95 %."""
    faint: tuple[int, ...] = ()
    """Weights (numbers of entries) that are too faint for their classes to be known by their own size."""
    breaking: Breaking | None = None
    """What carries the defect of the tasks that do not differ."""
    common: Breaking | None = None
    """What carries the defect of those that do."""
    negative: float = 0.0
    """How far below 0 the square is without its noise, in standard errors; 0 where that is negligible.

    Beyond a few the noise is not as assumed."""

    def within(self, tolerance: float) -> bool:
        """Whether the group is certified: not refuted, and no larger defect than the tolerance allowed."""
        return not self.refuted and max(self.defect_upper, self.class_defect_upper) <= tolerance

    @property
    def bound(self) -> float:
        """The larger of both upper limits: what the tolerance is compared with."""
        return max(self.defect_upper, self.class_defect_upper)

    def as_dict(self) -> dict[str, Any]:
        """Plain types; a bound that does not exist is None."""
        return {
            k: v if not isinstance(v, float) or math.isfinite(v) else None for k, v in asdict(self).items()
        }


def certify(
    tasks: TaskStatistics,
    generators: Sequence[SignedPermutation],
    *,
    power: Tensor | None = None,
    noise: float | Noise = 0.0,
    quick: bool = False,
    alone: bool = True,
) -> Certificate:
    """Test the group that ``generators`` generate on ``tasks`` that were not used to find it.

    ``power [m, n]`` is the mean square of every weight as learned from other tasks (default: these tasks' own).
    ``noise`` is the outputs' noise variance where tasks have too few examples to estimate it themselves, or as
    :func:`~metasym.certification.bounds.noise_of` has measured it.
    ``quick`` leaves the generators' own defects out and looks at the tasks' own weights where these are known;
    ``alone=False`` only leaves them out: whether the group is refuted does not depend on them.
    """
    shape = (tasks.outputs, tasks.inputs)
    if power is None:
        power = _power(tasks)
    flat = power.reshape(-1).double().clamp_min(0)
    variance = noise if isinstance(noise, Noise) else noise_of(tasks, noise)
    together = weight_orbits(tuple(generators), shape)
    ones = torch.ones_like(flat)
    total = float(flat.sum())
    if total == 0 or len(tasks) == 0:
        return Certificate(0.0, math.inf, 0.0, math.inf, False, len(tasks))
    whole = forbidden(tasks, together, ones, variance, quick=quick).limit()
    scale = class_scale(flat, together)
    counted = float(((together.sizes[together.labels] > 1) | (together.signs == 0)).sum())
    by_class = forbidden(tasks, together, scale, variance, quick=quick).limit()
    refuted = _refuted(whole, total / 2) or _refuted(by_class, max(1.0, counted) / 2)
    pairs = []
    known = tasks.spanning & (tasks.counts > tasks.inputs)
    alone = alone and not quick
    if alone and int(known.sum()) >= LIMITS.enough_tasks * len(tasks):
        pairs = [
            _relative(forbidden(tasks, weight_orbits((g,), shape), ones, variance, g).limit(), total)
            for g in generators
        ]
    elif alone:  # one generator alone leaves more weights free than the whole group: 1 - g at most doubles
        pairs = [_relative(whole, total / 4)]
    # Over all elements of the group |w - g w|^2 is on average twice the square of what the group forbids.
    pairs.append(_relative(whole, total / 2))
    classes = _relative(by_class, max(1.0, counted) / 2)
    return Certificate(
        max(p[0] for p in pairs), max(p[1] for p in pairs), *classes, refuted=refuted, tasks=len(tasks)
    )


def certify_all(
    tasks: AllTasks, generators: Sequence[SignedPermutation], *, tolerance: float = TOLERANCE
) -> Certificate:
    """Hold a group against all tasks of a file, those held out and those that it was found on.

    The upper limits are about all tasks; whether the group is refuted, held-out tasks that do not differ decide.
    """
    own, shape = tasks.own, tasks.own.shape
    orbits = weight_orbits(tuple(generators), shape)
    power = own.power
    total = float(power.sum())
    if total == 0:
        return Certificate(0.0, math.inf, 0.0, math.inf, False, len(own))
    projection = orbits.average(torch.eye(len(power), dtype=torch.float64))
    form = group_form(projection)
    differing = differing_tasks(tasks, form, total)
    there = differing.there
    by_class, faint = _known_classes(tasks, orbits, projection, power, there, tolerance)
    measures = [
        mean_square(tasks, one, there) for one in (form, *(_element_form(g, shape) for g in generators))
    ]
    classes = mean_square(tasks, by_class, there)
    held = tasks.fresh & ~there & tasks.firsts
    known = own[held]
    refuted = differing.many or any(
        _fresh_refutes(known, one, unit) for one, unit in ((form, total), (by_class, 1.0))
    )
    rest = own[~there]
    usual = rest.squares(form)
    spread = float(usual.std()) / math.sqrt(len(usual))
    mean, negligible = float(usual.mean()), NEGLIGIBLE_DEFECT**2 * total
    shows = mean > max(BREAKING.shown * spread, negligible)
    worst = max(measures, key=lambda one: one.upper)
    common = what_breaks(own[there], orbits) if bool(there.any()) else None
    return Certificate(
        math.sqrt(max(0.0, max(one.mean for one in measures)) / total),
        math.sqrt(worst.upper / total),
        math.sqrt(max(0.0, classes.mean)),
        math.sqrt(classes.upper),
        refuted,
        len(own),
        tuple(sorted(tasks.ids[there].tolist())),
        differing.visible,
        None if differing.many else differing.share_upper,
        faint,
        what_breaks(rest, orbits) if shows else None,
        common if common is not None and common.alone else None,
        mean / spread if mean < -negligible and spread > 0 else 0.0,  # else its size is that of rounding
    )


def _element_form(g: SignedPermutation, shape: tuple[int, int]) -> Tensor:
    """The form whose value is ``|w - g w|^2``."""
    size = shape[0] * shape[1]
    moved = g.on_weights(torch.eye(size, dtype=torch.float64).reshape(size, *shape)).flatten(1)
    apart = torch.eye(size, dtype=torch.float64) - moved
    return apart @ apart.T


def _known_classes(
    tasks: AllTasks,
    orbits: WeightOrbits,
    projection: Tensor,
    power: Tensor,
    differing: Tensor,
    tolerance: float,
) -> tuple[Tensor, tuple[int, ...]]:
    """The form in which every class counts by its own size, and the entries of classes too faint to be known so.

    A class is too faint if noise alone would allow it a defect beyond the tolerance. Where more than half of the
    tied weights are, all count.
    """
    scale = class_scale(power, orbits)
    tied = (orbits.sizes[orbits.labels] > 1) | (orbits.signs == 0)
    plain = group_form(projection)
    faint = torch.zeros(orbits.count, dtype=torch.bool)
    usual = tasks.own[~differing]
    left = usual.weights - usual.weights @ projection
    noise = plain / 2 @ usual.covariance
    added = (noise * (plain / 2)).sum(2)
    squares = 2 * (left.square() - added) / scale.square()
    by_class = torch.zeros(len(squares), orbits.count, dtype=torch.float64)
    by_class.index_add_(1, orbits.labels, squares)
    error = by_class.std(0) / math.sqrt(len(squares)) if len(squares) > 1 else by_class[0]
    faint = FILE.unknown_class * error > tolerance**2 * orbits.sizes
    entries = faint[orbits.labels] & tied
    if 2 * int(entries.sum()) > int(tied.sum()):
        entries = torch.zeros_like(entries)
    units = torch.where(entries, 0.0, 1 / scale)
    counted = max(1, int((tied & ~entries).sum()))
    return units[:, None] * plain * units / counted, tuple(torch.nonzero(entries).flatten().tolist())


def _fresh_refutes(own: OwnWeights, form: Tensor, total: float) -> bool:
    """Whether held-out tasks show more of ``w^T Q w`` than noise explains: on average, or most of them."""
    if len(own) < 2:
        return False
    squares, added = own.squares(form), own.added(form)
    found = Forbidden(squares, 0.0, 1.0, added.clamp_min(0)).limit()
    shown = found.mean if found.mostly else found.lower
    return shown > NEGLIGIBLE_DEFECT**2 * total


def class_scale(power: Tensor, group: WeightOrbits) -> Tensor:
    """The root mean square of each weight's class ``[m n]``, of weights with the mean squares ``power [m n]``."""
    sums = torch.zeros(group.count, dtype=torch.float64).index_add_(0, group.labels, power)
    typical = float(power.mean())
    return (sums / group.sizes)[group.labels].clamp_min(FILE.faint**2 * typical).sqrt()


def _relative(limit: Limit, total: float) -> tuple[float, float]:
    return math.sqrt(max(0.0, limit.mean) / total), math.sqrt(max(0.0, limit.upper) / total)


def _refuted(limit: Limit, total: float) -> bool:
    shown = limit.mean if limit.mostly else limit.lower
    return shown > NEGLIGIBLE_DEFECT**2 * total


def _power(tasks: TaskStatistics) -> Tensor:
    """The mean square of every weight from the tasks' own least squares, noise subtracted."""
    inverse = torch.linalg.pinv(tasks.factors, rtol=1e-10)
    own = (inverse @ tasks.targets).mT
    noise = noise_of(tasks, 0.0).variances
    spread = inverse.square().sum(2).mean(0)
    found: Tensor = (own.square().mean(0) - noise[:, None] * spread).clamp_min(0)
    return found
