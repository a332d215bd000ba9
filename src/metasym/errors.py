"""What is raised and warned with. It imports nothing: an error can be shown where torch cannot be loaded."""

from __future__ import annotations


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
