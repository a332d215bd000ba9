"""Files and values of the second attack, each as it was typed: one line, nobody waits, nothing is made elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from studies.kills import content

from metasym.cli import main
from metasym.tasks.reading import read_tasks
from metasym.tasks.task_file import Reading
from tests import forked
from tests.cli.test_cli import ENVIRONMENT
from tests.refusals import refused

QUICK = ["--find-steps", "3", "--outer-steps", "3", "--tasks-per-step", "4", "--progress", "silent"]
TABLE = ["--task", "task", "--inputs", "a,b", "--outputs", "y"]


def tasks(path: Path, x_size: float = 1.0, y_size: float = 1.0) -> str:
    draw = np.random.default_rng(0)
    x, maps = draw.normal(size=(20, 6, 3)), draw.normal(size=(20, 3, 3))
    np.savez(path, x=x * x_size, y=np.einsum("tei,tij->tej", x, maps) * y_size)
    return str(path)


def table(path: Path, above: str = "", cell: str = "1.5") -> str:
    draw = np.random.default_rng(0)
    rows = [f"k{i // 6},{a:.3f},{b:.3f},{a - b:.3f}" for i, (a, b) in enumerate(draw.normal(size=(60, 2)))]
    rows[3] = f"k0,{cell},1,2"
    path.write_text(f"{above}task,a,b,y\n" + "\n".join(rows) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("odd")
    assert main(["learn", tasks(place / "t.npz"), "--out", str(place / "run"), *QUICK]) == 0
    return place / "run"


def one_line(capsys) -> str:
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith("metasym: error: ")
    assert not any("Traceback" in line for line in said)
    return said[-1]


@pytest.mark.parametrize("size", [1e-120, 1e-160, 1e-200, 1e-310])
@pytest.mark.parametrize("of", ["x", "y"])
def test_numbers_whose_squares_are_zero_are_called_small_and_not_constant(tmp_path, size, of):
    path = tasks(tmp_path / "t.npz", **{f"{of}_size": size})
    with refused(f"{path}: {of}") as caught:
        read_tasks(path, Reading())
    assert 0 < caught.value.found < 10 * size


def test_one_small_column_beside_others_is_found_too(tmp_path):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(20, 6, 3)) * [1, 1e-200, 1]
    np.savez(tmp_path / "t.npz", x=x, y=draw.normal(size=(20, 6, 3)))
    with refused(f"{tmp_path / 't.npz'}: x"):
        read_tasks(tmp_path / "t.npz", Reading())


def test_numbers_that_are_small_but_have_squares_are_learned_from(tmp_path):
    """In other units, by powers of two so that nothing is rounded, the same tasks give the same verdict."""
    verdicts = []
    for power in (-200, -100):
        path = tasks(tmp_path / "t.npz", x_size=2.0**power, y_size=2.0 ** (power - 30))
        out = tmp_path / str(power)
        assert main(["learn", path, "--out", str(out), *QUICK]) == 0
        verdicts.append(json.loads((out / "result.json").read_text())["symmetry"]["layers"][0]["verdict"])
    assert verdicts[0] == verdicts[1]


@pytest.mark.parametrize("offset", [1e16, 1e300])
@pytest.mark.parametrize("of", ["x", "y"])
def test_discover_with_an_offset_that_swallows_the_numbers(tmp_path, capsys, of, offset):
    x = np.random.default_rng(0).normal(size=(100, 3))
    data = {"x": x, "y": np.hypot(x[:, 0], x[:, 1])}
    data[of] = data[of] + offset
    np.savez(tmp_path / "d.npz", **data)
    assert main(["discover", str(tmp_path / "d.npz"), "--out", str(tmp_path / "o"), "--no-finite"]) == 2
    assert of in one_line(capsys)


@pytest.mark.parametrize("command", [["learn", *TABLE], ["discover", "--inputs", "a,b", "--outputs", "y"]])
def test_a_column_that_a_parquet_file_has_twice(tmp_path, capsys, command):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = [pa.array([f"k{i // 6}" for i in range(60)]), *[pa.array(np.arange(60.0))] * 4]
    parquet.write_table(pa.table(columns, names=["task", "a", "b", "y", "y"]), tmp_path / "t.parquet")
    assert main([command[0], str(tmp_path / "t.parquet"), *command[1:], "--out", str(tmp_path / "o")]) == 2
    assert "'y'" in one_line(capsys)


def test_many_columns_are_counted_once(tmp_path, monkeypatch):
    """20,000 columns took ten seconds: each name was counted by looking at all others."""
    looked = 0

    class Name(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal looked
            looked += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    from metasym.tasks import table_files

    names = [Name(f"c{i}") for i in range(2000)]
    row = ",".join(["k", *["1"] * 1999])
    (tmp_path / "t.csv").write_text(",".join(names) + f"\n{row}\n")
    found = table_files._chosen(tmp_path / "t.csv", "inputs", ",".join(names), names)
    table_files.Counter(found)
    assert found == names
    assert looked < 100 * len(names), "a few comparisons a name, not one with each other name"


def test_data_whose_name_is_no_unicode_make_a_run_that_opens(tmp_path, capsys):
    """The name of the file is part of the config; as it is, it made one that was called corrupted."""
    data = tasks(tmp_path / os.fsdecode(b"t\xff\xfe.npz"))
    flags = [data, "--out", str(tmp_path / "o"), *QUICK]
    assert main(["learn", *flags]) == 0
    for name in ("config.json", "result.json"):
        json.loads((tmp_path / "o" / name).read_text().encode())
    (tmp_path / "o" / "result.json").unlink()
    for command in (
        ["learn", *flags, "--resume"],
        ["report", str(tmp_path / "o")],
        ["inspect", str(tmp_path / "o")],
    ):
        assert main(command) == 0, capsys.readouterr().err


KINDS = ("pipe", "endless")


def plant(path: Path, kind: str) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "t.npz"])
@pytest.mark.parametrize("command", ["learn", "discover"])
def test_data_that_are_a_pipe_or_a_device_are_refused(tmp_path, capsys, kind, name, command):
    plant(tmp_path / name, kind)
    columns = ([*TABLE] if command == "learn" else ["--outputs", "y"]) if name != "t.npz" else []
    signal.alarm(20)  # without the refusal the test would wait for ever
    try:
        assert main([command, str(tmp_path / name), *columns, "--out", str(tmp_path / "o")]) == 2
    finally:
        signal.alarm(0)
    assert ("a pipe" if kind == "pipe" else "a device") in one_line(capsys)
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_a_run_that_are_pipes_or_devices_are_refused(tmp_path, capsys, run, kind):
    names = [p.relative_to(run) for p in sorted(run.rglob("*")) if p.is_file()]
    for name in names:
        copy = tmp_path / "copy"
        shutil.copytree(run, copy)
        plant(copy / name, kind)
        for command in (
            ["report", str(copy), "--out", str(tmp_path / "page.html")],
            ["inspect", str(copy)],
            ["export", str(copy), "--out", str(tmp_path / "model.pt2")],
            ["learn", str(run.parent / "t.npz"), "--out", str(copy), "--resume", *QUICK],
        ):
            signal.alarm(60)
            try:
                status = main(command)
            finally:
                signal.alarm(0)
            said = capsys.readouterr().err
            assert status in (0, 2), (name, command)
            assert "Traceback" not in said
            if status == 2:
                assert said.splitlines()[-1].startswith("metasym: error: ")
        shutil.rmtree(copy)


@pytest.mark.parametrize(
    "arguments",
    [
        ["learn", "T", "--out", ""],
        ["learn", "T", "--out="],
        ["learn", "", "--out", "o"],
        ["discover", "T", "--out", ""],
        ["run", "translation/rank1/small/msr-fc", "--out", ""],
        ["reproduce", "table1", "--quick", "--out", ""],
        ["report", "RUN", "--out", ""],
        ["export", "RUN", "--out", ""],
        ["demo", "--out", ""],
        ["report", ""],
        ["inspect", ""],
    ],
)
def test_an_empty_name_is_not_the_current_folder(tmp_path, monkeypatch, capsys, run, arguments):
    monkeypatch.chdir(tmp_path)
    names = {"T": str(run.parent / "t.npz"), "RUN": str(run)}
    assert main([names.get(a, a) for a in arguments]) == 2
    assert "empty" in one_line(capsys)
    assert not list(tmp_path.iterdir())


def test_lines_above_the_header_may_be_empty(tmp_path):
    plain, lower = (
        read_tasks(table(tmp_path / f"{n}.csv", above), Reading("task", "a,b", "y"))
        for n, above in (("a", ""), ("b", "\n  \n\n"))
    )
    assert np.array_equal(plain.x, lower.x)
    (tmp_path / "c.csv").write_text("\n\n")
    with refused(str(tmp_path / "c.csv"), "an empty file"):
        read_tasks(tmp_path / "c.csv", Reading("task", "a,b", "y"))


@pytest.mark.parametrize(
    "cell", ["1_234", "1__2", "0x10", "1,5".replace(",", " "), "\u0661\u0662", "1\u0662"]
)
def test_what_python_or_nobody_writes_as_a_number_is_none(tmp_path, cell):
    path = table(tmp_path / "t.csv", cell=cell)
    with refused(f"{path}: row 5, column a"):
        read_tasks(path, Reading("task", "a,b", "y"))


@pytest.mark.parametrize("command", ["learn", "discover"])
def test_nobody_is_advised_to_allow_pickles(tmp_path, capsys, command):
    objects = np.array([{"a": 1}], dtype=object)
    np.savez(tmp_path / "o.npz", x=objects, y=objects)
    np.save(tmp_path / "o.npy", objects)
    for name in ("o.npz", "o.npy"):
        assert main([command, str(tmp_path / name), "--out", str(tmp_path / "o")]) == 2
        assert "allow_pickle" not in one_line(capsys)


def test_a_parquet_file_that_unpacks_to_more_than_there_is(tmp_path, monkeypatch):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = 1_000_000
    zeros = pa.array(np.zeros(rows))
    words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), ["k" * 1000]).cast(pa.string())
    for name, column in (("numbers", zeros), ("words", words)):
        path = tmp_path / f"{name}.parquet"
        parquet.write_table(
            pa.table({"task": column, "a": zeros, "b": zeros, "y": zeros}), path, compression="zstd"
        )
        assert path.stat().st_size < 1_000_000
        monkeypatch.setattr("metasym.tasks.parquet_table.available_memory", lambda: 100_000_000)
        with refused(f"{path}: rows", rows):
            read_tasks(path, Reading("task", "a,b", "y"))


@pytest.mark.parametrize("how", ["deleted", "moved"])
def test_a_folder_that_goes_away_during_a_run_is_not_made_anew(tmp_path, how):
    data, out = tasks(tmp_path / "t.npz"), tmp_path / "run"
    long = ["--find-steps", "100000", "--outer-steps", "100000", "--progress", "silent"]
    process = forked.Forked(["-m", "metasym", "learn", data, "--out", str(out), *long], env=ENVIRONMENT)
    while not list(out.rglob("checkpoint.safetensors")):
        assert process.returncode is None, process.communicate()
        time.sleep(0.05)
    shutil.rmtree(out) if how == "deleted" else out.rename(tmp_path / "elsewhere")
    _, said = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "Traceback" not in said
    assert said.splitlines()[-1].startswith("metasym: error: ")
    assert not out.exists()


def test_two_at_once_the_second_is_refused_before_it_reads(tmp_path):
    """Before, it ran until its baseline."""
    data, out = tasks(tmp_path / "t.npz"), tmp_path / "run"
    long = ["--find-steps", "100000", "--progress", "silent"]
    first = forked.Forked(["-m", "metasym", "learn", data, "--out", str(out), *long], env=ENVIRONMENT)
    while not out.exists() or not list(out.rglob("*.json")):
        assert first.returncode is None, first.communicate()
        time.sleep(0.05)
    before = {p: p.stat().st_mtime_ns for p in out.rglob("config.json")}
    for _ in range(2):
        second = forked.run(
            ["-m", "metasym", "learn", data, "--out", str(out), *QUICK, "--resume"], env=ENVIRONMENT
        )
        assert second.returncode == 2
        assert second.stderr.splitlines()[-1].startswith("metasym: error: ")
    assert {p: p.stat().st_mtime_ns for p in before} == before
    first.send_signal(signal.SIGKILL)
    first.communicate()


def test_equal_runs_write_equal_files(tmp_path, capsys):
    """But for what they took and when: by evidence, and by outer steps with checkpoints."""
    data = tasks(tmp_path / "t.npz")
    for place in ("a", "b"):
        for name, flags in (("evidence", ["--no-baseline", "--progress", "silent"]), ("steps", QUICK)):
            command = ["-m", "metasym", "learn", data, "--out", str(tmp_path / place / name), *flags]
            done = forked.run(command, env=ENVIRONMENT)
            assert done.returncode == 0, done.stderr
    a, b = tmp_path / "a", tmp_path / "b"
    names = {p.relative_to(a) for p in a.rglob("*") if p.is_file()}
    assert names == {p.relative_to(b) for p in b.rglob("*") if p.is_file()}
    sealed = {name for name in names if name.suffix == ".safetensors"}
    assert len(sealed) >= 5
    configs = {name for name in names if name.name == "config.json"}
    assert len(configs) >= 4
    for name in sealed | configs:
        assert (a / name).read_bytes() == (b / name).read_bytes(), name
    assert content(a) == content(b), "but for times and the folder's name"


@pytest.mark.slow
def test_under_torchrun_a_killed_rank_has_a_last_line_of_ours(tmp_path):
    """torchrun tells about the rank that was lost first, which cannot say anything any more."""
    data = tasks(tmp_path / "t.npz")
    program = (
        "import os, signal, sys, threading, time\n"
        "from pathlib import Path\n"
        "def die():\n"
        f"    while not list(Path({str(tmp_path / 'run')!r}).rglob('metrics.jsonl')): time.sleep(0.05)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "if os.environ['RANK'] == '1': threading.Thread(target=die).start()\n"
        "from metasym.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    (tmp_path / "program.py").write_text(program)
    long = ["--find-steps", "100000", "--progress", "silent"]
    command = [str(tmp_path / "program.py"), "learn", data, "--out", str(tmp_path / "run"), *long]
    done = subprocess.run(
        [forked.sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *command],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )
    assert done.returncode != 0
    last = [line for line in done.stderr.splitlines() if line.strip("= ")][-1]
    assert "metasym: error: rank" in last
    assert "--resume" in last
