"""Fitting the prior: where it starts, when it stops, and how many directions the tasks have."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from metasym.evidence.em import LEAST_NOISE, one_round
from metasym.evidence.outliers import LEAST, middle, middle_of, suspicious, unlike
from metasym.evidence.prior import Prior
from metasym.evidence.shrinkage import Shrinkage, best_shrinkage
from metasym.evidence.statistics import TaskStatistics
from metasym.types import MetasymError

ROUNDS = 200
_GAIN = 1e-3
"""Rounds stop when the evidence of a task grows by less than this, in nats."""
_FIRST, _BETWEEN = 8, 3
"""Rounds before the number of directions is asked about, and after each answer."""
_MORE = 17
"""More rounds where tasks have few examples and nothing can be dropped yet: their span takes longer to come out."""
_NOISES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""There the rounds take too little noise, since many directions explain a few examples whatever they are: held-out
tasks are asked about so many times the noise of the rounds."""
LARGEST_SYSTEM = 2048
"""Unknowns ``n (k + 1)`` of a round's system: more directions than fit are not searched for."""
_SUBSET = 1000
"""The number of directions is found on so many tasks at most; all others join for the last rounds."""
_HELD_OUT = 6
"""Without validation tasks one task in so many is held out to choose the number of directions."""


_COLLAPSED = 4.0
"""A prior that sees more noise than this many times the noise inside tasks has not seen what tasks differ in."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A prior and how it was found."""

    prior: Prior
    rounds: int
    evidence: float
    """Mean log evidence of a training task."""
    weights: Tensor
    """How much each training task belongs to the family, ``[T]``: 0 for outliers, else 1."""

    @property
    def outliers(self) -> int:
        """Training tasks that were left out."""
        return int((self.weights == 0).sum())


def fit_prior(
    tasks: TaskStatistics,
    validation: TaskStatistics | None = None,
    *,
    directions: int | None = None,
    rounds: int = ROUNDS,
) -> Fitted:
    """The prior under which the tasks' outputs are most likely.

    The number of directions is the smallest with which the evidence of the ``validation`` tasks (by default a sixth
    of ``tasks``) is as good as with any other; or ``directions``.
    """
    if len(tasks) < 2 or rounds < 1:
        raise MetasymError(
            f"expected at least 2 tasks and 1 round, found {len(tasks)} and {rounds}",
            about="tasks, rounds",
            found=(len(tasks), rounds),
        )
    if validation is None:
        held = torch.arange(len(tasks)) % _HELD_OUT == _HELD_OUT - 1
        if not bool(held.any()):
            held[-1] = True
        validation, learned = tasks[held], tasks[~held]
    else:
        learned = tasks
    if tasks.mean_square == 0:
        m, n = tasks.outputs, tasks.inputs
        blank = Prior(
            torch.zeros(m, n, dtype=torch.float64), torch.zeros(m * n, 1, dtype=torch.float64), 1e-300
        )
        return Fitted(blank, 0, 0.0, torch.ones(len(tasks), dtype=torch.float64))
    if not _mostly_ample(learned):
        tasks, learned, validation = tasks.told(), learned.told(), validation.told()
    fit = _Fit(learned, validation, rounds)
    shrinkage = Shrinkage()
    if directions is None:
        fit.find_directions()
        shrinkage = best_shrinkage(fit.prior, validation[slice(0, _SUBSET)])
    else:
        fit.begin(directions)
    fit.tasks, fit.weights = tasks, torch.ones(len(tasks), dtype=torch.float64)
    fit.finish()
    prior = shrinkage.of(fit.judged(fit.prior.rotated())[0] if directions is None else fit.prior.rotated())
    if directions is None:
        prior = _unless_collapsed(prior, tasks)
    return Fitted(prior, fit.rounds, fit.value, fit.weights)


def robust_prior(tasks: TaskStatistics, validation: TaskStatistics) -> Fitted:
    """The prior of the tasks without outliers: :func:`fit_prior` twice where some task seems to be one."""
    found = fit_prior(tasks, validation)
    if len(tasks) < LEAST or not suspicious(found.prior, tasks):
        return found
    halves = torch.arange(len(tasks)) % 2 == 0
    out = torch.zeros(len(tasks), dtype=torch.bool)
    for half in (halves, ~halves):
        out[~half] = unlike(fit_prior(tasks[half], validation).prior, tasks[~half])
    if not bool(out.any()):
        return found
    kept = fit_prior(tasks[~out], validation[~unlike(found.prior, validation)])
    return Fitted(kept.prior, kept.rounds, kept.evidence, (~out).double())


