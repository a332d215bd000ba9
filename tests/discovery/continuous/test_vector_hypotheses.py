"""Inputs that may be vectors, asked directly: so(4) where a spectrum of fields shows no gap; near ones."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from metasym.discovery.algebra.vector_fields import derivative
from metasym.discovery.continuous.invariance_claims import judge
from metasym.discovery.continuous.invariance_search import plain_fit
from metasym.discovery.continuous.vector_hypotheses import Grouping, groupings, likely_vectors
from metasym.discovery.models.preprocessing import prepare
from metasym.tasks.dataset import dataset
from metasym.verdicts.claims import Claim
from metasym.verdicts.discovery_reasons import AnyDiscoveryReason
from metasym.verdicts.outcomes import Outcome

Array = npt.NDArray[np.float64]


def three_vectors(x: Array, off: float) -> Array:
    """Of three vectors of four numbers; one number of the first may count more than the others."""
    weights = np.ones(12)
    weights[1] += off
    a, b, c = (x * weights).reshape(-1, 3, 4).transpose(1, 0, 2)
    found: Array = np.sin((a * b).sum(1) / 3) + 0.1 * (a * a).sum(1) + (b * c).sum(1) / 4
    return found


def asked(off: float) -> tuple[Claim | None, tuple[AnyDiscoveryReason, ...]]:
    draw = np.random.default_rng([0, 5])
    x = draw.normal(size=(500, 12))
    y = three_vectors(x, off)
    prepared = prepare(dataset(x, y + 0.01 * y.std() * draw.normal(size=500)), 0)
    plain = plain_fit(*prepared.train, np.random.default_rng(1))
    found = likely_vectors(prepared, plain, np.random.default_rng(2))
    assert found is not None
    return judge(found, prepared, plain, np.random.default_rng(3))


def test_three_vectors_of_four_inputs_are_found() -> None:
    claim, _ = asked(0.0)
    assert claim is not None
    assert (claim.name, claim.size, claim.inputs) == ("so(4)", 6, tuple(range(12)))
    points = np.random.default_rng(4).normal(size=(50, 12))
    for generator in np.array(claim.generators):
        moved = points + 1e-5 * np.c_[points, np.ones(50)] @ generator.T
        np.testing.assert_allclose(three_vectors(moved, 0.0), three_vectors(points, 0.0), atol=1e-8)
    assert claim.violation_upper < 0.001


@pytest.mark.parametrize("off", [0.05, 0.3])
def test_vectors_that_are_nearly_turned_are_refuted(off: float) -> None:
    claim, reasons = asked(off)
    assert claim is None
    assert Outcome.REFUTED in {reason.outcome for reason in reasons}


@pytest.mark.parametrize("n", [3, 6, 12])
def test_every_grouping_keeps_its_invariants(n: int) -> None:
    found = groupings(n, np.zeros(n))
    assert Grouping((tuple(range(n)),), (1,) * n) in found
    for one in found:
        np.testing.assert_allclose(derivative(one.fields(n), one.polynomials(n)), 0, atol=1e-12)
        assert len({i for v in one.vectors for i in v}) == len(one.vectors) * len(one.metric)


def test_what_is_asked_of_twelve_inputs() -> None:
    found = groupings(12, np.zeros(12))
    assert Grouping(((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)), (1, 1, 1, 1)) in found
    assert Grouping(((0, 3, 6, 9), (1, 4, 7, 10), (2, 5, 8, 11)), (1, 1, 1, 1)) in found
    assert Grouping(((0, 1, 2), (3, 4, 5), (6, 7, 8), (9, 10, 11)), (1, 1, 1), points=True) in found
    assert len(set(found)) == len(found) < 80


def test_vectors_far_from_zero_are_asked_about_both_places() -> None:
    found = groupings(4, np.array([5.0, 5.0, 5.0, 5.0]))
    about = {one.about for one in found if one.vectors == ((0, 1), (2, 3)) and min(one.metric) > 0}
    assert about == {(), (5.0, 5.0, 5.0, 5.0)}
