"""Figures as files: the same bytes every time, written whole or not at all."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from metasym.storage.atomic import write_atomically


def new_figure(width: float, height: float) -> Any:
    """An empty figure, inches, that belongs to no window: whoever gets it shows or saves it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)  # Agg, whatever the user's backend is
    # A notebook knows figures only where pyplot was imported; this it finds always.
    figure._repr_png_ = functools.partial(_png, figure)  # type: ignore[attr-defined]
    return figure


def _png(figure: Any) -> bytes:
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    return drawn.getvalue()


@contextmanager
def figure_files(path: Path, width: float, height: float) -> Iterator[tuple[Any, list[Path]]]:
    """A figure that is written as ``path.png`` and ``path.svg`` when it is done, the same bytes every time."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "metasym", "font.size": 9, "figure.dpi": 150}):
        figure = new_figure(width, height)
        files: list[Path] = []
        yield figure, files
        for kind in ("png", "svg"):
            file = path.with_name(f"{path.name}.{kind}")
            drawn = io.BytesIO()
            figure.savefig(drawn, format=kind, metadata={"Date": None} if kind == "svg" else None)
            write_atomically(file, drawn.getvalue(), what="a figure")
            files.append(file)
