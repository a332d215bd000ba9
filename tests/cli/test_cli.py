from __future__ import annotations

import dataclasses
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import metasym
from metasym.cli import main
from metasym.paper import names
from metasym.paper.config import Recipe
from tests import forked
from tests.refusals import refused_command

NAME = "translation/rank1/small/msr-fc"
FEW = ["--outer-steps", "3", "--train-tasks", "6", "--test-tasks", "4", "--progress", "silent"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def metasym_command(*arguments: str, **options):
    return forked.run(["-m", "metasym", *arguments], env=ENVIRONMENT, **options)


def test_a_run_as_a_user_types_it(tmp_path):
    script = Path(sys.executable).with_name("metasym")
    out = tmp_path / "out"
    done = subprocess.run(
        [script, "run", NAME, "--out", out, *FEW],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{NAME}: mse ")
    assert "the paper's: .07 ± .02" in done.stdout
    assert {"config.json", "metrics.jsonl", "checkpoint.safetensors", "result.json"} <= {
        p.name for p in out.iterdir()
    }
    result = json.loads((out / "result.json").read_text())
    assert result["config"]["recipe"]["outer_steps"] == 3
    assert result["command"] == f"metasym run {NAME} --out DIR --outer-steps 3 --train-tasks 6 --test-tasks 4"


def test_list(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == names()
    assert "translation/rank1/small/msr-fc        paper .07 ± .02" in lines
    assert main(["list", "rot90"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_help_everywhere_and_the_version(capsys):
    for arguments in ([], ["run"], ["list"], ["reproduce"], ["cost"], ["angles"], ["demo"], ["report"]):
        with pytest.raises(SystemExit) as caught:
            main([*arguments, "--help"])
        assert caught.value.code == 0
        assert capsys.readouterr().out.startswith("usage: metasym")
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"metasym {metasym.__version__}\n"


def test_every_field_of_the_recipe_has_a_flag(capsys):
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    text = capsys.readouterr().out
    for field in dataclasses.fields(Recipe):
        assert f"--{field.name.replace('_', '-')}" in text


def test_flags_reach_the_recipe(tmp_path):
    flags = [
        "--no-learn-start",
        "--filter-std",
        "none",
        "--step-sizes",
        "fixed",
        "--u-std",
        "0.5",
        "--map",
        "loop",
        "--autocast",
        "bfloat16",
        "--seed",
        "7",
    ]
    assert main(["run", NAME, "--out", str(tmp_path), *FEW, *flags]) == 0
    recipe = json.loads((tmp_path / "config.json").read_text())["recipe"]
    assert recipe["learn_start"] is False
    assert recipe["filter_std"] is None
    assert (recipe["map"], recipe["autocast"]) == ("loop", "bfloat16")
    assert (recipe["step_sizes"], recipe["u_std"], recipe["seed"]) == ("fixed", 0.5, 7)


def test_cost(capsys):
    assert main(["cost", "rotation/rot45/msr-conv"]) == 0
    out = capsys.readouterr().out
    assert "24x1x3x3" in out
    assert "4.05 x" in out


@pytest.mark.parametrize(
    ("arguments", "about", "found"),
    [
        ([], "arguments", None),
        (["dance"], "COMMAND", None),
        (["run", NAME], "arguments", None),
        (
            ["run", "translation/rank1/smal/msr-fc", "--out", "x"],
            "name",
            "translation/rank1/smal/msr-fc",
        ),
        (["run", NAME, "--out", "x", "--outer-steps", "three"], "--outer-steps", None),
        (["run", NAME, "--out", "x", "--outer-steps", "-3"], "outer_steps", -3),
        (["run", NAME, "--out", "x", "--clip-norm", "much"], "--clip-norm", None),
        (["run", NAME, "--out", "x", "--solver", "magic"], "--solver", None),
        (["run", NAME, "--out", "x", "--colour", "red"], "arguments", ("--colour", "red")),
        (["run", NAME, "--out", "x", "--recipe", "paper-1e-3"], "recipe", ("paper-1e-3", NAME)),
        (["run", NAME, "--out", "/dev/null/x", *FEW], "/dev/null/x", "Not a directory"),
        (["run", NAME, "--out", "x", "--device", "abacus", *FEW], "device", "abacus"),
        (
            ["run", NAME, "--out", "x", "--device", "mps", *FEW],
            "device",
            "mps",
        ),
        (["run", NAME, "--out", "x", "--device", "meta", *FEW], "device", "meta"),
        (["run", NAME, "--out", "x", "--map", "pool", *FEW], "--map", None),
        (["run", NAME, "--out", "x", "--autocast", "float16", *FEW], "--autocast", None),
        (
            ["run", "rotation/rot45/msr-conv", "--out", "x", "--symmetry", "none", *FEW],
            "model",
            "Conv2d",
        ),
        (["list", "zzz"], "pattern", "zzz"),
        (["cost", "rotation/rot45/maml-conv"], "model", "Conv2d"),
        (["reproduce", "table9", "--out", "x"], "table", None),
        (["reproduce", "table1", "--out", "x", "--jobs", "0"], "jobs", 0),
        (["reproduce", "table1", "--out", "x", "--only", "zzz"], "only", "zzz"),
        (["reproduce", "table1", "--quick"], "--out", None),
        (["reproduce", "figures", "--show"], "--show", "figures"),
        (
            ["reproduce", "table3", "--show", "--status"],
            "--show",
            "--status",
        ),
        (
            ["reproduce", "table3", "--show", "--results", "none"],
            "none/table3",
            0,
        ),
        (
            ["reproduce", "table3", "--d8-fields", "4"],
            "arguments",
            ("--d8-fields", "4"),
        ),
        (["demo", "--out", "/dev/null/x"], "/dev/null/x", "Not a directory"),
        (["demo", "--out", "x", "--outer-steps", "0"], "outer_steps", 0),
    ],
)
def test_bad_input_is_one_line_and_exit_2(arguments, about, found, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused_command(arguments, about, found)


def limit_files() -> None:
    """Writing past the limit fails as writing to a full disk does."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path):
    done = metasym_command("run", NAME, "--out", str(tmp_path / "out"), *FEW, first=limit_files)
    assert done.returncode == 2
    assert done.stderr.startswith("metasym: error: ")
    assert "File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    again = metasym_command("run", NAME, "--out", str(tmp_path / "out"), *FEW, "--resume")
    assert again.returncode == 0, again.stderr


def test_ctrl_c_is_one_line_and_the_run_goes_on(tmp_path):
    arguments = [
        "run",
        NAME,
        "--out",
        str(tmp_path),
        "--train-tasks",
        "6",
        "--test-tasks",
        "4",
        "--progress",
        "silent",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "metasym", *arguments, "--outer-steps", "2000"],
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    until = time.monotonic() + 60
    while not (tmp_path / "metrics.jsonl").exists() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == "metasym: interrupted; use --resume to continue an interrupted run\n"
    steps = len((tmp_path / "metrics.jsonl").read_text().splitlines())
    assert 0 < steps < 2000


def test_reproduce_quick_side_by_side(tmp_path):
    arguments = [
        "reproduce",
        "table1",
        "--out",
        str(tmp_path),
        "--quick",
        "--only",
        "*/rank2/small/maml-[fl]c",
    ]
    done = metasym_command(*arguments, "--jobs", "2", "--markdown", str(tmp_path / "docs" / "table.md"))
    assert done.returncode == 0, done.stderr
    assert "Table 1" in done.stdout
    assert "translation/rank2/small" in done.stdout
    assert (tmp_path / "docs" / "table.md").read_text().startswith("**Table 1")
    assert len(list((tmp_path / "results" / "table1" / "paper").glob("*.json"))) == 2


def test_a_closed_pipe_is_no_error():
    done = subprocess.run(
        f"{sys.executable} -m metasym list | head -1",
        shell=True,
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
