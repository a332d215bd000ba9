"""What breaks a symmetry that nearly holds: which output, input or weight carries its defect, and by which factor."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from metasym.certification.all_tasks import group_form
from metasym.certification.certificate_thresholds import BREAKING
from metasym.certification.own_weights import OwnWeights
from metasym.groups.signed_groups import WeightOrbits
from metasym.verdicts.reports import Breaking


def what_breaks(own: OwnWeights, orbits: WeightOrbits) -> Breaking | None:
    """The output, input or weight without which the tasks have the symmetry; else what carries most of its defect."""
    m, n = own.shape
    whole = float(own.squares(_form_without(orbits, torch.zeros(m * n, dtype=torch.bool))).mean())
    if whole <= 0:
        return None
    entries = torch.arange(m * n).reshape(m, n)
    outputs = [_carried(own, orbits, whole, "output", i, entries[i]) for i in range(m)]
    inputs = [_carried(own, orbits, whole, "input", j, entries[:, j]) for j in range(n)]
    found = [one for one in (*outputs, *inputs) if one.alone]
    if not found:
        return max((*outputs, *inputs), key=lambda one: one.share)
    row, column = (max(side, key=lambda one: one.share) for side in (outputs, inputs))
    if row.alone and column.alone:
        weight = _carried(own, orbits, whole, "weight", row.index, entries[row.index, column.index])
        if weight.alone:
            return replace(weight, column=column.index)
    best = max(one.share for one in found)
    near = [one for one in found if one.share > best - BREAKING.unclear]
    return min(near, key=lambda one: (one.factor is None, one.factor or 0.0))


def _carried(
    own: OwnWeights, orbits: WeightOrbits, whole: float, part: str, index: int, entries: Tensor
) -> Breaking:
    """How much of the squared defect is gone where these entries may be anything."""
    masked = torch.zeros(orbits.labels.shape, dtype=torch.bool)
    masked[entries] = True
    left = float(own.squares(_form_without(orbits, masked)).mean())
    share = 1 - max(0.0, left) / whole
    if share < BREAKING.most:
        return Breaking(part, index, share, alone=False)
    return Breaking(part, index, share, _factor(own, orbits, masked, whole))


def _form_without(orbits: WeightOrbits, masked: Tensor) -> Tensor:
    """The group's form where the masked entries may be anything."""
    size = len(masked)
    labels = torch.where(masked, orbits.count + torch.arange(size), orbits.labels)
    signs = torch.where(masked, 1, orbits.signs)
    free = WeightOrbits(torch.unique(labels, return_inverse=True)[1], signs)
    return group_form(free.average(torch.eye(size, dtype=torch.float64)))


def _factor(own: OwnWeights, orbits: WeightOrbits, masked: Tensor, whole: float) -> float | None:
    """By which factor the masked entries differ from what the others ask of them, if that explains the defect."""
    signs = orbits.signs.double()
    seen = torch.where(masked, 0.0, signs)
    sums = torch.zeros(len(own), orbits.count, dtype=torch.float64).index_add_(
        1, orbits.labels, own.weights * seen
    )
    counts = torch.zeros(orbits.count, dtype=torch.float64).index_add_(0, orbits.labels, seen.abs())
    asked = ((sums / counts.clamp_min(1))[:, orbits.labels] * signs)[:, masked]
    power = float(asked.square().sum())
    if power == 0:
        return None
    factor = float((asked * own.weights[:, masked]).sum()) / power
    if not 1 / BREAKING.largest_factor < abs(factor) < BREAKING.largest_factor:
        return None
    undo = torch.where(masked, 1 / factor, 1.0)
    form = _form_without(orbits, torch.zeros_like(masked))
    left = float(own.squares(undo[:, None] * form * undo).mean())
    return factor if left < (1 - BREAKING.most) * whole else None
