"""The settings of every search, and how it reports progress and stores its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Note = Callable[[str], None]
"""Receives each progress line."""
Memory = Callable[[str, Callable[[], dict[str, Any]]], dict[str, Any]]
"""``memory(stage, compute)`` gives what a stage found: computed now, or before."""


class SearchSettings(Protocol):
    """What is asked of a search; a run's options have these and more."""

    @property
    def seed(self) -> int: ...  # noqa: D102
    @property
    def test(self) -> float:
        """The part of the examples that is held out."""
        ...

    @property
    def tolerance(self) -> float:
        """The largest violation with which a symmetry is named."""
        ...

    @property
    def continuous(self) -> bool: ...  # noqa: D102
    @property
    def finite(self) -> bool: ...  # noqa: D102


def forget(_: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """No memory: every stage is computed."""
    return compute()
