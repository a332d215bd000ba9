"""The report page's cards in a notebook: the same templates and styles, in a frame of their own.

A frame keeps the page's styles from the notebook's, and the notebook's from the page's.
"""

from __future__ import annotations

import html
from importlib.resources import files

from metasym.report.page.layer_section import told_layer
from metasym.report.page.templates import template
from metasym.verdicts.reports import LayerReport
from metasym.verdicts.symmetry_report import SymmetryReport

_HEIGHT = 520
"""Of a frame, in pixels; it scrolls."""
_MOST_LAYERS = 8


def report_cards(found: SymmetryReport | LayerReport) -> str:
    """The cards about the layers of a report, as HTML that a notebook shows."""
    layers = list(found) if isinstance(found, SymmetryReport) else [found]
    parts = [told_layer(layer) for layer in layers[:_MOST_LAYERS]]
    style = files("metasym.report.page").joinpath("page.css").read_text(encoding="utf-8")
    page = template("cards.html").render(
        title="What was learned", style=style, layers=parts, more=max(0, len(layers) - _MOST_LAYERS)
    )
    return framed(page, "What was learned")


def framed(page: str, title: str) -> str:
    """A whole page as a frame in a notebook."""
    return (
        f'<iframe srcdoc="{html.escape(page, quote=True)}" title="{html.escape(title, quote=True)}" '
        f'style="width: 100%; height: {_HEIGHT}px; border: 0" sandbox="allow-scripts"></iframe>'
    )
