"""Cells run as programs of their own: here, on a cluster one of whose workers is killed, or by a job array."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import metasym
from metasym.runs.cells import Cell, Where, run_cells
from metasym.runs.reproducing.whole_tables import commands, reproduce
from tests.refusals import refused

QUICK = {"quick": True, "seeds": (0,), "only": "rank1/small/maml"}


@pytest.mark.parametrize(
    ("options", "about", "found"),
    [
        ({"jobs": 0}, "jobs", 0),
        ({"backend": "loky"}, "backend", "loky"),
        ({"backend": "dask"}, "scheduler", None),
        ({"scheduler": "tcp://here:1"}, "scheduler", "tcp://here:1"),
    ],
)
def test_where_cells_cannot_run(options, about, found):
    with refused(about, found):
        Where(**options)


def test_commands_do_what_reproduce_would_have_done(tmp_path):
    """A job array runs the lines; the table then collects what they wrote."""
    lines = commands("table1", tmp_path, **QUICK)
    assert len(lines) == 3
    for line in lines:
        words = shlex.split(line)
        assert words[:3] == ["python", "-m", "metasym"]
        subprocess.run([sys.executable, *words[1:]], check=True, capture_output=True)
    notes: list[str] = []
    reproduce("table1", tmp_path, note=notes.append, progress="silent", **QUICK)
    assert notes == ["table1: 3 runs, 3 of them finished before"]
    assert commands("table1", tmp_path, **QUICK) == []


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="lists the children of a process")
def test_a_program_ends_with_the_one_that_started_it(tmp_path):
    """A worker that is killed leaves nothing running: the pipe that it held is closed."""
    waiting = tmp_path / "waiting.py"
    waiting.write_text("import pathlib, time\npathlib.Path('pid').write_text('x')\ntime.sleep(600)\n")
    starter = "import sys\nfrom metasym.runs.cells import Cell, run_cell\nrun_cell(0, Cell('waiting', ()))\n"
    place = os.pathsep.join([str(tmp_path), str(Path(metasym.__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": place}
    parent = subprocess.Popen([sys.executable, "-c", starter], cwd=tmp_path, env=environment)
    until = time.monotonic() + 60
    while not (tmp_path / "pid").exists() and time.monotonic() < until:
        time.sleep(0.05)
    children = [int(p) for p in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()]
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert children
    while any(_lives(child) for child in children) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(_lives(child) for child in children)


def _lives(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_a_cluster_loses_a_worker_and_finishes(tmp_path):
    """The cell of the worker that was killed runs again on the one that is left."""
    distributed = pytest.importorskip("distributed")
    slow = "import pathlib, sys, time\n"
    slow += "marks = pathlib.Path(sys.argv[1]); (marks / f'{sys.argv[2]}-{time.time_ns()}').touch()\n"
    slow += "time.sleep(float(sys.argv[3]))\n"
    (tmp_path / "slow.py").write_text(slow)
    marks = tmp_path / "marks"
    marks.mkdir()
    place = os.pathsep.join([str(tmp_path), str(Path(metasym.__file__).parents[1])])
    cluster = distributed.LocalCluster(
        n_workers=0, host="127.0.0.1", dashboard_address=":0", silence_logs=50, local_directory=tmp_path
    )
    command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address]
    flags = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(tmp_path)]
    workers = [
        subprocess.Popen(
            [*command, *flags],
            env={**os.environ, "PYTHONPATH": place},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(2)
    ]
    ended: list[tuple[int, str | None]] = []

    def done(number: int, error: str | None) -> None:
        ended.append((number, error))
        if len(ended) == 2:  # both work by now
            workers[1].kill()

    try:
        with distributed.Client(cluster) as client:
            client.wait_for_workers(2, timeout=60)
        cells = [Cell("slow", (str(marks), str(i), "0.5")) for i in range(8)]
        run_cells(cells, Where(backend="dask", scheduler=cluster.scheduler_address), done)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        cluster.close()
    assert sorted(ended) == [(number, None) for number in range(8)]
    assert workers[1].returncode == -signal.SIGKILL
    started = [mark.name.partition("-")[0] for mark in marks.iterdir()]
    assert set(started) == {str(i) for i in range(8)}


def test_a_scheduler_that_is_not_there_is_refused(tmp_path):
    pytest.importorskip("distributed")
    with refused("scheduler", "tcp://127.0.0.1:1"):
        reproduce(
            "table1", tmp_path, backend="dask", scheduler="tcp://127.0.0.1:1", progress="silent", **QUICK
        )
