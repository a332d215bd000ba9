"""What all tests share: one thread (two would spin against each other), and hypothesis made deterministic."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

import hypothesis
import pytest
import torch

torch.set_num_threads(1)

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
def tables_as_wide_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The site's pages are made in narrow columns, by an environment variable that other tests must not see."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(autouse=True)
def signals_as_in_a_terminal() -> Iterator[None]:
    """A background job of a script (``nohup make test &``) is started with SIGINT ignored, as its children are."""
    with usual_signals():
        yield


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
