"""What is seen in data whose faults were put there, and nothing in data without any; over seeds, not one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from studies.certificate_attacks import make

from metasym.diagnosis.checks import diagnose
from metasym.diagnosis.dependence import dependence, less_the_one_before
from metasym.diagnosis.findings import Diagnosis
from metasym.diagnosis.linear_part import fit_tasks
from metasym.diagnosis.samples import Samples
from metasym.tasks.reading import read_tasks

T, E, N = 120, 20, 6
SEEDS = range(3)
Arrays = dict[str, np.ndarray]


def apply(W: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.einsum("toi,tei->teo", W, x)


def family(seed: int, examples: int = E) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    return draw, draw.standard_normal((T, N, N)), draw.standard_normal((T, examples, N))


def seen(tmp_path, **arrays: np.ndarray) -> Diagnosis:
    np.savez(tmp_path / "t.npz", **arrays)
    return diagnose(read_tasks(tmp_path / "t.npz"))


def clean(seed):
    _, W, x = family(seed)
    return {"x": x, "y": apply(W, x)}


def clean32(seed):
    return {name: value.astype(np.float32) for name, value in clean(seed).items()}


def means(seed):
    _, W, x = family(seed)
    return {"x": x + 30, "y": apply(W, x + 30)}


def common_factor(seed):
    draw, W, x = family(seed)
    x = x + 30 * draw.standard_normal((T, E, 1))
    return {"x": x, "y": apply(W, x)}


def copied(seed):
    _, W, x = family(seed)
    x[..., 4], x[..., 5] = x[..., 0], -2 * x[..., 1]
    return {"x": x, "y": apply(W, x)}


def constant(seed):
    _, W, x = family(seed)
    x[..., 2] = 5
    return {"x": x, "y": apply(W, x)}


def dependent(seed):
    _, W, x = family(seed)
    x = x - x.mean(2, keepdims=True)
    return {"x": x, "y": apply(W, x)}


def fixed(seed):
    _, W, x = family(seed)
    x[..., 3] = x[:, :1, 3]
    return {"x": x, "y": apply(W, x)}


def quadratic(seed):
    """A third of the variance of y is of the inputs' squares."""
    draw, W, x = family(seed)
    bent = apply(draw.standard_normal((T, N, N)), x**2 - 1)
    linear = apply(W, x)
    return {"x": x, "y": linear / linear.std() + np.sqrt(0.5) * bent / bent.std()}


def noisy(seed):
    draw, W, x = family(seed)
    y = apply(W, x)
    return {"x": x, "y": y + 0.5 * y.std() * draw.standard_normal(y.shape)}


def offset(seed):
    draw, W, x = family(seed)
    return {"x": x, "y": apply(W, x) + 0.1 * draw.standard_normal((T, 1, N))}


def short_offset(seed):
    _, W, x = family(seed, examples=4)
    return {"x": x, "y": apply(W, x) + 3}


def short(seed):
    _, W, x = family(seed, examples=4)
    return {"x": x, "y": apply(W, x)}


def loud_output(seed):
    _, W, x = family(seed)
    y = apply(W, x)
    y[..., 1] *= 100
    return {"x": x, "y": y}


def loud_inputs(seed):
    _, W, x = family(seed)
    return {"x": x * np.array([1, 1, 1, 500, 500, 500]), "y": apply(W, x)}


def labels(seed):
    _, W, x = family(seed)
    return {"x": x, "y": np.digitize(apply(W, x)[..., 0], [-1, 1]).astype(float)}


def alike(seed):
    _, W, x = family(seed)
    return {"x": x, "y": apply(np.repeat(W[:1], T, axis=0), x)}


def multiples(seed):
    draw, W, x = family(seed)
    y = apply(W[:1] * draw.standard_normal((T, 1, 1)), x)
    return {"x": x, "y": y + 0.05 * draw.standard_normal(y.shape)}


def outliers(seed):
    _, W, x = family(seed)
    W[[7, 50, 90]] *= 60
    return {"x": x, "y": apply(W, x)}


def few(seed):
    return {name: value[:20] for name, value in clean(seed).items()}


