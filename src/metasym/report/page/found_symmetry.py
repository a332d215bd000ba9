"""The found symmetry, drawn: the sharing pattern, the group's generators, spatial transforms, errors."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from metasym.groups.signed_permutations import SignedPermutation, cycle_notation
from metasym.report.page.html_words import MINUS, number, plural, shape
from metasym.report.page.matrix_pictures import MOST_CELLS, image, matrix_image
from metasym.report.page.svg import drawing
from metasym.report.page.training_section import Figure
from metasym.verdicts.reports import FoundGroup, GroupErrors, SharingPattern

MOST_LETTERED = 20
"""Rows and columns of a pattern that has the number of its class in every cell."""
MOST_ON_A_RING = 24
MOST_GENERATORS = 6
MOST_ELEMENTS = 16
_LONGEST = 180
"""Characters of a permutation in cycles."""
UNRELATED = 2**0.5
"""The error of an element that has nothing to do with the layer."""
_SMALLEST_ERROR = 1e-8
"""Where the bars of errors begin: smaller errors are rounding in 32 bits."""
_HUES = 61
_GOLDEN = 0.61803398875


def pattern_figure(pattern: SharingPattern) -> Figure | None:
    """Which entries of W are tied: a colour a class. None where the weight is too large to draw."""
    classes = np.asarray(pattern.classes, dtype=np.int64)
    if classes.size > MOST_CELLS:
        return None
    about = (
        f"Sharing pattern of {shape(classes.shape)}: {plural(pattern.count, 'class', 'classes')}, "
        f"{pattern.tied} tied entries, {pattern.zeros} zeros."
    )
    small = max(classes.shape) <= MOST_LETTERED
    picture = _lettered(classes, about) if small else _coloured(classes, about)
    signs = " A minus sign: tied with the opposite sign." if pattern.signed and small else ""
    if pattern.signed and not small:
        signs = " Paler: tied with the opposite sign."
    zeros = f", {pattern.zeros:,} zero (blank)" if pattern.zeros else ""
    alone = " Entries alone in their class are grey." if pattern.tied + pattern.zeros < classes.size else ""
    doubt = (
        "" if pattern.clear else " The evidence for it is weak: another threshold would fit almost as well."
    )
    return Figure(
        "Sharing pattern",
        picture,
        f"Entries of W of one colour are tied: {plural(pattern.count, 'class', 'classes')}, {pattern.tied:,} of "
        f"{classes.size:,} entries tied{zeros}.{signs}{alone}{doubt}",
        css="matrix",
    )


def class_colour(rank: int) -> tuple[int, int, int]:
    """The colour of the ``rank``-th largest class. Neighbouring ranks differ much; all show on light and dark."""
    hue = (0.58 + rank * _GOLDEN) % 1.0
    red, green, blue = colorsys.hls_to_rgb(hue, 0.46 + 0.09 * (rank % 3), 0.62)
    return round(255 * red), round(255 * green), round(255 * blue)


def _ranks(classes: NDArray[np.int64]) -> dict[int, int]:
    """Classes of at least two entries by size, the largest first."""
    numbers, sizes = np.unique(np.abs(classes[classes != 0]), return_counts=True)
    order = sorted(
        ((-int(size), int(number)) for number, size in zip(numbers, sizes, strict=True) if size > 1)
    )
    return {number: rank for rank, (_, number) in enumerate(order)}


def _coloured(classes: NDArray[np.int64], about: str) -> Markup:
    """For large patterns: an image with a palette of ``_HUES`` colours, paler ones for the opposite sign."""
    ranks = _ranks(classes)
    alone = 2 * _HUES + 1
    table = np.full(int(np.abs(classes).max(initial=0)) + 1, alone, dtype=np.int64)
    table[0] = 0
    for number_, rank in ranks.items():
        table[number_] = 1 + rank % _HUES
    index = table[np.abs(classes)]
    index[(classes < 0) & (index < alone)] += _HUES
    palette = [(0, 0, 0), *(class_colour(r) for r in range(_HUES)), *(class_colour(r) for r in range(_HUES))]
    palette += [(128, 128, 128)] * (256 - len(palette))
    opacity = [0] + [255] * _HUES + [120] * _HUES + [60] * (255 - 2 * _HUES)
    return image(index.astype(np.uint8), palette, opacity, about)


def _lettered(classes: NDArray[np.int64], about: str) -> Markup:
    """For small patterns: cells with the number of their class, so that no one depends on colour."""
    ranks = _ranks(classes)
    cell = 20
    rows, columns = classes.shape
    parts = []
    for i in range(rows):
        for j in range(columns):
            value = int(classes[i, j])
            if value == 0:
                continue
            rank = ranks.get(abs(value))
            place = f'x="{j * cell + 0.5}" y="{i * cell + 0.5}" width="{cell - 1}" height="{cell - 1}"'
            if rank is None:
                parts.append(f'<rect class="alone" {place}/>')
                continue
            red, green, blue = class_colour(rank)
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 140
            label = f"{MINUS if value < 0 else ''}{abs(value)}"
            parts.append(
                f'<rect fill="rgb({red} {green} {blue})" {place}/>'
                f'<text class="cell {"on-dark" if dark else "on-light"}" x="{j * cell + cell / 2}" '
                f'y="{i * cell + cell / 2}" dy=".35em" text-anchor="middle">{label}</text>'
            )
    return drawing(columns * cell, rows * cell, about, parts, css="chart pattern")


def group_figures(group: FoundGroup, outputs: Sequence[str] = (), inputs: Sequence[str] = ()) -> list[Figure]:
    """The group's generators in one card, each as a permutation of the outputs and of the inputs.

    ``outputs`` and ``inputs`` are what their numbers are called, where the user has said so.
    """
    shown = group.generators[:MOST_GENERATORS]
    if not shown:
        return []
    tiles = Markup("").join(_generator_tile(element, outputs, inputs) for element in shown)
    many = len(group.generators)
    caption = "Repeating and combining the generators gives the whole group."
    if many > len(shown):
        caption += f" The first {len(shown)} of {many} generators."
    if any(element.signed for element in shown):
        caption += " Dashed: with a change of sign."
    return [
        Figure(
            "Generator of the group" if many == 1 else f"Generators of the group, {many}",
            Markup('<ul class="tiles generators">{}</ul>').format(tiles),
            caption,
            css="wide" if len(shown) > 1 else "",
        )
    ]


def _generator_tile(element: SignedPermutation, outputs: Sequence[str], inputs: Sequence[str]) -> Markup:
    same = element.outputs == element.inputs and element.output_signs == element.input_signs
    alike = same and (tuple(outputs) == tuple(inputs) or not (outputs or inputs))
    sides = [("outputs and inputs" if alike else "outputs", element.outputs, element.output_signs, outputs)]
    if not alike:
        sides.append(("inputs", element.inputs, element.input_signs, inputs))
    pictures = sides[:1] if same else sides
    drawn = Markup("").join(permutation_picture(where, to, signs) for where, to, signs, _ in pictures)
    what = f"{element.transform}: " if element.transform else ""
    words = "; ".join(
        f"{where} {cycle_notation(to, signs, names, most=_LONGEST)}" for where, to, signs, names in sides
    )
    return Markup("<li>{}<span>{}{}</span></li>").format(drawn, what, words)


def permutation_picture(where: str, to: Sequence[int], signs: Sequence[int]) -> Markup:
    """Points on a ring with an arrow from each to where it goes; a matrix where there are many points."""
    n = len(to)
    about = f"Permutation of {n} {where}: {cycle_notation(to, signs, most=_LONGEST)}."
    if n > MOST_ON_A_RING:
        if n * n > MOST_CELLS:
            return Markup("<p>{}</p>").format(f"{n:,} points: too many to draw.")
        matrix = np.zeros((n, n))
        matrix[list(to), range(n)] = signs
        return matrix_image(matrix, about)
    radius, middle, dot = 78.0, 100.0, 9.5
    places = [
        (middle + radius * math.sin(2 * math.pi * i / n), middle - radius * math.cos(2 * math.pi * i / n))
        for i in range(n)
    ]
    parts = []
    for i, j in enumerate(to):
        if i != j:
            both = to[j] == i and signs[i] == signs[j]
            if not both or i < j:
                parts.append(_arrow(places[i], places[j], dot, both, flipped=signs[i] < 0))
    for i, (x, y) in enumerate(places):
        still = " still" if to[i] == i else ""
        flipped = " flipped" if to[i] == i and signs[i] < 0 else ""
        parts.append(
            f'<circle class="node{still}{flipped}" cx="{x:.1f}" cy="{y:.1f}" r="{dot}"/>'
            f'<text class="cell" x="{x:.1f}" y="{y:.1f}" dy=".35em" text-anchor="middle">{escape(i)}</text>'
        )
    return drawing(200, 200, about, parts, css="ring")


def _arrow(
    start: tuple[float, float], stop: tuple[float, float], dot: float, both: bool, *, flipped: bool
) -> str:
    """A line between two points with a head at its end, or at both ends."""
    length = math.hypot(stop[0] - start[0], stop[1] - start[1])
    ux, uy = (stop[0] - start[0]) / length, (stop[1] - start[1]) / length
    a = (start[0] + ux * (dot + 1), start[1] + uy * (dot + 1))
    b = (stop[0] - ux * (dot + 1), stop[1] - uy * (dot + 1))
    css = "arrow flipped" if flipped else "arrow"
    heads = _head(b, ux, uy) + (_head(a, -ux, -uy) if both else "")
    return f'<path class="{css}" d="M{a[0]:.1f} {a[1]:.1f}L{b[0]:.1f} {b[1]:.1f}"/>{heads}'


def _head(tip: tuple[float, float], ux: float, uy: float) -> str:
    back = (tip[0] - 6.5 * ux, tip[1] - 6.5 * uy)
    left = (back[0] - 3.2 * uy, back[1] + 3.2 * ux)
    right = (back[0] + 3.2 * uy, back[1] - 3.2 * ux)
    corners = "L".join(f"{x:.1f} {y:.1f}" for x, y in (tip, left, right))
    return f'<path class="head" d="M{corners}Z"/>'


def errors_figure(errors: GroupErrors) -> Figure:
    """How far from equivariance, element by element, as bars."""
    # A number that is not finite is null in JSON, and comes back as None.
    values = [math.nan if error is None else error for error in errors.errors]
    shown = list(zip(errors.elements, values, strict=True))[:MOST_ELEMENTS]
    line, width = 36, 400
    low, high = math.log10(_SMALLEST_ERROR), math.log10(UNRELATED)
    parts = []
    for index, (name, error) in enumerate(shown):
        y = index * line
        place = (
            (math.log10(max(error, _SMALLEST_ERROR)) - low) / (high - low) if math.isfinite(error) else 1.0
        )
        long = max((width - 90) * min(place, 1.0), 3.0)
        label = name if len(name) <= 50 else f"{name[:49]}…"
        parts.append(
            f'<text class="tick" x="2" y="{y + 12}">{escape(label)}</text>'
            f'<path class="grid" d="M2 {y + 22}H{width - 88}"/>'
            f'<rect class="bar" x="2" y="{y + 17}" width="{long:.1f}" height="10"/>'
            f'<text class="tick" x="{long + 8:.1f}" y="{y + 27}">{number(error)}</text>'
        )
    largest = number(max(values))
    about = f"Equivariance error for {plural(len(shown), 'element')} of {errors.group}; largest {largest}."
    angles = ""
    if len(values) > len(shown):
        angles = f" The first {len(shown)} of {len(values)} elements; the largest of all: {largest}."
    if errors.angles:
        angles += f" Largest principal angle to the equivariant maps: {number(max(errors.angles))}°."
    return Figure(
        f"Equivariance error, {errors.group}",
        drawing(width, line * len(shown) + 4, about, parts),
        f"Logarithmic, from {_SMALLEST_ERROR:g} (as good as exact) to 1.4 (unrelated)."
        f"{angles} {errors.note}".rstrip(),
    )
