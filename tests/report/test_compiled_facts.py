"""What a report page says of compiled layers."""

from __future__ import annotations

import numpy as np
import torch

import metasym as ms
from metasym.report.page.compiled_facts import compiled_facts
from tests.fast_layers import patterns


def facts(classes: np.ndarray) -> dict[str, str]:
    """Of a layer whose U has a direction for every class."""
    U = torch.eye(int(classes.max()))[torch.from_numpy(classes.ravel() - 1)]
    model = torch.nn.Linear(*classes.shape[::-1], bias=False)
    ms.reparameterize(model, lambda *_: ms.DenseSymmetry(classes.shape, U=U))
    return dict(compiled_facts(ms.inspect(model)[0]))


def test_what_is_compiled_stands_beside_the_dense_layer() -> None:
    found = facts(patterns.symmetric(200))
    assert found["compiled (ms.structured) for 32 examples"].startswith("2 classes: 1 sums of inputs")
    assert found["bytes of the weight"] == "8 (dense: 160,000)"
    assert found["multiply-adds per example"].endswith("(dense: 40,000)")
    assert "time of 32 examples, estimated" in found


def test_where_few_examples_do_not_pay_many_are_told_too() -> None:
    found = facts(patterns.circular(128))
    assert found["compiled (ms.structured) for 32 examples"].startswith("dense (circular convolution of 128")
    assert found["for 1,024 examples"] == "circular convolution of 128 points, by FFT"
    assert found["bytes of the weight"] == "512 (dense: 65,536)"
    assert {"time of 32 examples, estimated", "time of 1,024 examples, estimated"} <= set(found)


def test_where_nothing_helps_only_that_is_told() -> None:
    assert list(facts(patterns.circular(6))) == [
        "compiled (ms.structured) for 32 examples",
        "time of 32 examples, estimated",
    ]
