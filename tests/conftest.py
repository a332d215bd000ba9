"""What all tests share: one thread (two would spin against each other), and hypothesis made deterministic."""

from __future__ import annotations

import hypothesis
import pytest
import torch

torch.set_num_threads(1)

hypothesis.settings.register_profile(
    "metasym", deadline=None, derandomize=True, max_examples=40, print_blob=True
)
hypothesis.settings.load_profile("metasym")


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
