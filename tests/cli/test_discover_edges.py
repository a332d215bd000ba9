"""Edge cases of ``metasym discover`` as a user meets them: an answer or one line."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from metasym.cli import main
from metasym.runs.discovering.discover_options import DiscoverOptions
from metasym.runs.files.command_line import command_line, flags
from metasym.storage.options import changed
from metasym.types import MetasymError
from tests.refusals import refused_command, within

Array = npt.NDArray[np.float64]


def table(path: Path, x: Array, y: list[str] | Array) -> None:
    names = [f"c{i}" for i in range(x.shape[1])]
    rows = [",".join([*(repr(float(v)) for v in row), str(out)]) for row, out in zip(x, y, strict=True)]
    path.write_text("\n".join([",".join([*names, "out"]), *rows]))


def command(path: Path, *more: str) -> list[str]:
    out = path.with_suffix("")
    return ["discover", str(path), "--outputs", "out", "--out", str(out), "--progress", "silent", *more]


def run(path: Path, *more: str) -> int:
    return main(command(path, *more))


def drawn(examples: int, inputs: int) -> tuple[Array, Array]:
    draw = np.random.default_rng(examples + inputs)
    x = draw.normal(size=(examples, inputs))
    return x, np.exp(x[:, 0] / 2) + x[:, 0] * x[:, 1] ** 3 + 0.3 * draw.normal(size=examples)


@pytest.mark.parametrize("kind", ["20-examples", "constant", "repeated", "500-inputs"])
def test_an_answer_comes_and_nothing_absurd_is_claimed(tmp_path: Path, kind: str) -> None:
    x, y = drawn(20 if kind == "20-examples" else 40, 500 if kind == "500-inputs" else 2)
    if kind == "constant":
        x = np.c_[x, np.ones(len(x)), np.zeros(len(x))]
    if kind == "repeated":
        x = np.c_[x, x[:, 0], -x[:, 1]]
    table(tmp_path / "data.csv", x, y)
    assert run(tmp_path / "data.csv") == 0
    result = json.loads((tmp_path / "data" / "result.json").read_text())
    assert result["symmetries"] == []
    assert result["refused"]
    assert result["command"].endswith("--outputs out")  # it can be typed again
    said = " ".join(result["notes"])
    assert ("constant" in said) == (kind == "constant")
    assert ("repeat" in said) == (kind == "repeated")


def test_labels_as_text_are_classes(tmp_path: Path) -> None:
    x, _ = drawn(60, 2)
    table(tmp_path / "data.csv", x, ["warm" if v > 0 else "cold" for v in x[:, 0] + x[:, 1] ** 3])
    assert run(tmp_path / "data.csv", "--labels") == 0
    result = json.loads((tmp_path / "data" / "result.json").read_text())
    assert result["command"].endswith("--outputs out --labels")
    assert result["plain"]["metric"] == "accuracy"
    assert result["plain"]["mean"] > 0.6


def test_text_that_is_not_called_labels_and_missing_numbers_are_one_line(tmp_path: Path) -> None:
    x, y = drawn(30, 2)
    table(tmp_path / "text.csv", x, ["warm" if v > 0 else "cold" for v in y])
    table(tmp_path / "missing.csv", np.where(x > 1.5, np.nan, x), y)
    for name in ("text.csv", "missing.csv"):
        assert str(tmp_path / name) in str(refused_command(command(tmp_path / name)).about)


@pytest.mark.parametrize(
    ("x", "y", "about", "found"),
    [
        (
            np.eye(30, 3) + np.arange(30)[:, None],
            np.zeros(30, dtype=int),
            "classes",
            1,
        ),
        (np.eye(30, 3) + np.arange(30)[:, None], np.ones(30), "y", "a constant"),
        (np.ones((30, 3)), np.arange(30.0) / 7, "x", "constants"),
        (np.eye(8, 3), np.arange(8.0) / 7, "examples", 8),
        (np.full((30, 3), np.nan), np.arange(30.0) / 7, "x", (90, 0)),
        (np.eye(30, 3), np.full(30, np.inf), "y", (30, 0)),
        (np.ones((20, 12, 3)), np.ones((20, 12, 2)), "x, y", "constants"),
        (
            np.arange(144.0).reshape(4, 12, 3),
            np.arange(96.0).reshape(4, 12, 2),
            "tasks",
            4,
        ),
    ],
)
def test_data_that_say_nothing_are_one_line(
    tmp_path: Path, x: Array, y: Array, about: str, found: object
) -> None:
    np.savez(tmp_path / "data.npz", x=x, y=y)
    typed = ["discover", tmp_path / "data.npz", "--out", tmp_path / "out", "--progress", "silent"]
    place = tmp_path / "data.npz"
    refused_command(typed, about if about == "tasks" else within(place, about), found)


def test_a_family_with_a_constant_input_is_answered(tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(14, 16, 3))
    x[..., 1] = 1.0
    np.savez(tmp_path / "data.npz", x=x, y=2 * x)
    out = tmp_path / "out"
    assert main(["discover", str(tmp_path / "data.npz"), "--out", str(out), "--progress", "silent"]) == 0
    assert "symmetries" in json.loads((out / "result.json").read_text())


@pytest.mark.parametrize(
    "typed",
    [
        [],
        ["--inputs", "a b,c*", "--outputs", "out"],
        ["--outputs", "out", "--no-labels", "--no-finite", "--seed", "3"],
        ["--tasks", "--tolerance", "0.1", "--test", "0.25"],
    ],
)
def test_the_command_line_of_a_result_can_be_typed_again(
    typed: list[str], tmp_path: Path, monkeypatch
) -> None:
    """What discover is called with decides the line; typed, the line calls it in the same way."""
    calls: list[tuple[Any, Any]] = []

    def found(data: Any, path: Path, out: Path, options: DiscoverOptions, **rest: Any) -> None:
        calls.append((options, rest["reading"]))
        raise MetasymError("enough")

    monkeypatch.setattr("metasym.tasks.dataset.read_dataset", lambda *_, **__: None)
    monkeypatch.setattr("metasym.runs.discovering.discover_run.discover_file", found)
    assert main(["discover", "data.csv", "--out", str(tmp_path), *typed]) == 2
    options, reading = calls[0]
    line = command_line("discover", "data.csv", flags({**changed(reading), **changed(options)}))
    assert main(shlex.split(line)[1:]) == 2
    assert calls[1] == calls[0]
