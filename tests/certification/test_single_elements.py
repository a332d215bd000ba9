"""Single elements against tasks: true ones are not contradicted, false ones are, also where noise is correlated."""

from __future__ import annotations

import pytest
import torch

from metasym.certification import SignedPermutation
from metasym.certification.certificate_thresholds import NAMING
from metasym.certification.single_elements import contradictions
from metasym.evidence import TaskStatistics

N = 5
SHIFT = tuple((i + 1) % N for i in range(N))
MIRROR = tuple(range(N))[::-1]
NOT_THERE = {
    "mirror": SignedPermutation(MIRROR, MIRROR),
    "shift of the inputs": SignedPermutation(tuple(range(N)), SHIFT),
    "shift with signs": SignedPermutation(SHIFT, SHIFT, (1, 1, 1, 1, -1), (1,) * N),
}


def circulant_tasks(generator: torch.Generator, noise: float, tasks: int = 120) -> TaskStatistics:
    """Circulant maps; inputs that are correlated, so that the noise of neighbouring weights is too."""
    rows = torch.randn(tasks, N, generator=generator, dtype=torch.float64)
    places = (torch.arange(N)[:, None] - torch.arange(N)) % N
    x = torch.randn(tasks, 15, N, generator=generator, dtype=torch.float64)
    x = x + 2 * x.roll(1, 2)
    y = x @ rows[:, places].mT
    return TaskStatistics.of(x, y + noise * torch.randn(y.shape, generator=generator, dtype=torch.float64))


def powers() -> list[SignedPermutation]:
    found, images = [], SHIFT
    for _ in range(N - 1):
        found.append(SignedPermutation(images, images))
        images = tuple(SHIFT[i] for i in images)
    return found


@pytest.mark.parametrize("noise", [0.01, 1.0])
def test_true_elements_survive_and_others_do_not(generator: torch.Generator, noise: float) -> None:
    tasks = circulant_tasks(generator, noise)
    scale = torch.ones(N * N, dtype=torch.float64)
    true = contradictions(tasks, powers(), scale)
    assert true is not None
    assert float(true.max()) < NAMING.survives
    false = contradictions(tasks, list(NOT_THERE.values()), scale)
    assert false is not None
    assert float(false.min()) > NAMING.survives


def test_what_noise_adds_is_taken_off(generator: torch.Generator) -> None:
    """Over many draws of noise the scores of a true symmetry lie around 0, neither above nor below."""
    scale = torch.rand(N * N, generator=generator, dtype=torch.float64)
    scale = scale.reshape(N, N)[0][(torch.arange(N)[:, None] - torch.arange(N)) % N].reshape(-1) + 0.5
    scores = []
    for _ in range(40):
        found = contradictions(circulant_tasks(generator, 3.0, tasks=40), powers()[:1], scale)
        assert found is not None
        scores.append(float(found[0]))
    mean = torch.tensor(scores).mean()
    assert abs(float(mean)) < 0.6  # one score has a deviation of about 1.1; their mean of 0.17


def test_too_few_examples_are_said(generator: torch.Generator) -> None:
    x = torch.randn(30, N, N, generator=generator, dtype=torch.float64)
    assert contradictions(TaskStatistics.of(x, x), powers(), torch.ones(N * N)) is None