EXPECTED = {
    clean: set(),
    clean32: set(),
    means: {"large_means"},
    common_factor: {"common_factor"},
    copied: {"copied_inputs"},
    constant: {"constant_inputs"},
    dependent: {"dependent_inputs"},
    fixed: {"inputs_fixed_in_tasks"},
    quadratic: {"not_linear"},
    noisy: {"linear_share"},
    offset: {"offset"},
    short_offset: {"few_examples", "offset"},
    short: {"few_examples"},
    loud_output: {"unlike_outputs"},
    loud_inputs: {"unlike_inputs"},
    labels: {"labels_as_numbers"},
    alike: {"tasks_alike"},
    multiples: {"tasks_multiples"},
    outliers: {"outlying_tasks"},
    few: {"few_tasks"},
}
ALSO = {quadratic: {"offset"}, fixed: {"offset"}, labels: {"offset", "linear_share", "not_linear"}}
"""What else is true there and may be said: squares that do not average to 0 are an offset too."""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("make", EXPECTED, ids=lambda make: make.__name__)
def test_what_was_put_there_is_seen_and_nothing_else(tmp_path, make, seed):
    found = seen(tmp_path, **make(seed))
    kinds = {finding.kind for finding in found.findings}
    assert EXPECTED[make] <= kinds <= EXPECTED[make] | ALSO.get(make, set())
    json.dumps(found.as_list())
    for finding in found.findings:
        assert finding.sentence[0].isupper() or finding.sentence[0] in "y3"
        assert not finding.sentence.endswith(".")


def one(found: Diagnosis, kind: str):
    (finding,) = (f for f in found.findings if f.kind == kind)
    return finding


