"""A bend that all tasks share: a sensor that is not linear, an output that is clipped.

Such a bend has one shape in all tasks. What a linear map leaves of task t is then ``c q`` with one c for all tasks,
where q is what a square or cube of an input leaves times the task's own weights of that input, or what a square or
cube of the fit leaves. One number is estimated from all tasks together, so that bends show which single tasks hide.
"""

from __future__ import annotations

import numpy as np

from metasym.diagnosis.samples import Floats

_SURE, _NOT_BY_FEW = 6.0, 2.0
"""Standard errors of c beyond which a bend is there: by what tasks leave of it, and without any model of what they
leave, which few tasks with large values do not pass. Set on seeds 0 to 7 of ``studies.certificate_attacks``, 0 and
1 of ``studies.ordinary_families``, where ordinary tasks reach 5.7; counted on fresh ones."""
_BY_TASKS = 4.5
"""Standard errors of the mean of each task's own c, which no few tasks make. Set on seeds 0 to 40 of the same studies
and 1000 to 1012 of ``cubic-sensor``, where 240 ordinary files reach 3.3 and bent sensors 5.2 to 12; counted on fresh
ones."""


def shared_bend(x: Floats, fit: Floats, rest: Floats, maker: Floats, noise: Floats) -> float:
    """The squares, over all tasks, that the surest shared bend explains; 0 where none is sure.

    ``x [tasks, examples, n]`` and ``fit``, ``rest [tasks, examples, m]`` are about their means; ``maker`` makes
    residuals of outputs and ``noise`` is the variance of the noise of every number of y. Weights and fits have noise
    that goes together with that of the rest; what this adds on average is subtracted.
    """
    weights_of = np.linalg.pinv(x)
    weights = weights_of @ (fit + rest)
    hat = np.eye(maker.shape[1]) - maker
    products, powers = [], []
    for power in (2, 3):
        left = maker @ x**power
        together = np.einsum("tij,tia,tja->tj", left, rest, weights, optimize=True)
        products.append(together - np.einsum("tji,tij,tia->tj", weights_of, left, noise, optimize=True))
        powers.append((left**2).sum(1) * (weights**2).sum(2))
        left = maker @ fit**power
        slope = power * fit ** (power - 1)
        products.append((left * rest).sum(1) - (slope * ((hat * maker) @ noise)).sum(1))
        powers.append((left**2).sum(1))
    found, size = np.concatenate(products, 1), np.concatenate(powers, 1)
    total = np.maximum(size.sum(0), 1e-300)
    c = found.sum(0) / total
    apart = (found - c * size) / np.maximum(1 - size / total, 1e-3)
    sum_ = np.abs(found.sum(0))
    sure = sum_ > _SURE * np.sqrt((apart**2).sum(0))
    sure &= sum_ > _NOT_BY_FEW * np.sqrt((found**2).sum(0))
    # The c of every task: one with large values counts as much as any other.
    each = np.where(size > 1e-12 * size.max(0), found / np.maximum(size, 1e-300), 0.0)
    sure |= np.abs(each.sum(0)) > _BY_TASKS * np.sqrt(np.maximum((each**2).sum(0), 1e-300))
    return float(np.max(np.where(sure, c**2 * total, 0.0), initial=0.0))
