"""``metasym.sklearn``: scikit-learn's own checks, and what its tools do with tasks."""

from __future__ import annotations

import io
from collections.abc import Iterator

import joblib
import numpy as np
import numpy.typing as npt
import pandas
import polars
import pytest
import sklearn
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import metasym as ms
from metasym.sklearn import SymmetryClassifier, SymmetryRegressor

Array = npt.NDArray[np.float64]
SIZE, TASKS, ROWS = 4, 40, 8


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def ring(seed: int = 0, rows: int = ROWS) -> tuple[Array, Array, Array, Array]:
    """Circulant maps, one a task: ``X``, ``y``, the task of each row, and the maps."""
    draw = np.random.default_rng(seed)
    filters = draw.normal(size=(TASKS, SIZE))
    maps = np.stack([np.stack([np.roll(f, k) for k in range(SIZE)]) for f in filters])
    x = draw.normal(size=(TASKS, rows, SIZE))
    y = x @ maps.transpose(0, 2, 1) + 0.01 * draw.normal(size=x.shape)
    order = draw.permutation(TASKS * rows)
    task = np.repeat(np.array([f"t{t}" for t in range(TASKS)]), rows)
    return x.reshape(-1, SIZE)[order], y.reshape(-1, SIZE)[order], task[order], maps


def labelled(seed: int = 0, rows: int = 12) -> tuple[Array, Array, Array]:
    """Which of two halves of the plane, by a direction of the task's own."""
    draw = np.random.default_rng(seed)
    directions = draw.normal(size=(TASKS, 2))
    x = draw.normal(size=(TASKS, rows, 2))
    y = np.where(np.einsum("trn,tn->tr", x, directions) > 0, "above", "below")
    return x.reshape(-1, 2), y.reshape(-1), np.repeat(np.arange(TASKS), rows)


@pytest.fixture(scope="module")
def fitted() -> SymmetryRegressor:
    x, y, task, _ = ring()
    return SymmetryRegressor().fit(x, y, task=task)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [SymmetryRegressor(), SymmetryClassifier()])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_pass(estimator: object) -> None:
    found = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(found) > 40
    assert {one["check_name"] for one in found if one["status"] not in ("passed", "skipped")} == set()


def test_a_family_is_learned_and_each_task_predicted(fitted: SymmetryRegressor) -> None:
    x, y, task, maps = ring()
    assert fitted.tasks_ == list(dict.fromkeys(task.tolist()))
    assert fitted.verdict_.status.value == "certified"
    fresh = np.random.default_rng(9).normal(size=(6, SIZE))
    where = np.array(["t3", "t0", "t3", "t17", "t0", "t3"])
    wanted = np.stack([maps[int(t[1:])] @ row for t, row in zip(where, fresh, strict=True)])
    np.testing.assert_allclose(fitted.predict(fresh, task=where), wanted, atol=0.05)
    assert fitted.score(x, y, task=task) > 0.999


def test_a_new_task_is_adapted_to(fitted: SymmetryRegressor) -> None:
    """Two examples determine a circulant 4 x 4 map; ridge without the family has no chance."""
    x, y, task, maps = ring(seed=5)
    mine = np.flatnonzero(task == "t7")
    adapted = fitted.adapt(x[mine[:2]], y[mine[:2]])
    fresh = np.random.default_rng(9).normal(size=(50, SIZE))
    error = np.square(adapted.predict(fresh) - fresh @ maps[7].T).mean()
    alone = Ridge(1e-3).fit(x[mine[:2]], y[mine[:2]])
    assert error < 0.01 < np.square(alone.predict(fresh) - fresh @ maps[7].T).mean()
    assert adapted.score(fresh, fresh @ maps[7].T) > 0.99
    assert fitted.tasks_ != adapted.tasks_ == [None]


def test_a_score_of_new_tasks_is_from_few_examples(fitted: SymmetryRegressor) -> None:
    x, y, task, _ = ring(seed=5)
    new = np.char.add("new", task)
    assert fitted.score(x, y, task=new) > 0.99
    assert fitted.score(x, y, task=new) == fitted.score(x, y, task=new)
    assert (
        fitted.score(x, y, task=task) < 0.9
    )  # by those names they are tasks of the fit, and are not adapted to