def test_the_sentences_name_columns_and_tasks(tmp_path):
    names = np.array([f"torque_{i}" for i in range(N)])
    found = seen(tmp_path, **copied(0), input_names=names)
    assert "torque_4 is a copy of input torque_0" in one(found, "copied_inputs").sentence
    assert "torque_5 is -2 x input torque_1" in one(found, "copied_inputs").sentence
    assert one(found, "copied_inputs").numbers["pairs"][0][:2] == [0, 4]
    assert (
        "Input torque_2 never varies"
        in one(seen(tmp_path, **constant(0), input_names=names), "constant_inputs").sentence
    )
    found = seen(tmp_path, **outliers(0))
    assert found.outliers == (7, 50, 90)
    assert (
        "3 of 120 tasks are far larger than all others (tasks 7, 50, 90)"
        in one(found, "outlying_tasks").sentence
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_share_of_a_linear_map_is_right(tmp_path, seed):
    """Noise of half the standard deviation leaves 0.25 / 1.25 of y; the quadratic family is linear by two thirds."""
    assert one(seen(tmp_path, **noisy(seed)), "linear_share").numbers["unexplained"] == pytest.approx(
        0.2, abs=0.02
    )
    bent = one(seen(tmp_path, **quadratic(seed)), "not_linear")
    assert bent.numbers["unexplained"] == pytest.approx(1 / 3, abs=0.1)
    assert 0 < bent.numbers["bend"] < 1 / 3
    assert "is about the linear part" in bent.sentence


def test_the_condition_number_is_that_of_the_standardised_inputs(tmp_path):
    arrays = common_factor(1)
    rows = arrays["x"].reshape(-1, N)
    values = np.linalg.svd((rows - rows.mean(0)) / rows.std(0), compute_uv=False)
    found = one(seen(tmp_path, **arrays), "common_factor")
    assert found.numbers["condition"] == pytest.approx(values[0] / values[-1])
    assert found.severity == "caution"


def test_columns_of_like_scale_are_divided_by_one_number(tmp_path):
    columns = seen(tmp_path, **loud_inputs(0)).standard.x_columns
    assert len(set(columns)) == 2
    assert columns[3] / columns[0] == pytest.approx(500, rel=0.05)
    assert seen(tmp_path, **clean(0)).standard.x_columns == ()


def test_many_tasks_are_looked_at_in_part(tmp_path, monkeypatch):
    from metasym.diagnosis import samples

    monkeypatch.setattr(samples, "_ENTRIES", 1000)
    found = seen(tmp_path, **copied(0))
    assert found.has("copied_inputs")


def test_a_family_whose_sizes_vary_much_has_no_outliers(tmp_path):
    """Heavy tails are a family's own: no task of one with cubes of normal factors is left out."""
    draw, W, x = family(5)
    found = seen(tmp_path, x=x, y=apply(W * draw.standard_normal((T, 1, 1)) ** 3, x))
    assert found.outliers == ()


def test_images_are_centred_as_a_whole(tmp_path):
    draw = np.random.default_rng(0)
    x = draw.random((20, 3, 5, 5)) + 10
    found = seen(tmp_path, x=x, y=draw.standard_normal((20, 3, 5, 5)))
    assert found.centre
    assert len(set(found.standard.x_mean)) == 1


def _remembering(draw: np.random.Generator, shape: tuple[int, ...], memory: float) -> np.ndarray:
    found = draw.standard_normal(shape)
    for i in range(1, shape[1]):
        found[:, i] = memory * found[:, i - 1] + np.sqrt(1 - memory**2) * found[:, i]
    return found


@pytest.mark.parametrize("seed", range(3))
def test_noise_that_goes_on_is_no_bend_and_no_offset(seed: int) -> None:
    draw = np.random.default_rng(seed)
    x = _remembering(draw, (80, 24, 4), 0.9)
    y = np.einsum("tmn,ten->tem", draw.standard_normal((80, 3, 4)), x)
    y += 0.3 * _remembering(draw, y.shape, 0.8)
    samples = Samples(x, y, np.ones((80, 24), dtype=bool), np.arange(80))
    found = dependence(samples, np.ones(1))
    assert found is not None
    assert found.explained
    assert found.correlation == pytest.approx(0.8, abs=0.08)
    part = fit_tasks(less_the_one_before(samples, found.correlation), np.ones(1))
    assert part.bend == 0
    assert not part.offset


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("autocorrelated-exact", 5002),
        ("autocorrelated-near", 5000),
        ("missing-one-sensor", 5000),
    ],
)
def test_slow_or_uneven_noise_is_no_offset(tmp_path, kind: str, seed: int) -> None:
    """Families without an offset that were said to have one: an F test takes all noise to be of one size."""
    made = make(kind, seed)
    kinds = {finding.kind for finding in seen(tmp_path, x=made.x, y=made.y).findings}
    assert "offset" not in kinds


@pytest.mark.parametrize("seed", SEEDS)
def test_an_offset_under_uneven_noise_is_one(seed: int) -> None:
    draw = np.random.default_rng([seed, 8])
    maps, x = draw.standard_normal((160, 6, 6)), draw.standard_normal((160, 20, 6))
    loud = (x**2).mean(2, keepdims=True) ** -1.5 * draw.standard_normal(x.shape)
    shifted = apply(maps, x) + loud + draw.standard_normal((160, 1, 6))
    assert fit_tasks(Samples(x, shifted, np.ones(x.shape[:2], bool), np.arange(160)), np.ones(1)).offset


