"""What all tasks share, and a group does not keep, in remainders that are mostly noise."""

from __future__ import annotations

import numpy as np
import pytest

from metasym.discovery.families.common_violation import shared_breaking
from metasym.groups.signed_permutations import SignedPermutation

TASKS, EXAMPLES, N = 60, 30, 4
SWAP = [SignedPermutation(images, images) for images in ((0, 1, 2, 3), (1, 0, 3, 2))]


@pytest.mark.parametrize(
    ("first", "second", "broken"), [(0.3, 0.3, False), (0.3, 0.0, True), (0.0, 0.0, False), (0.2, -0.2, True)]
)
def test_shared_curvature_shows_where_the_group_does_not_keep_it(
    first: float, second: float, broken: bool
) -> None:
    """Outputs 0 and 1 change places with inputs 0 and 1; each has a curvature of its own input beside noise."""
    draw = np.random.default_rng([int(10 * first), abs(int(10 * second))])
    x = draw.normal(size=(TASKS, EXAMPLES, N))
    left = draw.normal(size=(TASKS, EXAMPLES, N))
    left[..., 0] += first * (x[..., 0] ** 2 - 1)
    left[..., 1] += second * (x[..., 1] ** 2 - 1)
    found = shared_breaking(x, left, SWAP, 4 * N, np.random.default_rng(0))
    true = 2 * 2 * ((first - second) / 2) ** 2 / (4 * N)  # of a variance that is four times the noise
    if broken:
        assert found.low > 0
        assert 0.5 * true < found.violation_upper < 2 * true
    else:
        assert found.violation_upper < 0.002
