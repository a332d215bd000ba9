"""What a refusal says, asserted by its values: the wording of messages may change without touching a test."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import pytest

from metasym import MetasymError

cli = importlib.import_module("metasym.cli.main")  # the module: the package has a function of that name
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


def refused_command(
    arguments: Sequence[object], about: str | None = None, found: object = _NOT_GIVEN
) -> MetasymError:
    """``metasym`` with these arguments ends with status 2 and one line about it; returns the error behind the line.

    The error is about what is named, with the value that was found there, as in :func:`refused`.
    """
    refusals: list[MetasymError] = []
    say = cli._refuse

    def remember(error: MetasymError) -> int:
        refusals.append(error)
        return say(error)

    err = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()), redirect_stderr(err):
        patch.setattr(cli, "_refuse", remember)
        assert cli.main([str(argument) for argument in arguments]) == 2
    (error,) = refusals
    notes, line = err.getvalue().splitlines()[:-1], err.getvalue().splitlines()[-1]
    assert line == f"metasym: error: {' '.join(str(error).split())}"
    assert not any(note.startswith(("metasym: error: ", "Traceback")) for note in notes)
    if about is not None:
        assert error.about == about, error
    if found is not _NOT_GIVEN:
        assert error.found == found, error
    return error


def within(path: object, part: str) -> str:
    """What an error about a part of a file is about, or about the file itself for no part."""
    return f"{path}: {part}" if part else str(path)