def _unless_collapsed(prior: Prior, tasks: TaskStatistics) -> Prior:
    """The prior; but the tasks' own weights where it takes what tasks differ in for noise.

    Fewer tasks than there are directions do not show where the next task lies: held-out tasks then ask for hardly any
    direction and much noise. How much noise there is, each task estimates itself if it has enough examples.
    """
    ample = tasks[tasks.ample]
    if len(ample) < max(2, 0.9 * len(tasks)):
        return prior
    spare = int((ample.counts - ample.inputs).sum())
    noise = max(float(ample.residual.sum()) / (ample.outputs * spare), LEAST_NOISE * tasks.mean_square)
    if prior.noise <= _COLLAPSED * noise:
        return prior
    own, _ = least_squares(ample)
    mean = own.mean(0)
    U = (own - mean).flatten(1).T / math.sqrt(len(own) - 1)
    return Prior(mean, U, noise).truncated(min(len(own) - 1, U.shape[0]))


class _Fit:
    """A fit under way."""

    def __init__(self, tasks: TaskStatistics, validation: TaskStatistics, most: int) -> None:
        self.tasks, self.validation, self.most = tasks, validation, most
        self.floor = LEAST_NOISE * tasks.mean_square
        self.weights = torch.ones(len(tasks), dtype=torch.float64)
        self.open_noise = False
        """Whether only held-out tasks show how much noise there is."""
        self.rounds = 0
        self.value = -math.inf
        self.prior: Prior

    def begin(self, directions: int) -> None:
        """Start with so many directions."""
        self.prior = start(self.tasks, directions)

    def find_directions(self) -> None:
        """Round after round on some of the tasks, dropping the directions that held-out tasks do not ask for."""
        everything, weights = self.tasks, self.weights
        if len(everything) > _SUBSET:
            chosen = torch.linspace(0, len(everything) - 1, _SUBSET).long()
            self.tasks, self.weights = everything[chosen], weights[chosen]
        m, n = everything.outputs, everything.inputs
        self.begin(max(1, min(m * n, len(self.tasks) - 1, LARGEST_SYSTEM // n - 1)))
        self._run(_FIRST)
        early = self.prior
        before = early.directions + 1
        while self.prior.directions < before:
            before = self.prior.directions
            self.prior = self._fewest()
            self._run(_BETWEEN)
        if not _mostly_ample(self.tasks):
            self._unless_hedged(early)
        self.finish()
        self.prior = self._fewest()
        self.tasks, self.weights = everything, weights

    def _unless_hedged(self, early: Prior) -> None:
        """Where tasks have few examples: from the ``early`` prior again, if nothing was found that is better.

        Many directions explain a few examples whatever they are, with too little noise: nothing can be dropped, or
        nearly all is treated as noise. With the noise that held-out tasks ask for, they show which are there.
        """
        found = middle(self.prior.evidence(self.validation))
        self.open_noise = True
        if self.prior.directions < early.directions and found > middle(self.judged(early)[1]):
            self.open_noise = False
            return
        self.prior = early
        self._run(_MORE)
        self.prior = self._fewest()

    def finish(self) -> None:
        """Rounds until the evidence no longer grows, or that of held-out tasks falls where only these tell."""
        while self.rounds < self.most:
            before, prior = self.value, self.prior
            self._run(5)
            if self.value - before < 5 * _GAIN:
                break
            if self.open_noise and middle(self.judged(self.prior)[1]) < middle(self.judged(prior)[1]) - 0.1:
                self.prior = prior
                break

    def judged(self, prior: Prior) -> tuple[Prior, Tensor]:
        """The evidence of held-out tasks, and the prior: with the noise that they ask for where only they tell."""
        tried = [
            replace(prior, noise=prior.noise * times) for times in (_NOISES if self.open_noise else (1.0,))
        ]
        pairs = [(one, one.evidence(self.validation)) for one in tried]
        return max(pairs, key=lambda pair: middle(pair[1]))

    def _run(self, rounds: int) -> None:
        for _ in range(rounds):
            found = one_round(self.prior, self.tasks, self.weights, self.floor)
            self.prior = found.prior
            self.value = float((found.evidence * self.weights).sum() / self.weights.sum())
            self.rounds += 1

    def _fewest(self) -> Prior:
        """The prior with the fewest directions with which held-out tasks are as likely as with any number."""
        full = self.prior.rotated()
        tried: dict[int, tuple[Prior, Tensor]] = {}

        def at(k: int) -> Tensor:
            if k not in tried:
                prior = Prior(full.mean, full.U[:, :k], full.noise)
                if k < full.directions:  # the noise, and what is left, take over what was dropped
                    prior = self._settled(prior)
                tried[k] = self.judged(prior)
            return tried[k][1]

        def good(k: int) -> bool:
            best = max(tried.values(), key=lambda item: middle(item[1]))[1]
            return not _worse(at(k), best, sure=not self.open_noise)

        at(full.directions)
        low, high = 0, full.directions  # low is too few, high is enough
        for k in _guesses(full.U):
            at(k)
        while True:  # the best of those tried may move while more are tried
            enough = [k for k in sorted(tried) if good(k)]
            high = enough[0]
            low = max([k for k in tried if k < high], default=0)
            if high - low <= 1:
                return tried[high][0]
            at((low + high) // 2)

    def _settled(self, prior: Prior) -> Prior:
        for _ in range(2):
            prior = one_round(prior, self.tasks, self.weights, self.floor).prior
        return prior


def _guesses(U: Tensor) -> list[int]:
    """Numbers of directions before the largest drops of the singular values."""
    values = torch.linalg.svdvals(U).clamp_min(1e-12 * float(torch.linalg.matrix_norm(U, 2)) + 1e-300)
    drops = (values[:-1] / values[1:]).log()
    return [int(i) + 1 for i in drops.argsort(descending=True)[:2] if float(drops[i]) > math.log(2)]


def _worse(evidence: Tensor, best: Tensor, *, sure: bool = True) -> bool:
    """Whether tasks are less likely: on average by more than a tenth of a nat, and significantly so."""
    gap = middle_of(best - evidence)
    error = float(gap.std()) / math.sqrt(len(gap)) if sure and len(gap) > 1 else 0.0
    return float(gap.mean()) > max(error, 0.1)


def start(tasks: TaskStatistics, directions: int) -> Prior:
    """A first guess with at most so many directions.

    Where most tasks determine their own weights: the principal directions of their own least squares weights, in
    units of these weights' noise, as many as stand out of it. Elsewhere all directions alike: which of them a task
    shows differs from task to task, and to begin with the weights of smallest norm would put the unseen ones at zero.
    """
    m, n = tasks.outputs, tasks.inputs
    ample = tasks.ample
    spare = (tasks.counts - n).clamp_min(0)[ample]
    noise = float(tasks.residual[ample].sum() / (m * spare.sum())) if bool(ample.any()) else 0.0
    if not _mostly_ample(tasks):
        grams = tasks.grams.sum(0)
        size = float(grams.diagonal().sum()) / max(1, int(tasks.counts.sum()))  # E |x|^2
        scale = math.sqrt(tasks.mean_square / size) if size > 0 else 1.0
        if directions >= m * n:
            U = scale * torch.eye(m * n, dtype=torch.float64)
        else:
            U = scale * _random_directions(m * n, directions)
        return Prior(torch.zeros(m, n, dtype=torch.float64), U, 0.1 * tasks.mean_square)
    chosen = tasks[ample]
    own, covariance = least_squares(chosen)
    mean = own.mean(0)
    # The noise of least squares weights, the same for every output: [n, n].
    floor = max(noise, LEAST_NOISE * tasks.mean_square)
    spread = covariance.median(0).values.diagonal()
    seen = spread > 0  # an input that never varies has no noise of its own: the others' stands for it
    typical = float(spread[seen].mean()) if bool(seen.any()) else 1.0
    root = (floor * torch.where(seen, spread, typical)).sqrt().diag_embed()
    white = torch.linalg.solve_triangular(root, (own - mean).mT, upper=False).mT  # [T, m, n]
    _, values, right = torch.linalg.svd(white.flatten(1), full_matrices=False)
    powers = values.square() / len(chosen)
    edge = (1 + math.sqrt(m * n / len(chosen))) ** 2
    count = int((powers > 0.8 * edge).sum())
    count = max(1, min(directions, len(values), count + 4 + count // 8))
    scaled = (
        right[:count].reshape(count, m, n) @ root.T * (powers[:count, None, None] - 1).clamp_min(0.01).sqrt()
    )
    return Prior(mean, scaled.reshape(count, m * n).T.contiguous(), 10 * floor)


def _mostly_ample(tasks: TaskStatistics) -> bool:
    """Whether most tasks determine their own weights."""
    return int(tasks.ample.sum()) >= max(2, len(tasks) // 2)


def least_squares(tasks: TaskStatistics) -> tuple[Tensor, Tensor]:
    """Every task's own weights ``[T, m, n]``, and ``(X^T X)^-1 [T, n, n]``; inputs that hardly vary stay finite."""
    inverse = torch.linalg.pinv(tasks.factors, rtol=1e-10)
    return (inverse @ tasks.targets).mT, inverse @ inverse.mT


def _random_directions(rows: int, count: int) -> Tensor:
    """Orthonormal columns ``[rows, count]``, always the same."""
    drawn = torch.randn(rows, count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    columns: Tensor = torch.linalg.qr(drawn).Q
    return columns
