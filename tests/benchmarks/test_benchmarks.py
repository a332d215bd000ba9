"""The harness: contenders compute the same numbers, workers answer, ratios and exponents are what they say."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from benchmarks.workloads import Row

import metasym as ms
from benchmarks import __main__ as cli
from benchmarks import contenders, discovering, jobs, runner, scaling, tables, workloads
from metasym.models import convolution_net
from metasym.models.conv_blocks import Block
from metasym.types import Batch, Episode
from tests.refusals import refused

Made = workloads.Made


def conv(method: str) -> Made:
    g = torch.Generator().manual_seed(0)
    model = convolution_net((1, 8, 8), [Block(4)] * 2, 3, generator=g)

    def batch(n: int) -> Batch:
        return Batch(torch.rand(2, n, 1, 8, 8, generator=g), torch.randint(0, 3, (2, n), generator=g))

    learner = (
        ms.MSR(ms.reparameterize(model), F.cross_entropy)
        if method == "msr"
        else ms.MAML(model, F.cross_entropy)
    )
    return learner, Episode(batch(3), batch(4), torch.arange(2))


CASES: list[tuple[str, Callable[[], Made]]] = [
    ("autograd", lambda: conv("msr")),
    ("higher", lambda: conv("msr")),
    ("torchopt", lambda: conv("maml")),
    (
        "autograd",
        workloads.synthetic("translation/rank1/small/msr-joint-fc", filter_size=4, tasks_per_step=2),
    ),
    ("higher", workloads.synthetic("translation/rank1/small/msr-fc", filter_size=4, tasks_per_step=2)),
    ("higher", workloads.synthetic("rotation/rot90/msr-conv", image_size=6, tasks_per_step=2)),
    ("autograd", workloads.attention(width=8, length=3, tasks=2)),
    ("torchopt", workloads.attention(width=8, length=3, tasks=2)),
]


@pytest.mark.filterwarnings("ignore")  # the rivals' own
@pytest.mark.parametrize(("rival", "make"), CASES)
def test_rivals_do_the_same_step(rival: str, make: Callable[[], Made]) -> None:
    """The loss before the first step, and after it: so the gradients agree as well (Adam sees their signs)."""
    if contenders.missing(rival):
        pytest.skip(f"{rival} is not installed")
    # torchopt does not learn its step size, which moves the losses after the first.
    same_steps(rival, make, later=5e-3 if rival == "torchopt" else 2e-4)


def same_steps(rival: str, make: Callable[[], Made], later: float = 2e-4) -> None:
    ours, theirs = contenders.metasym(*make()), contenders.STEPPERS[rival](*make())
    for within in (2e-4, later, later):
        assert ours() == pytest.approx(theirs(), rel=within)


JAX_CASES: list[Callable[[], Made]] = [
    lambda: conv("msr"),
    lambda: conv("maml"),
    workloads.synthetic("translation/rank1/small/msr-fc", filter_size=4, tasks_per_step=2),
]


@pytest.mark.parametrize("case", range(len(JAX_CASES)))
def test_jax_does_the_same_step(case: int) -> None:
    """In a process of its own: JAX warns whenever a process that has loaded it forks, as other tests do."""
    if contenders.missing("jax"):
        pytest.skip("jax is not installed")
    code = f"from tests.benchmarks import test_benchmarks as t; t.same_steps('jax', t.JAX_CASES[{case}])"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_the_limit_does_its_products() -> None:
    make = workloads.synthetic("translation/rank1/small/msr-fc", filter_size=4, tasks_per_step=2)
    assert contenders.limit(*make())() != 0


def test_a_missing_package_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contenders.importlib.util, "find_spec", lambda name: None)
    assert contenders.missing("higher")
    assert not contenders.missing("metasym")


def test_a_worker_answers_and_ends() -> None:
    with runner.worker("scaling", "kronecker=12") as worker:
        assert worker.hello["loss"] > 0
        found = worker.run(0.01)
    assert found["steps"] >= 1
    assert found["peak"] >= worker.hello["imported"]
    assert worker.process.returncode is not None


@pytest.mark.parametrize("method", ["MLP", "LieGAN"])
def test_rivals_of_discover_train(method: str) -> None:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(40, 4, generator=draw)
    step = {"MLP": discovering._network, "LieGAN": discovering._liegan}[method](
        x, x @ torch.eye(4).roll(1, 0)
    )
    losses = [step() for _ in range(30)]
    assert losses[-1] < losses[0]  # LieGAN's discriminator learns to tell what a random generator moves


def test_published_lengths_of_training() -> None:
    assert discovering.trained_steps("MLP", 300) == 1000
    assert discovering.trained_steps("MLP", 1000) == 1800
    assert discovering.trained_steps("LieGAN", 1000) == 1600


def test_run_times_as_a_table() -> None:
    times = {"median": 2.0, "least": 1.0, "most": 3.25}
    found = tables.run_times(
        [{"title": "a", "seconds": {"discover": times}}, {"title": "b", "seconds": {"MLP": times}}]
    )
    assert "| a | 2 (1 to 3.25) |  |" in found
    assert "| b |  | 2 (1 to 3.25) |" in found


def test_ratios_against_targets() -> None:
    row = Row("title", {"ours": None, "slow": None, "equal": None}, {"slow": 3}, {"equal": 1.1})  # type: ignore[dict-item]
    times = {"ours": [1.0, 1.0, 2.0], "slow": [4.0, 2.0, 20.0], "equal": [1.0, 0.5, 1.9]}
    hello = {"imported": 2**20, "loss": 1.0}
    found = runner.summary(row, times, dict.fromkeys(times, 2**21), dict.fromkeys(times, hello))
    assert found["contenders"]["slow"]["milliseconds"] == 4000
    assert found["contenders"]["ours"]["peak_mb"] == 2
    slow, equal = found["comparisons"]
    assert (slow["ratio"], slow["lowest"], slow["highest"], slow["met"]) == (4, 2, 10, True)
    assert equal["ratio"] == pytest.approx(2 / 1.9)
    assert equal["met"]
    lines = tables.row_lines({"row": "r", "title": "t", **found})
    assert "4 times as fast as slow (2 to 10); target at least 3: met" in lines[-2]
    assert tables.markdown([{"row": "r", "title": "t", **found}]).count("\n") == 4


def test_exponents_and_where_dense_ends() -> None:
    assert scaling.exponent([1, 2, 4, 8], [9, 4, 16, 64]) == pytest.approx(2)
    assert scaling.dense_limit(16 * 100**4) == 100
    for point in scaling.POINTS.values():
        assert point.axis in scaling.AXES


def fake_row(name: str, plan: runner.Plan, say: Callable[[str], None]) -> dict[str, Any]:
    row = workloads.ROWS[name]
    times = {contender: [0.1, 0.2, 0.3] for contender in row.contenders}
    hello = {"imported": 2**20, "loss": 1.0}
    found = runner.summary(row, times, dict.fromkeys(times, 2**21), dict.fromkeys(times, hello))
    return {"row": name, "title": row.title, **found, "absent": []}


def test_the_command_writes_results_and_keeps_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "run_row", fake_row)
    assert cli.main(["--row", "msr-fc", "--out", str(tmp_path)]) == 0
    assert cli.main(["--row", "omniglot-msr", "--out", str(tmp_path)]) == 0
    assert {p.name for p in tmp_path.iterdir()} == {"msr-fc.json", "omniglot-msr.json", "ratios.png"}
    stored = json.loads((tmp_path / "msr-fc.json").read_text())
    assert stored["machine"]["torch"] == torch.__version__
    assert capsys.readouterr().out.count("(not met)") == 3 + 1  # the first time one row, then both
    assert cli.main(["--row", "nothing", "--out", str(tmp_path)]) == 2
    assert "expected rows of msr-fc" in capsys.readouterr().err
    assert cli.main(["--quick", "--row", "msr-conv", "--out", str(tmp_path / "none")]) == 0
    assert not (tmp_path / "none").exists()


def test_every_row_is_complete() -> None:
    for row in workloads.ROWS.values():
        assert set(row.targets) | set(row.at_most) <= set(row.contenders)
        assert all(stepper in contenders.STEPPERS for stepper, _ in row.contenders.values())


def test_whole_jobs(tmp_path: Path) -> None:
    assert len(jobs.table1_cells()) == 36
    folder = tmp_path / "results"
    folder.mkdir()
    cell = "translation/rank1/small/maml-conv"
    for seed, seconds in ((0, 2.0), (1, 50.0)):
        (folder / f"a-seed{seed}.json").write_text(json.dumps({"experiment": cell, "seconds": seconds}))
    for command in ("init -q", "add -A", "-c user.name=a -c user.email=a@b commit -q -m a"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    assert jobs.before("HEAD", "results", tmp_path) == {cell: 2.0}
    with refused("history"):
        jobs.before("nothing", "results", tmp_path)
    now = jobs.after(["translation/rank1/small/maml-conv"], lambda line: None, seconds=0.01)
    assert now["translation/rank1/small/maml-conv"] > 0
