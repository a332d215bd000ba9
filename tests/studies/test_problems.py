"""The planted families, controls and small problems are what they say they are."""

from __future__ import annotations

import numpy as np
import pytest
from studies.calibration_problems import problem
from studies.controls import CONTROLS, control
from studies.families import CONDITION, DECAY, FAMILIES, correlated_inputs, family, family_maps
from studies.scoring import score
from studies.true_group import Element, true_group

ORDERS = {
    "shifts12": 12,
    "dihedral10": 20,
    "reflection10": 2,
    "blocks9": 6,
    "grid10": 10,
    "signed8": 8,
    "none8": 1,
    "shifts9": 9,
    "torus9": 9,
}


@pytest.mark.parametrize("name", FAMILIES)
def test_families_have_their_group_also_where_classes_vary_unequally(name: str) -> None:
    maps, U = family_maps(name, np.random.default_rng(0), 6, decay=DECAY)
    assert len(true_group(maps)) == ORDERS[name]
    spread = np.linalg.norm(U, axis=0)
    assert spread.max() / spread.min() == pytest.approx(DECAY)
    assert np.mean(family_maps(name, np.random.default_rng(1), 400)[0] ** 2) * maps.shape[1] == pytest.approx(
        1, rel=0.2
    )


def test_conditions() -> None:
    x = correlated_inputs(np.random.default_rng(0), 200, 100, 8, CONDITION).reshape(-1, 8)
    assert np.linalg.cond(x.T @ x) == pytest.approx(CONDITION, rel=0.2)
    assert family("blocks9", 0, condition="examples5").x.shape == (500, 5, 9)
    assert family("blocks9", 0, condition="tasks20").x.shape == (20, 20, 9)


@pytest.mark.parametrize("name", [name for name, made in CONTROLS.items() if made.truth == "none"])
def test_controls_have_no_symmetry(name: str) -> None:
    made = control(name, 0)
    if name not in ("squares", "diagonal"):  # nothing linear at all; signs of single outputs and inputs
        assert len(true_group(made.maps)) == 1
    assert score([], made.maps, nothing_is_true=True).outcome == "right"


@pytest.mark.parametrize("name", [name for name, made in CONTROLS.items() if made.truth != "none"])
def test_controls_with_shifts(name: str) -> None:
    assert len(true_group(control(name, 0).maps)) == 8


def test_what_the_controls_say() -> None:
    x = control("duplicates", 0).x
    assert np.array_equal(x[..., :4], x[..., 4:])
    assert np.ptp(control("constant", 0).x[..., [2, 5]]) == 0
    assert control("mean30", 0).x.mean() == pytest.approx(30, abs=0.1)
    made = control("quadratic", 0)
    rest = made.y - made.x @ made.maps.transpose(0, 2, 1)
    assert np.var(rest) / np.var(made.y) == pytest.approx(0.25, abs=0.02)
    made = control("fixed", 0)
    fixed = made.y - made.x @ made.maps.transpose(0, 2, 1)
    first = np.linalg.lstsq(made.x[0], fixed[0], rcond=None)[0]
    assert np.allclose(made.x @ first, fixed)


def test_small_problems_know_their_defects() -> None:
    """The exact defect, against that of the tasks that were drawn."""
    kinds = set()
    for seed in range(40):
        made = problem(seed)
        n = made.x.shape[2]
        kinds.add(made.planted)
        images = tuple((i + 1) % n for i in range(n))
        shift = Element(images, images, (1,) * n, (1,) * n)
        true = made.defect(shift)
        if made.planted in ("cyclic", "dihedral", "symmetric") and made.broken == 0:
            assert true < 1e-12
        if made.noise == 0:
            maps = np.stack(
                [np.linalg.lstsq(x, y, rcond=None)[0].T for x, y in zip(made.x, made.y, strict=True)]
            )
            moved = maps[:, shift.outputs][:, :, shift.inputs]
            drawn = np.linalg.norm(moved - maps) / np.linalg.norm(maps)
            assert drawn == pytest.approx(true, rel=0.5, abs=1e-9)
    assert len(kinds) == 7
