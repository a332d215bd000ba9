"""A table as text: for a terminal of any usual width, or as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table as RichTable
    from rich.text import Text

_ENDLESS = 10_000


@dataclass(frozen=True)
class Table:
    """A title, a header and rows of cells, and remarks below them."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...] = ()
    colours: tuple[str, ...] = ()
    """Of the rows on a terminal, in rich's words; none where left out."""

    def markdown(self) -> str:
        """The table in Markdown."""
        lines = [f"**{self.title}**", "", _line(self.header), _line(["---"] * len(self.header))]
        lines += [_line(row) for row in self.rows]
        return "\n".join([*lines, "", *(f"{remark}  " for remark in self.remarks)]).rstrip() + "\n"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """With frames where there is room; else the first column as headings between the rows, without frames."""
        from rich.text import Text

        yield Text(self.title, style="italic")
        framed = self._framed()
        if console.measure(framed, options=options.update(width=_ENDLESS)).maximum <= options.max_width:
            yield framed
        else:
            yield from self._headed(options.max_width)
        yield from (Text(remark, style="dim") for remark in self.remarks)

    def _framed(self) -> RichTable:
        from rich.markup import escape
        from rich.table import Table as RichTable

        table = RichTable()
        for number, name in enumerate(self.header):
            table.add_column(name, justify="left" if number < 2 else "right", overflow="fold")
        for row, colour in self._coloured():
            table.add_row(*map(escape, row), style=colour)
        return table

    def _coloured(self) -> list[tuple[tuple[str, ...], str]]:
        return list(zip(self.rows, self.colours or ("",) * len(self.rows), strict=True))

    def _headed(self, room: int) -> Iterator[RichTable | Text]:
        from rich.text import Text

        columns = list(zip(*(row[1:] for row in self.rows), strict=True))
        # The same widths under every heading. Cells are broken between their words, within a word only in great need.
        named = list(zip(self.header[1:], columns, strict=True))
        widths = [max(map(len, (*cells, *name.split()))) for name, cells in named]
        words = [max(map(len, " ".join((*cells, name)).split())) for name, cells in named]
        while sum(widths) + len(widths) > room and max(widths) > 1:
            spare = [width if width > word else 0 for width, word in zip(widths, words, strict=True)]
            most = spare if any(spare) else widths
            widths[most.index(max(most))] -= 1
        yield self._unframed((), widths, show_header=True)
        for heading, rows in groupby(self._coloured(), key=lambda one: one[0][0]):
            yield Text(heading, style="bold")
            yield self._unframed(rows, widths)

    def _unframed(
        self, rows: Iterable[tuple[tuple[str, ...], str]], widths: Sequence[int], *, show_header: bool = False
    ) -> RichTable:
        from rich.markup import escape
        from rich.table import Table as RichTable

        table = RichTable(box=None, show_header=show_header, padding=(0, 1, 0, 0))
        for place, (name, width) in enumerate(zip(self.header[1:], widths, strict=True)):
            table.add_column(name, justify="right" if place else "left", width=width, overflow="fold")
        for row, colour in rows:
            table.add_row(*map(escape, row[1:]), style=colour)
        return table


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
