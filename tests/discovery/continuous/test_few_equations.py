"""Directions that are quiet because there are few examples are no symmetry."""

import numpy as np

from metasym.discovery.algebra.vector_fields import affine
from metasym.discovery.continuous.invariance_search import plain_fit, search
from metasym.verdicts.discovery_reasons import FewDirectionsTold


def test_more_directions_than_equations_end_before_an_algebra_is_looked_for() -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(24, 16))
    y = ((x[:, :1] + x[:, 1:2]) ** 2 + x[:, 2:3]) * x[:, 3:4]
    # 24 values of y: of 272 affine fields 248 are quiet, whatever the function is.
    found = search("affine", affine(16), x, y, plain_fit(x, y, draw), draw)
    assert found.reason == FewDirectionsTold(24)
    assert not len(found.fields)
