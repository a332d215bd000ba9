"""A cheap look at a candidate on the tasks that it was found on: only what is far beyond chance is screened out.

The certificate rests on other tasks anyway. A screen that is as strict as a test loses true groups by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from metasym.certification.all_tasks import AllTasks, group_form
from metasym.certification.certificate import class_scale
from metasym.certification.certificate_thresholds import FILE, NAMING, NEGLIGIBLE_DEFECT
from metasym.groups.signed_groups import weight_orbits
from metasym.groups.signed_permutations import SignedPermutation


def screened(tasks: AllTasks, generators: Sequence[SignedPermutation]) -> float | None:
    """The defect of a group that the tasks it was found on contradict far beyond chance; None if they do not.

    Without the tasks that show most of it: a few may differ from all others.
    """
    own = tasks.own[~tasks.fresh]
    orbits = weight_orbits(tuple(generators), own.shape)
    power = own.power
    form = group_form(orbits.average(torch.eye(len(power), dtype=torch.float64)))
    scale = class_scale(power, orbits)
    for one, total in ((form, float(power.sum())), (form / scale / scale[:, None], float(len(power)))):
        squares = own.squares(one)
        usual = squares.sort().values[: math.ceil((1 - FILE.many) * len(squares))]
        error = float(usual.std()) / math.sqrt(len(usual))
        if float(usual.mean()) > max(NAMING.far * error, NEGLIGIBLE_DEFECT**2 * total):
            return math.sqrt(max(0.0, float(own.squares(form).mean())) / float(power.sum()))
    return None
