"""How large the part of the weights can be that a group forbids, from fresh tasks' examples alone.

Write a task's weights as ``w = B c + E e``: B spans what the group allows, E what it forbids. About c nothing is
assumed: it is projected out of the task's equations, which leaves ``h = G e + noise`` with noise of covariance
``s2 G``. An estimate ``(G + lambda)^-1 h`` sees the part ``S = (G + lambda)^-1 G`` of e; its square, less what noise
adds on average, has the mean ``e^T S^2 e``. Averaged over tasks, and divided by the smallest eigenvalue of the mean
of ``S^2``, it is an upper limit of ``E |e|^2`` whatever the directions of e: a direction in which no task's inputs
vary makes the eigenvalue zero and the limit infinite. Where few tasks may carry it all, it is divided by what so few
show at least. With more examples than inputs and lambda = 0 this is least
squares, S = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from scipy.special import bdtrc, chdtri, gammaincinv, stdtrit
from torch import Tensor

from metasym.certification.certificate_thresholds import LIMITS
from metasym.evidence.em import LEAST_NOISE
from metasym.evidence.statistics import SEEN, TaskStatistics
from metasym.groups.signed_groups import WeightOrbits
from metasym.groups.signed_permutations import SignedPermutation

LARGEST_PROJECTED = 300
"""Weights of a layer for which c is projected out task by task; larger ones need tasks that determine their
weights."""
_KEPT, _AT_ONCE = 2**24, 2**20
"""Numbers of tasks' matrices that are kept, 128 MB, and that are made at once; others are made three times."""
_LAMBDAS = (1e-10, 0.1, 0.5, 2.0, 10.0)
"""Of the mean eigenvalue of G. The one is taken that promises the lowest limit if the symmetry holds: that depends
on the inputs alone, so that choosing it costs nothing."""


@dataclass(frozen=True)
class Limit:
    """A mean square over tasks with its interval."""

    mean: float
    lower: float
    """One-sided, at 99 %: what has to be above zero to refute."""
    upper: float
    """One-sided, at 95 %; infinite where some direction is never seen."""
    mostly: bool = False
    """Whether most tasks, each separately, show more than noise explains. Where a few tasks have much more than all
    others, the mean is too uncertain to say so."""


@dataclass(frozen=True, eq=False)
class Seen:
    """The part ``|S u|^2`` that a task shows of directions u, the eigenvectors of the mean of S^2.

    Of weights that all tasks have, the mean over tasks is seen. A few tasks that alone have them may show less.
    """

    mean: Tensor
    """``[d]``, over tasks."""
    variance: Tensor
    """``[d]``, over tasks."""
    tasks: int

    def surely(self, carriers: float) -> float:
        """The part that so many tasks together show of any direction, with a chance of 95 %: that of a gamma law."""
        carriers = min(max(carriers, 1.0), float(self.tasks))
        if carriers == self.tasks:
            return float(self.mean.min())
        shape = (carriers * self.mean.square() / self.variance.clamp_min(1e-12)).clamp_max(1e9)
        quantile = torch.from_numpy(gammaincinv(shape.numpy(), 1 - LIMITS.level))
        return float((self.mean * quantile / shape).min())


