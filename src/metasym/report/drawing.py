"""Figures as files: the same bytes every time, written whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from metasym.types import MetasymError


@contextmanager
def figure_files(path: Path, width: float, height: float) -> Iterator[tuple[Any, list[Path]]]:
    """A figure that is written as ``path.png`` and ``path.svg`` when it is done, the same bytes every time."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "metasym", "font.size": 9, "figure.dpi": 150}):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)  # Agg, whatever the user's backend is
        files: list[Path] = []
        yield figure, files
        for kind in ("png", "svg"):
            file = path.with_name(f"{path.name}.{kind}")
            temporary = file.with_name(file.name + ".tmp")
            try:
                figure.savefig(temporary, format=kind, metadata={"Date": None} if kind == "svg" else None)
                temporary.replace(file)
            except OSError as error:
                temporary.unlink(missing_ok=True)
                raise MetasymError(f"{file}: expected to write a figure, found {error.strerror}") from None
            files.append(file)
