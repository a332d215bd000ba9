"""``metasym export`` as typed: formats, compiled layers, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import metasym as ms
from metasym.cli.main import main
from metasym.structured.exporting import export


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run of ``metasym learn`` on shifts of 12 points, and a task of its family beside it."""
    folder = tmp_path_factory.mktemp("export")
    tasks = ms.tasks.planted("shifts12", tasks=40, examples=20, seed=5)
    np.savez(folder / "tasks.npz", x=tasks.x.numpy(), y=tasks.y.numpy())
    np.savez(folder / "task.npz", x=tasks.x[0].numpy(), y=tasks.y[0].numpy())
    arguments = ["learn", str(folder / "tasks.npz"), "--out", str(folder / "run"), "--no-baseline"]
    assert main([*arguments, "--progress", "silent"]) == 0
    return folder


def test_the_archive_of_a_task_predicts_it(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run / "model.pt2"
    arguments = [
        "export",
        str(run / "run"),
        "--out",
        str(out),
        "--support",
        str(run / "task.npz"),
        "--structured",
    ]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "What each layer became" in said
    assert "Largest difference of outputs" in said
    task = np.load(run / "task.npz")
    model = torch.export.load(out).module()
    x, y = torch.from_numpy(task["x"]), torch.from_numpy(task["y"])
    assert torch.allclose(model(x), y, atol=1e-2)
    assert model(x[:1]).shape == (1, 12)  # any number of examples


@pytest.mark.parametrize("flags", [[], ["--structured"]])
def test_without_a_task_the_model_is_written_as_it_starts(
    run: Path, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = run / "start.pt2"
    assert main(["export", str(run / "run"), "--out", str(out), *flags]) == 0
    assert "Not adapted to any task" in capsys.readouterr().out
    found = torch.export.load(out).module()(torch.ones(3, 12))
    assert found.shape == (3, 12)
    assert found.dtype == torch.float32


def test_a_task_in_a_table_like_the_one_that_was_learned_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def table(path: Path, tasks: list[int]) -> None:
        lines = ["who,a,b,c,d,extra,A,B,C,D"]
        for task in tasks:
            for x, y in zip(data.x[task].tolist(), data.y[task].tolist(), strict=True):
                lines.append(",".join(map(str, [f"t{task}", *x, 0, *y])))
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    draw = np.random.default_rng(0)
    W = draw.normal(size=(31, 4))[:, (np.arange(4)[:, None] - np.arange(4)) % 4]
    x = draw.normal(size=(31, 8, 4))
    data = ms.Batch(torch.from_numpy(x), torch.from_numpy(np.einsum("toi,tei->teo", W, x)))
    table(tmp_path / "all.csv", list(range(30)))
    table(tmp_path / "new.csv", [30])
    columns = ["--task", "who", "--inputs", "a,b,c,d", "--outputs", "A,B,C,D"]
    learn = ["learn", str(tmp_path / "all.csv"), *columns, "--out", str(tmp_path / "run"), "--no-baseline"]
    assert main([*learn, "--progress", "silent"]) == 0
    out, task = tmp_path / "m.pt2", tmp_path / "new.csv"
    assert main(["export", str(tmp_path / "run"), "--out", str(out), "--support", str(task)]) == 0
    model = torch.export.load(out).module()
    assert torch.allclose(model(data.x[30].float()), data.y[30].float(), atol=1e-2)
    capsys.readouterr()
    assert (
        main(["export", str(tmp_path / "run"), "--out", str(out), "--support", str(tmp_path / "all.csv")])
        == 2
    )
    assert "expected the rows of one task, found 30 in column 'who': t0, t1, " in capsys.readouterr().err
    task.write_text("a,b,c,d,A,B,C\n1,2,3,4,5,6,7\n", encoding="utf-8")
    assert main(["export", str(tmp_path / "run"), "--out", str(out), "--support", str(task)]) == 2
    assert "expected --outputs to name columns of the table, found 'D'" in capsys.readouterr().err


def test_the_same_network_from_python(run: Path) -> None:
    task = np.load(run / "task.npz")
    learned = ms.load_learned(run / "run")
    network = learned.adapt(task["x"], task["y"], structured=True)
    x, y = torch.from_numpy(task["x"]), torch.from_numpy(task["y"])
    assert torch.allclose(network(x), y, atol=1e-2)
    assert torch.allclose(network(x), learned.adapt(task["x"], task["y"])(x), atol=1e-2)
    plan = learned.learner.compiler.of(learned.learner)[1]
    assert "circular convolution of 12 points" in str(plan)


def test_what_is_wrong_is_one_line(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        ([str(run / "run"), "--out", str(run / "m.bin")], "expected a file .onnx or .pt2"),
        (
            [str(run / "none"), "--out", str(run / "m.pt2")],
            "none: expected the folder of a run with config.json",
        ),
        ([str(run / "run"), "--out", str(run / "m.pt2"), "--batch", "8"], "--batch only with --structured"),
        ([str(run / "run"), "--out", str(run / "m.pt2"), "--project"], "--project only with --structured"),
        (
            [str(run / "run"), "--out", str(run / "m.pt2"), "--support", str(run / "tasks.npz")],
            "tasks.npz: expected x of one task",
        ),
        (
            [str(run / "run"), "--out", str(run / "m.pt2"), "--support", str(run / "task.csv")],
            "expected an npz file, because the run did not learn from a table, found .csv",
        ),
        (
            [str(run / "run"), "--out", str(run / "m.pt2"), "--support", str(run / "nothing.npz")],
            "npz file with x",
        ),
    ):
        assert main(["export", *arguments]) == 2
        error = capsys.readouterr().err
        assert error.startswith("metasym: error: ")
        assert error.count("\n") == 1
        assert said in error
    assert not (run / "m.bin").exists()
    assert not (run / "m.pt2").exists()


@pytest.mark.filterwarnings("ignore:averaging")  # random layers get a structure
@pytest.mark.parametrize("suffix", [".pt2", ".onnx"])
def test_compiled_layers_leave_and_come_back(tmp_path: Path, suffix: str) -> None:
    if suffix == ".onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    draw = np.random.default_rng(0)
    circle = (np.arange(16)[None] - np.arange(16)[:, None]) % 16 + 1
    circle = circle[draw.permutation(16)][:, draw.permutation(16)]
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16))
    given = {"0": circle, "2": np.eye(16, dtype=np.int64) + 1}
    compiled = ms.structured(model, given, project=True, always=True, onnx=suffix == ".onnx")
    x = torch.randn(5, 16)
    assert export(compiled, x, tmp_path / f"m{suffix}") <= 1e-5
