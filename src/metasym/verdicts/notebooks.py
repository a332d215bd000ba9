"""How what was found shows itself in a notebook.

Verdicts know no pages and no figures. The room that draws them is above this one and is asked by its name, when a
notebook asks.
"""

from __future__ import annotations

import pkgutil
from typing import Any

_CARDS = "metasym.report.page.cards:report_cards"
_FIGURE = "metasym.report.plots:report_figure"


def cards(found: object) -> str:
    """The cards of the report page about ``found``, a report on a layer or on a network, as HTML."""
    html: str = pkgutil.resolve_name(_CARDS)(found)
    return html


def figure(found: object) -> Any:
    """A matplotlib figure of ``found``."""
    return pkgutil.resolve_name(_FIGURE)(found)