@dataclass(frozen=True, eq=False)
class Forbidden:
    """For each task the squares of what a group forbids, and what noise alone is expected to add."""

    squares: Tensor
    """``[T]``: estimates of ``e^T S^2 e``, noise subtracted."""
    spread: float
    """The standard deviation of their mean if e is 0, the noise's own uncertainty included."""
    visible: float
    """The smallest eigenvalue of the mean of S^2: 0 where some direction is never seen."""
    added: Tensor
    """``[T]``: what noise adds to a task's square on average, which was subtracted."""
    seen: Seen | None = None
    """How different the part is that single tasks show; None where all show the same."""
    measured: bool = True
    """Whether the noise was measured in tasks, and not only learned with the prior."""
    unbiased: float | None = None
    """An estimate of ``E |e|^2`` itself, where all directions of every task are seen; else the limits' own."""

    def limit(self) -> Limit:
        """The limits of ``E |e|^2``."""
        count = len(self.squares)
        mean = float(self.squares.mean())
        own = float(self.squares.std()) / math.sqrt(count) if count > 1 else math.inf
        error = max(own, self.spread) if math.isfinite(own) else self.spread
        t = float(stdtrit(max(1, count - 1), LIMITS.level))
        upper = max(mean + t * error, error)
        # Few tasks may all have little of what others have more of: e of one dimension is the worst case.
        upper = max(upper, max(mean, 0.0) * count / float(chdtri(count, LIMITS.level)))
        lower = mean - float(stdtrit(max(1, count - 1), LIMITS.sure)) * error
        if self.visible <= 0:
            return Limit(max(mean, 0.0), lower, math.inf, self._mostly())
        upper /= self._surely_visible(upper)
        likely = mean / self.visible if self.unbiased is None else self.unbiased
        return Limit(min(max(likely, 0.0), upper), lower, upper, self._mostly())

    def _surely_visible(self, upper: float) -> float:
        """The part that is seen of a mean square of which ``upper`` is seen, where as few tasks carry it as can."""
        if self.seen is None:
            return self.visible
        most = float(self.squares.max()) + LIMITS.by_one * self.spread * math.sqrt(len(self.squares))
        return self.seen.surely(upper * len(self.squares) / most if most > 0 else len(self.squares))

    def _mostly(self) -> bool:
        """Noise alone makes a square half as large again as its mean in less than a quarter of the tasks."""
        count = len(self.squares)
        above = int((self.squares > self.added / 2).sum())
        return (
            self.measured
            and above > LIMITS.mostly * count
            and (float(bdtrc(above - 1, count, LIMITS.by_noise)) < 1 - LIMITS.sure)
        )


@dataclass(frozen=True, eq=False)
class Noise:
    """The noise variance of every output, and the relative error of their mean (one standard deviation)."""

    variances: Tensor
    """``[m]``."""
    error: float
    measured: bool
    """Whether it was measured in tasks, and not only learned with the prior."""


def noise_of(tasks: TaskStatistics, fallback: float, others: TaskStatistics | None = None) -> Noise:
    """The tasks' noise from what no linear map explains; where that is too little, ``fallback``.

    ``others`` are tasks of the same family. What is left of their outputs says nothing about weights: they may have
    taken part in learning.
    """
    m = tasks.outputs
    floor = LEAST_NOISE * tasks.mean_square
    squares, total = torch.zeros(m, dtype=torch.float64), 0
    for part in (tasks,) if others is None else (tasks, others):
        spare = (part.counts - part.inputs).clamp_min(0)
        squares, total = squares + part.residual[spare > 0].sum(0), total + int(spare.sum())
    if total < LIMITS.measured_from:
        return Noise(
            torch.full((m,), max(fallback, floor), dtype=torch.float64), LIMITS.learned_noise_error, False
        )
    own = (squares / total).clamp_min(floor)
    outputs = float(own.sum().square() / own.square().sum())  # how many matter
    return Noise(own, math.sqrt(2 / (total * outputs)), True)


def forbidden(
    tasks: TaskStatistics,
    group: WeightOrbits,
    scale: Tensor,
    noise: Noise,
    element: SignedPermutation | None = None,
    *,
    quick: bool = False,
) -> Forbidden:
    """What the tasks have of weights that the group forbids, each weight measured in units of ``scale [m n]``.

    ``scale`` is the same for entries of an orbit. With an ``element`` that generates the group the squares are those
    of ``w - g w``, without one of w less its mean over the group. ``quick``: from the tasks' own weights where these
    are known; ten times as fast, with limits that are somewhat wider. Of very many large tasks that is always done.
    """
    ample = tasks[tasks.ample]
    quick = quick or len(tasks) * float(tasks.inputs * tasks.outputs) ** 3 > LIMITS.most_projected
    enough = len(ample) >= max(1, LIMITS.enough_tasks * len(tasks)) and tasks.spanned.shape[1] == tasks.inputs
    if tasks.inputs * tasks.outputs <= LARGEST_PROJECTED and not (quick and enough):
        return _projected(tasks, group, scale, noise, element)
    if not enough:
        return _unseen(len(tasks), 0.0)
    return _least_squares(ample, group, scale, noise, element)


