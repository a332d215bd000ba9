"""``metasym learn`` as a user types it, on small families."""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import metasym as ms
from metasym.cli import main
from metasym.storage.serialization import unpack

HERE = Path(__file__).parent
QUICK = ["--find-steps", "40", "--outer-steps", "25", "--tasks-per-step", "8", "--progress", "silent"]
SGD = ["--solver", "sgd", "--outer-steps", "4", "--inner-steps", "1", "--progress", "silent"]


def circular(tasks: int = 80, examples: int = 8, points: int = 4, seed: int = 0) -> dict[str, np.ndarray]:
    """Circular convolutions: Z_4 on 4 points."""
    draw = np.random.default_rng(seed)
    filters, x = draw.standard_normal((tasks, points)), draw.standard_normal((tasks, examples, points))
    y = sum(filters[:, None, i : i + 1] * np.roll(x, i, axis=2) for i in range(points))
    return {"x": x, "y": y / np.sqrt(points)}


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """One run that many tests look at, and what it printed."""
    folder = tmp_path_factory.mktemp("learn")
    np.savez(folder / "tasks.npz", **circular())
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(["learn", "tasks.npz", "--out", "run", *QUICK]) == 0
    return folder, printed.getvalue()


def test_the_summary_says_what_was_chosen_found_and_saved(learned):
    _, printed = learned
    assert "80 tasks of 8 examples; an example has x 4 numbers and y 4 numbers: regression" in printed
    assert "fc: one fully connected layer, 4 -> 4" in printed
    assert "16 of 16" in printed
    assert "56 to train, 8 to validate, 16 to test" in printed
    assert "--filter-size" in printed
    assert "equivariant to Z_4, of order 4" in printed
    assert "The symmetry pays" in printed
    assert "ms.open_run('run')" in printed


def test_a_first_run_does_not_say_that_it_was_finished_before(learned):
    assert "finished before" not in learned[1]
    assert "the 4 inputs behave like a ring that may be turned (Z_4)" in learned[1]


def test_the_files_are_those_of_the_design(learned):
    folder, _ = learned
    for place, method in ((folder / "run", "msr"), (folder / "run" / "maml", "maml")):
        assert (place / "checkpoint.safetensors").exists()
        config = json.loads((place / "config.json").read_text())
        result = json.loads((place / "result.json").read_text())
        lines = [json.loads(line) for line in (place / "metrics.jsonl").read_text().splitlines()]
        assert config["method"] == result["method"] == method
        assert result["metric"] == "mse"
        assert len(result["per_task"]) == 16
        assert result["mean"] == pytest.approx(np.mean(result["per_task"]))
        assert [line["step"] for line in lines] == list(range(1, len(lines) + 1))
        for key in ("experiment", "recipe", "ci95", "outer_steps", "outer_steps_per_second", "inner_lrs"):
            assert key in result
        assert result["seed"] == 0
        assert result["versions"]["torch"] == torch.__version__
    assert not list(folder.rglob("*.tmp"))


def test_the_symmetry_beats_the_baseline_and_is_read_back(learned):
    folder, _ = learned
    msr, maml = (json.loads((folder / "run" / p / "result.json").read_text()) for p in ("", "maml"))
    assert msr["mean"] + msr["ci95"] < maml["mean"] - maml["ci95"]
    saved = ms.load_symmetry(folder / "run" / "symmetry.safetensors")
    assert saved.report[0].group.name == "Z_4"
    assert saved.report.to_json() == msr["symmetry"]


def test_the_printed_python_works_as_it_stands(learned, monkeypatch):
    folder, printed = learned
    monkeypatch.chdir(folder)
    new = circular(tasks=1, examples=30, seed=7)
    x, y = new["x"][0], new["y"][0]
    code = printed.split("Use it from Python:\n")[1]
    names = {"x": x[:6], "y": y[:6], "x_new": torch.tensor(x[6:], dtype=torch.float32)}
    exec("\n".join(line.strip() for line in code.splitlines()), names)
    assert type(names["network"]) is torch.nn.Linear
    error = (names["prediction"] - torch.tensor(y[6:])).square().mean()
    assert error < 0.05 * np.square(y).mean()


