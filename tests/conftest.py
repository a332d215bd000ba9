"""What all tests share: one thread (two would spin against each other), and hypothesis made deterministic."""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # numpy's and scipy's threads, in the processes that tests start too

import contextlib
import signal
from collections.abc import Iterator

import hypothesis
import pytest
import torch

torch.set_num_threads(1)
os.environ.pop("COLUMNS", None)  # of the shell: tables are as wide as where output is not a terminal

hypothesis.settings.register_profile(
    "metasym", deadline=None, derandomize=True, max_examples=40, print_blob=True
)
hypothesis.settings.load_profile("metasym")


@contextlib.contextmanager
def usual_signals() -> Iterator[None]:
    """SIGINT and SIGTERM handled as in a program that was started from a terminal."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.fixture(autouse=True)
def signals_as_in_a_terminal() -> Iterator[None]:
    """A background job of a script (``nohup make test &``) is started with SIGINT ignored, as its children are."""
    with usual_signals():
        yield


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
