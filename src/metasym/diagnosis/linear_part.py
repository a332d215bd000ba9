"""How much of y a linear map of each task's inputs explains, whether it needs an offset, and whether the rest bends.

Every task is fitted separately by least squares, so that nothing is assumed about what tasks share. What is left is
compared with the degrees of freedom that are left, over all tasks together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import fdtrc

from metasym.diagnosis.example_noise import example_noise, left_of
from metasym.diagnosis.findings import CAUTION, NOTE, Finding, percent
from metasym.diagnosis.samples import Floats, Ints, Samples
from metasym.diagnosis.shared_bends import added_bends, own_bends, surest_bend

_WORK, _TASKS = 2e9, 2000
"""Multiply-adds and tasks that a look may cost: it takes a second or two."""
_FREEDOM = 30
"""Degrees of freedom, over all tasks, that a share needs to be estimated from."""
_SURE = 1e-6
"""A test's probability below which something is there: looked at by the thousand, none is seen by chance."""
_RANK = 1e-9
_ROUNDING = 1e-10
"""A part of y that an offset has to explain at least: less is lost in a fit."""
_EVEN, _ALONE = 3.0, 5.0
"""Standard errors beyond which a bend is more than noise that depends on the inputs: one that random combinations of
squares show too, and one that they do not."""
_TASKS_LEAST = 8
"""Tasks that have to tell the noise of each of their examples."""
_NUMBERS = 2**21
"""Numbers that are held at once for it: 16 MB in each of several arrays."""
_BENDS = 16
"""Squares of random combinations of the inputs that are tried to explain what a linear map leaves."""
_LITTLE, _MUCH = 0.01, 0.1
"""Parts of y beyond which what a linear map leaves is worth a note, a caution."""


@dataclass(frozen=True, eq=False)
class LinearPart:
    """Sums of squares over tasks; shares are of the variance of y around each task's own mean."""

    unexplained: float | None
    """The share that a linear map with an offset leaves; None where tasks have too few examples to tell."""
    unexplained_without_offset: float | None
    offset: bool
    """Whether an offset is there beyond doubt."""
    bend: float
    """A share of y that squares of the inputs explain beyond a linear map, at least; 0 where none was seen."""
    per_task: Floats
    """``[tasks]``: the share that is unexplained in each; NaN where it is unknown."""
    variance: float
    """The variance of y around each task's own mean."""


def fit_tasks(samples: Samples, scales: Floats, precision: float = 1e-16) -> LinearPart:
    """Fit every task separately; each output is divided by its entry of ``scales [outputs]`` first.

    ``precision`` is that of the numbers as they are stored: what it takes away is no offset.
    """
    y = samples.y / scales
    counts, there = samples.counts, samples.there[..., None]
    y_in = (y - y.sum(1, keepdims=True) / counts[:, None, None]) * there
    x_in = samples.within("x")
    total, outputs = float((y_in**2).sum()), y.shape[2]
    freedom = int((counts - 1).sum()) * outputs
    variance = total / max(1, freedom)
    none = LinearPart(None, None, False, 0.0, np.full(len(counts), np.nan), variance)
    if total == 0:
        return none
    basis, rank = _basis(x_in)
    rest = y_in - basis @ (basis.transpose(0, 2, 1) @ y_in)
    left = (counts - 1 - rank) * outputs
    told = left > 0
    squares, dof = (rest**2).sum((1, 2)), int(left[told].sum())
    if dof < _FREEDOM:
        return none
    unexplained = float(squares[told].sum()) / dof / variance
    share = np.full(len(counts), np.nan)
    own = (y_in**2).sum((1, 2)) / np.maximum(1, (counts - 1) * outputs)
    share[told] = squares[told] / left[told] / np.where(own[told] > 0, own[told], np.inf)
    through, rank0 = _basis(samples.x)
    rest0 = y - through @ (through.transpose(0, 2, 1) @ y)
    more = float((rest0**2).sum((1, 2))[told].sum() - squares[told].sum())
    extra = int(((counts - rank0) * outputs)[told].sum()) - dof
    rounding = (100 * precision) ** 2 * float((y**2).sum()) + _ROUNDING * total
    offset = (
        extra > 0
        and more > rounding
        and _there(more, extra, float(squares[told].sum()), dof)
        and _beyond_uneven_noise(
            (rest0 - rest)[told], rest[told], through[told], basis[told], samples.there[told]
        )
    )
    without = float((rest0**2).sum((1, 2))[told].sum()) / max(1, dof + extra) / variance
    bend = _bend(samples, y_in, rest, basis, counts - 1 - rank, variance)
    return LinearPart(unexplained, without, offset, bend, share, variance)