def test_without_tasks_there_is_one_and_a_warning() -> None:
    draw = np.random.default_rng(0)
    x, w = draw.normal(size=(50, 3)), draw.normal(size=3)
    with pytest.warns(ms.MetasymWarning):
        found = SymmetryRegressor().fit(x, x @ w)
    assert found.run_ is None
    assert found.verdict_ is None
    np.testing.assert_allclose(found.predict(x), x @ w, atol=1e-3)


def test_tasks_are_asked_for_by_name(fitted: SymmetryRegressor) -> None:
    x = np.zeros((2, SIZE))
    with pytest.raises(ms.MetasymError) as missing:
        fitted.predict(x)
    assert (missing.value.about, missing.value.found) == ("task", None)
    with pytest.raises(ms.MetasymError) as strange:
        fitted.predict(x, task=["t1", "t99"])
    assert (strange.value.about, strange.value.found) == ("task", "t99")


def test_labels(routing: None) -> None:
    x, y, task = labelled()
    found = SymmetryClassifier(hidden=16, outer_steps=40).fit(x, y, task=task)
    assert found.classes_.tolist() == ["above", "below"]
    assert set(found.predict(x[:20], task=task[:20])) <= {"above", "below"}
    assert found.score(x, y, task=task) > 0.9
    probabilities = found.predict_proba(x, task=task)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    assert (found.classes_[probabilities.argmax(1)] == found.predict(x, task=task)).all()
    new_x, new_y, _ = labelled(seed=3)
    adapted = found.adapt(new_x[:10], new_y[:10])
    assert adapted.score(new_x[:10], new_y[:10]) >= 0.9
    with pytest.raises(ms.MetasymError) as strange:
        found.adapt(new_x[:2], ["above", "beside"])
    assert strange.value.found == "beside"


@pytest.mark.parametrize("frame", [pandas.DataFrame, polars.DataFrame])
def test_frames(frame: type, fitted: SymmetryRegressor) -> None:
    x, y, task, _ = ring()
    names = [f"sensor_{i}" for i in range(SIZE)]
    columns = {name: x[:, i] for i, name in enumerate(names)}
    found = SymmetryRegressor().fit(frame(columns), y, task=frame({"task": task})["task"])
    assert found.feature_names_in_.tolist() == names
    assert found.run_.symmetry.layers[0].input_names == tuple(names)
    np.testing.assert_array_equal(found.predict(frame(columns), task=task), fitted.predict(x, task=task))


def test_pipeline_cross_validation_and_search(routing: None) -> None:
    """By whole tasks: those of the test fold were never seen, and are adapted to from ``support`` rows."""
    x, y, task, _ = ring()
    model = SymmetryRegressor(support=4).set_fit_request(task=True).set_score_request(task=True)
    model.set_predict_request(task=True)
    pipeline = make_pipeline(StandardScaler(with_std=False), model).fit(x, y, task=task)
    assert pipeline.score(x, y, task=task) > 0.999
    assert pipeline.predict(x, task=task).shape == y.shape
    given = {"task": task, "groups": task}
    scores = cross_val_score(pipeline, x, y, cv=GroupKFold(2), params=given)
    assert len(scores) == 2
    assert min(scores) > 0.99
    search = GridSearchCV(model, {"support": [1, 4]}, cv=GroupKFold(2)).fit(x, y, **given)
    assert search.best_params_ == {"support": 4}
    assert search.best_estimator_.get_params()["support"] == 4
    assert search.score(x, y, task=task) > 0.999


def test_a_fitted_estimator_is_stored_and_loaded(fitted: SymmetryRegressor) -> None:
    x, y, task, _ = ring()
    stream = io.BytesIO()
    joblib.dump(fitted, stream)
    stream.seek(0)
    found = joblib.load(stream)
    np.testing.assert_array_equal(found.predict(x, task=task), fitted.predict(x, task=task))
    assert found.verdict_ == fitted.verdict_
    assert found.adapt(x[:3], y[:3]).predict(x[:2]).shape == (2, SIZE)