def _unseen(count: int, visible: float) -> Forbidden:
    """Nothing is forbidden, or nothing of it can be seen."""
    none = torch.zeros(count, dtype=torch.float64)
    return Forbidden(none, 0.0, visible, none, measured=False)


def _least_squares(
    tasks: TaskStatistics, group: WeightOrbits, scale: Tensor, noise: Noise, element: SignedPermutation | None
) -> Forbidden:
    """From every task's own weights: for layers whose matrices G would be too large, and for a quick look.

    What noise adds is found by drawing it: its mean is as good as exact after some hundred draws.
    """
    m, n = tasks.outputs, tasks.inputs
    power = tasks.grams.sum(0)
    values = torch.linalg.eigvalsh(power / power.diagonal().mean())
    visible = 1.0 if float(values[0]) > SEEN else 0.0

    def rest(weights: Tensor) -> Tensor:
        flat = weights.flatten(1) / scale
        if element is None:
            return (flat - group.average(flat)).square().sum(1)
        return (flat - element.on_weights(flat.reshape(-1, m, n)).flatten(1)).square().sum(1)

    inverse = torch.linalg.pinv(tasks.factors, rtol=1e-10)  # [T, n, r]
    own = rest((inverse @ tasks.targets).mT)
    g = torch.Generator().manual_seed(0)
    draws = max(8, math.ceil(400 / len(tasks)))
    drawn = []
    for _ in range(draws):
        fresh = torch.randn(tasks.targets.shape, generator=g, dtype=torch.float64) * noise.variances.sqrt()
        drawn.append(rest((inverse @ fresh).mT))
    added = torch.stack(drawn)
    spread = math.hypot(
        math.sqrt(float(added.var(0).sum()) * (1 + 1 / draws)) / len(tasks), noise.error * float(added.mean())
    )
    return Forbidden(own - added.mean(0), spread, visible, added.mean(0), None, noise.measured)


