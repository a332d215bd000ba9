"""Groups that a learned prior may have, from the largest on: guesses, to be tested on tasks.

The rows of U are cut into classes at the widest gaps, as in ``inspection.pattern``, in several views of U: as it is,
where strong directions count most; with all directions alike, where weak ones count too; and between. Every cut's
pattern has a largest group. Where the data refute that, the elements of it that U keeps best generate its subgroups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from torch import Tensor

from metasym.certification.certificate import class_scale
from metasym.certification.certificate_thresholds import NAMING
from metasym.certification.single_elements import contradictions
from metasym.evidence.prior import Prior
from metasym.evidence.statistics import TaskStatistics
from metasym.groups.signed_groups import SignedGroup, weight_orbits
from metasym.groups.signed_permutations import SignedPermutation
from metasym.inspection.finding import find_group
from metasym.inspection.pattern import canonical, distances_up_to_sign
from metasym.verdicts.reports import FoundGroup

CUTS = 8
"""The widest gaps that are examined in each view."""
POWERS = (1.0, 0.5, 0.0)
"""Views: the singular values of U to these powers."""
_DRAWN = 400
"""Elements of a group whose errors are compared; of larger groups so many are drawn."""
_SUBGROUPS = 6
"""Subgroups of a refuted group that are examined next, and gaps that they are cut at (without tests twice)."""
_GAP = 1.05
"""Ratios of distances below this are no gaps: proposes fewer candidates, decides nothing."""


def candidates(prior: Prior, *, with_mean: bool = True) -> list[FoundGroup]:
    """Groups of the tasks' weights, largest first; without the mean, those of their deviations from it."""
    shape = (prior.mean.shape[0], prior.mean.shape[1])
    points = prior.U
    if with_mean:
        points = torch.cat([points, prior.mean.reshape(-1, 1)], 1)
    found: dict[bytes, FoundGroup] = {}
    seen: set[bytes] = set()
    for view in _views(points):
        for classes in _patterns(view, shape):
            if classes.tobytes() in seen:
                continue
            seen.add(classes.tobytes())
            group = find_group(classes, points.numpy(), named=False)
            if group is not None:  # signs of parts that no weight connects may flip in any map: no symmetry
                _add(found, _largest(group.generators, prior, shape), shape)
    return sorted(found.values(), key=lambda g: -g.order)


def subgroups(group: FoundGroup, prior: Prior, tasks: TaskStatistics) -> list[FoundGroup]:
    """Proper subgroups, largest first.

    First the one that those elements generate which the ``tasks`` do not contradict one by one; then those that the
    elements with the smallest errors generate, cut at the widest gaps.
    """
    shape = (prior.mean.shape[0], prior.mean.shape[1])
    scale = class_scale(prior.power.reshape(-1), weight_orbits(group.generators, shape))
    elements = SignedGroup(group.generators, shape, up_to_sign=True).first_elements(_DRAWN)[1:]
    found: dict[bytes, FoundGroup] = {}
    full = _key(group.generators, shape)

    def add(chosen: Sequence[SignedPermutation]) -> None:
        smaller = _largest(chosen, prior, shape) if chosen else None
        if smaller is not None and _key(smaller.generators, shape) != full:
            _add(found, smaller, shape)

    tested = contradictions(tasks, elements, scale)
    if tested is not None:
        add([g for g, far in zip(elements, tested.tolist(), strict=True) if far < NAMING.survives])
    points = torch.cat([prior.U, prior.mean.reshape(-1, 1)], 1).T.reshape(-1, *shape)
    units = scale.reshape(shape)
    errors = np.array([float(((points - g.on_weights(points)) / units).square().sum()) for g in elements])
    order = np.argsort(errors, kind="stable")
    ranked = errors[order].clip(1e-12 * errors.max() + 1e-300)
    gaps = np.log(ranked[1:] / ranked[:-1])
    for cut in np.argsort(-gaps, kind="stable")[: 2 * _SUBGROUPS if tested is None else _SUBGROUPS]:
        add([elements[i] for i in order[: cut + 1]])
    return sorted(found.values(), key=lambda g: -g.order)[:_SUBGROUPS]


def _largest(
    generators: Sequence[SignedPermutation], prior: Prior, shape: tuple[int, int]
) -> FoundGroup | None:
    """The largest group with the orbits that elements generate."""
    classes = weight_orbits(tuple(generators), shape).classes.reshape(shape)
    return find_group(classes, prior.U.numpy(), named=False)


def named(group: FoundGroup, prior: Prior) -> FoundGroup:
    """The group with its name and its exact order."""
    shape = (prior.mean.shape[0], prior.mean.shape[1])
    found = find_group(weight_orbits(group.generators, shape).classes.reshape(shape), prior.U.numpy())
    return group if found is None else found


def given(group: SignedGroup) -> FoundGroup:
    """A group that the user gave, as one that was found."""
    outputs, inputs = group.transitive
    return FoundGroup(group.name, group.order, group.generators, outputs, inputs, group.signed, 0.0)


def _key(generators: Sequence[SignedPermutation], shape: tuple[int, int]) -> bytes:
    """Groups with the same orbits leave the same weights as they are: no data distinguish them."""
    return weight_orbits(tuple(generators), shape).classes.tobytes()


def _add(found: dict[bytes, FoundGroup], group: FoundGroup | None, shape: tuple[int, int]) -> None:
    if group is not None:
        found.setdefault(_key(group.generators, shape), group)


def _views(points: Tensor) -> Iterator[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    left, values, _ = torch.linalg.svd(points, full_matrices=False)
    kept = values > 1e-9 * float(values[:1].sum())
    if not bool(kept.any()):  # all tasks are the same map: their deviations from it have no directions
        return
    for power in POWERS:
        yield (left[:, kept] * values[kept] ** power).numpy()


def _patterns(
    points: np.ndarray[tuple[int, ...], np.dtype[np.float64]], shape: tuple[int, int]
) -> Iterator[np.ndarray[tuple[int, ...], np.dtype[np.int64]]]:
    """Patterns ``[m, n]`` of the widest gaps between rows: 0 zero, equal numbers tied, opposite ones up to sign."""
    distances = distances_up_to_sign(points)
    tree = linkage(squareform(distances, checks=False), "single")
    heights = np.maximum(tree[:, 2], 1e-9 * float(np.abs(points).max()) + 1e-300)
    gaps = np.log(heights[1:] / heights[:-1])
    for last in np.argsort(-gaps, kind="stable")[:CUTS]:
        if gaps[last] <= math.log(_GAP):
            return
        joined = fcluster(tree, (tree[last, 2] + tree[last + 1, 2]) / 2, "distance")
        labels = np.where(joined[1:] == joined[0], 0, joined[1:]).astype(np.int64)
        names, signs = canonical(points, labels)
        yield (names * signs).reshape(shape)
