"""Certificates over all tasks of a file, beside the maps that the tasks were made of."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binom

from metasym.certification import SignedPermutation
from metasym.certification.all_tasks import AllTasks, differing_tasks, group_form
from metasym.certification.certificate import certify_all
from metasym.certification.own_weights import own_weights
from metasym.certification.screening import screened
from metasym.groups.signed_groups import weight_orbits
from tests.evidence.families import examples, generic, shifted

N = 5
TURN = SignedPermutation(tuple((i + 1) % N for i in range(N)), tuple((i + 1) % N for i in range(N)))


def everyone(maps, count=4 * N, noise=0.02, seed=0, uneven=0.0, held=5):
    g = torch.Generator().manual_seed(seed)
    x, y = examples(maps, count, 0.0, seed)
    size = x.square().mean(2, keepdim=True).sqrt() ** uneven
    size = size / size.square().mean().sqrt()
    y = y + noise * y.std() * size * torch.randn(y.shape, generator=g, dtype=torch.float64)
    own = own_weights(list(x), list(y))
    assert own is not None
    ids = torch.arange(len(maps))
    return AllTasks(own, ids % held == 0, ids)


def defect(maps):
    return float((maps - TURN.on_weights(maps)).norm() / maps.norm())


@pytest.mark.parametrize("odd", [[3, 21], [0, 5], [7]], ids=["learned", "held out", "one"])
def test_tasks_that_differ_count_in_the_bound_wherever_they_are(odd):
    """A sensor at half: in tasks that the group was found on, or in those held out."""
    maps = shifted(60, N)
    maps[odd, :, 1] *= 0.5
    found = certify_all(everyone(maps), [TURN])
    assert found.differing == tuple(odd)
    assert defect(maps) <= found.defect_upper < 1.5 * defect(maps)
    assert not found.refuted
    assert found.common is not None
    assert (found.common.part, found.common.index) == ("input", 1)
    assert found.common.factor == pytest.approx(0.5, abs=0.05)


def test_contradicting_tasks_are_not_removed_from_the_bound():
    maps = shifted(60, N)
    maps[::15] = generic(4, N)
    found = certify_all(everyone(maps), [TURN])
    assert found.differing == (0, 15, 30, 45)
    assert found.defect_upper >= defect(maps) > 0.2
    assert not found.within(0.2)


def test_the_bound_holds_as_often_as_it_says_where_few_tasks_differ():
    """One task in 30 or none: a t interval over held-out tasks is too low in most of these files."""
    below = 0
    for seed in range(40):
        maps = shifted(40, N, seed)
        odd = torch.rand(40, generator=torch.Generator().manual_seed(seed)) < 1 / 30
        maps[odd, :, 1] *= 0.5
        below += certify_all(everyone(maps, noise=0.1, seed=seed), [TURN]).defect_upper < defect(maps)
    assert below <= 4


def test_where_the_bound_is_what_odd_tasks_show_it_is_surer():
    """Little noise, one task in ten at half a sensor: a limit at 95 % would be too low in one file of twenty."""
    below = 0
    for seed in range(200):
        maps = shifted(20, 3, seed)
        maps[::10, :, 1] *= 0.5
        g = SignedPermutation((1, 2, 0), (1, 2, 0))
        true = float((maps - g.on_weights(maps)).norm() / maps.norm())
        found = certify_all(everyone(maps, noise=0.01, seed=seed), [g])
        assert found.defect_upper < 1.1 * true
        below += found.defect_upper < true
    assert below <= 2


def test_the_share_of_further_tasks_is_the_exact_binomial_one():
    """With the chance of missing a task that differs visibly."""
    maps = shifted(60, N)
    maps[[3, 21], :, 1] *= 0.2
    found = certify_all(everyone(maps), [TURN])
    assert found.share_upper is not None
    seen = found.share_upper * 0.975 * 0.95
    assert binom.cdf(2, 60, seen) == pytest.approx(0.05, abs=1e-6)


def test_a_task_with_the_visible_defect_is_noticed():
    maps = shifted(200, N)
    tasks = everyone(maps, noise=0.1)
    form = group_form(weight_orbits((TURN,), (N, N)).average(torch.eye(N * N, dtype=torch.float64)))
    total = float(maps.square().sum((1, 2)).mean())
    visible = differing_tasks(tasks, form, total).visible
    rough = generic(100, N) - shifted(1, N)
    rough = rough - weight_orbits((TURN,), (N, N)).average(rough.flatten(1)).reshape(rough.shape)
    length = (2 * rough.square().sum((1, 2), keepdim=True)).sqrt()
    maps[:100] += visible * total**0.5 * rough / length
    moved = everyone(maps, noise=0.1)
    squares = differing_tasks(
        AllTasks(moved.own[torch.arange(30)], moved.fresh[:30], moved.ids[:30]), form, total
    )
    assert squares.many  # nearly all of these thirty are noticed: a defect of all tasks
    alone = torch.cat([torch.arange(20), torch.arange(100, 200)])
    found = differing_tasks(AllTasks(moved.own[alone], moved.fresh[alone], moved.ids[alone]), form, total)
    assert int(found.there[:20].sum()) >= 18
    assert int(found.there[20:].sum()) == 0


@pytest.mark.parametrize("uneven", [-3.0, 0.0, 2.0])
def test_the_square_without_its_noise_has_no_bias_for_noise_that_depends_on_the_inputs(uneven):
    tasks = everyone(shifted(500, N), 3 * N + 1, 1.0, uneven=uneven)
    form = group_form(weight_orbits((TURN,), (N, N)).average(torch.eye(N * N, dtype=torch.float64)))
    squares = tasks.own.squares(form)
    assert abs(float(squares.mean() / squares.std() * 500**0.5)) < 3.5
    simple = squares + tasks.own.added(form) - tasks.own.positive.flatten(1) @ form.flatten()
    if uneven < 0:  # what equal noise would ask for is far too much
        assert float(simple.mean() / simple.std() * 500**0.5) < -4


def test_the_covariance_of_weights_is_that_of_least_squares_for_equal_noise():
    g = torch.Generator().manual_seed(1)
    x = torch.randn(400, 16, 3, generator=g, dtype=torch.float64)
    y = 0.5 * torch.randn(400, 16, 2, generator=g, dtype=torch.float64)
    own = own_weights(list(x), list(y))
    assert own is not None
    expected = 0.25 * torch.linalg.inv(x.mT @ x).mean(0)
    blocks = own.covariance.mean(0).reshape(2, 3, 2, 3)
    for a in range(2):
        np.testing.assert_allclose(blocks[a, :, a], expected, atol=0.12 * float(expected.max()))
    np.testing.assert_allclose(blocks[0, :, 1], 0, atol=0.12 * float(expected.max()))


@pytest.mark.parametrize("offset", [False, True])
def test_own_weights_are_least_squares(offset):
    g = torch.Generator().manual_seed(2)
    lengths = (9, 12, 9)
    x = [torch.randn(c, 3, generator=g, dtype=torch.float64) for c in lengths]
    y = [torch.randn(c, 2, generator=g, dtype=torch.float64) for c in lengths]
    own = own_weights(x, y, offset=offset)
    assert own is not None
    for t, (a, b) in enumerate(zip(x, y, strict=True)):
        design = torch.cat([a, torch.ones(len(a), 1, dtype=torch.float64)], 1) if offset else a
        fitted = torch.linalg.lstsq(design, b).solution[:3].T
        np.testing.assert_allclose(own.weights[t].reshape(2, 3), fitted, atol=1e-10)


@pytest.mark.parametrize("offset", [False, True])
def test_own_weights_of_some_tasks_at_a_time_are_those_of_all(monkeypatch, offset):
    """Of short tasks, whose matrices of examples by examples are solved, and of one that is too long for it."""
    g = torch.Generator().manual_seed(3)
    lengths = (12, 9, 12, 70, 12)
    x, y = ([torch.randn(c, n, generator=g, dtype=torch.float64) for c in lengths] for n in (3, 2))
    whole = own_weights(x, y, offset=offset)
    monkeypatch.setattr("metasym.certification.own_weights._PRODUCTS", 1)
    again = own_weights(x, y, offset=offset)
    assert whole is not None
    assert again is not None
    for name in ("weights", "covariance", "positive", "spare"):
        torch.testing.assert_close(getattr(again, name), getattr(whole, name), rtol=1e-10, atol=1e-12)


def test_tasks_with_few_examples_do_not_tell_their_weights():
    x, y = examples(shifted(10, N), N + 1)
    assert own_weights(list(x), list(y)) is None


def test_a_defect_of_all_tasks_is_refuted_and_told_by_what_breaks_it():
    maps = shifted(60, N)
    maps[:, 3] *= 0.9
    found = certify_all(everyone(maps), [TURN])
    assert found.refuted
    assert found.differing == ()
    assert found.breaking is not None
    assert (found.breaking.part, found.breaking.index) == ("output", 3)
    assert found.breaking.factor == pytest.approx(0.9, abs=0.02)
    assert found.defect == pytest.approx(defect(maps), rel=0.2)


def test_the_screen_lets_true_groups_through():
    """At 99 % a screen would lose one true group in a hundred, and more where noise has long tails."""
    assert (
        sum(screened(everyone(shifted(30, N, s), noise=0.2, seed=s), [TURN]) is not None for s in range(60))
        == 0
    )
    assert screened(everyone(shifted(30, N) + 0.3 * generic(30, N)), [TURN]) is not None


def test_faint_weights_do_not_hide_what_all_together_say():
    """Off the diagonal the weights are a hundredth of the others, far below the noise."""
    weak = torch.where(torch.eye(N, dtype=torch.bool), 1.0, 0.01).double()
    corner = torch.zeros(N, N, dtype=torch.bool)
    corner[torch.arange(N), (torch.arange(N) + 2) % N] = True
    maps = shifted(60, N) * torch.where(corner, 0.01, weak.clamp_min(0.5))
    found = certify_all(everyone(maps, noise=0.15), [TURN])
    assert len(found.faint) == N
    assert set(found.faint) == set(torch.nonzero(corner.flatten()).flatten().tolist())
    assert found.within(0.2)


def test_copies_of_tasks_bring_no_certainty():
    """Each task four times: the bound is that of the tasks once, and wider than that of as many other tasks."""
    once, many = everyone(shifted(20, N), noise=0.3), everyone(shifted(80, N), noise=0.3)
    again = torch.arange(20).repeat(4)
    copies = AllTasks(once.own[again], once.fresh[again], torch.arange(80), again)
    found, single = certify_all(copies, [TURN]), certify_all(once, [TURN])
    assert found.defect_upper == pytest.approx(single.defect_upper, rel=0.05)
    assert found.refuted == single.refuted
    assert found.defect_upper > 1.2 * certify_all(many, [TURN]).defect_upper
    assert found.share_upper == pytest.approx(single.share_upper)
    assert int(copies.firsts.sum()) == 20


@pytest.mark.parametrize("independent", [1, 2, 4, 5])
def test_copies_of_few_tasks_certify_nothing(independent):
    """Sixty copies of one map vary by nothing at all, which is not how well it is known."""
    maps = generic(independent, N).repeat(60 // independent, 1, 1)
    tasks = everyone(maps)
    blocks = torch.arange(len(maps)) % independent
    found = certify_all(AllTasks(tasks.own, tasks.fresh, tasks.ids, blocks), [TURN])
    assert not found.within(0.2)
    assert math.isinf(found.defect_upper) == (independent < 5)


def test_rounding_is_not_noise_that_breaks_an_assumption():
    """Without noise what is left of y is rounding, and its law is not that of noise: nothing follows from it."""
    flip = SignedPermutation(tuple(range(N))[::-1], tuple(range(N))[::-1])
    maps = generic(500, N)
    found = certify_all(everyone((maps + flip.on_weights(maps)) / 2, count=2 * N, noise=0.0), [flip])
    assert found.within(1e-6)
    assert found.negative == 0


def test_one_weight_that_breaks_a_symmetry_is_named():
    maps = shifted(60, N)
    maps[:, 2, 1] *= 0.5
    found = certify_all(everyone(maps), [TURN]).breaking
    assert found is not None
    assert (found.part, found.index, found.column, found.alone) == ("weight", 2, 1, True)
    assert found.factor == pytest.approx(0.5, abs=0.05)


def test_a_defect_that_all_weights_share_is_called_spread():
    draw = torch.Generator().manual_seed(3)
    maps = shifted(60, N) * (1 + 0.1 * torch.randn(N, N, generator=draw, dtype=torch.float64))
    found = certify_all(everyone(maps), [TURN])
    assert found.refuted
    assert found.breaking is not None
    assert not found.breaking.alone
    assert found.breaking.share < 0.8
