"""What breaks a symmetry that nearly holds: the one output or input that carries its defect, and by which factor."""

from __future__ import annotations

import torch
from torch import Tensor

from metasym.certification.all_tasks import group_form
from metasym.certification.certificate_thresholds import BREAKING
from metasym.certification.own_weights import OwnWeights
from metasym.groups.signed_groups import WeightOrbits
from metasym.verdicts.reports import Breaking


def what_breaks(own: OwnWeights, orbits: WeightOrbits) -> Breaking | None:
    """The output or input without which the tasks have the symmetry, if there is one."""
    m, n = own.shape
    whole = float(own.squares(_form_without(orbits, torch.zeros(m * n, dtype=torch.bool))).mean())
    if whole <= 0:
        return None
    found = []
    for part, count in (("output", m), ("input", n)):
        for index in range(count):
            masked = torch.zeros(m, n, dtype=torch.bool)
            masked[(index, slice(None)) if part == "output" else (slice(None), index)] = True
            left = float(own.squares(_form_without(orbits, masked.flatten())).mean())
            share = 1 - max(0.0, left) / whole
            if share >= BREAKING.most:
                factor = _factor(own, orbits, masked.flatten(), whole)
                found.append(Breaking(part, index, share, factor))
    if not found:
        return None
    best = max(one.share for one in found)
    near = [one for one in found if one.share > best - BREAKING.unclear]
    return min(near, key=lambda one: (one.factor is None, one.factor or 0.0))


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
