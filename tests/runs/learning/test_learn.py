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
from metasym.verdicts.group_words import found_words
from metasym.verdicts.layer_words import verdict_words
from metasym.verdicts.verdict import Status
from tests.refusals import refused, refused_command, within

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
    folder, printed = learned
    assert "80 tasks of 8 examples; an example has x 4 numbers and y 4 numbers: regression" in printed
    assert "fc: one fully connected layer, 4 -> 4" in printed
    assert "16 of 16" in printed
    assert "56 to train, 8 to validate, 16 to test" in printed
    assert "--filter-size" in printed
    (layer,) = ms.open_run(folder / "run").symmetry
    assert (layer.group.name, layer.group.order) == ("Z_4", 4)
    assert verdict_words(layer) in printed
    assert "The symmetry pays" in printed
    assert "ms.open_run('run')" in printed


def test_a_first_run_does_not_say_that_it_was_finished_before(learned):
    assert "finished before" not in learned[1]
    (layer,) = ms.open_run(learned[0] / "run").symmetry
    assert found_words(layer) in learned[1]


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
    assert isinstance(names["network"], torch.nn.Module)
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
    (layer,) = ms.open_run(folder / "run").symmetry
    assert verdict_words(layer) in said
    assert "This run is already complete" in said
    assert (folder / "run" / "result.json").stat().st_mtime_ns == before
    refused_command([*again, "--seed", "1"], within(folder / "run", "choices.seed"), 0)
    np.savez(folder / "other.npz", **circular(seed=1))
    other = ["learn", folder / "other.npz", "--out", folder / "run", *QUICK]
    refused_command(other, within(folder / "run", "data.x.crc32"))


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
    refused_command(arguments, str(tmp_path / "run" / "maml"), "checkpoint.safetensors")
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
    for layer in ms.open_run(tmp_path / "run").symmetry:
        assert layer.verdict.status is Status.UNDECIDED
        assert verdict_words(layer) in printed
    assert "To decide it, use one-hot targets" in printed
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["metric"] == "accuracy"
    assert 0 <= result["mean"] <= 1
    run = ms.open_run(tmp_path / "run")
    network = run.adapt(x[0], y[0])
    assert network(torch.tensor(x[1], dtype=torch.float32)).shape == (12, 3)
    with refused("x", "NaN or infinity"):
        run.adapt(x[0] * np.nan, y[0])
    with refused("x", (0, 5)):
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
    assert "were restored" in printed
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
    with refused("model", None):
        ms.open_run(tmp_path / "run")


def test_a_linear_network_of_ones_own_is_solved_exactly(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(HERE)
    flags = [*QUICK[2:], "--find-steps", "10", "--model", "own_network:linear"]
    assert learn(tmp_path, circular(tasks=20), *flags) == 0
    assert "exact (ridge)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "about", "found"),
    [
        (["--model", "own_network:missing"], "model", "none"),
        (["--model", "own_network:something"], "model", "int"),
        (["--model", "own_network:broken"], "model", "RuntimeError"),
        (["--model", "own_network:wrong_size"], "model", [4, 3]),
        (["--model", "no_such_module:f"], "model", "ModuleNotFoundError"),
        (["--model", "transformer"], "model", "transformer"),
        (["--model", "conv2d"], "x", (20, 8, 4)),
        (["--support", "8"], "support", 8),
        (["--test", "0.95"], "validation, test", (2, 19)),
        (["--solver", "ridge", "--model", "mlp"], "solver", "ridge"),
        (
            ["--model", "mlp", "--find-steps", "9"],
            "find_steps",
            9,
        ),
        (
            ["--solver", "sgd", "--penalty", "0.1"],
            "penalty",
            0.1,
        ),
        (["--hidden", "5"], "hidden", "fc"),
        (["--kernel-size", "5"], "kernel_size", "fc"),
        (["--symmetry", "kronecker", "--filter-size", "3"], "filter_size", "kronecker"),
        (["--filter-size", "17"], "filter_size", 17),
        (["--inner-lr", "0.2"], "inner_lr", 0.2),
        (["--outer-steps", "0"], "outer_steps", 0),
        (["--symmetry", "none"], "--symmetry", None),
        (["--find-steps", "5", "--symmetry", "kronecker"], "symmetry", "kronecker"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path, monkeypatch, flags, about, found):
    monkeypatch.chdir(HERE)
    np.savez(tmp_path / "tasks.npz", **circular(tasks=20))
    refused_command(["learn", tmp_path / "tasks.npz", "--out", tmp_path / "run", *flags], about, found)


def test_a_file_that_is_none_is_one_line(tmp_path):
    for path, found in ((tmp_path, "a folder"), (tmp_path / "no.npz", "No such file or directory")):
        refused_command(["learn", path, "--out", tmp_path / "run"], str(path), found)
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
