"""Adapting keeps no graph: its peak memory does not depend on the number of inner steps or of tasks."""

from __future__ import annotations

import pytest

from tests import forked

PROGRAM = """
import resource, sys
import torch, torch.nn.functional as F
from torch import nn
import metasym as ms
torch.set_num_threads(1)
steps, tasks = int(sys.argv[1]), int(sys.argv[2])

class Family:
    def __len__(self):
        return tasks
    def episode(self, index, generator):
        x = torch.randn(64, 128, generator=generator)
        return ms.Episode(ms.Batch(x, x[:, :8].clone()), ms.Batch(x, x[:, :8].clone()), torch.tensor(index))

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(128, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 8))
learner = ms.MSR(ms.reparameterize(model), F.mse_loss, inner_lr=0.01, step_sizes="fixed")
ms.evaluate(learner, Family(), inner_steps=steps, tasks_per_chunk=4)
learner.adapt(Family().episode(0, torch.Generator().manual_seed(0)).support, inner_steps=steps)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak(steps: int, tasks: int) -> int:
    done = forked.run(["-c", PROGRAM, str(steps), str(tasks)])
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.slow
def test_peak_memory_does_not_grow_with_inner_steps_or_tasks() -> None:
    """A kept graph would hold 3 MB a task and step: more than 1 GB over 100 steps of 4 tasks."""
    few = peak(3, 4)
    assert peak(100, 4) < 1.05 * few
    assert peak(3, 32) < 1.05 * few
