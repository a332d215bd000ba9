"""Runs that end badly: killed, interrupted, crashed between two system calls."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from metasym.storage.file_names import CURRENT
from metasym.storage.serialization import unpack
from metasym.training.checkpoint import load
from metasym.training.loop import train
from metasym.training.settings import Files
from metasym.training.signals import StopRequests
from tests.conftest import usual_signals
from tests.training.toy_learner import Lines, bits, learner, msr, reproducible, without_times

HERE = Path(__file__).parent
OPTIONS = {"outer_steps": 12, "tasks_per_step": 2, "progress": "silent"}


def records_of(folder: Path) -> list[dict]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [without_times(line) for line in lines]


def test_twenty_random_kills_leave_no_trace(tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(HERE / "kill_driver.py"), str(tmp_path), "20"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kills"] == 20, done.stdout
    folders = [tmp_path / "undisturbed", tmp_path / "killed"]
    for best in (False, True):
        name = "checkpoint.safetensors"
        left, right = (bits(load(f / name, msr(dropout=0.3), best=best)) for f in folders)
        assert left == right
    assert records_of(folders[0]) == records_of(folders[1])
    assert len(records_of(folders[1])) == 200
    assert not list(folders[1].glob("*.tmp"))


class Crash(BaseException):
    """Stands for the machine going away at one system call."""


def test_a_crash_at_any_system_call_of_a_checkpoint_can_be_resumed(tmp_path, monkeypatch):
    whole = learner()
    expected = [
        reproducible(r)
        for r in train(whole, Lines(), out=Files(tmp_path / "whole", checkpoint_every=4), **OPTIONS)
    ]
    calls = {"left": -1}

    def crashing(function):
        def wrapped(*args, **kwargs):
            calls["left"] -= 1
            if calls["left"] == 0:
                raise Crash
            return function(*args, **kwargs)

        return wrapped

    def broken_run(folder, at):
        for record in train(learner(), Lines(), out=Files(folder, checkpoint_every=4), **OPTIONS):
            if record.step == 7:
                calls["left"] = at  # counts through the checkpoint of step 8

    system_calls = 5  # fsync of the metrics, of the file, two renames, fsync of the folder
    for at in range(1, system_calls + 1):
        folder = tmp_path / str(at)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", crashing(os.fsync))
            patch.setattr(Path, "replace", crashing(Path.replace))
            with pytest.raises(Crash):
                broken_run(folder, at)
        resumed = learner(seed=5)
        rest = [
            reproducible(r)
            for r in train(resumed, Lines(), out=Files(folder, checkpoint_every=4), resume=True, **OPTIONS)
        ]
        assert rest == expected[8 if at == system_calls else 4 :]
        assert records_of(folder) == expected
        assert bits(resumed) == bits(whole)
        assert not list(folder.glob("*.tmp"))


STOPS = ((signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit))


class Signalling(torch.optim.SGD):
    """Sends this process a signal in the midst of its ``at``-th step."""

    at, number = 0, signal.SIGTERM

    def step(self, closure=None):
        self.at -= 1
        if self.at == 0:
            os.kill(os.getpid(), self.number)
        return super().step(closure)


@pytest.mark.parametrize(("number", "error"), STOPS)
@pytest.mark.parametrize("at", [1, 5, 8, 12])
def test_a_signal_within_a_step_stops_at_its_end_with_a_checkpoint(tmp_path, at, number, error):
    whole = learner()
    options = {**OPTIONS, "optimizer": lambda p: Signalling(p, lr=0.01)}
    expected = [
        reproducible(r)
        for r in train(whole, Lines(), out=Files(tmp_path / "a", checkpoint_every=4), **options)
    ]
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    made, folder, found = learner(), tmp_path / "b", []
    signalling = Signalling(made.parameters(), lr=0.01)
    signalling.at, signalling.number = at, number

    def interrupted():
        for record in train(
            made, Lines(), out=Files(folder, checkpoint_every=4), **{**OPTIONS, "optimizer": signalling}
        ):
            found.append(reproducible(record))

    with pytest.raises(error) as caught:
        interrupted()
    if error is SystemExit:
        assert caught.value.code == 143
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert len(found) == at
    assert unpack((folder / CURRENT).read_bytes(), "x")["step"] == at
    resumed = learner(seed=9)
    found += [
        reproducible(r)
        for r in train(resumed, Lines(), out=Files(folder, checkpoint_every=4), resume=True, **options)
    ]
    assert found == expected == records_of(folder)
    assert bits(resumed) == bits(whole)


@pytest.mark.parametrize(("number", "error"), STOPS)
@pytest.mark.parametrize("at", [5, 12])
def test_a_signal_between_steps_stops_before_the_next(tmp_path, at, number, error):
    found = []

    def interrupted():
        for record in train(learner(), Lines(), out=Files(tmp_path, checkpoint_every=4), **OPTIONS):
            found.append(record.step)
            if record.step == at:
                os.kill(os.getpid(), number)

    with pytest.raises(error):
        interrupted()
    assert found == list(range(1, at + 1))
    assert unpack((tmp_path / CURRENT).read_bytes(), "x")["step"] == at


def test_a_second_interrupt_stops_at_once():
    def impatient():
        for record in train(learner(), Lines(), **OPTIONS):
            seen.append(record.step)
            if record.step == 5:
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)

    seen: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        impatient()
    assert seen[-1] == 5


@pytest.mark.parametrize(("number", "error"), STOPS)
def test_a_second_signal_of_either_kind_stops_at_once(number, error):
    for first in (signal.SIGINT, signal.SIGTERM):
        with StopRequests() as requests:
            os.kill(os.getpid(), first)
            assert requests.received == first
            with pytest.raises(error):
                os.kill(os.getpid(), number)


class Alarming(Lines):
    """Tasks for validation; making the episode of task 40 for the time ``at`` sends a signal."""

    at, number, asked = 0, signal.SIGTERM, 0

    def episode(self, index, generator):
        self.asked += 1
        if index == 40 and self.at > 0:
            self.at -= 1
            if self.at == 0:
                os.kill(os.getpid(), self.number)
        return super().episode(index, generator)


@pytest.mark.parametrize(("number", "error"), STOPS)
@pytest.mark.parametrize("at", [1, 2, 4])
def test_a_signal_within_a_validation_stops_after_its_chunk_and_resuming_validates_again(
    tmp_path, at, number, error
):
    """Validations at steps 3, 6, 9, 12 of 100 tasks in chunks of 32; the signal comes in the second chunk."""

    def scheduled(optimizer):
        return torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=0.2)

    options = {**OPTIONS, "validate_every": 3, "scheduler": scheduled, "average": 0.9}
    whole = learner()
    expected = [reproducible(r) for r in train(whole, Lines(), validation=Lines(100), **options)]
    tasks, found = Alarming(100), []
    tasks.at, tasks.number = at, number

    def interrupted():
        found.extend(
            reproducible(r) for r in train(learner(), Lines(), validation=tasks, out=tmp_path, **options)
        )

    with pytest.raises(error):
        interrupted()
    assert tasks.asked == 100 * (at - 1) + 64
    assert unpack((tmp_path / CURRENT).read_bytes(), "x")["step"] == 3 * at
    assert records_of(tmp_path) == expected[: 3 * at - 1]
    resumed = learner(seed=9)
    rest = [
        reproducible(r)
        for r in train(resumed, Lines(), validation=Lines(100), out=tmp_path, resume=True, **options)
    ]
    assert rest == expected[3 * at - 1 :]
    assert records_of(tmp_path) == expected
    assert bits(resumed) == bits(whole)


def test_tests_of_signals_work_in_a_background_job_too(tmp_path):
    """A shell starts background jobs with SIGINT ignored, and a run leaves it ignored: tests set their handlers."""

    def interrupted():
        for record in train(
            learner(), Lines(), out=Files(tmp_path, checkpoint_every=4), resume=True, **OPTIONS
        ):
            found.append(record.step)
            os.kill(os.getpid(), signal.SIGINT)

    found: list[int] = []
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as ``nohup make test &`` does
    with usual_signals(), pytest.raises(KeyboardInterrupt):
        interrupted()
    assert found == [1]
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    interrupted()
    assert found == list(range(1, 13))


def test_training_in_another_thread_leaves_signals_alone(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    steps = []
    thread = threading.Thread(
        target=lambda: steps.extend(
            train(learner(), Lines(), out=Files(tmp_path, checkpoint_every=4), **OPTIONS)
        )
    )
    thread.start()
    thread.join()
    assert len(steps) == 12
    assert signal.getsignal(signal.SIGINT) is before


def test_closing_the_generator_early_loses_nothing(tmp_path):
    whole = learner()
    expected = [
        reproducible(r)
        for r in train(whole, Lines(), out=Files(tmp_path / "a", checkpoint_every=4), **OPTIONS)
    ]
    before = signal.getsignal(signal.SIGTERM)
    for record in train(learner(), Lines(), out=Files(tmp_path / "b", checkpoint_every=4), **OPTIONS):
        if record.step == 6:
            break
    assert signal.getsignal(signal.SIGTERM) is before
    assert len(records_of(tmp_path / "b")) == 6
    resumed = learner(seed=3)
    rest = [
        reproducible(r)
        for r in train(
            resumed, Lines(), out=Files(tmp_path / "b", checkpoint_every=4), resume=True, **OPTIONS
        )
    ]
    assert rest == expected[4:]
    assert records_of(tmp_path / "b") == expected
    assert bits(resumed) == bits(whole)
