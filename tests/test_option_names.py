"""Errors name an option as it was given: a flag on the command line, an argument from Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

import metasym as ms
from metasym.errors import asked, on_command_line, option_name
from tests.refusals import refused, refused_command

TABLE = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["a", "b", "y"])
TABLE["pipe"] = np.repeat(range(8), 5)


def test_an_option_is_spelled_by_where_it_was_given() -> None:
    assert (asked("inner_lr"), asked("inner_lr", 0.1), asked("model", "fc")) == (
        "inner_lr=",
        "inner_lr=0.1",
        "model='fc'",
    )
    assert (asked("labels", False), option_name("inner_lr")) == ("labels=False", "inner_lr")
    with on_command_line():
        assert (asked("inner_lr"), asked("inner_lr", 0.1), asked("model", "fc")) == (
            "--inner-lr",
            "--inner-lr 0.1",
            "--model fc",
        )
        assert (asked("labels", False), option_name("inner_lr")) == ("--no-labels", "--inner-lr")
    assert option_name("inner_lr") == "inner_lr"


def test_a_frame_is_refused_without_flags() -> None:
    with refused("frame: task", "pipes") as caught:
        ms.learn(TABLE, task="pipes", inputs="a,b", outputs="y")
    assert "--" not in str(caught.value)
    with refused("frame: outputs") as caught:
        ms.learn(TABLE, task="pipe", inputs="a,b")
    assert "--" not in str(caught.value)
    with refused("hidden", "3") as caught:
        ms.learn(TABLE, task="pipe", inputs="a,b", outputs="y", hidden="3")
    assert "--" not in str(caught.value)


def test_a_file_is_refused_with_flags(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    TABLE.to_csv(path, index=False)
    table = ["learn", path, "--out", tmp_path / "o", "--inputs", "a,b", "--outputs", "y", "--task"]
    error = refused_command([*table, "pipes"], f"{path}: --task", "pipes")
    assert "--task" in str(error)
    assert "task=" not in str(error)
