"""scikit-learn estimators: a regressor and a classifier that learn what tasks share and adapt to each of them.

Rows belong to tasks: ``fit(X, y, task=...)`` takes the task of every row, as ``groups`` of scikit-learn does, and
metadata routing hands it through pipelines and searches.
"""

from __future__ import annotations

import tempfile
import warnings
import weakref
from collections.abc import Callable, Hashable
from pathlib import Path
from shutil import rmtree
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import accuracy_score, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from metasym.errors import refusing
from metasym.runs.learning.learn_arrays import learn
from metasym.runs.named_functions import named_function
from metasym.runs.open_runs import open_run
from metasym.tasks.arrays_of_tasks import tasks_of_rows
from metasym.types import MetasymError, MetasymWarning

__all__ = ["SymmetryClassifier", "SymmetryRegressor"]

Array = npt.NDArray[Any]
_PENALTIES = np.logspace(-6, 6, 13)
_ONLY = None
"""The name of the only task of an estimator that was fitted without ``task``, or adapted."""
_LARGEST_SEED = 2**31 - 1


class _TaskEstimator(BaseEstimator):  # type: ignore[misc]
    """What both estimators share: rows sorted into tasks, a run of ``ms.learn``, and a network for each task."""

    run_: Any
    tasks_: list[Hashable]
    _rows: dict[Hashable, tuple[Array, Array]]
    n_features_in_: int

    def __init__(
        self,
        *,
        model: str | None = None,
        hidden: int | None = None,
        bias: bool | None = None,
        support: int | None = None,
        solver: str | None = None,
        tolerance: float | None = None,
        outer_steps: int | None = None,
        max_minutes: float | None = None,
        random_state: Any = 0,
    ) -> None:
        self.model = model
        self.hidden = hidden
        self.bias = bias
        self.support = support
        self.solver = solver
        self.tolerance = tolerance
        self.outer_steps = outer_steps
        self.max_minutes = max_minutes
        self.random_state = random_state

    def _fit(self, X: Any, x: Array, y: Array, task: Any, names: dict[str, tuple[str, ...]]) -> Self:
        self._networks: dict[Hashable, Callable[[Array], Array]] = {}
        if task is None:
            warnings.warn(
                f"expected task=, the task of every row, found none: all rows are one task, which shares nothing "
                f"with others; {self._plain_words} is fitted to it, and no symmetry is learned",
                MetasymWarning,
                stacklevel=3,
            )
            self.run_ = None
            self._rows = {_ONLY: (x, y)}
            self._network(_ONLY)
        else:
            wanted = _tasks(task, X)
            options = {k: v for k, v in self.get_params(deep=False).items() if k != "random_state"}
            file = tasks_of_rows(wanted, x, y, labels=y.dtype.kind == "i", names=names)
            self.run_ = learn(file, baseline=False, seed=self._seed(), **options)
            self._rows = {t: (x[rows], y[rows]) for t, rows in _by_task(wanted).items()}
        self.tasks_ = list(self._rows)
        return self

    def adapt(self, X: Any, y: Any) -> Self:
        """A new estimator of what was learned, adapted to the rows of one new task; its ``predict`` needs no task."""
        check_is_fitted(self, "tasks_")
        x, targets = self._checked(X, y)
        found: Self = clone(self)
        for name, value in vars(self).items():
            if name.endswith("_") and not name.startswith("_"):
                setattr(found, name, value)
        found.tasks_, found._rows, found._networks = [_ONLY], {_ONLY: (x, targets)}, {}
        found._network(_ONLY)
        return found

    def predict(self, X: Any, task: Any = None) -> Array:
        """The prediction for every row, each by the network of its ``task``; one that was in ``fit``.

        Without ``task`` the estimator has to have one task only: fitted without tasks, or adapted.
        """
        return self._answers(self._seen(X), task, self._as_targets)

    def score(self, X: Any, y: Any, task: Any = None, sample_weight: Any = None) -> float:
        """R^2, or accuracy, over the rows, each counted by ``sample_weight``.

        Tasks that were in ``fit`` are predicted as they are. Of a task that was not, ``support`` rows, drawn by
        ``random_state``, are adapted to, and the others count: the score of a new task from few examples.
        """
        check_is_fitted(self, "tasks_")
        x, targets = self._checked(X, y)
        weights = np.ones(len(x)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if task is None:
            return self._metric(targets, self._answers(x, None, self._as_targets), weights)
        kept, found = [], []
        for name, rows in _by_task(_tasks(task, X)).items():
            network, counted = self._for_scoring(name, x, targets, rows)
            kept.append(counted)
            found.append(self._as_targets(network(x[counted])))
        rows = np.concatenate(kept)
        return self._metric(targets[rows], np.concatenate(found), weights[rows])

    def _for_scoring(
        self, name: Hashable, x: Array, y: Array, rows: Array
    ) -> tuple[Callable[[Array], Array], Array]:
        """The network of a task, and which of its ``rows`` count."""
        if name in self._rows:
            return self._network(name), rows
        if len(rows) < 2:
            raise MetasymError(
                f"expected at least 2 rows of a new task, one to adapt to and one to score, found {len(rows)} of "
                f"task {name!r}",
                about=f"task {name!r}",
                found=len(rows),
            )
        support = min(self.run_.choices.support if self.support is None else self.support, len(rows) - 1)
        order = rows[np.random.default_rng(self._seed()).permutation(len(rows))]
        return self._adapted(x[order[:support]], y[order[:support]]), order[support:]

    def _answers(self, x: Array, task: Any, words: Callable[[Array], Array]) -> Array:
        if task is None:
            if self.tasks_ != [_ONLY]:
                raise MetasymError(
                    f"expected task=, the task of every row, from an estimator of {len(self.tasks_)} tasks, found "
                    "none; adapt(X, y) gives one of a new task",
                    about="task",
                )
            return words(self._network(_ONLY)(x))
        found: list[tuple[Array, Array]] = []
        for name, rows in _by_task(_tasks(task, x)).items():
            if name not in self._rows:
                raise MetasymError(
                    f"expected tasks that were in fit, found {name!r}; adapt(X, y) gives an estimator of a new task",
                    about="task",
                    found=name,
                )
            found.append((rows, words(self._network(name)(x[rows]))))
        values = np.concatenate([value for _, value in found])
        result = np.empty_like(values)
        result[np.concatenate([rows for rows, _ in found])] = values
        return result

    def _network(self, name: Hashable) -> Callable[[Array], Array]:
        """What predicts for a task that was in ``fit``, made when it is first asked for."""
        if name not in self._networks:
            self._networks[name] = self._adapted(*self._rows[name])
        return self._networks[name]

    def _adapted(self, x: Array, y: Array) -> Callable[[Array], Array]:
        if self.run_ is None:
            return self._plain(x, y)
        network = self.run_.adapt(x, y)

        def answers(rows: Array) -> Array:
            with torch.no_grad():
                found: Array = network(self.run_.inputs(rows)).double().numpy()
            return found

        return answers

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        with refusing("random_state", "a seed"):
            return int(check_random_state(self.random_state).randint(_LARGEST_SEED))

    def _seen(self, X: Any) -> Array:
        check_is_fitted(self, "tasks_")
        found: Array = validate_data(self, X, reset=False, dtype=np.float64)
        return found

    @property
    def verdict_(self) -> Any:
        """What is known about the symmetry that the tasks share; None for a single task."""
        check_is_fitted(self, "tasks_")
        return None if self.run_ is None else self.run_.verdict

    def __getstate__(self) -> dict[str, Any]:
        """Networks are made again; a run is kept as its files."""
        state = {k: v for k, v in super().__getstate__().items() if k != "_networks"}
        if state.get("run_") is not None:
            folder = state["run_"].folder
            files = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
            state["run_"] = {name: path.read_bytes() for name, path in files.items()}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._networks = {}
        if state.get("run_") is not None:
            folder = Path(tempfile.mkdtemp(prefix="metasym-"))
            for name, content in state["run_"].items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
            own = self.model is not None and ":" in self.model
            self.run_ = open_run(folder, model=named_function(str(self.model), "model") if own else None)
            weakref.finalize(self.run_, rmtree, folder, ignore_errors=True)

    # What the two differ in.
    _plain_words: str

    def _checked(self, X: Any, y: Any) -> tuple[Array, Array]:
        raise NotImplementedError

    def _plain(self, x: Array, y: Array) -> Callable[[Array], Array]:
        raise NotImplementedError

    def _as_targets(self, answers: Array) -> Array:
        """A network's answers as targets are kept: numbers, or places among the classes."""
        raise NotImplementedError

    def _metric(self, true: Array, found: Array, weights: Array) -> float:
        raise NotImplementedError


class SymmetryRegressor(_TaskEstimator, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regression over tasks: learns what they share, as ``ms.learn`` does, and adapts to each.

    Args:
        model: ``"fc"`` (one linear layer), ``"mlp"``, or ``"package.module:function"`` that returns an ``nn.Module``.
        hidden: the width of the hidden layer of ``"mlp"``.
        bias: whether the network has biases, adapted to each task.
        support: how many rows of a new task are adapted to when it is scored.
        solver: ``"evidence"``, ``"ridge"`` or ``"sgd"``: how a network adapts.
        tolerance: the largest defect of a symmetry that is named.
        outer_steps: at most so many outer steps, where there are any.
        max_minutes: training ends after so many minutes.
        random_state: of the split of tasks, the start and the episodes.

    None is automatic. After ``fit``: ``run_`` (as of ``ms.learn``; None for a single task), ``verdict_``, ``tasks_``.

    """

    _plain_words = "ridge regression"

    def fit(self, X: Any, y: Any, task: Any = None) -> Self:
        """Learn from rows ``X [rows, inputs]`` and ``y [rows]`` or ``[rows, outputs]``.

        ``task [rows]`` says which task each row belongs to; without it all rows are one task, with a warning.
        """
        columns = getattr(y, "columns", ()) if getattr(y, "ndim", 0) == 2 else ()
        names = {"output_names": tuple(map(str, columns))} if len(columns) else {}
        x, targets = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2
        )
        return self._fit(X, x, targets.astype(np.float64), task, {**_input_names(self), **names})

    def __sklearn_tags__(self) -> Any:
        """Several outputs are learned at once."""
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags

    def _checked(self, X: Any, y: Any) -> tuple[Array, Array]:
        x, targets = validate_data(
            self, X, y, reset=False, dtype=np.float64, multi_output=True, y_numeric=True
        )
        return x, targets.astype(np.float64)

    def _plain(self, x: Array, y: Array) -> Callable[[Array], Array]:
        found: Callable[[Array], Array] = (
            make_pipeline(StandardScaler(), RidgeCV(_PENALTIES)).fit(x, y).predict
        )
        return found

    def _as_targets(self, answers: Array) -> Array:
        return answers

    def _metric(self, true: Array, found: Array, weights: Array) -> float:
        return float(r2_score(true, found, sample_weight=weights))


class SymmetryClassifier(_TaskEstimator, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classification over tasks: learns what they share, as ``ms.learn`` does, and adapts to each.

    Arguments and attributes are those of :class:`SymmetryRegressor`; ``classes_`` are the labels of all tasks.
    """

    classes_: Array
    _plain_words = "logistic regression"

    def fit(self, X: Any, y: Any, task: Any = None) -> Self:
        """Learn from rows ``X [rows, inputs]`` and labels ``y [rows]``.

        ``task [rows]`` says which task each row belongs to; without it all rows are one task, with a warning.
        """
        x, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(labels)
        self.classes_, targets = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise MetasymError("expected at least 2 classes, found 1 class", about="y", found=1)
        names = tuple(map(str, self.classes_.tolist()))
        return self._fit(X, x, targets.astype(np.int64), task, {**_input_names(self), "output_names": names})

    def predict(self, X: Any, task: Any = None) -> Array:
        """The label of every row, by the network of its ``task``; one that was in ``fit``."""
        places = super().predict(X, task)
        return np.asarray(self.classes_[places])

    def predict_proba(self, X: Any, task: Any = None) -> Array:
        """The probability of each class, ``[rows, classes]``; ``task`` as of :meth:`predict`."""
        return self._answers(self._seen(X), task, _probabilities)

    def _checked(self, X: Any, y: Any) -> tuple[Array, Array]:
        x, labels = validate_data(self, X, y, reset=False, dtype=np.float64)
        places = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        strange = self.classes_[places] != labels
        if strange.any():
            found = np.asarray(labels)[strange][0]
            raise MetasymError(
                f"expected labels that were in fit, found {found!r}",
                about="y",
                found=getattr(found, "item", str)(),
            )
        return x, places.astype(np.int64)

    def _plain(self, x: Array, y: Array) -> Callable[[Array], Array]:
        kinds = np.unique(y)
        if len(kinds) == 1:
            return lambda rows: (
                np.where(np.arange(len(self.classes_)) == kinds[0], 0.0, -np.inf) + np.zeros((len(rows), 1))
            )
        fitted = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x, y)

        def scores(rows: Array) -> Array:
            found = np.full((len(rows), len(self.classes_)), -np.inf)
            found[:, kinds] = fitted.predict_log_proba(rows)
            return found

        return scores

    def _as_targets(self, answers: Array) -> Array:
        found: Array = answers.argmax(1)
        return found

    def _metric(self, true: Array, found: Array, weights: Array) -> float:
        return float(accuracy_score(true, found, sample_weight=weights))


def _probabilities(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(1, keepdims=True))
    found: Array = powers / powers.sum(1, keepdims=True)
    return found


def _input_names(estimator: BaseEstimator) -> dict[str, tuple[str, ...]]:
    names = getattr(estimator, "feature_names_in_", None)
    return {} if names is None else {"input_names": tuple(map(str, names))}


def _tasks(task: Any, X: Any) -> Array:
    """The task of every row, checked."""
    with refusing("task", "the task of every row"):
        found: Array = column_or_1d(task)
        check_consistent_length(X, found)
    if any(value is None or value != value for value in found.tolist()):
        raise MetasymError("expected the task of every row, found none in some", about="task")
    return found


def _by_task(task: Array) -> dict[Hashable, Array]:
    """The rows of each task, by first appearance."""
    rows: dict[Hashable, list[int]] = {}
    for row, name in enumerate(task.tolist()):
        rows.setdefault(name, []).append(row)
    return {name: np.array(some) for name, some in rows.items()}
