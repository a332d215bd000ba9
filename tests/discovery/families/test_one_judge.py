"""``learn`` and ``discover`` hold a group against linear tasks by one judge, in one unit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from metasym.certification.judge import judge_tasks
from metasym.discovery.families.family_group import judged_group, split_tasks_of, task_model
from metasym.inspection.given_groups import hypothesis
from metasym.verdicts.claims import Claim
from metasym.verdicts.defects import defect_of, share_of
from metasym.verdicts.family_reasons import RefutedByTasks

N, TASKS, TOLERANCE = 4, 60, 0.08


@pytest.mark.parametrize(("gain", "holds"), [(1.0, True), (0.8, False)])
def test_one_judge_for_linear_tasks(gain: float, holds: bool) -> None:
    draw = np.random.default_rng(0)
    maps = draw.standard_normal((TASKS, N))[:, (np.arange(N)[:, None] - np.arange(N)) % N]
    maps[:, :, 2] *= gain
    x = draw.standard_normal((TASKS, N + 8, N))
    y = np.einsum("tmn,ten->tem", maps, x) + 0.02 * draw.standard_normal((TASKS, N + 8, N))
    group = hypothesis("shifts", N, N).group
    fresh = split_tasks_of(TASKS, 0)[1]
    held = torch.zeros(TASKS, dtype=torch.bool)
    held[torch.from_numpy(fresh)] = True
    inputs, outputs = list(torch.from_numpy(x)), list(torch.from_numpy(y))
    linear = judge_tasks(group.generators, inputs, outputs, held, tolerance=TOLERANCE)
    found = judged_group(x, y, group, task_model(x, y, 0), 0, fresh, share_of(TOLERANCE))
    assert linear.within(TOLERANCE) == holds
    assert linear.refuted == (not holds)
    if holds:
        assert isinstance(found, Claim)
        assert linear.bound <= found.defect_upper <= defect_of(0.01)
    else:
        assert isinstance(found, RefutedByTasks)
        assert (found.defect, found.upper) == (linear.defect, linear.bound)