def test_the_loaded_run_scores_as_the_result_says(learned, monkeypatch):
    folder, _ = learned
    for place in ("run", "run/maml"):
        result = json.loads((folder / place / "result.json").read_text())
        score = ms.open_run(folder / place).score()
        assert list(score.per_task) == result["per_task"]  # to the bit


def test_inspect_reads_the_folder(learned, capsys):
    folder, _ = learned
    assert main(["inspect", str(folder / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["layers"][0]["group"]["order"] == 4


def test_a_finished_run_is_shown_again_and_another_is_refused(learned, capsys):
    folder, _ = learned
    before = (folder / "run" / "result.json").stat().st_mtime_ns
    again = ["learn", str(folder / "tasks.npz"), "--out", str(folder / "run"), *QUICK]
    assert main(again) == 0
    said = capsys.readouterr().out
    assert "equivariant to Z_4" in said
    assert "This run was finished before" in said
    assert (folder / "run" / "result.json").stat().st_mtime_ns == before
    assert main([*again, "--seed", "1"]) == 2
    assert "seed 1, found one with 0" in capsys.readouterr().err
    np.savez(folder / "other.npz", **circular(seed=1))
    assert main(["learn", str(folder / "other.npz"), "--out", str(folder / "run"), *QUICK]) == 2
    assert "expected an empty folder or a run with data.x" in capsys.readouterr().err


def in_silence(arguments: list[str]) -> None:
    """The command in a process of its own, with one thread as here."""
    torch.set_num_threads(1)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        main(arguments)


def test_a_killed_run_resumed_is_the_run_that_was_never_killed(learned, tmp_path, capsys):
    folder, _ = learned
    arguments = ["learn", str(folder / "tasks.npz"), "--out", str(tmp_path / "run"), *QUICK]
    places = [tmp_path / "run" / name / "checkpoint.safetensors" for name in ("find", "maml")]
    processes = multiprocessing.get_context("forkserver")  # imports once, for both processes
    processes.set_forkserver_preload(["metasym.cli.main", "metasym.runs.learning.learn", "torch._dynamo"])
    for place in places:  # killed in the first stage, then in the baseline
        process = processes.Process(target=in_silence, args=([*arguments, "--resume"],))
        process.start()
        until = time.monotonic() + 100
        while not place.exists() and process.is_alive() and time.monotonic() < until:
            time.sleep(0.02)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    assert not (tmp_path / "run" / "maml" / "result.json").exists()
    assert main(arguments) == 2
    assert "resume that run" in capsys.readouterr().err
    assert main([*arguments, "--resume"]) == 0
    for place in ("", "maml"):
        one, other = (
            json.loads((f / place / "result.json").read_text()) for f in (folder / "run", tmp_path / "run")
        )
        assert one["per_task"] == other["per_task"]
        assert one["outer_steps"] == other["outer_steps"]


def test_what_was_drawn_before_a_stage_changes_nothing_in_it(learned, tmp_path):
    folder, _ = learned
    for name in ("one", "other"):
        torch.rand(len(name))
        np.random.random(len(name))  # noqa: NPY002 - what a user's own network might draw from
        assert main(["learn", str(folder / "tasks.npz"), "--out", str(tmp_path / name), *QUICK]) == 0
    for place in ("find", "maml"):
        files = [tmp_path / name / place / "checkpoint.safetensors" for name in ("one", "other")]
        # What is in them: the two entries of the file's own metadata come in any order.
        one, other = (unpack(file.read_bytes(), str(file)) for file in files)
        assert repr(one["random"]) == repr(other["random"])


def learn(folder: Path, arrays: dict[str, np.ndarray], *flags: str) -> int:
    np.savez(folder / "tasks.npz", **arrays)
    return main(["learn", str(folder / "tasks.npz"), "--out", str(folder / "run"), *flags])


def test_labels(tmp_path, capsys):
    draw = np.random.default_rng(0)
    centres = draw.standard_normal((20, 3, 5)) * 3
    y = np.tile(np.arange(3), (20, 4))
    x = centres[np.arange(20)[:, None], y] + draw.standard_normal((20, 12, 5))
    assert learn(tmp_path, {"x": x, "y": y}, *SGD[2:]) == 0
    printed = capsys.readouterr().out
    assert "classification into 3 classes" in printed
    assert "mlp: 40 hidden units, 5 -> 3" in printed
    assert "no symmetry found" not in printed
    assert "cannot be decided this way" in printed
    assert "what could decide it: one-hot targets" in printed
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["metric"] == "accuracy"
    assert 0 <= result["mean"] <= 1
    run = ms.open_run(tmp_path / "run")
    network = run.adapt(x[0], y[0])
    assert network(torch.tensor(x[1], dtype=torch.float32)).shape == (12, 3)
    with pytest.raises(ms.MetasymError, match="expected x of finite numbers, found NaN"):
        run.adapt(x[0] * np.nan, y[0])
    with pytest.raises(
        ms.MetasymError, match=r"expected x of one task, \[examples >= 1, 5\], found \[0, 5\]"
    ):
        run.adapt(x[0][:0], y[0][:0])


def test_images_in_their_own_units(tmp_path, capsys):
    draw = np.random.default_rng(0)
    x = draw.standard_normal((24, 6, 5, 5)) * 100
    kernels = draw.standard_normal((24, 2, 3, 3))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    y = np.einsum("tehwij,tcij->techw", windows, kernels)
    assert learn(tmp_path, {"x": x, "y": y}, *QUICK[2:], "--find-steps", "10") == 0
    printed = capsys.readouterr().out
    assert "conv2d: kernels of 3 x 3, one layer, 1x5x5 -> 2x3x3" in printed
    assert "x divided by" in printed
    run = ms.open_run(tmp_path / "run")
    baseline = ms.open_run(tmp_path / "run" / "maml")
    assert run.score().mean == pytest.approx(
        json.loads((tmp_path / "run" / "result.json").read_text())["mean"], 1e-4
    )
    for learned_run in (run, baseline):
        network = learned_run.adapt(x[0], y[0])
        error = (network(torch.tensor(x[0], dtype=torch.float32)) - torch.tensor(y[0])).square().mean()
        assert error < 1e-3 * np.square(y[0]).mean()  # far off in any other units
    # 17 tasks show at most 17 of the 18 directions that kernels without a symmetry have: the rest is given back.
    assert "were given back" in printed
    assert run.score().mean < 1e-3 * np.square(y).mean()
    assert run.model.weight.shape == (2, 1, 3, 3)
    assert ms.inspect(run.model)[0].group is None


def test_a_network_of_ones_own(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(HERE)
    monkeypatch.syspath_prepend(str(HERE))
    assert learn(tmp_path, circular(tasks=20), *SGD, "--model", "own_network:network") == 0
    printed = capsys.readouterr().out
    assert "3 steps" not in printed
    code = printed.split("Use it from Python:\n")[1]
    names = {"x": circular()["x"][0], "y": circular()["y"][0], "x_new": torch.zeros(2, 4)}
    exec("\n".join(line.strip() for line in code.splitlines()), names)
    assert names["prediction"].shape == (2, 4)
    with pytest.raises(ms.MetasymError, match="expected the function that makes the network"):
        ms.open_run(tmp_path / "run")


def test_a_linear_network_of_ones_own_is_solved_exactly(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(HERE)
    flags = [*QUICK[2:], "--find-steps", "10", "--model", "own_network:linear"]
    assert learn(tmp_path, circular(tasks=20), *flags) == 0
    assert "exact (ridge)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model", "own_network:missing"], "expected a function 'missing' in own_network, found none"),
        (["--model", "own_network:something"], "expected a function 'something' in own_network, found int"),
        (["--model", "own_network:broken"], "RuntimeError: no network today"),
        (["--model", "own_network:wrong_size"], r"expected predictions [4, 4] for x [4, 4], found [4, 3]"),
        (["--model", "no_such_module:f"], "expected a module 'no_such_module' that can be imported"),
        (["--model", "transformer"], "expected --model to be one of fc, mlp, conv1d, conv2d or package"),
        (["--model", "conv2d"], "for --model conv2d, found [20, 8, 4]"),
        (["--support", "8"], "expected --support below the 8 examples of a task"),
        (["--test", "0.95"], "expected parts for validation and test that leave tasks to train on"),
        (["--solver", "ridge", "--model", "mlp"], "expected --solver sgd for --model mlp, found ridge"),
        (
            ["--model", "mlp", "--find-steps", "9"],
            "expected --find-steps only where tasks adapt by --solver ridge",
        ),
        (
            ["--solver", "sgd", "--penalty", "0.1"],
            "expected --penalty only where tasks adapt by --solver ridge",
        ),
        (["--hidden", "5"], "expected --hidden only for a network with hidden layers, found --model fc"),
        (["--kernel-size", "5"], "expected --kernel-size only for conv1d and conv2d, found --model fc"),
        (["--symmetry", "kronecker", "--filter-size", "3"], "expected --filter-size only for a dense U"),
        (["--filter-size", "17"], "expected --filter-size of at most 16, the weights of the layer, found 17"),
        (["--inner-lr", "0.2"], "only where tasks adapt by --solver sgd, found --inner-lr 0.2 and evidence"),
        (["--outer-steps", "0"], "expected --outer-steps >= 1, found 0"),
        (["--symmetry", "none"], "invalid choice: 'none'"),
        (["--find-steps", "5", "--symmetry", "kronecker"], "expected a dense U"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path, capsys, monkeypatch, flags, message):
    monkeypatch.chdir(HERE)
    assert learn(tmp_path, circular(tasks=20), *flags) == 2
    error = capsys.readouterr().err
    assert error.startswith("metasym: error: ")
    assert message in error
    assert error.count("\n") == 1


def test_a_file_that_is_none_is_one_line(tmp_path, capsys):
    for path, message in ((tmp_path, "found a folder"), (tmp_path / "no.npz", "found No such file")):
        assert main(["learn", str(path), "--out", str(tmp_path / "run")]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "flags", [["--symmetry", "kronecker"], ["--bias"], ["--model", "conv1d"], ["--model", "mlp"]]
)
def test_other_choices_run_too(tmp_path, capsys, flags):
    quick = SGD[2:] if "mlp" in flags else [*QUICK[2:], "--outer-steps", "4"]
    find = ["--find-steps", "10"] if flags[-1] in ("--bias", "conv1d") else []
    assert learn(tmp_path, circular(tasks=12), *quick, *find, *flags) == 0
    assert ms.open_run(tmp_path / "run").adapt(circular()["x"][0], circular()["y"][0]) is not None


def test_training_stops_when_validation_no_longer_improves_also_after_a_resume(tmp_path, monkeypatch):
    from metasym.runs.learning import learn as runs
    from metasym.runs.learning import training_stages as stages

    np.savez(tmp_path / "tasks.npz", **circular(tasks=20))
    arguments = ["learn", str(tmp_path / "tasks.npz"), "--out", str(tmp_path / "run"), "--progress", "silent"]
    # Steps too small to change a float: no validation is better than the first, and it stops patience later.
    arguments += ["--find-steps", "1", "--outer-steps", "400", "--patience", "1", "--outer-lr", "1e-12"]
    arguments += ["--no-baseline"]
    crash = pytest.MonkeyPatch()
    crash.setattr(runs, "inspect", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    assert main(arguments) == 130
    crash.undo()
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert len(lines) < 400
    assert len(lines) % 25 == 0
    whole = stages.train

    def only_the_first_stage(*args, **options):
        assert options["outer_steps"] == 1
        return whole(*args, **options)

    monkeypatch.setattr(stages, "train", only_the_first_stage)
    assert main([*arguments, "--resume"]) == 0
    assert json.loads((tmp_path / "run" / "result.json").read_text())["outer_steps"] == 1 + len(lines)
    assert not (tmp_path / "run" / "maml").exists()


def test_a_wide_layer_has_a_baseline_too(tmp_path):
    """Beyond 512 weights the baseline solves by conjugate gradients: as many iterations as support examples."""
    data = circular(tasks=20, examples=6, points=24)
    assert (
        learn(tmp_path, data, *QUICK[2:], "--find-steps", "2", "--outer-steps", "3", "--filter-size", "30")
        == 0
    )
    maml = json.loads((tmp_path / "run" / "maml" / "result.json").read_text())
    one, five = (maml["by_support"][str(n)]["mean"] for n in (1, 5))
    assert five < one < np.inf
