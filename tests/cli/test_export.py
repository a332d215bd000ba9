"""``metasym export`` as typed: formats, compiled layers, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import metasym as ms
from metasym.cli.main import main
from metasym.fast_layers.exporting import export
from tests.refusals import refused, refused_command, within


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
    assert "Largest difference between compiled and dense outputs" in said
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
    said = capsys.readouterr().out
    assert (
        "Not adapted to any task: the file has the model as it starts, and gives 0 whatever the input" in said
    )
    found = torch.export.load(out).module()(torch.ones(3, 12))
    assert found.shape == (3, 12)
    assert found.dtype == torch.float32


def test_a_start_that_is_an_offset_is_said_to_be_constant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tasks with offsets start at the offset that they share: the outputs are not 0, and all the same."""
    tasks = ms.tasks.planted("shifts12", tasks=40, examples=20, seed=5)
    run, out = tmp_path / "run", tmp_path / "start.pt2"
    ms.learn(tasks.x.numpy(), tasks.y.numpy() + 5, baseline=False, out=run)
    assert main(["export", str(run), "--out", str(out)]) == 0
    assert "as it starts, and gives the same outputs whatever the input" in capsys.readouterr().out
    given = torch.export.load(out).module()(torch.randn(5, 12))
    assert bool((given == given[:1]).all())
    assert given.abs().min() > 1


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
    command = ["export", tmp_path / "run", "--out", out, "--support"]
    refused_command([*command, tmp_path / "all.csv"], within(tmp_path / "all.csv", "who"), 30)
    task.write_text("a,b,c,d,A,B,C\n1,2,3,4,5,6,7\n", encoding="utf-8")
    refused_command([*command, task], within(task, "D"), None)


