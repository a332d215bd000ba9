"""JSON files: a line for each key, null for what JSON does not know."""

from __future__ import annotations

import json

from metasym.storage.json_files import write_json


def test_json_files_have_a_line_for_each_key(tmp_path):
    value = {"a": [1.5, float("nan"), 3], "b": {"c": []}, "d": "x, ]"}
    write_json(tmp_path / "x.json", value)
    text = (tmp_path / "x.json").read_text()
    assert json.loads(text) == {"a": [1.5, None, 3], "b": {"c": []}, "d": "x, ]"}
    assert len(text.splitlines()) == 5
