"""What is raised and warned with. It imports nothing: an error can be shown where torch cannot be loaded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar


class MetasymError(ValueError):
    """Bad input: one line that says what was expected and what was found.

    The line is for people. Code, and tests above all, read the two fields: the wording may change, they may not.

    Args:
        message: The line.
        about: The name of what is wrong, as the user knows it: an argument, an option, a field, a column, a layer,
            a file. None where nothing has a name.
        found: What was found there, as it is: a number, a shape as a tuple, a type's name, text. None where
            nothing was found.

    """

    def __init__(self, message: str, *, about: str | None = None, found: object = None) -> None:
        super().__init__(message)
        self.about = about
        self.found = found


class LostRankError(MetasymError):
    """Another process of the run died or no longer answers."""


class MetasymWarning(UserWarning):
    """Something that works, but probably not as it was intended."""


def in_one_line(error: BaseException) -> str:
    """What an error of other software says, in one line of at most 200 characters; its type where it says nothing."""
    return " ".join(str(error).split())[:200] or type(error).__name__


_TYPED: ContextVar[bool] = ContextVar("typed", default=False)


@contextlib.contextmanager
def on_command_line() -> Iterator[None]:
    """Within, options are spelled as flags."""
    before = _TYPED.set(True)
    try:
        yield
    finally:
        _TYPED.reset(before)


def option_name(name: str) -> str:
    """An option as its user knows it: ``--inner-lr`` on the command line, ``inner_lr`` from Python."""
    return f"--{name.replace('_', '-')}" if _TYPED.get() else name


def asked(name: str, value: object = None) -> str:
    """An option as its user types it: ``--inner-lr 0.1`` on the command line, ``inner_lr=0.1`` from Python."""
    if _TYPED.get():
        if value is False:
            return option_name(f"no_{name}")
        return option_name(name) if value is None else f"{option_name(name)} {value}"
    return f"{name}=" if value is None else f"{name}={value!r}"


@contextlib.contextmanager
def refusing(argument: str, wanted: str) -> Iterator[None]:
    """Say in one line what another package has against an argument."""
    try:
        yield
    except (ValueError, TypeError) as error:
        said = in_one_line(error)
        raise MetasymError(f"expected {argument} to be {wanted}, found {said}", about=argument) from None
