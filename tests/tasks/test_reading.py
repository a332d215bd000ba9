"""Files that a newcomer has: a pickled frame, a table with the rows' numbers in front."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import metasym as ms
from metasym.cli.main import main
from metasym.tasks.dataset import read_dataset
from metasym.tasks.reading import read_tasks
from metasym.tasks.task_file import Reading
from tests.refusals import refused


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=120) for name in ("a", "b", "c")}
    return pd.DataFrame({**columns, "y": columns["a"] + columns["b"], "robot": np.repeat(np.arange(12), 10)})


@pytest.mark.parametrize("name", ["df.pkl", "df.feather", "df.xlsx", "df.npy"])
def test_what_can_be_read_is_named(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / name
    path.write_bytes(b"anything")
    for read in (read_tasks, read_dataset):
        with refused(str(path), path.suffix):
            read(path)
    assert main(["learn", str(path), "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert all(kind in said for kind in (".npz", ".csv", ".parquet"))
    assert len(said.splitlines()) == 1


def test_an_index_without_a_name_is_left_out_with_a_word(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    frame().to_csv(path)  # pandas writes the rows' numbers in front, under an empty name
    with pytest.warns(ms.MetasymWarning, match="left out"):
        found = read_dataset(path, outputs="y")
    assert found.input_names == ("a", "b", "c", "robot")
    frame().to_csv(tmp_path / "plain.csv", index=False)
    expected = read_dataset(tmp_path / "plain.csv", outputs="y")  # a warning would be an error
    np.testing.assert_allclose(found.x, expected.x)


def test_patterns_do_not_take_the_index(tmp_path: Path) -> None:
    read = pd.read_csv(_csv(tmp_path))
    assert read.columns[0] == "Unnamed: 0"
    wishes = Reading(task="robot", inputs="*[!yt]", outputs="y")
    read.drop(columns=["robot"]).assign(robot=frame().robot).to_csv(tmp_path / "again.csv", index=False)
    with pytest.warns(ms.MetasymWarning, match="left out"):
        found = read_tasks(tmp_path / "again.csv", wishes)
    assert found.input_names == ("a", "b", "c")
    named = Reading(task="robot", inputs="Unnamed: 0,a,b,c", outputs="y")
    assert read_tasks(tmp_path / "again.csv", named).input_names == ("Unnamed: 0", "a", "b", "c")


def test_a_column_without_a_name_is_seen_among_those_that_are_there(tmp_path: Path) -> None:
    with pytest.raises(ms.MetasymError) as refused:
        read_tasks(_csv(tmp_path), Reading(task="robot", outputs="y"))
    assert "'', " in str(refused.value)


def _csv(folder: Path) -> Path:
    frame().to_csv(folder / "first.csv")
    return folder / "first.csv"


def test_the_command_says_it_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--outputs", "y", "--no-continuous", "--progress", "silent"]
    assert main(["discover", str(_csv(tmp_path)), "--out", str(tmp_path / "run"), *flags]) == 0
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "left out" in line)
    assert line.startswith("metasym: note: ")


def test_adapted_modules_and_predict_take_arrays_and_frames() -> None:
    rng = np.random.default_rng(0)
    gains = rng.normal(size=(40, 3, 2))
    x = rng.normal(size=(40, 10, 3))
    rows = pd.DataFrame(x.reshape(-1, 3), columns=["a", "b", "c"])
    rows[["u", "v"]] = (x @ gains).reshape(-1, 2)
    rows["task"] = np.repeat(np.arange(40), 10)
    run = ms.learn(rows, task="task", inputs="a,b,c", outputs="u,v", baseline=False)
    one = rows[rows.task == 3]
    network = run.adapt(one[:6], one[:6])
    answers = [network(query) for query in (one[6:], one[["a", "b", "c"]][6:].to_numpy(), x[3, 6:])]
    for answer in answers:
        np.testing.assert_allclose(answer.detach().numpy(), run.predict(one[:6], one[:6], one[6:]), rtol=1e-6)
    plain = ms.learn(x, x @ gains, baseline=False)
    assert plain.adapt(x[3, :6], (x @ gains)[3, :6])(x[3, 6:]).shape == (4, 2)
