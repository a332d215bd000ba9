"""LieGAN's two bodies: the data, and how a generator is compared."""

import numpy as np
from scipy.integrate import solve_ivp

from studies import two_bodies as study


def test_orbits_agree_with_an_integrator_and_turn_with_the_true_generator() -> None:
    paths = study.orbits(np.random.default_rng(1), 2)
    moments = np.linspace(0, study.TIME, study.MOMENTS)

    def pull(_: float, state: np.ndarray) -> np.ndarray:
        apart = state[:2] * 2  # the other body is opposite
        return np.r_[state[2:], -apart / np.linalg.norm(apart) ** 3]

    for path in paths:
        exact = solve_ivp(pull, (0, study.TIME), path[0, :4], t_eval=moments, rtol=1e-10, atol=1e-12)
        assert np.allclose(path[:, :4], exact.y.T, atol=1e-4)
        assert np.array_equal(path[:, 4:], -path[:, :4])


def test_cosine_counts_what_the_data_show() -> None:
    x, _ = study.pairs(np.random.default_rng(2), 4, 60)
    claimed = np.zeros((8, 8))
    claimed[:4, :4] = study.true_generator()[:4, :4]  # as discover writes it: on inputs that say their own
    assert np.isclose(study.cosine(study.on_the_data(claimed, x), x), 1)
    claimed[:2, :2] = 0  # only momenta turn
    assert np.isclose(study.cosine(study.on_the_data(claimed, x), x), 0.5**0.5)


def test_augmentation_by_the_truth_helps_where_orbits_cover_a_part() -> None:
    draw = np.random.default_rng(3)
    train, test = study.pairs(draw, 3, 100), study.pairs(draw, 20, 200)
    without, turned = (study.network_error(g, train, test, 0, 600) for g in (None, study.true_generator()))
    assert turned < without
