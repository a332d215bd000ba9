"""What ``train`` returns: the Records of a training that happens while they are asked for."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from types import TracebackType
from typing import Any

from metasym.training.outer_step import OuterLoop
from metasym.types import MetasymWarning, Record


class Training(Generator[Record, None, None]):
    """The Records of a training, step by step: a generator, with :meth:`run` for those who want no loop.

    Nothing happens until the first Record is asked for; a training that is dropped before then warns about it.
    """

    def __init__(self, records: Generator[Record, None, None], loop: OuterLoop | None = None) -> None:
        self._records, self._loop = records, loop
        self._begun = self._ended = False

    def __iter__(self) -> Generator[Record, None, None]:
        """The Records that are left; a loop over them that is left early gives the learner its best parameters."""
        try:
            yield from iter(self._next, None)
        except GeneratorExit:
            if self._loop is not None and not self._ended:
                self._loop.leave()
            raise

    def _next(self) -> Record | None:
        try:
            return self.send(None)
        except StopIteration:
            self._ended = True
            return None

    def run(self) -> list[Record]:
        """Take all steps that are left, and return their Records."""
        return list(self)

    def send(self, value: None) -> Record:
        """The next Record."""
        self._begun = True
        return self._records.send(value)

    def throw(self, typ: Any, val: Any = None, tb: TracebackType | None = None) -> Record:
        """Raise an exception where the training waits."""
        self._begun = True
        return self._records.throw(typ if val is None else val)

    def close(self) -> None:
        """End the training where it is."""
        self._begun = True
        self._records.close()

    def __del__(self) -> None:
        if not self._begun:
            warnings.warn(
                "ms.train(...) was dropped before its first step, so that nothing was trained: loop over it, or call "
                "its run()",
                MetasymWarning,
                stacklevel=2,
            )
