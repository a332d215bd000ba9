"""How far U is from what a symmetry makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from metasym.groups.signed_permutations import SignedPermutation
from metasym.inspection.finding import largest_error


def monomial(images: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """``M [n, n]`` with ``(M x)[i] = signs[i] x[images[i]]``."""
    return np.eye(len(images))[images] * signs[:, None]


@pytest.mark.parametrize("seed", range(12))
def test_errors_are_those_of_the_matrices(seed: int) -> None:
    draw = np.random.default_rng(seed)
    m, n = (int(size) for size in draw.integers(1, 7, 2))
    U = draw.standard_normal((m * n, 3))
    elements, errors = [], []
    for moves_outputs, moves_inputs in ((True, True), (False, True), (True, False), (False, False)):
        outputs = draw.permutation(m) if moves_outputs else np.arange(m)
        inputs = draw.permutation(n) if moves_inputs else np.arange(n)
        signs = draw.choice([1, -1], m, p=[0.8, 0.2]), draw.choice([1, -1], n, p=[0.8, 0.2])
        sides = (outputs, inputs, *signs)
        elements.append(SignedPermutation(*(tuple(side.tolist()) for side in sides)))
        moved = np.kron(monomial(outputs, signs[0]), monomial(inputs, signs[1])) @ U
        errors.append(float(np.linalg.norm(moved - U) / np.linalg.norm(U)))
    assert [largest_error(U, [g]) for g in elements] == pytest.approx(errors, abs=1e-12)
    assert largest_error(U, elements) == pytest.approx(max(errors), abs=1e-12)
    assert largest_error(0 * U, elements) == 0
