"""Models of one function: what they predict is what the module of their state says, in the data's own units."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from metasym.discovery.algebra.vector_fields import beside, rotations
from metasym.discovery.continuous.generator_spectrum import pair_spectrum
from metasym.discovery.continuous.invariance_search import plain_fit
from metasym.discovery.models.fitted_module import module_of
from metasym.discovery.models.function_models import FunctionModel, InvariantProcess, PlainProcess
from metasym.discovery.models.invariant_features import symmetric_fit
from metasym.discovery.models.polynomials import FittedPolynomial, Support
from metasym.discovery.models.preprocessing import Prepared, prepare
from metasym.tasks.dataset import dataset
from metasym.verdicts.claims import Claim

CLAIM = Claim("continuous", "so(2)", 1, (), (0, 1), (), 1e-4, 0.0, (-0.1, 0.1), 12)


def prepared() -> Prepared:
    x = np.random.default_rng(0).normal(size=(60, 2)) * 3
    return prepare(dataset(x, np.exp(-((x / 3) ** 2).sum(1)) * 5 + 2), seed=0)


def models(data: Prepared) -> list[FunctionModel]:
    length = np.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    draw = np.random.default_rng(0)
    invariant = symmetric_fit(length, *data.train, draw)
    return [PlainProcess(data, plain_fit(*data.train, draw)), InvariantProcess(data, invariant, CLAIM)]


@pytest.mark.parametrize("index", [0, 1])
def test_the_module_says_what_the_model_predicts(index: int) -> None:
    data = prepared()
    model = models(data)[index]
    fit = model.fit(*data.train)
    x_new, y_new = data.held_out
    found = model.predict(fit, x_new)
    raw = torch.tensor(x_new * data.place.scale + data.place.centre)
    with torch.no_grad():
        said = module_of(model.state(fit, ()))(raw).numpy()
    np.testing.assert_allclose(said, found[:, 0] * data.unit + data.offset[0], rtol=1e-6, atol=1e-6)
    assert float(((found - y_new) ** 2).mean()) < 0.01
    assert (model.symmetry is CLAIM) == bool(index)
    assert np.isfinite(model.evidence)


def test_what_cancels_in_a_mean_over_a_group_takes_no_digits() -> None:
    """A model in float32 of 5 thousand times the difference of two inputs, averaged over their exchange."""
    x = np.random.default_rng(0).normal(size=(60, 2))
    data = prepare(dataset(x, 5000 * (x[:, 0] - x[:, 1]) + np.sin(x.sum(1))), seed=0)
    model = PlainProcess(data, plain_fit(*data.train, np.random.default_rng(0)))
    one = torch.ones(2, 2, dtype=torch.int64)
    swap = {"sources": torch.tensor([[0, 1], [1, 0]]), "signs": one}
    swap |= {"targets": torch.zeros(2, 1, dtype=torch.int64), "target_signs": one[:, :1]}
    averaged = module_of({"inner": model.state(model.fit(*data.train), ()), **swap})
    seen = torch.tensor(x).float()
    with torch.no_grad():
        single, double = averaged(seen), averaged(seen.double())
    assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
    torch.testing.assert_close(single.double(), double, rtol=1e-6, atol=1e-6)


def test_the_spectrum_of_pairs_is_0_where_outputs_turn_with_inputs() -> None:
    x = np.random.default_rng(1).normal(size=(50, 2))
    support = Support((((0,), (0, 0, 0), (0, 1, 1)), ((1,), (0, 0, 1), (1, 1, 1))))
    turning = FittedPolynomial(support, np.array([1.0, 2.0, 2.0, 1.0, 2.0, 2.0]))  # (1 + 2 |x|^2) x
    step = 1e-6
    for i in range(2):
        there, here = x.copy(), x.copy()
        there[:, i] += step
        here[:, i] -= step
        slope = (turning(there) - turning(here)) / (2 * step)
        np.testing.assert_allclose(turning.jacobian(x)[:, :, i], slope, rtol=1e-6, atol=1e-6)
    seen = pair_spectrum(beside(rotations(2), rotations(2)), [turning, turning], x)
    assert seen.quiet() == 1
    kept = seen.vectors[:, 0]
    np.testing.assert_allclose(kept[0], kept[1], rtol=1e-6)
