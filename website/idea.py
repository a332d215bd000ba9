"""Draws the picture on the first page: three tasks' weights, the pattern they share, and a new task.

Run once, ``python -m website.idea``; the SVG is kept in docs/assets and put into the page as it is, so that its lines
and letters take the page's colours, light or dark.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

SIZE, CELL = 6, 17
LETTERS = "abcdef"


def main() -> None:
    """Write docs/assets/idea.svg."""
    draw = np.random.Generator(np.random.PCG64(5))
    side = SIZE * CELL
    filters = draw.uniform(-1, 1, (4, SIZE))
    parts = []
    for task in range(3):
        x = 10 + task * (side + 22)
        parts.append(_text(x, 18, f"task {task + 1}: W"))
        parts.append(_weights(x, 28, filters[task]))
    x = 10 + 3 * (side + 22) + 50
    parts.append(_arrow(x - 56, 28 + side / 2, x - 12))
    parts.append(_text(x, 18, "what they share: U", bold=True))
    parts.append(_pattern(x, 28))
    y = 28 + side + 54
    parts.append(_text(10, y - 10, "new task: x, y"))
    for row, values in enumerate(draw.uniform(-1, 1, (2, SIZE))):
        parts.append(_strip(10, y + row * (CELL + 8), values))
    parts.append(_arrow(10 + side + 12, y + CELL, 10 + side + 70))
    x = 10 + side + 84
    parts.append(_text(x, y - 10, "6 numbers: v", bold=True))
    parts.append(_strip(x, y + CELL / 2 + 2, filters[3]))
    for i, letter in enumerate(LETTERS):
        parts.append(_text(x + (i + 0.5) * CELL, y + CELL / 2 + 2 + CELL + 14, letter, anchor="middle"))
    parts.append(_arrow(x + side + 12, y + CELL, x + side + 70, "U"))
    x += side + 84
    parts.append(_text(x, y - 10, "36 weights: W = U v"))
    parts.append(_weights(x, y, filters[3]))
    width, height = 10 + 4 * side + 190, y + side + 10
    label = (
        "Three weight matrices with different numbers and one pattern of equal entries; from it and one example, "
        "six numbers give the weights of a new task."
    )
    Path("docs/assets/idea.svg").write_text(
        f'<svg class="drawing" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{label}" font-family="system-ui, sans-serif" font-size="13" fill="currentColor">'
        + "".join(parts)
        + "</svg>\n",
        encoding="utf-8",
    )


def _weights(x: float, y: float, values: np.ndarray) -> str:
    return "".join(
        _cell(x + j * CELL, y + i * CELL, _colour(values[(j - i) % SIZE]))
        for i in range(SIZE)
        for j in range(SIZE)
    )


def _pattern(x: float, y: float) -> str:
    return "".join(
        _cell(x + j * CELL, y + i * CELL, "none")
        + _text(x + (j + 0.5) * CELL, y + (i + 0.75) * CELL, LETTERS[(j - i) % SIZE], anchor="middle")
        for i in range(SIZE)
        for j in range(SIZE)
    )


def _strip(x: float, y: float, values: np.ndarray) -> str:
    return "".join(_cell(x + i * CELL, y, _colour(v)) for i, v in enumerate(values))


def _cell(x: float, y: float, fill: str) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{CELL}" height="{CELL}" fill="{fill}" '
        'stroke="currentColor" stroke-opacity=".35" stroke-width=".6"/>'
    )


def _colour(value: float) -> str:
    """Orange for positive, teal for negative, pale near zero."""
    end = np.array((239, 108, 0) if value > 0 else (0, 121, 107))
    mixed = 255 - (255 - end) * abs(value)
    return "#" + "".join(f"{round(c):02x}" for c in mixed)


def _text(x: float, y: float, text: str, *, bold: bool = False, anchor: str = "start") -> str:
    weight = ' font-weight="700"' if bold else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{weight}>{text}</text>'


def _arrow(x: float, y: float, end: float, label: str = "") -> str:
    over = _text((x + end) / 2, y - 8, label, bold=True, anchor="middle") if label else ""
    return (
        f'<path d="M{x:g} {y:g}H{end:g}m-7 -5l7 5l-7 5" fill="none" stroke="currentColor" stroke-width="1.6"/>'
        + over
    )


if __name__ == "__main__":
    main()
