"""Many processes: equal results, an agreed end, and an end for all when one dies."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from metasym.storage.serialization import unpack
from metasym.training.checkpoint import load
from metasym.training.distributed import Ranks
from tests import forked
from tests.training.toy_learner import flat, msr

HERE = Path(__file__).parent
DRIVER = str(HERE / "rank_driver.py")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def arguments(out, steps, **options):
    return [DRIVER, *(f"{name}={value}" for name, value in {"out": out, "steps": steps, **options}.items())]


def torchrun(ranks, out, steps, **options):
    return forked.run(arguments(out, steps, **options), ranks=ranks if ranks > 1 else 0)


def as_a_user_types_it(ranks, out, steps):
    agent = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command = [*agent, *arguments(out, steps)]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=120, check=False)


def final(folder):
    return flat(load(folder / "checkpoint.safetensors", msr(), best=False))


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one") / "run"
    done = torchrun(1, folder, 50)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_shares_cover_all_tasks_once():
    for size in (1, 2, 3, 4, 7):
        shares = [list(range(11))[Ranks(rank, size).share(11)] for rank in range(size)]
        assert [task for share in shares for task in share] == list(range(11))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "launch"), [(2, as_a_user_types_it), (4, torchrun)])
def test_ranks_under_torchrun_give_the_parameters_of_one_process(tmp_path, one, ranks, launch):
    folder, printed = one
    done = launch(ranks, tmp_path / "run", 50)
    assert done.returncode == 0, done.stderr
    torch.testing.assert_close(final(tmp_path / "run"), final(folder), rtol=0, atol=1e-5)
    scores = [
        [float(v) for v in re.findall(r"SCORE (\S+) (\S+)", text)[0]] for text in (printed, done.stdout)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 50
    assert len(re.findall(r"^step 50/50", done.stderr, re.MULTILINE)) == 1


@pytest.mark.slow
def test_a_checkpoint_moves_between_numbers_of_ranks_after_a_signal_to_one_of_them(tmp_path, one):
    stopped = torchrun(2, tmp_path / "run", 50, term=15)
    assert stopped.returncode != 0
    data = (tmp_path / "run" / "checkpoint.safetensors").read_bytes()
    assert unpack(data, "x")["step"] == 15, stopped.stderr
    resumed = torchrun(1, tmp_path / "run", 50)
    assert resumed.returncode == 0, resumed.stderr
    torch.testing.assert_close(final(tmp_path / "run"), final(one[0]), rtol=0, atol=1e-5)


def start_ranks(count, out, steps, **options):
    """Ranks without an agent that watches over them, as on separate machines."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = {**ENVIRONMENT, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(count)}
    return [
        forked.Forked(
            arguments(out, steps, **options), env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        )
        for rank in range(count)
    ]


@pytest.mark.slow
def test_a_killed_rank_ends_the_others_with_an_error_and_no_torn_file(tmp_path, one):
    processes = start_ranks(2, tmp_path / "run", 10_000, kill=25)
    assert processes[1].wait(timeout=60) == -signal.SIGKILL
    died = time.monotonic()
    _, error = processes[0].communicate(timeout=60)
    assert time.monotonic() - died < 60
    processes[1].communicate()
    assert processes[0].returncode not in (0, -signal.SIGKILL, -signal.SIGABRT)
    assert "LostRankError: rank 0 of 2" in error
    assert "checkpoint.safetensors (step 20)" in error
    assert not list((tmp_path / "run").glob("*.tmp"))
    unpack((tmp_path / "run" / "checkpoint.safetensors").read_bytes(), "x")
    resumed = torchrun(1, tmp_path / "run", 50)
    assert resumed.returncode == 0, resumed.stderr
    torch.testing.assert_close(final(tmp_path / "run"), final(one[0]), rtol=0, atol=1e-5)


@pytest.mark.slow
def test_a_rank_that_is_stopped_and_continues_changes_nothing(tmp_path, one):
    done = torchrun(2, tmp_path / "run", 50, stop=15)
    assert done.returncode == 0, done.stderr
    torch.testing.assert_close(final(tmp_path / "run"), final(one[0]), rtol=0, atol=1e-5)


@pytest.mark.slow
def test_a_rank_whose_disk_is_full_ends_all_and_the_run_goes_on_when_there_is_room(tmp_path, one):
    processes = start_ranks(2, tmp_path / "run", 50, full=15)
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert all(process.returncode == 1 for process in processes)
    assert "LostRankError: rank 1 of 2" in errors[1]
    assert unpack((tmp_path / "run" / "checkpoint.safetensors").read_bytes(), "x")["step"] == 10
    assert not list((tmp_path / "run").glob("*.tmp"))
    resumed = torchrun(2, tmp_path / "run", 50)
    assert resumed.returncode == 0, resumed.stderr
    torch.testing.assert_close(final(tmp_path / "run"), final(one[0]), rtol=0, atol=1e-5)


@pytest.mark.slow
def test_more_ranks_than_tasks_a_step_are_refused_on_every_rank(tmp_path):
    processes = start_ranks(2, tmp_path / "run", 5, tasks=1)
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert all("each of 2 ranks, found 1" in error for error in errors)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_ranks_whose_time_is_over_at_different_steps_stop_together(tmp_path):
    """Rank 1 has no time at all, rank 0 has plenty."""
    done = torchrun(2, tmp_path / "run", 50, seconds=0)
    assert done.returncode == 0, done.stderr
    assert unpack((tmp_path / "run" / "checkpoint.safetensors").read_bytes(), "x")["step"] == 1
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 1
