"""Coefficients of one size: those of a noisy polynomial that the data cannot distinguish, made equal.

A symmetry that acts by round numbers ties the coefficients of a polynomial. With noise no tie holds exactly, and the
null space fades; with sizes that agree within their errors made equal it is exact. This only proposes: what
is found so has to pass the same certificate.
"""

from __future__ import annotations

import numpy as np

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.claim_thresholds import CONTINUOUS
from metasym.discovery.models.polynomials import Support


def with_tied_sizes(support: Support, coefficients: Array, errors: Array, units: Array) -> Array:
    """Coefficients with sizes made equal, multiples of one unit where they agree; zero where they are near it.

    ``units [coefficients]`` takes them to the units of the data, where round numbers are.
    """
    values, spread = coefficients * units, errors * np.abs(units) + 1e-300
    sizes = np.where(np.abs(values) > CONTINUOUS.zero_coefficient * spread, np.abs(values), 0.0)
    groups: list[list[int]] = []
    for j in (int(i) for i in np.argsort(sizes) if sizes[i] > 0):
        if groups:
            mean, error = _mean(sizes[groups[-1]], spread[groups[-1]])
            if sizes[j] - mean <= CONTINUOUS.same_size * (spread[j] ** 2 + error**2) ** 0.5:
                groups[-1].append(j)
                continue
        groups.append([j])
    means = np.array([_mean(sizes[group], spread[group]) for group in groups]).reshape(-1, 2)
    found = np.zeros(support.size)
    for group, size in zip(groups, _multiples(means[:, 0], means[:, 1]), strict=True):
        found[group] = size
    return np.asarray(np.sign(values) * found / units)


def _mean(sizes: Array, errors: Array) -> tuple[float, float]:
    """A weighted mean with its error."""
    weights = errors**-2.0
    return float(np.average(sizes, weights=weights)), float(weights.sum() ** -0.5)


def _multiples(sizes: Array, errors: Array) -> Array:
    """Ascending sizes as whole multiples of one unit, where they are within their errors; else as they are."""
    for parts in range(1, CONTINUOUS.most_units + 1):
        unit = float(sizes[0]) / parts if len(sizes) else 0.0
        for _ in range(2):
            whole = np.round(sizes / unit) if unit else sizes
            unit = float((whole * sizes / errors**2).sum() / (whole**2 / errors**2).sum()) if unit else 0.0
        if unit and np.abs(sizes - whole * unit).max() < unit / 4:
            near = np.abs(sizes - whole * unit) <= CONTINUOUS.same_size * errors
            if near.all():
                return np.asarray(whole * unit)
    return sizes