@pytest.mark.parametrize("seed", SEEDS)
def test_copies_of_tasks_make_no_bend_and_no_offset(tmp_path, seed: int) -> None:
    draw, W, x = family(seed)
    y = apply(W, x) + 0.1 * draw.standard_normal((T, E, N))
    again = np.tile(np.arange(T // 4), 6)
    kinds = {finding.kind for finding in seen(tmp_path, x=x[again], y=y[again]).findings}
    assert "copied_tasks" in kinds
    assert not kinds & {"offset", "not_linear"}


@pytest.mark.parametrize("seed", range(3))
def test_noise_that_is_larger_for_large_inputs_is_no_bend_and_a_cube_is_one(seed: int) -> None:
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((80, 18, 5))
    y = np.einsum("tmn,ten->tem", draw.standard_normal((80, 5, 5)), x)
    there, ids = np.ones((80, 18), dtype=bool), np.arange(80)
    uneven = (x**2).mean(2, keepdims=True) * draw.standard_normal(y.shape)
    assert fit_tasks(Samples(x, y + 0.3 * uneven, there, ids), np.ones(1)).bend == 0
    assert dependence(Samples(x, y + 0.3 * uneven, there, ids), np.ones(1)) is None
    bent = y + 0.1 * uneven
    bent[..., 2] += 0.3 * x[..., 1] ** 3
    assert fit_tasks(Samples(x, bent, there, ids), np.ones(1)).bend > 0


def test_copies_of_tasks_are_seen(tmp_path) -> None:
    draw, W, x = family(0)
    y = apply(W, x) + 0.1 * draw.standard_normal((T, E, N))
    x[7], y[7] = x[3], y[3]
    np.savez(tmp_path / "tasks.npz", x=x, y=y)
    found = diagnose(read_tasks(tmp_path / "tasks.npz"))
    (copied,) = [f for f in found.findings if f.kind == "copied_tasks"]
    assert copied.numbers["tasks"] == [7]


@pytest.mark.parametrize("seed", SEEDS)
def test_one_bent_sensor_of_all_tasks_is_seen_where_single_tasks_hide_it(seed: int) -> None:
    """A sensor that reads ``0.7 x + 0.1 x^3``: its best linear map is x, and 1 % of y is not linear."""
    draw = np.random.default_rng([seed, 5])
    maps, x = draw.standard_normal((40, 5, 5)), draw.standard_normal((40, 18, 5))
    there, ids = np.ones((40, 18), bool), np.arange(40)
    bent = x.copy()
    bent[..., 1] = 0.7 * x[..., 1] + 0.1 * x[..., 1] ** 3
    noise = 0.1 * draw.standard_normal((40, 18, 5))
    assert fit_tasks(Samples(x, apply(maps, x) + noise, there, ids), np.ones(1)).bend == 0
    assert fit_tasks(Samples(x, apply(maps, bent) + noise, there, ids), np.ones(1)).bend > 0


@pytest.mark.parametrize(("tasks", "seed"), [(40, 2), (60, 4)])
def test_a_bent_sensor_is_seen_where_few_tasks_have_most_of_the_output(tasks: int, seed: int) -> None:
    """Each task tells the same bend; the mean over tasks of what each tells depends on no few of them."""
    draw = np.random.default_rng([seed, 6])
    maps, x = draw.standard_normal((tasks, 5, 5)), draw.standard_normal((tasks, 18, 5))
    maps *= np.exp(1.2 * draw.standard_normal((tasks, 1, 1)))
    there, ids = np.ones((tasks, 18), bool), np.arange(tasks)
    bent = x.copy()
    bent[..., 1] = 0.7 * x[..., 1] + 0.1 * x[..., 1] ** 3
    noise = 0.1 * draw.standard_normal((tasks, 18, 5)) * np.sqrt((maps**2).mean())
    assert fit_tasks(Samples(x, apply(maps, x) + noise, there, ids), np.ones(1)).bend == 0
    assert fit_tasks(Samples(x, apply(maps, bent) + noise, there, ids), np.ones(1)).bend > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_inputs_in_coarse_steps_are_named_with_what_rounding_does(tmp_path, seed: int) -> None:
    _, W, x = family(seed)
    y = apply(W, x)
    (found,) = [f for f in seen(tmp_path, x=np.round(2.5 * x), y=y).findings if f.kind == "rounded_inputs"]
    assert found.numbers["columns"] == list(range(N))
    # Least squares on rounded inputs: weights shrink by the share that rounding adds to the variance.
    rounded = np.round(2.5 * np.random.default_rng(seed).standard_normal(200_000))
    assert found.numbers["bias"] == pytest.approx(1 / 12 / rounded.var(), rel=0.1)
    for fine in (x, np.round(100 * x), np.sign(x), np.round(2.5 * x) * (1 + 1e-2 * np.sign(x))):
        kinds = {f.kind for f in seen(tmp_path, x=fine, y=y).findings}
        assert "rounded_inputs" not in kinds
