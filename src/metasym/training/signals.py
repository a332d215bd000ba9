"""SIGINT and SIGTERM as requests to stop at the end of a step, or between two chunks of a validation."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""The signals that ask a run to stop."""


class StopRequests:
    """While entered, the first SIGINT or SIGTERM is noted in ``received``; a second one of either ends at once.

    Only the main thread may handle signals: elsewhere nothing is noted. A signal that the process ignores
    (as shells arrange for background jobs) stays ignored.
    """

    def __init__(self) -> None:
        self.received = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopRequests:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._before.items():
                signal.signal(number, handler)
        self._before = {}

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.received:
            raise stop(number)
        self.received = number


def stop(number: int) -> BaseException:
    """What a run that was stopped by signal ``number`` raises: as Python does, or the shell's exit status."""
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)
