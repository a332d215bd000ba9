"""A bend that all tasks share: a sensor that is not linear, an output that is clipped, a square that all tasks add.

Such a bend has one shape in all tasks. What a linear map leaves of task t is then ``c q`` with one c for all tasks.
Two kinds of q: what a square or cube of an input leaves times the task's own weights of that input, or of the fit
(*the tasks' own*); and what a square, cube or product of inputs leaves, in one output (*added*). One number is
estimated from all tasks together, so that bends show which single tasks hide.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.special import ndtri

from metasym.diagnosis.example_noise import hat_times_maker, left_of
from metasym.diagnosis.samples import Floats

_SURE, _NOT_BY_FEW = 6.0, 2.0
"""Standard errors of c beyond which a bend is there: by what tasks leave of it, and without any model of what they
leave, which few tasks with large values do not pass. Set on seeds 0 to 7 of ``studies.certificate_attacks``, 0 and
1 of ``studies.ordinary_families``, where ordinary tasks reach 5.7; counted on fresh ones."""
_CHANCE = 1e-3
"""The chance that noise makes a bend, over all that are looked at, by the mean of each task's own c, which no few
tasks make. Chosen; 300 ordinary files reach 3.1 standard errors (the tasks' own) and 4.1 (added), where this asks for
about 4.1 and 4.5. Counted on fresh ones."""
_MOST_FEATURES = 250
"""Products of two inputs are looked at where there are at most so many squares, cubes and products."""


def own_bends(x: Floats, fit: Floats, rest: Floats, spanned: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """``[tasks, bends]``: products of what is left with each q of the tasks' own, and the squares of each q.

    ``x [tasks, examples, n]`` and ``fit``, ``rest [tasks, examples, m]`` are about their means; ``spanned`` are the
    columns of the fit and ``noise`` is the variance of the noise of every number of y. Weights and fits
    have noise that goes together with that of the rest; what this adds on average is subtracted.
    """
    weights_of = np.linalg.pinv(x)
    weights = weights_of @ (fit + rest)
    products, powers = [], []
    for power in (2, 3):
        left = left_of(x**power, spanned)
        together = np.einsum("tij,tia,tja->tj", left, rest, weights, optimize=True)
        products.append(together - np.einsum("tji,tij,tia->tj", weights_of, left, noise, optimize=True))
        powers.append((left**2).sum(1) * (weights**2).sum(2))
        left = left_of(fit**power, spanned)
        slope = power * fit ** (power - 1)
        products.append((left * rest).sum(1) - (slope * hat_times_maker(noise, spanned)).sum(1))
        powers.append((left**2).sum(1))
    return np.concatenate(products, 1), np.concatenate(powers, 1)


def added_bends(x: Floats, rest: Floats, spanned: Floats) -> tuple[Floats, Floats]:
    """As ``own_bends``, for bends that all tasks add to one output whatever their weights."""
    inputs = x.shape[2]
    features = [x**2, x**3]
    if inputs * (inputs + 3) // 2 <= _MOST_FEATURES:
        features += [x[..., [i]] * x[..., [j]] for i, j in combinations(range(inputs), 2)]
    left = left_of(np.concatenate(features, 2), spanned)
    products = (left.transpose(0, 2, 1) @ rest).reshape(len(x), left.shape[2] * rest.shape[2])
    return products, np.repeat((left**2).sum(1), rest.shape[2], 1)


def surest_bend(found: Floats, size: Floats, by_sums: bool) -> float:
    """The squares, over all tasks, that the largest c explains of those that are sure; 0 where none is.

    ``by_sums``: by their sums over tasks too.
    """
    total = np.maximum(size.sum(0), 1e-300)
    c = found.sum(0) / total
    # The c of every task: one with large values counts as much as any other.
    each = np.where(size > 1e-12 * size.max(0), found / np.maximum(size, 1e-300), 0.0)
    limit = -float(ndtri(_CHANCE / 2 / found.shape[1]))
    sure = np.abs(each.sum(0)) > limit * np.sqrt(np.maximum((each**2).sum(0), 1e-300))
    if by_sums:
        apart = (found - c * size) / np.maximum(1 - size / total, 1e-3)
        sum_ = np.abs(found.sum(0))
        by_rest = sum_ > _SURE * np.sqrt((apart**2).sum(0))
        sure |= by_rest & (sum_ > _NOT_BY_FEW * np.sqrt((found**2).sum(0)))
    return float(np.max(np.where(sure, c**2 * total, 0.0), initial=0.0))
