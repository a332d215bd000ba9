"""Tables at the widths that terminals have: framed where there is room, else under headings; nothing is cut off."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from metasym.report.text_table import Table

TABLE = Table(
    "a table",
    ("problem", "method", "ours, %", "hours left"),
    (
        ("a-long-name/of-a-problem", "one [x]", "95.7 ± 0.3", "0.5"),
        ("a-long-name/of-a-problem", "two", "9.1 ± 0.3", "-"),
        ("another", "one", "3.0 ± 1.3", "10.25"),
    ),
    ("a remark [of brackets]",),
)


def shown(width: int) -> list[str]:
    file = io.StringIO()
    Console(width=width, file=file, color_system=None).print(TABLE)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_framed_where_there_is_room():
    lines = shown(80)
    assert lines[0] == "a table"
    assert "│ a-long-name/of-a-problem │ one [x] │ 95.7 ± 0.3 │        0.5 │" in lines
    assert lines[-1] == "a remark [of brackets]"


def test_headings_in_the_place_of_the_first_column():
    assert shown(40) == [
        "a table",
        "                   hours",
        "method     ours, %  left",
        "a-long-name/of-a-problem",
        "one [x] 95.7 ± 0.3   0.5",
        "two      9.1 ± 0.3     -",
        "another",
        "one      3.0 ± 1.3 10.25",
        "a remark [of brackets]",
    ]


def test_cells_are_broken_between_their_words():
    rows = (("a-long-name/of-a-problem", "maml (paper-day)", "95.8 ± 0.2 (95.7, 95.9)"),)
    table = Table("a table", ("problem", "method", "ours"), rows)
    file = io.StringIO()
    Console(width=25, file=file, color_system=None).print(table)
    assert [line.rstrip() for line in file.getvalue().splitlines()][-2:] == [
        "maml          95.8 ± 0.2",
        "(paper-day) (95.7, 95.9)",
    ]


@pytest.mark.parametrize("width", range(12, 64))
def test_nothing_is_cut_off(width):
    text = "".join(shown(width))
    assert max(map(len, shown(width))) <= width
    for cell in ("95.7", "10.25", "remark", "a-long-name"):
        assert all(text.count(character) >= cell.count(character) for character in cell)
    squeezed = "".join(text.split())
    if width >= 26:  # from here on numbers stay whole
        for cell in ("95.7±0.3", "9.1±0.3", "3.0±1.3", "10.25"):
            assert cell in squeezed
