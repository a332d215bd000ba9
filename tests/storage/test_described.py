"""Files are compared with their description: whatever is in them, one line or good values, never anything else."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from pathlib import Path
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    TypedDict,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import metasym as ms
from metasym.cli import main
from metasym.paper.catalogue import find
from metasym.runs.files.config_files import check_config
from metasym.runs.files.learn_files import LearnConfig
from metasym.runs.files.result_files import ScoredResult, read_result, result_files
from metasym.storage.described import Count, Number, described
from metasym.storage.json_files import read_json
from metasym.training.metrics import read_records
from metasym.types import MetasymError
from metasym.verdicts.reports import LayerReport
from tests.refusals import refused

ROOT = Path(__file__).parents[2]


class Inner(TypedDict):
    sizes: list[Count]
    rate: Number | None


class Outer(TypedDict):
    name: str
    inner: Inner
    weight: NotRequired[torch.Tensor]


GOOD: dict[str, Any] = {"name": "a", "inner": {"sizes": [1, 2], "rate": 0.5}}


@pytest.mark.parametrize(
    ("path", "value", "about"),
    [
        (("name",), 3, "name"),
        (("inner",), [], "inner"),
        (("inner", "sizes"), None, "inner.sizes"),
        (("inner", "sizes", 1), -1, "inner.sizes[1]"),
        (("inner", "sizes", 1), 10**30, "inner.sizes[1]"),
        (("inner", "sizes", 1), 1.5, "inner.sizes[1]"),
        (("inner", "sizes", 1), True, "inner.sizes[1]"),
        (("inner", "rate"), math.nan, "inner.rate"),
        (("inner", "rate"), 10**400, "inner.rate"),
        (("weight",), [1.0], "weight"),
    ],
)
def test_the_field_and_what_was_found_there(path, value, about):
    changed = copy.deepcopy(GOOD)
    holder: Any = changed
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    with refused(f"folder/file.json: {about}") as caught:
        described(changed, Outer, "folder/file.json")
    assert caught.value.found is value
    assert str(caught.value).startswith("folder/file.json: ")


def test_a_missing_field_is_named_and_an_unknown_one_is_let_be():
    assert described({**GOOD, "newer": 1}, Outer, "f") == GOOD
    with refused("f: inner.rate"):
        described({"name": "a", "inner": {"sizes": []}}, Outer, "f")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[" * 80 + "]" * 80, '{"a": "\\ud800"}', '{"\\udfff": 1}', "{", "", "9" * 5000]
)
def test_text_that_nothing_behind_could_handle_is_no_json(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with refused(str(tmp_path / "a.json"), "a truncated or corrupted file"):
        read_json(tmp_path / "a.json", "some file")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
CONFIG = json.loads(json.dumps(find("translation/rank1/small/msr-fc").as_dict()))
FIELDS = [("recipe", field) for field in CONFIG["recipe"]] + [(field,) for field in CONFIG]


def test_a_method_that_nobody_knows_is_one_line():
    with refused("config.json: method", "../../etc/passwd"):
        check_config({**CONFIG, "method": "../../etc/passwd"}, "config.json")


@given(st.sampled_from(FIELDS), JSON)
def test_any_value_in_any_field_of_a_config_is_good_or_one_line(path, value):
    changed = copy.deepcopy(CONFIG)
    holder = changed[path[0]] if len(path) == 2 else changed
    holder[path[-1]] = value
    try:
        check_config(changed, "config.json")
    except MetasymError as error:
        assert str(error).startswith("config.json: ")
        assert "\n" not in str(error)


REPORT = ms.inspect(ms.reparameterize(torch.nn.Linear(3, 3, bias=False), "dense")).to_json()


@given(st.sampled_from(sorted(REPORT["layers"][0])), JSON)
def test_any_value_in_any_field_of_a_symmetry_report_is_good_or_one_line(field, value):
    changed = copy.deepcopy(REPORT)
    changed["layers"][0][field] = value
    try:
        ms.SymmetryReport.from_json(changed, "f")
    except MetasymError as error:
        assert str(error).startswith("f: ")


ELEMENT = {"outputs": [1, 0], "inputs": [1, 0], "output_signs": [1, 1], "input_signs": [1, -1]}


@pytest.mark.parametrize(
    "wrong",
    [
        {"outputs": [1, 10**6]},
        {"outputs": [1, 1]},
        {"outputs": [0, 1, 2], "output_signs": [1, 1, 1]},
        {"inputs": []},
        {"output_signs": [1]},
        {"input_signs": [1, 0]},
        {"outputs": [1, -1]},
    ],
    ids=str,
)
def test_elements_that_permute_something_else_are_one_line(wrong):
    layer = ms.reparameterize(torch.nn.Linear(2, 2, bias=False), "dense")
    report = ms.inspect(layer).to_json()
    rung = {"name": "Z_2", "order": 2, "defect": 0.0, "defect_upper": None, "class_defect": 0.0}
    rung |= {"class_defect_upper": None, "refuted": False, "certified": False}
    report["layers"][0]["ladder"] = [{**rung, "generators": [ELEMENT]}]
    assert ms.SymmetryReport.from_json(report)[0].ladder[0].generators[0].outputs == (1, 0)
    report["layers"][0]["ladder"][0]["generators"] = [{**ELEMENT, **wrong}]
    with refused() as caught:
        ms.SymmetryReport.from_json(report, "f")
    assert caught.value.about.startswith("f: layers[0]")


def test_a_pattern_of_another_size_is_one_line():
    report = ms.inspect(ms.reparameterize(torch.nn.Linear(2, 2, bias=False), "dense")).to_json()
    for classes, found in (
        ([], (0, [], 0)),  # the number of rows, the lengths of the rows, the largest entry
        ([[1, 2]], (1, [2], 2)),
        ([[1, 2], [1]], (2, [1, 2], 2)),
        ([[1, 2], [10**400, 1]], (2, [2], 10**400)),
        ([[1, 2], [-5, 1]], (2, [2], 5)),
    ):
        report["layers"][0]["pattern"]["classes"] = classes
        with refused("symmetry report: layers[0]: pattern", found):
            ms.SymmetryReport.from_json(report)


@given(st.sampled_from([f.name for f in dataclasses.fields(ms.Record)]), JSON)
def test_any_value_in_any_field_of_a_record_is_good_or_one_line(tmp_path_factory, field, value):
    path = tmp_path_factory.mktemp("records") / "metrics.jsonl"
    record = ms.Record(1, 0.5, 0.5, 0.4, 1.0, {"v": 0.1}).as_dict()
    path.write_text(json.dumps(record) + "\n" + json.dumps({**record, "step": 2, field: value}) + "\n")
    try:
        assert len(read_records(path).records) == 2
    except MetasymError as error:
        assert "line 2" in str(error)


@pytest.mark.parametrize("how", [["--find-steps", "2", "--outer-steps", "2", "--tasks-per-step", "2"], []])
def test_every_field_that_learn_writes_is_described(tmp_path, how):
    """By evidence, with ladder, certificate and names, and by outer steps; of the baseline too."""
    draw = np.random.default_rng(0)
    filters, x = draw.normal(size=(24, 3)), draw.normal(size=(24, 8, 3))
    y = np.einsum("tpq,teq->tep", np.stack([np.roll(filters, i, 1) for i in range(3)], 1), x)
    np.savez(tmp_path / "t.npz", x=x, y=y, input_names=np.array(["a", "b", "c"]))
    out = tmp_path / "run"
    assert main(["learn", str(tmp_path / "t.npz"), "--out", str(out), "--progress", "silent", *how]) == 0
    for folder in (out, out / "maml"):
        result, config = (json.loads((folder / name).read_text()) for name in ("result.json", "config.json"))
        _all_described(result, ScoredResult, "result")
        _all_described(config, LearnConfig, "config")
        _all_described(result["config"], LearnConfig, "result.config")
        if "symmetry" in result:
            _all_described(result["symmetry"]["layers"][0], LayerReport, "layer")


def _all_described(value: Any, kind: Any, name: str) -> None:
    """Every key of every object in ``value`` is a field of its description, down to plain values."""
    if isinstance(value, list):
        for item in value[:3]:
            _all_described(item, next(iter(get_args(kind)), Any), f"{name}[]")
    if not isinstance(value, dict):
        return
    inner = [one for one in get_args(kind) if one is not type(None)]
    if not dataclasses.is_dataclass(kind) and not is_typeddict(kind):
        if len(inner) == 1 or get_origin(kind) in (Required, NotRequired, Annotated):
            _all_described(value, inner[0], name)
        return  # a dict whose keys are data, or anything at all
    hints = get_type_hints(kind)
    known = set(hints) | {
        "residual",
        "margin",
        "transitive",
        "approximate",
        "words",
    }  # properties, for other readers
    assert set(value) <= known, f"{name}: {sorted(set(value) - known)} is described nowhere"
    for key, item in value.items():
        _all_described(item, hints.get(key, Any), f"{name}.{key}")


def test_all_results_in_the_repository_are_as_described():
    found = [
        p for t in ("table1", "table2", "table3", "lrs", "sizes") for p in result_files(ROOT / "results" / t)
    ]
    assert len(found) > 100
    for path in found:
        read_result(path)