@pytest.mark.parametrize(
    "flags",
    [
        ["--inputs", "p*", "--outputs", "q*"],
        ["--inputs", "p*", "--outputs", "q*", "--input-names", "a,b,c,d", "--output-names", "A,B,C,D"],
        ["--inputs", "p1,p2,p3,p4", "--outputs", "q1,q2,q3,q4", "--input-names", "a,b,c,d"],
    ],
)
def test_columns_of_a_new_table_are_found_by_name(
    tmp_path: Path, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """In another order, without the task's column, beside columns that match a pattern and were not learned from."""
    draw = np.random.default_rng(0)
    W = draw.normal(size=(31, 4))[:, (np.arange(4)[:, None] - np.arange(4)) % 4]
    x = draw.normal(size=(31, 8, 4))
    y = np.einsum("toi,tei->teo", W, x)
    usual = ["p1", "p2", "p3", "p4", "q1", "q2", "q3", "q4"]

    def table(name: str, tasks: list[int], header: list[str]) -> str:
        lines = [",".join(header)]
        for task in tasks:
            for row in np.concatenate([x[task], y[task]], 1).tolist():
                cells = {**dict(zip(usual, row, strict=True)), "who": f"t{task}", "p9": 7.0, "note": "text"}
                lines.append(",".join(str(cells[column]) for column in header))
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return str(tmp_path / name)

    learned, run = table("all.csv", list(range(30)), ["who", *usual]), str(tmp_path / "run")
    quiet = ["--no-baseline", "--progress", "silent"]
    assert main(["learn", learned, "--task", "wh*", *flags, "--out", run, *quiet]) == 0
    out = tmp_path / "m.pt2"
    mixed = ["q3", "p4", "note", "p9", "q1", "p2", "p1", "q4", "p3", "q2"]
    assert main(["export", run, "--out", str(out), "--support", table("new.csv", [30], mixed)]) == 0
    predicted = torch.export.load(out).module()(torch.from_numpy(x[30]).float())
    assert torch.allclose(predicted, torch.from_numpy(y[30]).float(), atol=1e-2)
    assert ms.open_run(run).columns == ("who", ("p1", "p2", "p3", "p4"), ("q1", "q2", "q3", "q4"))
    learned_run = ms.open_run(run)
    cells = dict(zip(usual, np.concatenate([x[30], y[30]], 1).T, strict=True))
    frame = pytest.importorskip("pandas").DataFrame({name: cells[name] for name in mixed if name in cells})
    adapted = learned_run.adapt(frame, frame)  # by name, as in the table
    assert torch.allclose(adapted(torch.from_numpy(x[30]).float()), predicted, atol=1e-4)
    with refused("x: p3", None):
        learned_run.adapt(frame[["p1", "p2", "p4", "q1"]], y[30])
    capsys.readouterr()
    lacking = table("lacking.csv", [30], [c for c in mixed if c != "p3"])
    refused_command(["export", run, "--out", out, "--support", lacking], within(lacking, "p3"), None)
    several = table("several.csv", [29, 30], ["who", *mixed])
    refused_command(["export", run, "--out", out, "--support", several], within(several, "who"), 2)
    reordered = [column for column in mixed if column != "p9"]
    table("all.csv", list(range(30)), [*reordered, "who"])  # the run's own file, made again in another order
    again = ["learn", learned, "--task", "wh*", *flags, "--out", run, "--resume", *quiet]
    if "p*" in flags:
        refused_command(again)
    else:
        assert main(again) == 0


def test_the_same_network_from_python(run: Path) -> None:
    task = np.load(run / "task.npz")
    learned = ms.open_run(run / "run")
    network = learned.adapt(task["x"], task["y"], structured=True)
    x, y = torch.from_numpy(task["x"]), torch.from_numpy(task["y"])
    assert torch.allclose(network(x), y, atol=1e-2)
    assert torch.allclose(network(x), learned.adapt(task["x"], task["y"])(x), atol=1e-2)
    plan = ms.structured(learned.learner).plan
    assert "circular convolution of 12 points" in str(plan)


def test_what_is_wrong_is_one_line(run: Path) -> None:
    for arguments, about, found in (
        ([str(run / "run"), "--out", str(run / "m.bin")], str(run / "m.bin"), ".bin"),
        (
            [str(run / "none"), "--out", str(run / "m.pt2")],
            str(run / "none"),
            None,
        ),
        ([str(run / "run"), "--out", str(run / "m.pt2"), "--batch", "8"], "--batch", "alone"),
        ([str(run / "run"), "--out", str(run / "m.pt2"), "--project"], "--project", "alone"),
        (
            [str(run / "run"), "--out", str(run / "m.pt2"), "--support", str(run / "tasks.npz")],
            "x",
            (40, 20, 12),
        ),
        (
            [str(run / "run"), "--out", str(run / "m.pt2"), "--support", str(run / "task.csv")],
            str(run / "task.csv"),
            ".csv",
        ),
        (
            [str(run / "run"), "--out", str(run / "m.pt2"), "--support", str(run / "nothing.npz")],
            str(run / "nothing.npz"),
            "No such file or directory",
        ),
    ):
        refused_command(["export", *arguments], about, found)
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


@pytest.fixture(scope="module")
def discovered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of ``metasym discover``: one function of two inputs that may be swapped, and a small family."""
    folder = tmp_path_factory.mktemp("discovered")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 2))
    np.savez(folder / "one.npz", x=x, y=np.sin(x.sum(1, keepdims=True)) + x.prod(1, keepdims=True))
    flags = ["--no-continuous", "--progress", "silent"]
    assert main(["discover", str(folder / "one.npz"), "--out", str(folder / "one"), *flags]) == 0
    tasks = rng.normal(size=(24, 30, 2))
    a = rng.normal(size=(24, 1, 1))
    np.savez(folder / "many.npz", x=tasks, y=a * tasks.sum(2, keepdims=True) + 0.0 * tasks[..., :1])
    np.savez(folder / "task.npz", x=tasks[0], y=a[0] * tasks[0].sum(1, keepdims=True))
    assert main(["discover", str(folder / "many.npz"), "--out", str(folder / "many"), *flags]) == 0
    return folder


@pytest.mark.parametrize("suffix", ["pt2", "onnx"])
def test_what_discover_fitted_is_exported(discovered: Path, suffix: str) -> None:
    if suffix == "onnx":
        for package in ("onnx", "onnxscript", "onnxruntime"):
            pytest.importorskip(package)
    out = discovered / f"one.{suffix}"
    assert main(["export", str(discovered / "one"), "--out", str(out)]) == 0
    x = torch.randn(5, 2, generator=torch.Generator().manual_seed(0))
    expected = ms.open_run(discovered / "one").predict(x)
    if suffix == "pt2":
        found = torch.export.load(out).module()(x)
    else:
        import onnxruntime

        session = onnxruntime.InferenceSession(out.read_bytes(), providers=["CPUExecutionProvider"])
        found = torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_family_is_exported_for_a_task(discovered: Path) -> None:
    out, task = discovered / "many.pt2", np.load(discovered / "task.npz")
    refused_command(["export", discovered / "many", "--out", out], "--support", None)
    support = ["--support", str(discovered / "task.npz")]
    assert main(["export", str(discovered / "many"), "--out", str(out), *support]) == 0
    x = torch.from_numpy(task["x"]).float()
    expected = ms.open_run(discovered / "many").adapt(
        task["x"].astype(np.float32), task["y"].astype(np.float32)
    )(x)
    torch.testing.assert_close(torch.export.load(out).module()(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("flags", [["--structured"], ["--support", "task.npz"]])
def test_what_does_not_fit_a_discovered_function_is_refused(discovered: Path, flags: list[str]) -> None:
    out = str(discovered / "no.pt2")
    refused_command(["export", discovered / "one", "--out", out, *flags], flags[0])
