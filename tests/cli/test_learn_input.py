"""``metasym learn`` as typed, on input that is wrong or odd: one line, before anything is trained."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import metasym as ms
from metasym.cli import main
from metasym.verdicts.verdict import Status
from tests.refusals import refused_command

QUICK = ["--find-steps", "20", "--outer-steps", "25", "--progress", "silent"]
DRAW = np.random.default_rng(0)
X = DRAW.standard_normal((12, 8, 3))
Y = DRAW.standard_normal((12, 8, 2))


def table(path: Path, rows: int = 48, tasks: int = 8) -> Path:
    draw = np.random.default_rng(1)
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["robot", "u_left", "u_right", "acc"])
        for row in range(rows):
            u = draw.standard_normal(2)
            writer.writerow([f"r{row % tasks}", *u, (1 + row % tasks) * u[0] - u[1] + 5])
    return path


def npz(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)
    return path


COLUMNS = ["--task", "robot", "--inputs", "u_*", "--outputs", "acc"]


def test_one_line_for_each_thing_that_is_wrong(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain, good = npz(Path("t.npz"), x=X, y=Y), table(Path("t.csv"))
    one = table(Path("one.csv"), tasks=1)
    text = Path("text.csv")
    text.write_text(good.read_text().replace("r0,", "r0,x", 1))
    ragged = Path("ragged.csv")
    ragged.write_text(good.read_text() + "r0,1.0\n")
    cases: list[tuple[str | None, object, list[object]]] = [
        ("t.csv: --task", None, [good]),
        ("t.csv: --outputs", "accel", [good, *COLUMNS[:-1], "accel"]),
        ("one.csv: column 'robot'", 1, [one, *COLUMNS]),
        (
            "text.csv: row 2, column u_left",
            repr(text.read_text().splitlines()[1].split(",")[1]),
            [text, *COLUMNS],
        ),
        ("ragged.csv: row 50", 2, [ragged, *COLUMNS]),
        ("t.npz: --input-names", 2, [plain, "--input-names", "a,b"]),
        ("two.npz: x", (12, 8), [npz(Path("two.npz"), x=X[..., 0], y=Y)]),
        ("zero.npz: y", 0, [npz(Path("zero.npz"), x=X, y=0 * Y)]),
        ("t.npz: --task", "t.npz", [plain, "--task", "robot"]),
        ("device", torch.cuda.device_count(), [plain, "--device", "cuda:7"]),
        ("max_minutes", 0.0, [plain, "--max-minutes", "0"]),
        ("seed", 2**63, [plain, "--seed", str(2**63)]),
        ("threads", 100000, [plain, "--threads", "100000"]),
    ]
    for about, found, arguments in cases:
        refused_command(["learn", *arguments, "--out", "run"], about, found)
        assert not Path("run").exists()


def test_a_table_is_learned_from_with_names_offset_and_tasks_of_different_sizes(tmp_path, capsys):
    path, out = table(tmp_path / "t.csv", rows=101), tmp_path / "run"
    assert main(["learn", str(path), *COLUMNS, "--out", str(out), *QUICK]) == 0
    printed = capsys.readouterr().out
    assert "8 tasks of 12 to 13 examples; an example has x 2 numbers and y one number: regression" in printed
    assert "inputs: u_left, u_right" in printed
    assert "note: y has an offset" in printed
    assert "caution: " not in printed
    assert "y less its mean" in printed
    config = json.loads((out / "config.json").read_text())
    assert config["data"]["input_names"] == ["u_left", "u_right"]
    assert config["choices"]["bias"] is True
    assert {finding["kind"] for finding in config["findings"]} == {"offset", "few_tasks"}
    result = json.loads((out / "result.json").read_text())
    assert "--task robot --inputs 'u_*' --outputs acc" in result["command"]
    assert main(["report", str(out)]) == 0
    assert "Findings about the data" in (out / "report.html").read_text()


def test_a_loaded_run_scores_and_predicts_in_the_tables_own_units(tmp_path, capsys):
    path, out = table(tmp_path / "t.csv", rows=101), tmp_path / "run"
    assert main(["learn", str(path), *COLUMNS, "--out", str(out), *QUICK]) == 0
    run = ms.open_run(out)
    result = json.loads((out / "result.json").read_text())
    assert run.score().mean == pytest.approx(result["mean"], rel=1e-4)
    layout = run.choices.layout
    assert layout.y_offset
    u = np.random.default_rng(5).standard_normal((30, 2))
    v = 2 * u[:, :1] - u[:, 1:] + 5
    network = run.adapt(u, v)
    found = network(torch.tensor(u).float()).detach().numpy()
    assert np.array_equal(network(torch.from_numpy(u)).detach().numpy(), found)  # NumPy's float64
    assert np.array_equal(network(u).detach().numpy(), found)  # and arrays as they are
    inside = run.learner.adapt(
        ms.Batch(torch.tensor(u).float(), torch.tensor((v - layout.y_offset) / layout.y_scale).float())
    )
    by_hand = inside(torch.tensor(u).float()).detach().numpy() * layout.y_scale + layout.y_offset
    assert found == pytest.approx(by_hand, rel=1e-4)
    assert np.square(found - v).mean() < np.square(v - v.mean()).mean()


def test_what_a_layer_is_too_large_for_is_said_before_training(tmp_path, capsys, monkeypatch):
    from metasym.runs.learning import automatic_choices as choosing

    monkeypatch.setattr(choosing, "MOST_WEIGHTS", 5)
    path = npz(tmp_path / "t.npz", x=X, y=Y)
    assert main(["learn", str(path), "--out", str(tmp_path / "run"), *QUICK, "--no-baseline"]) == 0
    printed = capsys.readouterr().out
    said = "caution: The weight of the layer, 2 x 3, has 6 entries. It is trained and scored, but"
    assert said in printed
    assert printed.index(said) < printed.index("Mean squared error")


def test_too_few_examples_for_a_large_layer_are_said_before_training(tmp_path):
    from metasym.diagnosis.checks import diagnose
    from metasym.runs.files.learn_options import Options
    from metasym.runs.learning.automatic_choices import choose, unread_layers
    from metasym.tasks.reading import read_tasks

    for examples, cautions in ((6, 1), (132, 0)):
        draw = np.random.default_rng(0).standard_normal((6, examples, 130)).astype(np.float32)
        file = read_tasks(npz(tmp_path / f"{examples}.npz", x=draw, y=draw))
        found = unread_layers(choose(file, Options(), diagnose(file))[0], file)
        assert [one.kind for one in found] == ["few_examples_for_layer"] * cautions
        said = "The weight of the layer, 130 x 130, is read as a whole only if every task has at least 132 examples"
        assert all(said in one.sentence and "\n" not in one.sentence for one in found)


def test_outlying_tasks_train_only_where_the_user_wants_them(tmp_path, capsys):
    y = X[..., :2] * DRAW.standard_normal((12, 1, 1))
    x = np.concatenate([X, DRAW.standard_normal((48, 8, 3))])
    y = np.concatenate([y, x[12:, :, :2]])
    y[3] *= 1000
    path = npz(tmp_path / "t.npz", x=x, y=y)
    for flags, count in ((["--seed", "1"], 1), (["--outliers", "keep"], 0)):
        out = tmp_path / f"run{count}"
        assert main(["learn", str(path), "--out", str(out), *QUICK, "--no-baseline", *flags]) == 0
        config = json.loads((out / "config.json").read_text())
        assert config["choices"]["left_out"] == [3][:count]
        assert ("1 outliers never train" in capsys.readouterr().out) == bool(count)


def test_one_test_task_prints_no_interval(tmp_path, capsys):
    arguments = [
        "run",
        "translation/rank1/small/msr-fc",
        "--out",
        str(tmp_path / "run"),
        "--outer-steps",
        "2",
    ]
    assert main([*arguments, "--test-tasks", "1", "--progress", "silent"]) == 0
    printed = capsys.readouterr().out
    assert "nan" not in printed
    assert "±" not in printed.splitlines()[0].split("paper")[0]


def test_tasks_that_are_all_the_same_map_are_an_answer(tmp_path, capsys):
    """The deviations from the mean map have no directions at all, not even small ones."""
    x = np.random.default_rng(0).normal(size=(20, 6, 3))
    plain = npz(tmp_path / "t.npz", x=x, y=2 * x[..., ::-1])
    assert main(["learn", str(plain), "--out", str(tmp_path / "run"), "--no-baseline"]) == 0
    assert "All tasks are the same map" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "run")]) == 0
    assert main(["inspect", str(tmp_path / "run")]) == 0


def degenerate() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Data in which something never varies: an input that is 0 everywhere, outputs of a single task, equal tasks."""
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(24, 6, 4)), draw.normal(size=(24, 6, 4))
    unused = x.copy()
    unused[..., 1:] = 0
    one = np.zeros_like(y)
    one[3, 2, 1] = 5
    few = np.zeros_like(y)
    few[3] = x[3]
    number = np.where(np.arange(x.size).reshape(x.shape) == 0, 1.0, 0.0)
    first = np.arange(24)[:, None, None] < 12
    return {
        "inputs that are 0 everywhere": (unused, y),
        "one output": (x, one),
        "one task with a map": (x, few),
        "the same task again and again": (np.repeat(x[:1], 24, 0), np.repeat(y[:1], 24, 0)),
        "one number in all inputs": (number, y),
        "one number in all inputs, five examples": (number[:, :5], y[:, :5]),
        "outputs only where inputs are 0": (np.where(first, x, 0.0), np.where(first, 0.0, y)),
        "equal inputs": (np.repeat(x[..., :1], 4, -1), y),
        "outputs that depend on the task alone": (x, np.repeat(y[:, :1], 6, 1)),
    }


@pytest.mark.parametrize("name", degenerate())
def test_data_without_something_are_an_answer_or_one_line_and_no_claim(tmp_path, name):
    x, y = degenerate()[name]
    plain = npz(tmp_path / "t.npz", x=x, y=y)
    command = ["learn", str(plain), "--out", str(tmp_path / "run"), "--no-baseline", "--progress", "silent"]
    if main(command):
        refused_command(command, "y")
    else:
        (layer,) = ms.open_run(tmp_path / "run").symmetry
        assert layer.verdict.status == Status.UNDECIDED