def _basis(x: Floats) -> tuple[Floats, Ints]:
    """For each task an orthonormal basis of what its columns span (zeros fill it up), and its dimension."""
    left, values, _ = np.linalg.svd(x, full_matrices=False)
    kept = values > _RANK * values[:, :1]
    return left * kept[:, None, :], kept.sum(1)


def _there(more: float, extra: int, left: float, dof: int) -> bool:
    """An F test: whether ``more`` in ``extra`` degrees of freedom is beyond what is left in ``dof`` of them."""
    if more <= 0:
        return False
    if left <= 0:
        return True
    return bool(fdtrc(extra, dof, (more / extra) / (left / dof)) < _SURE)


def _beyond_uneven_noise(
    taken: Floats, rest: Floats, through: Floats, basis: Floats, there: npt.NDArray[np.bool_]
) -> bool:
    """Whether an offset takes more, ``taken [tasks, examples, outputs]``, than noise of any sizes would.

    Noise that is larger in some examples may be so where an offset would be. How much each has follows from the rest;
    that of all outputs of a task may be the same.
    """
    one = (there / np.sqrt(there.sum(1))[:, None])[..., None]
    along = left_of(one, through)
    along = along / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-300)
    spanned = np.concatenate([basis, one], axis=2)
    found = []
    for s in _parts(len(rest), there.shape[1], spanned.shape[2]):
        noise, known = example_noise(rest[s], spanned[s], there[s])
        added = (along[s] ** 2 * noise).sum((1, 2))
        found.append(np.stack([(taken[s] ** 2).sum((1, 2)), added])[:, known])
    squares, added = np.concatenate(found, axis=1)
    if len(added) < _TASKS_LEAST:
        return True
    weights = 1 / np.maximum(
        added, max(float(np.median(added)), 1e-300)
    )  # noisy tasks hide nothing of the others
    return bool((weights * (squares - added)).sum() > _ALONE * np.sqrt(2 * ((weights * added) ** 2).sum()))


