"""Rich's console, whose colours reach the terminal while the text between them is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from metasym.cli.terminal import escaped


class SafeConsole(Console):
    """Escapes text before it is laid out where it comes as a string, and after it in any case."""

    def render_str(self, text: str, **options: Any) -> Text:
        """As rich has it."""
        return super().render_str(escaped(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich has it; what commands the terminal has no text of ours."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escaped(segment.text), segment.style)
