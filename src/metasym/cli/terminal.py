"""What the command line prints, made harmless: names from files may hold characters that command a terminal.

An escape sequence can move the cursor, hide text or set the window's title, and a mark for right-to-left text can
turn a name around. All that is printed passes through here once, whoever made it.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TextIO, cast

_CONTROLS = [code for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"]
_DIRECTIONS = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_LINES = [0x2028, 0x2029]
_UNDECODED = range(0xD800, 0xE000)  # bytes of names that are not Unicode
# In this form text stays what it was where it is read again: in JSON, and in Python's source.
_ESCAPES = {code: f"\\u{code:04x}" for code in (*_CONTROLS, *_DIRECTIONS, *_LINES, *_UNDECODED)}


def escaped(text: str) -> str:
    """The text with control characters, marks of direction and undecoded bytes as their numbers."""
    return text.translate(_ESCAPES)


class _Escaping:
    """A stream that escapes what is written to it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def rich_proxied_file(self) -> TextIO:
        """Where rich writes its own colours and bars; it asks for this name."""
        return self._stream

    def write(self, text: str) -> int:
        self._stream.write(escaped(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def safe_output() -> Iterator[None]:
    """Have all that is printed escaped; where a stream is closed, what is printed there is lost, and no error."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _fill_closed_streams()
    before = sys.stdout, sys.stderr
    # File names need not be Unicode. Python sets up stderr for that by itself, but not stdout.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = (cast("TextIO", _Escaping(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _fill_closed_streams() -> None:
    """Open what the caller has closed: else the next file that is opened has the number 1, and takes the output."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - open for as long as the program runs
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