def _parts(tasks: int, examples: int, columns: int) -> list[slice]:
    """So many tasks at a time that the noise of their examples fits in memory."""
    step = max(1, _NUMBERS // (examples * columns * (columns + 1) // 2))
    return [slice(start, start + step) for start in range(0, tasks, step)]


def _bend(samples: Samples, y: Floats, rest: Floats, basis: Floats, free: Ints, variance: float) -> float:
    """The share of y that squares of random combinations of the inputs explain in what is left, if any is sure.

    ``y`` are the outputs around their means, ``rest [tasks, most, outputs]`` is what is left of them, and
    ``free [tasks]`` its degrees of freedom for each output.
    """
    inputs, outputs = samples.x.shape[2], rest.shape[2]
    tries = min(_BENDS, int(np.median(free[free > 0])) - 2, inputs * (inputs + 1) // 2)
    if tries < 1:
        return 0.0
    use = free >= tries + 1
    x, there, counts = samples.within("x")[use], samples.there[use][..., None], samples.counts[use]
    spread = np.sqrt((x**2).mean((0, 1)))
    directions = np.random.default_rng(0).standard_normal((inputs, tries))
    squares = ((x / np.where(spread > 0, spread, np.inf)) @ directions) ** 2 * there
    squares = (squares - squares.sum(1, keepdims=True) / counts[:, None, None]) * there
    squares = squares - basis[use] @ (basis[use].transpose(0, 2, 1) @ squares)
    bent, bends = _basis(squares)
    taken = bent.transpose(0, 2, 1) @ rest[use]
    explained = float((taken**2).sum())
    extra = int(bends.sum()) * outputs
    dof = int(free[use].sum()) * outputs - extra
    left = float((rest[use] ** 2).sum()) - explained
    if dof < _FREEDOM or extra < 1:
        return 0.0
    if float((rest**2).sum()) <= _ROUNDING * float((y**2).sum()):
        return 0.0
    sure, single, shared = _single_bends(
        x / np.where(spread > 0, spread, np.inf), y[use], rest[use], basis[use], samples.there[use]
    )
    bends_at_all = _there(explained, extra, left, dof)
    freedom = int((counts - 1).sum()) * outputs
    if sure <= (_EVEN if bends_at_all else _ALONE):
        return shared / freedom / variance
    return max(single, shared, explained - extra * left / dof if bends_at_all else 0.0) / freedom / variance


def _single_bends(
    x: Floats, y: Floats, rest: Floats, basis: Floats, there: npt.NDArray[np.bool_]
) -> tuple[float, float, float]:
    """What squares and cubes, of single inputs and of the fit, explain of the ``rest`` beyond noise of any sizes.

    In standard errors over tasks, as squares of the best single one, and as squares of one that tasks share. Noise
    that some examples have more of is in the same directions as a bend. How much of it each example has follows from
    the rest (``example_noise``). What is then left goes together in different examples, as a bend does.
    """
    parts = _parts(len(x), there.shape[1], basis.shape[2] + 1)
    told = [_bends_of_some(x[s], y[s], rest[s], basis[s], there[s]) for s in parts]
    found, own, own_sizes, added, added_sizes = (np.concatenate(one) for one in zip(*told, strict=True))
    if len(found) < _TASKS_LEAST:
        return np.inf, 0.0, 0.0
    more = found.sum(1)
    error = max(float(more.std(ddof=1)) * np.sqrt(len(more)), 1e-300)
    part = len(x) / len(more)
    shared = max(surest_bend(own, own_sizes, True), surest_bend(added, added_sizes, False))
    return float(more.sum()) / error, max(0.0, float(found.sum(0).max())) * part, shared * part


def _bends_of_some(
    x: Floats, y: Floats, rest: Floats, basis: Floats, there: npt.NDArray[np.bool_]
) -> tuple[Floats, ...]:
    """Of the tasks that tell the noise of each example: ``[tasks, features]``, ``own_bends`` and ``added_bends``."""
    one = (there / np.sqrt(there.sum(1))[:, None])[..., None]
    spanned = np.concatenate([basis, one], axis=2)
    noise, known = example_noise(rest, spanned, there)
    spanned, noise, rest, x, fit = spanned[known], noise[known], rest[known], x[known], (y - rest)[known]
    there = there[known]

    def beyond(features: Floats, each: bool) -> Floats:
        """``[tasks, features]``; ``each``: a feature is compared with its own output alone."""
        left = left_of(features, spanned) * there[..., None]
        left = left / np.maximum(np.linalg.norm(left, axis=1, keepdims=True), 1e-300)
        if each:
            return np.asarray((left * rest).sum(1) ** 2 - (left**2 * noise).sum(1))
        taken = ((left.transpose(0, 2, 1) @ rest) ** 2).sum(2)
        return np.asarray(taken - (left**2 * noise.sum(2, keepdims=True)).sum(1))

    found = [beyond(x**2, False), beyond(x**3, False), beyond(fit**2, True), beyond(fit**3, True)]
    shared = *own_bends(x, fit, rest, spanned, noise), *added_bends(x, rest, spanned)
    return np.concatenate(found, axis=1), *shared


def what_is_left(part: LinearPart, inputs: int, examples: int) -> list[Finding]:
    """The findings about how far a linear map goes."""
    if part.unexplained is None:
        why = (
            f"A task has fewer examples ({examples}) than a linear map of {inputs} inputs has unknowns"
            if examples <= inputs + 1
            else "All tasks together have hardly more examples than their linear maps have unknowns"
        )
        said = f"{why}: single tasks do not show how much of y is linear, or whether it has an offset"
        return [Finding("few_examples", NOTE, said, {"examples": examples, "inputs": inputs})]
    found, left = [], min(1.0, part.unexplained)
    numbers = {"unexplained": part.unexplained, "bend": part.bend}
    if part.bend > 0 and left > 1e-8:
        found.append(
            Finding(
                "not_linear",
                CAUTION if part.bend > _LITTLE else NOTE,
                f"The tasks are not linear: a linear map explains {percent(1 - left)} of y, and squares or cubes at "
                f"least {percent(part.bend)} more. The verdict of a linear network is about the linear part, "
                f"{percent(1 - left)} of y",
                numbers,
            )
        )
    elif left > _LITTLE:
        found.append(
            Finding(
                "linear_share",
                CAUTION if left > _MUCH else NOTE,
                f"A linear map of each task's inputs explains {percent(1 - left)} of y. The rest looks like noise, "
                "or is nonlinear in ways that single tasks do not show. The verdict of a linear network is about "
                f"{percent(1 - left)} of y",
                numbers,
            )
        )
    if part.offset:
        assert part.unexplained_without_offset is not None
        share = max(0.0, part.unexplained_without_offset - part.unexplained)
        found.append(
            Finding(
                "offset",
                NOTE,
                f"y has an offset: a linear map without one leaves another {percent(share)} of y unexplained",
                {"share": share},
            )
        )
    return found


def affordable(samples: Samples) -> Samples:
    """As many of the tasks as a fit of each can be afforded of."""
    tasks, most, inputs = samples.x.shape
    count = int(min(tasks, _TASKS, max(20, _WORK // max(1, most * inputs * min(most, inputs)))))
    chosen = np.unique(np.linspace(0, tasks - 1, count).round().astype(np.int64))
    return Samples(samples.x[chosen], samples.y[chosen], samples.there[chosen], samples.ids[chosen])
