"""Charts as inline SVG: they take the page's colours, and their text stays legible at a width of 320 pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from metasym.report.page.html_words import tick

WIDTH, HEIGHT = 400, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 10, 42
COLOURS = 8
"""The style sheet has this many colours and dashes for lines."""


@dataclass(frozen=True)
class Series:
    """A line, with a band from ``low`` to ``high`` where they are given; NaN leaves a gap."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    marks: bool = False
    """Points instead of a line."""


@dataclass(frozen=True)
class Scale:
    """From values to pixels, linear or logarithmic."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of ``value``."""
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(max(value, self.low / 10))
        return self.start + (at - low) / (high - low) * (self.stop - self.start)

    def ticks(self) -> list[float]:
        """Round values inside the range."""
        return log_ticks(self.low, self.high) if self.log else linear_ticks(self.low, self.high)


def linear_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, about as many as asked for."""
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, with 2 and 5 times each where they are few; linear ticks in a range below a factor 4."""
    if high / low < 4:
        return [value for value in linear_ticks(low, high, 4) if value > 0]
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1,) if last - first > 3 else (1, 2, 5)
    every = max(1, (last - first) // 6)
    found = [m * 10.0**power for power in range(first, last + 1, every) for m in factors]
    return [value for value in found if low * 0.999 <= value <= high * 1.001]


def span(values: Sequence[float], log: bool) -> tuple[float, float] | None:
    """The range of an axis; None where nothing can be drawn."""
    good = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
    if not good:
        return None
    low, high = min(good), max(good)
    if log:
        low = max(low, high * 1e-12)
        return (low / 1.15, high * 1.15) if high / low > 1.05 else (low / 1.5, high * 1.5)
    pad = (high - low) * 0.05 or abs(high) * 0.1 or 1.0
    return low - pad, high + pad


def line_chart(
    series: Sequence[Series], *, xlabel: str, ylabel: str, about: str, log: bool = False, zero: bool = False
) -> Markup | None:
    """Lines over a common axis; None where no value is finite. ``about`` is what a screen reader says.

    ``zero``: the vertical axis shows 0.
    """
    values = [v for s in series for column in (s.y, s.low, s.high) for v in column]
    across = [x for s in series for x in s.x]
    reach = span(values, log)
    if reach is None or not across:
        return None
    if zero and not log:
        reach = min(reach[0], 0.0) if reach[0] > 0 else reach[0], max(reach[1], 0.0)
    left, right = min(across), max(across)
    if left == right:
        left, right = left - 1, right + 1
    elif any(s.marks for s in series):  # else the first and the last would lie on the frame
        left, right = left - 0.04 * (right - left), right + 0.04 * (right - left)
    xs = Scale(left, right, _LEFT, WIDTH - _RIGHT)
    ys = Scale(*reach, HEIGHT - _BOTTOM, _TOP, log)
    parts = [_frame(xs, ys, xlabel, ylabel, counted=all(x == int(x) for x in across))]
    for index, line in enumerate(series):
        if line.low:
            parts += _band(line, xs, ys, index)
    for index, line in enumerate(series):
        parts += _marks(line, xs, ys, index) if line.marks else _line(line, xs, ys, index)
    return drawing(WIDTH, HEIGHT, about, parts)


def drawing(width: float, height: float, about: str, parts: Sequence[str], css: str = "chart") -> Markup:
    """An SVG that scales with the page; ``parts`` are trusted markup."""
    return Markup(
        '<svg class="{}" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">{}</svg>'
    ).format(css, _short(width), _short(height), _short(width), _short(height), about, Markup("".join(parts)))


def legend(labels: Sequence[str]) -> Markup | None:
    """What each line is, in its colour and dash; None for a single one."""
    if len(labels) < 2:
        return None
    items = Markup("").join(
        Markup(
            '<li><svg viewBox="0 0 26 8" width="26" height="8" aria-hidden="true">'
            '<path class="line c{}" d="M1 4H25"/></svg>{}</li>'
        ).format(index % COLOURS, label)
        for index, label in enumerate(labels)
    )
    return Markup('<ul class="legend">{}</ul>').format(items)


def histogram(values: Sequence[float], *, xlabel: str, about: str, log: bool) -> Markup | None:
    """How the values are spread; None where fewer than two are finite."""
    good = sorted(v for v in values if math.isfinite(v) and (v > 0 or not log))
    reach = span(good, log)
    if len(good) < 2 or reach is None:
        return None
    xs = Scale(*reach, _LEFT, WIDTH - _RIGHT, log)
    bins = min(24, max(5, round(2 * math.sqrt(len(good)))))
    counts = [0] * bins
    for value in good:
        place = (xs(value) - xs.start) / (xs.stop - xs.start)
        counts[min(bins - 1, max(0, int(place * bins)))] += 1
    ys = Scale(0, max(counts) * 1.2, HEIGHT - _BOTTOM, _TOP)
    wide = (xs.stop - xs.start) / bins
    parts = [_frame(xs, ys, xlabel, "tasks", whole=True)]
    for index, count in enumerate(counts):
        if count:
            top = ys(count)
            parts.append(
                f'<rect class="bar" x="{_short(xs.start + index * wide + 0.75)}" y="{_short(top)}" '
                f'width="{_short(wide - 1.5)}" height="{_short(HEIGHT - _BOTTOM - top)}"/>'
            )
    middle = xs(_median(good))
    parts.append(
        f'<path class="median" d="M{_short(middle)} {_TOP}V{HEIGHT - _BOTTOM}"/>'
        f'<text class="tick" x="{_short(middle + (4 if middle < WIDTH * 0.75 else -4))}" y="{_TOP + 9}" '
        f'text-anchor="{"start" if middle < WIDTH * 0.75 else "end"}">median</text>'
    )
    return drawing(WIDTH, HEIGHT, about, parts)


def _frame(
    xs: Scale, ys: Scale, xlabel: str, ylabel: str, *, whole: bool = False, counted: bool = False
) -> str:
    """Axes with ticks and labels; ``whole``: whole numbers only up the axis, ``counted``: across."""
    parts = []
    for value in ys.ticks():
        if whole and value != int(value):
            continue
        y = _short(ys(value))
        parts.append(f'<path class="grid" d="M{_LEFT} {y}H{WIDTH - _RIGHT}"/>')
        parts.append(
            f'<text class="tick" x="{_LEFT - 6}" y="{y}" dy=".32em" text-anchor="end">{tick(value)}</text>'
        )
    free = 0.0
    for value in xs.ticks():
        if counted and value != int(value):
            continue
        x, half = xs(value), 4.0 * len(tick(value))
        anchor = "end" if x + half > WIDTH - 2 else "middle"
        parts.append(f'<path class="axis" d="M{_short(x)} {HEIGHT - _BOTTOM}v4"/>')
        left = min(x, WIDTH - 2) - 2 * half if anchor == "end" else x - half
        if left < free:
            continue  # its label would run into the one before
        free = left + 2 * half + 8
        parts.append(
            f'<text class="tick" x="{_short(min(x, WIDTH - 2))}" y="{HEIGHT - _BOTTOM + 17}" '
            f'text-anchor="{anchor}">{tick(value)}</text>'
        )
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{HEIGHT - _BOTTOM}H{WIDTH - _RIGHT}"/>')
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts.append(
        f'<text class="label" x="{middle}" y="{HEIGHT - 5}" text-anchor="middle">{escape(xlabel)}</text>'
    )
    height = (_TOP + HEIGHT - _BOTTOM) / 2
    parts.append(
        f'<text class="label" transform="translate(11 {height}) rotate(-90)" text-anchor="middle">'
        f"{escape(ylabel)}</text>"
    )
    return "".join(parts)


def _drawable(value: float, scale: Scale) -> bool:
    return math.isfinite(value) and (value > 0 or not scale.log)


def _line(series: Series, xs: Scale, ys: Scale, index: int) -> list[str]:
    path, pen_down = [], False
    for x, y in zip(series.x, series.y, strict=True):
        if not _drawable(y, ys):
            pen_down = False
            continue
        path.append(f"{'L' if pen_down else 'M'}{_short(xs(x))} {_short(ys(y))}")
        pen_down = True
    return [f'<path class="line c{index % COLOURS}" d="{"".join(path)}"/>'] if path else []


def _marks(series: Series, xs: Scale, ys: Scale, index: int) -> list[str]:
    return [
        f'<circle class="mark c{index % COLOURS}" cx="{_short(xs(x))}" cy="{_short(ys(y))}" r="2.6"/>'
        for x, y in zip(series.x, series.y, strict=True)
        if _drawable(y, ys)
    ]


def _band(series: Series, xs: Scale, ys: Scale, index: int) -> list[str]:
    """The area between low and high, in pieces where there are gaps."""
    pieces: list[list[tuple[float, float, float]]] = [[]]
    for x, low, high in zip(series.x, series.low, series.high, strict=True):
        if _drawable(low, ys) and _drawable(high, ys):
            pieces[-1].append((xs(x), ys(low), ys(high)))
        elif pieces[-1]:
            pieces.append([])
    found = []
    for piece in pieces:
        if len(piece) > 1:
            there = "L".join(f"{_short(x)} {_short(high)}" for x, _, high in piece)
            back = "L".join(f"{_short(x)} {_short(low)}" for x, low, _ in reversed(piece))
            found.append(f'<path class="band c{index % COLOURS}" d="M{there}L{back}Z"/>')
    return found


def _median(ordered: Sequence[float]) -> float:
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _short(value: float) -> str:
    """A coordinate with one decimal, without a trailing zero."""
    return f"{value:.1f}".removesuffix(".0")
