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
    assert type(error) is kind, f"{type(error).__name__}: {error}"
    assert "\n" not in str(error)
    if about is not None:
        assert error.about == about, error
    if found is not _NOT_GIVEN:
        assert type(error.found) is type(found), (error, error.found)
        assert error.found == found or (error.found != error.found and found != found), (error, error.found)
