"""None and things of a wrong type, given to every public function in the place of every argument.

Each ends in an error that names the argument, before anything is computed or written. Whatever
``metasym.__all__`` and the public submodules have that can be called is tried, or stands below with the reason why
not; so are the methods of a run that write, and the parameters of the estimators.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import metasym as ms
from tests.refusals import refused

RESULTS = {
    *(
        "Batch",
        "Cost",
        "DiscoveredRun",
        "Episode",
        "FunctionEquivariance",
        "LearnedRun",
        "OuterLoss",
        "Record",
    ),
    *("groups.KernelBasis", "tasks.Problem", "robots.Certificate", "robots.Defect", "robots.Joint"),
    *("robots.Mechanism", "robots.RobotSymmetries", "robots.RobotSymmetry", "robots.TableCheck"),
    *(
        "robots.WrongEntry",
        "RobotSymmetries",
        "Run",
        "Score",
        "SharedParameters",
        "Split",
        "StructuredLearner",
        "SymmetryReport",
    ),
}
"""What functions of ours return; nobody else makes them."""
ABSTRACT = {"Learner", "Symmetry", "Tasks", "tasks.Tasks", "testing.Action"}
SUBMODULES = {"groups", "models", "nn", "robots", "tasks", "testing"}


def _network() -> nn.Module:
    return ms.reparameterize(nn.Sequential(nn.Linear(3, 3, bias=False)), generator=torch.Generator())


def _tasks() -> ms.Tasks:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(6, 8, 3, generator=draw)
    return ms.tasks.ArrayTasks(x, x.flip(2), support=4)


def _good(name: str, place: Any) -> dict[str, Any]:
    """Arguments with which the function works, or would until it finds what is wrong with one of them."""
    x = np.random.default_rng(0).normal(size=(6, 8, 3))
    linear = {"model": nn.Sequential(nn.Linear(3, 3))}
    some = {
        "groups.from_generators": {"generators": [(1, 0)]},
        "models.Block": {"channels": 1},
        "tasks.from_arrays": {"images": torch.zeros(4, 3, 2, 2), "labels": [0, 0, 1, 1]},
        "ANIL": linear,
        "DenseSymmetry": {"weight_shape": (3, 3)},
        "EvidenceMSR": {"in_features": 3, "out_features": 3},
        "FieldSymmetry": {"block": torch.eye(9), "fields_out": 1, "fields_in": 1},
        "Files": {"folder": place / "files"},
        "KroneckerSymmetry": {"weight_shape": (3, 3)},
        "MAML": linear,
        "MSR": {"model": _network()},
        "MSRJoint": {"model": _network()},
        "MTSR": {"model": _network(), "train_tasks": 4},
        "NuclearAdam": {"params": [nn.Parameter(torch.ones(2, 2))]},
        "ProtoNet": linear,
        "Validation": {"tasks": _tasks(), "every": 1},
        "check_equivariance": {"f": torch.sin, "x": x[0], "group": "C3"},
        "discover": {"x": x[0], "y": x[0]},
        "evaluate": {"learner": ms.MAML(linear["model"]), "tasks": _tasks()},
        "learn": {"x": x, "y": x},
        "load": {"path": place / "none", "learner": ms.MAML(linear["model"])},
        "load_symmetry": {"path": place / "none"},
        "mirror": {"robot": place / "none.urdf"},
        "open_run": {"folder": place / "none"},
        "reparameterize": linear,
        "project": {"model": _network(), "report": ms.SymmetryReport(())},
        "save": {"learner": ms.MAML(linear["model"]), "path": place / "saved"},
        "save_symmetry": {"model": _network(), "path": place / "saved"},
        "shared_parameters": {"x": x[0], "y": x[0]},
        "structure_plan": {"module": _network()},
        "structured": {"module": _network()},
        "train": {
            "learner": ms.MAML(linear["model"]),
            "tasks": _tasks(),
            "outer_steps": 1,
            "progress": "silent",
        },
    }
    some["robots.parse_tables"] = {"names": ("a",), "where": "value"}
    # Of the submodules' functions nothing but the type of an argument is looked at before it is refused.
    return some.get(name, {} if "." in name else {"model": _network()})


def _of(name: str) -> Any:
    """The public thing of this name."""
    return functools.reduce(getattr, name.split("."), ms)


def _callables() -> list[str]:
    names = list(ms.__all__)
    for module in sorted(SUBMODULES):
        names += [f"{module}.{name}" for name in importlib.import_module(f"metasym.{module}").__all__]
    found = []
    for name in names:
        value = _of(name)
        error = inspect.isclass(value) and issubclass(value, Exception)
        if callable(value) and not error and name not in RESULTS | ABSTRACT:
            found.append(name)
    return found


def _parameters(name: str) -> dict[str, inspect.Parameter]:
    signature = inspect.signature(_of(name))
    return {
        p.name: p for p in signature.parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    }


def _wrong(parameter: inspect.Parameter) -> list[Any]:
    """Things that the argument cannot be, by its annotation alone."""
    said = str(parameter.annotation)
    may_be_none = "None" in said or parameter.default is None or said in ("Any", "Select")
    found: list[Any] = [] if may_be_none else [None]
    anything = "Any" in said.split(" | ") or "| Any" in said
    found += [] if anything and parameter.default is not inspect.Parameter.empty else [object()]
    if said in ("float", "int"):
        found += [math.nan, "3", [1]]
    if "Path" in said:
        found += [3, b"x", [], 1.5, *([""] if "PathLike" in said else [])]
    if "Module" in said and "None" not in said:
        found += ["word", {}, nn.Linear]
    return found


@pytest.mark.parametrize("name", _callables())
def test_a_wrong_argument_is_refused_by_its_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function = _of(name)
    for argument, parameter in _parameters(name).items():
        for wrong in _wrong(parameter):
            good = _good(name, tmp_path)
            with pytest.raises((ms.MetasymError, TypeError)) as refused:
                function(**{**good, argument: wrong})
            named = argument in str(refused.value) or argument in (
                getattr(refused.value, "about", None) or ""
            )
            assert named, f"{name}({argument}={wrong!r}): {refused.value}"
            assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", _callables())
def test_nothing_but_wrong_arguments(name, tmp_path, monkeypatch):
    """As when a whole call is mistaken; the first argument is named."""
    monkeypatch.chdir(tmp_path)
    needed = [p for p in _parameters(name).values() if p.default is p.empty]
    if not needed:
        return
    for wrong in (None, object()):
        with pytest.raises((ms.MetasymError, TypeError)) as refused:
            _of(name)(**{p.name: wrong for p in needed})
        about = getattr(refused.value, "about", None) or ""
        assert any(p.name in str(refused.value) or p.name in about for p in needed), refused.value
    assert not list(tmp_path.iterdir())


def test_parts_that_are_given_one_after_the_other_are_looked_at():
    for wrong in (None, "1", [1], object()):
        with refused("parts"):
            ms.tasks.mix(1, wrong)


@pytest.fixture(scope="module")
def run():
    x = np.random.default_rng(0).normal(size=(200, 2))
    return ms.discover(lambda x: (x**2).sum(1), x, continuous=False)


@pytest.mark.parametrize(("method", "argument"), [("save", "folder"), ("report", "path")])
def test_methods_of_a_run_name_a_wrong_path(run, method, argument, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for wrong in (3, b"x", [], 1.5, object(), "", *([None] if method == "save" else [])):
        for function in (getattr(run, method), functools.partial(getattr(ms.Run, method), run)):
            with refused(argument):
                function(wrong)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [ms.sklearn.SymmetryRegressor, ms.sklearn.SymmetryClassifier])
def test_fit_names_a_wrong_parameter_of_an_estimator(kind):
    x = np.random.default_rng(0).normal(size=(60, 3))
    for parameter in kind().get_params():
        for wrong in (object(), [1]):
            with refused(parameter):
                kind(**{parameter: wrong}).fit(x, (x[:, 0] > 0).astype(int), task=np.repeat(range(6), 10))
    with refused("task"):
        kind().fit(x, (x[:, 0] > 0).astype(int), task=3)


def test_those_of_the_second_attack():
    x = np.random.default_rng(0).normal(size=(30, 2))
    for call in (
        lambda: ms.discover(x, x[:, 0], test=None),
        lambda: ms.discover(math.nan, [1.0]),
        lambda: ms.NuclearAdam([nn.Parameter(torch.ones(2, 2))], nuclear=math.nan),
    ):
        with pytest.raises((ms.MetasymError, TypeError)):
            call()


def test_right_arguments_of_other_types_are_taken():
    """Whole numbers for floats, numpy's numbers, paths as text: what worked before the arguments were looked at."""
    ms.MAML(nn.Linear(2, 2), inner_lr=1, inner_steps=np.int64(2), penalty=np.float32(1e-3))
    ms.DenseSymmetry([2, 2], np.int32(3), std=0)
    ms.DenseSymmetry(torch.Size([2, 2]))
    ms.DenseSymmetry(np.array([2, 2]))
