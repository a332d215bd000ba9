"""What is said of functions made to break certificates: of each cause one case."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.stats import binom, poisson
from studies.attacked_functions import Made, normal
from studies.function_attacks import Array, broken, judge, make

import metasym as ms
from metasym.discovery.continuous.polynomial_algebra import kept_by
from metasym.discovery.models.local_residuals import largest_residuals, sum_upper
from metasym.discovery.models.polynomials import Support
from metasym.discovery.models.preprocessing import prepare
from metasym.tasks.dataset import dataset
from metasym.verdicts.discovery_reasons import NearSymmetry, NoneLikely
from metasym.verdicts.discovery_words import interval_words, refusal_words, sized
from metasym.verdicts.outcomes import Outcome


def test_examples_with_the_same_inputs_are_on_one_side_of_the_split() -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(40, 3))[draw.integers(40, size=300)]
    prepared = prepare(dataset(x, x[:, 0] + draw.normal(size=300)), 0)
    parts = [{row.tobytes() for row in part[0]} for part in (prepared.train, prepared.held_out)]
    assert not parts[0] & parts[1]
    assert all(parts)
    assert len(prepared.notes) == 1
    np.testing.assert_allclose(  # ``order`` says which examples these are
        x[prepared.order][:, 0],
        np.concatenate([prepared.held_out[0], prepared.train[0]])[:, 0] * prepared.place.scale[0]
        + prepared.place.centre[0],
    )


def test_examples_that_repeat_others_count_once() -> None:
    draw = np.random.default_rng(1)
    x = draw.normal(size=(60, 3))
    again = draw.integers(60, size=200)
    prepared = prepare(dataset(x[again], np.sin(x[again]).sum(1)), 0)
    rows = np.concatenate([prepared.held_out[0], prepared.train[0]])
    assert len(np.unique(rows, axis=0)) == len(rows) == len(set(again.tolist()))


def test_the_error_of_a_small_output_shows() -> None:
    draw = np.random.default_rng(2)
    x = draw.normal(size=(150, 2))
    y = np.stack([1000 * (x[:, 0] + x[:, 1] ** 2), draw.normal(size=150)], axis=1)
    found = ms.discover(x, y, finite=False)
    assert found.plain.relative < 0.01
    assert found.plain.by_output[0] < 0.01
    assert found.plain.by_output[1] > 0.5


def test_a_scaling_that_keeps_every_term_keeps_all_polynomials() -> None:
    support = Support((((), (2,), (0, 1), (0, 0, 1, 1)),))
    field = np.zeros((1, 4, 5))
    field[0, 0, 0], field[0, 1, 1] = 1, -1
    x = np.random.default_rng(3).normal(size=(250, 3))
    assert kept_by(field, support, x).basis.shape[1] == support.size


def test_a_violation_in_few_places_is_not_certified() -> None:
    made = make("local-corner", 0)
    run = ms.discover(made.x, made.y, continuous=False)
    assert run.symmetries == []
    [reason] = [r for one in run.refused for r in one["reasons"] if r["kind"] == "few_rows_differ"]
    inside = (made.x[:, 0] > 1.2) & (made.x[:, 2] > 0.8)
    assert inside[reason["rows"][0]]  # the rows are those of the file


def test_few_residuals_hold_what_they_hold() -> None:
    left = 0.01 * np.random.default_rng(4).normal(size=(200, 1))
    left[[5, 17]] = 1.0
    y = np.random.default_rng(5).normal(size=(200, 1))
    found = largest_residuals(left, np.ones_like(left), y)
    assert sorted(found.rows) == [5, 17]
    assert found.share == pytest.approx(2.0 / float(((y - y.mean()) ** 2).sum()))
    # As many or fewer of 200 rows differ with a chance of 5 % where the limit is the truth.
    assert binom.cdf(2, 200, found.share_upper) == pytest.approx(0.05)


def test_few_rows_bound_what_further_rows_hold() -> None:
    """As many or fewer equal parts have a chance of 1 % where the limit is the truth; small parts change nothing."""
    for count in (1, 3, 12):
        upper = sum_upper(np.full(count, 2e-4)) / 2e-4
        assert poisson.cdf(count, upper) == pytest.approx(0.01)
        assert sum_upper(np.r_[np.full(count, 2e-4), np.full(50, 1e-12)]) / 2e-4 == pytest.approx(upper)
    assert sum_upper(np.zeros(0)) == 0


@pytest.mark.parametrize("seed", [1002, 1022])
def test_a_violation_that_few_rows_show_is_bounded_by_how_few_they_are(seed: int) -> None:
    """Three and five of 400 rows are in the ball, fewer than there are on average."""

    def function(points: Array) -> Array:
        inside = np.linalg.norm(points - np.array([1.2, 1.2, 0]), axis=1) < 0.6
        return np.asarray(points[:, 0] ** 2 + points[:, 1] * points[:, 2] + 0.5 * inside)[:, None]

    x = np.random.default_rng(seed).normal(size=(400, 3))
    run = ms.discover(x, function(x), continuous=False)
    made = Made(x, function(x), function, normal(3))
    for claim in run.symmetries:
        true, _ = broken(made, claim, np.random.default_rng(0).normal(size=(200_000, 3)))
        assert true <= claim["violation_upper"]


def test_a_claim_says_how_many_further_rows_may_differ() -> None:
    x = np.random.default_rng(6).normal(size=(200, 3))
    [claim] = ms.discover(
        x, np.cos(x[:, 0]) * x[:, 1] + x[:, 2] + 0.5 * x[:, 1] ** 2, continuous=False
    ).verdict.claims
    assert claim.rows_upper == pytest.approx(1 - 0.05 ** (1 / 200))  # none of 200 does
    assert type(claim).from_json(claim.to_json()) == claim


def test_a_true_group_of_heavy_tailed_inputs_is_not_refuted() -> None:
    made = make("heavy-tails", 0)
    row = judge(made, ms.discover(made.x, made.y, continuous=False))
    assert row["outcome"] in ("nothing", "claimed")


@pytest.mark.parametrize("kind", ["kinks-S3", "kinks-S4"])
def test_a_true_group_of_a_function_with_kinks_is_not_refuted(kind: str) -> None:
    """Where the likelihood of a smooth kernel is against it, it is open, and what would decide it is said."""
    made = make(kind, 0)
    run = ms.discover(made.x, made.y, continuous=False)
    assert judge(made, run)["outcome"] in ("nothing", "claimed")
    for one in run.verdict.candidates:
        assert one.outcome is not Outcome.REFUTED
        for reason in one.reasons:
            if isinstance(reason, NearSymmetry):
                assert reason.needed > reason.examples


def test_a_true_rotation_of_points_on_a_sphere_is_not_refuted() -> None:
    made = make("sphere-so2", 0)
    row = judge(made, ms.discover(made.x, made.y, finite=False))
    assert row["outcome"] in ("nothing", "claimed")


def test_words_have_no_empty_counts_and_no_size_twice() -> None:
    assert " 0 " not in refusal_words(NoneLikely(0))
    assert sized("a group of order 32", "finite", 32).count("32") == 1
    assert "e+" not in interval_words(-180.0, -460.0, 94.0)


def test_a_symmetric_model_that_errs_more_is_not_the_one_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    from metasym.discovery.finite.finite_symmetries import FiniteModel

    x = np.random.default_rng(6).normal(size=(200, 3))
    y = np.cos(x[:, 0]) * x[:, 1] + x[:, 2] + 0.5 * x[:, 1] ** 2
    before = ms.discover(x, y, continuous=False)
    assert before.symmetric is not None
    predict = FiniteModel.predict
    inside = 3 * 160 // 4  # the comparison inside the training examples sees it as it is

    def poor(self, fit, points):
        found = predict(self, fit, points)
        return found if len(fit.inputs) <= inside else found + 0.3 * points[:, :1]

    monkeypatch.setattr(FiniteModel, "predict", poor)
    found = ms.discover(x, y, continuous=False)
    assert found.symmetries  # a poor model refutes nothing
    assert len(found.notes) == len(before.notes) + 1
    assert dataclasses.asdict(found.plain) == dataclasses.asdict(before.plain)


def test_the_search_does_not_end_with_the_first_group() -> None:
    made = make("cosines-D4", 0)
    [claim] = ms.discover(made.x, made.y, continuous=False).symmetries
    assert (claim["name"], claim["order"]) == ("D_4", 8)


def test_a_violation_of_a_small_output_is_seen() -> None:
    made = make("two-scales", 0)  # the first output is even, the second a thousandth of its size and odd
    run = ms.discover(made.x, made.y, continuous=False)
    assert run.symmetries == []
    assert "refuted_by_beta" in {reason["kind"] for one in run.refused for reason in one["reasons"]}
