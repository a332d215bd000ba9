"""Small random images in place of Omniglot and MiniImagenet, so that whole runs take moments."""

from __future__ import annotations

import numpy as np
import pytest

from metasym.models.image_networks import SIZES
from metasym.paper import image_cells, image_problem
from metasym.tasks.images import from_arrays

FEW = {
    "outer_steps": 1,
    "tasks_per_step": 1,
    "queries": 1,
    "test_tasks": 2,
    "test_queries": 1,
    "validate_every": 1,
    "test_inner_steps": 1,
}


@pytest.fixture
def tiny(monkeypatch):
    """Images of 16 x 16, and classes that a mean grey tells apart."""
    for name, (channels, _, _) in list(SIZES.items()):
        monkeypatch.setitem(SIZES, name, (channels, 16, 16))
    monkeypatch.setattr(image_problem, "VALIDATION_TASKS", 1)
    monkeypatch.setattr(image_problem, "VALIDATION_QUERIES", 1)

    def classes(experiment):
        channels, *size = image_cells.setting(experiment.problem).input_shape
        labels = np.repeat(np.arange(22), 21)
        draw = np.random.default_rng(0)
        pixels = draw.integers(0, 60, (len(labels), channels, *size)) + 9 * labels[:, None, None, None]
        return [from_arrays(pixels.astype(np.uint8), labels)] * 3

    monkeypatch.setattr(image_problem, "image_classes", classes)
