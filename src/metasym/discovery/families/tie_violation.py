"""Entries of tasks' linear maps that a group ties: how far they differ in all tasks alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.claim_thresholds import FAMILIES
from metasym.groups.signed_groups import weight_orbits
from metasym.groups.signed_permutations import SignedPermutation

Labels = npt.NDArray[np.int64]

ROUNDING = 1e-9
"""Maps, and outputs, smaller than this part of the largest of a family are rounding."""


@dataclass(frozen=True)
class Shared:
    """How far entries that should be tied differ in all tasks alike, such as by a gain that depends on the place."""

    value: float
    """The mean squared relative difference, noise subtracted, weighted by the entries' power."""
    upper: float
    refutes: bool


def linear_maps(x: Array, y: Array) -> tuple[Array, Array]:
    """Least squares of every task ``[tasks, m, n]``, and the variance of every entry, of the same shape."""
    centred, targets = x - x.mean(1, keepdims=True), y - y.mean(1, keepdims=True)
    moment = np.einsum("tei,tej->tij", centred, centred)
    inverse = np.linalg.pinv(moment)
    maps = np.einsum("tij,tej,tem->tmi", inverse, centred, targets)
    left = targets - np.einsum("tmi,tei->tem", maps, centred)
    free = x.shape[1] - x.shape[2] - 1
    variance = (left**2).sum(1)[:, :, None] / free * np.einsum("tii->ti", inverse)[:, None, :]
    return maps, np.maximum(variance, 1e-9 * float((maps**2).mean()))


def shared_violation(
    x: Array, y: Array, generators: tuple[SignedPermutation, ...], draw: np.random.Generator
) -> Shared:
    """Compare each entry of the tasks' linear maps with the mean of those it is tied to, over all tasks.

    Two maps of each task, from halves of its examples, have independent noise: their products are free of it. What
    differs from task to task is left to beta; this sees a difference that stays, however small. Outputs, and inputs,
    are also looked at as wholes: a gain of one of them moves all of its entries.
    """
    tasks, examples, n = x.shape
    m = y.shape[2]
    order = draw.permutation(examples)
    halves = (order[: examples // 2], order[examples // 2 :])
    if min(map(len, halves)) < n + 3:
        halves = (order, order)
    maps = [linear_maps(x[:, half], y[:, half])[0].reshape(tasks, m * n) for half in halves]
    size = np.sqrt((maps[0] ** 2).sum(1) + (maps[1] ** 2).sum(1))
    there = size > ROUNDING * size.max()  # a task with constant outputs has no map: it differs nowhere
    if there.sum() < 2:
        return Shared(0.0, np.inf, False)
    maps, size, tasks = [one[there] for one in maps], size[there], int(there.sum())
    tied = weight_orbits(generators, (m, n))
    labels, signs = tied.labels.numpy(), tied.signs.numpy().astype(float)
    first, second = ((one / size[:, None]) * signs for one in maps)
    count = np.bincount(labels)
    means = [_class_means(one, labels, count) for one in (first, second)]
    power = (means[0] * means[1]).mean(0)  # of each class
    differences = (
        0.5 * (first * means[1][:, labels] + second * means[0][:, labels]) - (means[0] * means[1])[:, labels]
    )
    counted = (count[labels] > 1) & (power[labels] > FAMILIES.faint * power.max()) & (signs != 0)
    if not counted.any():
        return Shared(0.0, np.inf, False)
    scale = power[labels][counted]
    value = differences[:, counted].mean(0) / scale
    error = differences[:, counted].std(0, ddof=1) / scale / tasks**0.5
    weight = scale / scale.sum()
    mean = float((weight * (value**2 - error**2)).sum())
    deviation = float(
        np.sqrt((weight**2 * (2 * error**4 + 4 * np.maximum(value**2 - error**2, 0) * error**2)).sum())
    )
    outputs, inputs = np.divmod(np.flatnonzero(counted), n)
    chances = [
        _chance(differences[:, counted], which) for which in (np.arange(int(counted.sum())), outputs, inputs)
    ]
    upper = max(0.0, mean) + 2.33 * deviation
    return Shared(mean, upper, min(chances) < FAMILIES.chance and upper > ROUNDING**2)


def _class_means(maps: Array, labels: Labels, count: Labels) -> Array:
    """``[tasks, classes]``: the mean of each class of entries."""
    total = np.zeros((len(maps), len(count)))
    np.add.at(total.T, labels, maps.T)
    return np.asarray(total / count)


def _chance(differences: Array, which: Labels) -> float:
    """How likely differences ``[tasks, entries]``, summed over entries with the same number, are by chance."""
    parts = np.unique(which)
    sums = np.stack([differences[:, which == part].sum(1) for part in parts], axis=1)
    error = np.maximum(sums.std(0, ddof=1) / len(sums) ** 0.5, 1e-300)
    return float(chdtrc(len(parts), float(((sums.mean(0) / error) ** 2).sum())))