def _projected(
    tasks: TaskStatistics, group: WeightOrbits, scale: Tensor, noise: Noise, element: SignedPermutation | None
) -> Forbidden:
    """With c projected out of every task's equations, and the shrinkage that promises the lowest limit."""
    basis, complement = group.basis(), group.complement()
    if element is not None and complement.shape[1]:
        # Coordinates in which |e| is |w - g w|: on what the group forbids, 1 - g has an inverse.
        blocks = complement.T.reshape(-1, tasks.outputs, tasks.inputs)
        turned = complement.T @ (blocks - element.on_weights(blocks)).flatten(1).T
        complement = complement @ torch.linalg.inv(turned)
    if complement.shape[1] == 0:
        return _unseen(len(tasks), 1.0)
    allowed, against = basis * scale[:, None], complement * scale[:, None]
    size = against.shape[1]
    chunks = _chunks(len(tasks), basis.shape[0])
    eigen, turned = torch.empty(2, len(tasks), size, dtype=torch.float64)
    # Matrices of all tasks would take gigabytes. One array for those that are kept: many small ones, between others
    # that come and go, leave holes of twice their size.
    kept = torch.empty(min(len(tasks), _KEPT // size**2), size, size, dtype=torch.float64)
    for some in chunks:
        g, h, whole = _reduced(tasks[some], allowed, against, noise.variances)
        own, turns = torch.linalg.eigh(g)
        # What is rounding of the equations before c was projected out is zero.
        eigen[some] = torch.where(own > 1e-11 * whole[:, None], own, 0.0)
        turned[some] = (turns.mT @ h[:, :, None]).squeeze(2)
        if some.stop <= len(kept):
            kept[some] = turns
    typical = float(eigen.mean())
    if typical == 0:
        return _unseen(len(tasks), 0.0)

    def turns_of(some: slice) -> Tensor:
        if some.stop <= len(kept):
            return kept[some]
        found: Tensor = torch.linalg.eigh(_reduced(tasks[some], allowed, against, noise.variances)[0])[1]
        return found

    shrinks = [torch.where(eigen > 0, 1 / (eigen + part * typical), 0.0) for part in _LAMBDAS]
    together = torch.zeros(len(_LAMBDAS), size, size, dtype=torch.float64)
    for some in chunks:
        turns = turns_of(some)
        for each, shrink in zip(together, shrinks, strict=True):
            each += _together(turns, eigen[some] * shrink[some])
    parts, directions = torch.linalg.eigh(together / len(eigen))
    shown = torch.empty(len(_LAMBDAS), *eigen.shape, dtype=torch.float64)
    for some in chunks:
        turns = turns_of(some)
        for each, shrink, along in zip(shown, shrinks, directions, strict=True):
            seen = eigen[some] * shrink[some]
            each[some] = (seen[:, :, None] * (turns.mT @ along)).square().sum(1)
    best: Forbidden | None = None
    unbiased: float | None = None
    for number, shrink in enumerate(shrinks):
        visible = float(parts[number, 0]) if float(parts[number, 0]) > 1e-6 else 0.0
        added = eigen * shrink.square()
        spread = math.sqrt(2 * float(added.square().sum())) / len(eigen)
        spread = math.hypot(spread, noise.error * float(added.sum(1).mean()))
        squares = (shrink * turned).square().sum(1) - added.sum(1)
        if number == 0 and visible > LIMITS.all_visible:
            unbiased = float(squares.mean())
        parts_seen = Seen(shown[number].mean(0), shown[number].var(0, correction=0), len(eigen))
        found = Forbidden(squares, spread, visible, added.sum(1), parts_seen, noise.measured, unbiased)
        if best is None or _promise(found) < _promise(best):
            best = found
    assert best is not None
    return best


def _together(turns: Tensor, seen: Tensor) -> Tensor:
    """``sum_t V_t diag(s_t)^2 V_t^T`` of some tasks."""
    columns = (turns * seen[:, None, :]).permute(1, 0, 2).reshape(turns.shape[1], -1)
    return columns @ columns.T


def _promise(found: Forbidden) -> float:
    if found.visible <= 0 or found.seen is None:
        return math.inf
    return found.spread / max(found.seen.surely(LIMITS.carriers), 1e-300)


def _chunks(tasks: int, size: int) -> list[slice]:
    """Tasks of which matrices are made at once: a few MB each."""
    count = max(1, _AT_ONCE // size**2)
    return [slice(start, min(start + count, tasks)) for start in range(0, tasks, count)]


def _reduced(
    tasks: TaskStatistics, allowed: Tensor, against: Tensor, noise: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """``G [T, d, d]`` and ``h [T, d]``, in units of the noise: the equations for e with c projected out.

    And the trace of G before that, ``[T]``.
    """
    m, n = tasks.outputs, tasks.inputs
    count, rows = tasks.factors.shape[:2]
    weight = noise.rsqrt()

    def design(columns: Tensor) -> Tensor:
        blocks = (columns.reshape(m, n, -1) * weight[:, None, None]).permute(1, 0, 2).reshape(n, -1)
        return (tasks.factors.reshape(-1, n) @ blocks).reshape(count, rows * m, -1)

    seen = design(against)
    whole = seen.square().sum((1, 2))
    y = (tasks.targets * weight).reshape(count, rows * m, 1)
    if allowed.shape[1]:
        inside = design(allowed)
        left = _range(inside)
        seen = seen - left @ (left.mT @ seen)
        y = y - left @ (left.mT @ y)
    return seen.mT @ seen, (seen.mT @ y).squeeze(2), whole


def _range(columns: Tensor) -> Tensor:
    """Orthonormal columns that span those of ``[T, rows, d]``; what is rounding of others becomes zero."""
    left, triangle = torch.linalg.qr(columns)
    diagonal = triangle.diagonal(dim1=1, dim2=2).abs()
    if columns.shape[1] >= columns.shape[2] and bool(
        (diagonal > 1e-8 * diagonal.amax(1, keepdim=True)).all()
    ):
        whole: Tensor = left
        return whole
    left, values, _ = torch.linalg.svd(columns, full_matrices=False)
    kept: Tensor = left * (values > 1e-10 * values.amax(1, keepdim=True))[:, None, :]
    return kept
