"""The files of ``metasym discover``: whatever is in them is good, made again, or one line."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

import metasym as ms
from metasym.cli import main
from metasym.cli.discover import _summary
from metasym.report.discovered_page import write_discovered
from metasym.runs.files.discover_files import StageFile
from metasym.runs.files.result_files import DiscoverResult, read_result
from metasym.storage.serialization import pack, unpack
from metasym.types import MetasymError

ODD: tuple[Any, ...] = (None, -1, 10**400, 1e308, "x", [], {}, [[]], [None], True, float("nan"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("discovered")
    draw = np.random.default_rng(4)
    x = draw.normal(size=(120, 3))
    np.savez(folder / "data.npz", x=x, y=np.hypot(x[:, 0], x[:, 1]) + x[:, 2])
    assert main(discover(folder)) == 0
    return folder


def discover(folder: Path) -> list[str]:
    return [
        *("discover", str(folder / "data.npz"), "--out", str(folder / "run"), "--no-finite"),
        *("--progress", "silent", "--resume"),
    ]


@pytest.fixture
def copied(place: Path, tmp_path: Path) -> Path:
    shutil.copytree(place, tmp_path / "copy")
    return tmp_path / "copy"


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        if not isinstance(value, list) or key < 2:
            yield from places(item, (*path, key))


def changed(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    value = copy.deepcopy(value)
    holder = value
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = odd
    return value


def refused(capsys: pytest.CaptureFixture[str]) -> None:
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith("metasym: error: ")
    assert len(said) == 1


def test_every_field_that_is_written_is_described(place: Path) -> None:
    result = json.loads((place / "run" / "result.json").read_text())
    assert result["symmetries"]
    assert set(result) == set(get_type_hints(DiscoverResult))
    for file in (place / "run" / "stages").iterdir():
        assert set(json.loads(file.read_text())) - {"levels"} <= set(StageFile.__annotations__)


def test_any_value_in_any_field_of_a_result_is_shown_or_one_line(copied: Path) -> None:
    path = copied / "run" / "result.json"
    good = json.loads(path.read_text())
    for number, one in enumerate(places(good)):
        for odd in (ODD[number % len(ODD)], ODD[(3 * number + 1) % len(ODD)]):
            path.write_text(json.dumps(changed(good, one, odd)))
            try:
                assert write_discovered(copied / "run", copied / "page.html")
                _summary(copied / "run", read_result(copied / "run" / "result.json"))
            except MetasymError as error:
                assert str(error).startswith(f"{path}: ")


def test_any_value_in_any_field_of_a_config_is_taken_or_one_line(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = copied / "run" / "config.json"
    good = json.loads(path.read_text())
    capsys.readouterr()
    for number, one in enumerate(places(good)):
        path.write_text(json.dumps(changed(good, one, ODD[number % len(ODD)])))
        for command in (["report", str(copied / "run")], discover(copied)):
            status = main(command)
            assert status in (0, 2), (one, command[0])
            if status:
                refused(capsys)


def test_findings_of_an_earlier_search_that_do_not_fit_are_made_again_or_one_line(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copied / "run" / "result.json").unlink()
    path = next(p for p in (copied / "run" / "stages").iterdir() if json.loads(p.read_text())["claims"])
    good = json.loads(path.read_text())
    for field, odd in {"polynomials": [[[1.0]]], "claims": [{**good["claims"][0], "generators": []}]}.items():
        path.write_text(json.dumps({**good, field: odd}))
        if main(discover(copied)):
            refused(capsys)
        (copied / "run" / "result.json").unlink(missing_ok=True)
    path.write_text(json.dumps({**good, "polynomials": "none"}))  # not as described: searched again
    assert main(discover(copied)) == 0
    assert json.loads(path.read_text())["polynomials"] == good["polynomials"]


def test_a_model_that_was_sealed_again_is_taken_or_one_line(copied: Path) -> None:
    path = copied / "run" / "model.safetensors"
    good = unpack(path.read_bytes(), "model")
    for number, one in enumerate(places(good)):
        path.write_bytes(pack(changed(good, one, ODD[number % len(ODD)])))
        try:
            ms.open_run(copied / "run")
        except MetasymError as error:
            assert str(path) in str(error)
            assert "\n" not in str(error)


def test_a_broken_seal_of_the_model_is_said_by_the_page(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = copied / "run" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    capsys.readouterr()
    assert main(["report", str(copied / "run")]) == 2
    refused(capsys)


def test_a_folder_with_runs_of_both_kinds_is_one_page(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw = np.random.default_rng(0)
    np.savez(copied / "tasks.npz", x=draw.normal(size=(20, 6, 3)), y=draw.normal(size=(20, 6, 3)))
    learn = ["learn", str(copied / "tasks.npz"), "--out", str(copied / "other"), "--no-baseline"]
    assert main(["report", str(copied)]) == 0  # alone, one level down
    assert main([*learn, "--progress", "silent"]) == 0
    shutil.copytree(copied / "run", copied / "unfinished")
    (copied / "unfinished" / "result.json").unlink()
    capsys.readouterr()
    assert main(["report", str(copied)]) == 0
    told = capsys.readouterr()
    assert "3 runs" in told.out
    assert "left out" not in told.err
    page = (copied / "report.html").read_text()
    verdict = json.loads((copied / "run" / "result.json").read_text())["verdict"]["words"]
    assert verdict in page
    assert "unfinished" in page
    assert "learn/<wbr>tasks" in page
    assert "could not be read" not in page
