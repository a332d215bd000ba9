"""``run.predict(..., interval=0.9)``: against draws of the model itself, and on fresh tasks that are not Gaussian."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import metasym as ms
from metasym.evidence import Prior, TaskStatistics
from metasym.evidence.intervals import LEVELS, gaussian_width, width_at, widths

N, EXAMPLES = 4, 14


def circulants(
    seed: int, tasks: int, *, heavy: bool = False, noise: float = 0.1
) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    weights = draw.standard_t(3, (tasks, N)) if heavy else draw.standard_normal((tasks, N))
    maps = weights[:, (np.arange(N)[:, None] - np.arange(N)) % N]
    x = draw.standard_normal((tasks, EXAMPLES, N))
    y = 3.0 + 20 * np.einsum("tmn,ten->tem", maps, x)
    return x, y + 20 * noise * draw.standard_normal(y.shape)


@pytest.mark.parametrize("offset", [False, True])
def test_mean_and_variance_are_those_of_the_joint_gaussian(offset: bool, generator: torch.Generator) -> None:
    """The dense oracle: condition all outputs on those of the support; an offset is a very wide prior."""
    m, n, k, count = 2, 3, 4, 5
    draw = {"generator": generator, "dtype": torch.float64}
    prior = Prior(torch.randn(m, n, **draw), torch.randn(m * n, k, **draw), 0.3)
    x, y, new = torch.randn(count, n, **draw), torch.randn(count, m, **draw), torch.randn(3, n, **draw)
    rows = torch.cat([x, new])
    design = torch.einsum("ab,ej->eabj", torch.eye(m, dtype=torch.float64), rows).reshape(
        len(rows) * m, m * n
    )
    covariance = design @ prior.U @ prior.U.T @ design.T + 0.3 * torch.eye(len(design))
    if offset:
        each = torch.eye(m, dtype=torch.float64).repeat(len(rows), 1)
        covariance = covariance + 1e8 * each @ each.T
    mean = design @ prior.mean.reshape(-1)
    seen = count * m
    gain = torch.linalg.solve(covariance[:seen, :seen], covariance[:seen, seen:]).T
    wanted = mean[seen:] + gain @ (y.reshape(-1) - mean[:seen])
    spread = (covariance[seen:, seen:] - gain @ covariance[:seen, seen:]).diagonal()
    found = prior.predictive(TaskStatistics.of(x[None], y[None], offset=offset), new[None])
    tight = {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(found[0].reshape(-1), wanted, **tight)
    torch.testing.assert_close(found[1].reshape(-1), spread, **tight)


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("support", [1, 5])
def test_intervals_hold_on_fresh_tasks(heavy: bool, support: int) -> None:
    x, y = circulants(0, 300, heavy=heavy)
    run = ms.learn(x, y, baseline=False)
    x, y = circulants(1, 200, heavy=heavy)
    inside = []
    for one, other in zip(x, y, strict=True):
        found = run.predict(one[:support], other[:support], one[support:], interval=0.9)
        assert found.mean.shape == other[support:].shape
        inside.append(np.mean((found.lower <= other[support:]) & (other[support:] <= found.upper)))
    assert np.mean(inside) == pytest.approx(0.9, abs=0.04)  # one standard error is about one in a hundred


def test_the_middle_is_the_prediction_and_levels_are_nested() -> None:
    x, y = circulants(2, 80)
    run = ms.learn(x, y, baseline=False)
    plain = run.predict(x[0, :3], y[0, :3], x[0, 3:])
    before = None
    for level in (0.3, 0.5, 0.9, 0.99):
        found = run.predict(x[0, :3], y[0, :3], torch.from_numpy(x[0, 3:]), interval=level)
        np.testing.assert_allclose(found.mean.numpy(), plain, rtol=1e-3, atol=1e-3)
        width = (found.upper - found.lower).numpy()
        assert (width > 0).all()
        assert before is None or (width > before).all()
        before = width


def test_widths_of_gaussian_errors_are_gaussian_and_numbers_between_are_interpolated() -> None:
    errors = torch.randn(4000, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = widths(errors)
    assert found == pytest.approx([gaussian_width(level) for level in LEVELS], rel=0.03)
    assert width_at({}, 0.9, 3) == gaussian_width(0.9)
    table = {
        1: [2 * gaussian_width(level) for level in LEVELS],
        4: [gaussian_width(level) for level in LEVELS],
    }
    assert width_at(table, 0.9, 2) == pytest.approx(1.5 * gaussian_width(0.9))
    assert width_at(table, 0.93, 100) == pytest.approx(gaussian_width(0.93))


@pytest.mark.parametrize("interval", [0, 1, 1.5, -0.1, "90 %"])
def test_an_interval_that_is_none_is_refused(interval: object) -> None:
    x, y = circulants(3, 20)
    run = ms.learn(x, y, baseline=False)
    with pytest.raises(ms.MetasymError) as refused:
        run.predict(x[0, :3], y[0, :3], x[0, 3:], interval=interval)  # type: ignore[arg-type]
    assert refused.value.about == "interval"


def test_runs_without_a_posterior_say_so() -> None:
    x, y = circulants(4, 20)
    run = ms.learn(x, y, baseline=False, model="mlp", outer_steps=2)
    with pytest.raises(ms.MetasymError):
        run.predict(x[0, :3], y[0, :3], x[0, 3:], interval=0.9)
    found = ms.discover(x[:3].reshape(-1, N), y[:3].reshape(-1, N)[:, 0], continuous=False)
    with pytest.raises(ms.MetasymError):
        found.predict(x[0], interval=0.9)
