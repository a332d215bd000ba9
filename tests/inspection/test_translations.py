"""Shifts that borders break are read where they are, and nowhere else."""

import numpy as np

from metasym.inspection.translations import find_translations


def test_a_convolution_shows_its_shift():
    classes = np.zeros((10, 12), dtype=np.int64)
    for i in range(10):
        classes[i, i : i + 3] = [1, 2, 3]
    (found,) = find_translations(classes)
    assert (found.outputs, found.inputs, found.rows) == (1, 1, 9)


def test_random_graphs_show_none():
    """With a diagonal of one class, whose ties are those of any graph."""
    for seed in range(150):
        draw = np.random.default_rng(seed)
        edges = np.triu(draw.random((12, 12)) < 0.25, 1)
        classes = np.where(edges | edges.T, 1, 0)
        np.fill_diagonal(classes, 2)
        assert find_translations(classes.astype(np.int64)) == ()
