"""What a refusal says, asserted by its values: the wording of messages may change without touching a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from metasym import MetasymError

_NOT_GIVEN = object()


@contextmanager
def refused(
    about: str | None = None, found: object = _NOT_GIVEN, kind: type[MetasymError] = MetasymError
) -> Iterator[pytest.ExceptionInfo[MetasymError]]:
    """The block raises ``kind`` in one line, about what is named and with the value that was found there.

    What is not given is not compared: a test that gives neither only asserts the type and the one line.
    """
    with pytest.raises(kind) as caught:
        yield caught
    error = caught.value
    assert "\n" not in str(error)
    if about is not None:
        assert error.about == about, error
    if found is not _NOT_GIVEN:
        assert error.found == found, error


def within(path: object, part: str) -> str:
    """What an error about a part of a file is about, or about the file itself for no part."""
    return f"{path}: {part}" if part else str(path)
