"""The page about a run of ``metasym discover``: verdict, bounds, generators as pictures, errors, what was refused."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from metasym.experiments.discovering.discover_files import (
    MODEL,
    read_discover_config,
    read_discovered,
    read_model,
)
from metasym.experiments.result_files import RESULT
from metasym.report.page.text import number
from metasym.storage.atomic import make_folder, write_atomically
from metasym.types import MetasymError

_MOST_GENERATORS = 12
_CELL = 14


def write_discovered(folder: Path, out: Path) -> str:
    """The page about a finished run, written to the file ``out`` whole or not at all."""
    if not (folder / RESULT).exists():
        raise MetasymError(
            f"{folder}: expected a finished run with {RESULT}, found none: metasym discover --resume goes on with it"
        )
    if out.is_dir():
        raise MetasymError(f"{out}: expected a file to write the page to, found a folder")
    read_discover_config(folder)
    if (folder / MODEL).exists():  # the page does not need it, but whoever reads the page will use it
        read_model(folder / MODEL)
    html = _page(read_discovered(folder))
    make_folder(out.parent)
    write_atomically(out, html.encode(), what="a page")
    return html


def _page(found: dict[str, Any]) -> str:
    style = files("metasym.report.page").joinpath("page.css").read_text(encoding="utf-8")
    path = found["config"]["data"]["path"]
    parts = [
        f"<h1>Symmetries in {escape(Path(str(path)).name)}</h1>",
        f'<p class="headline">{escape(found["verdict"])}</p>',
        _scores(found),
        *(_symmetry(one) for one in found["symmetries"]),
        _refused(found["refused"]),
        "".join(f'<p class="note">{escape(text)}.</p>' for text in found["notes"]),
        _origin(found),
    ]
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(found['verdict'])}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )


def _scores(found: dict[str, Any]) -> str:
    metric = found["plain"]["metric"]
    rows = []
    for label, key in (("knows no symmetry", "plain"), ("with the symmetry built in", "symmetric")):
        score = found.get(key)
        if isinstance(score, dict):
            rows.append(
                f'<tr><th scope="row">{label}</th><td>{number(score["mean"])} ± {number(score["ci95"], 2)}</td>'
                f"<td>{_percent(score['relative'])}</td></tr>"
            )
    caption = f"{metric} on {found['held_out']} examples that took no part, and the variance unexplained"
    return (
        f'<div class="card"><table><caption>{caption}</caption><thead><tr><th>model</th><th>{metric}</th>'
        f"<th>unexplained</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _percent(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.3%}"


def _symmetry(one: dict[str, Any]) -> str:
    continuous = one["kind"] == "continuous"
    size = f"dimension {one.get('dimension', '?')}" if continuous else f"order {one.get('order', '?')}"
    low, high = (number(value, 2) for value in one["beta_ci"])
    about = (
        f"The data allow a violation of at most {number(one['violation_upper'], 2)} of the variance of y. "
        f"beta = {number(one['beta'], 2)}, interval {low} to {high}: what breaks the "
        "symmetry in a model without it does not predict what the symmetric model leaves."
    )
    shown = one["generators"][:_MOST_GENERATORS]
    pictures = "".join(
        _matrix(g) if isinstance(g, list) else f"<li>{escape(json.dumps(g))}</li>" for g in shown
    )
    if not continuous:
        pictures = f"<ul>{pictures}</ul>"
    more = len(one["generators"]) - len(shown)
    rest = f'<p class="quiet">{more} more generators are in result.json.</p>' if more > 0 else ""
    how = "Generators A of x → A x + a, the column a last:" if continuous else "Generators:"
    return (
        f"<section><h2>{escape(one['name'])}, {one['kind']}, {size}</h2><p>{about}</p>"
        f"<p>{how}</p>{pictures}{rest}</section>"
    )


def _matrix(rows: list[list[float]]) -> str:
    """A matrix as coloured squares: blue positive, red negative."""
    largest = max((abs(v) for row in rows for v in row), default=0.0) or 1.0
    cells = []
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            strength = min(1.0, abs(value) / largest)
            if strength < 0.01:
                continue
            colour = "#2166ac" if value > 0 else "#b2182b"
            cells.append(
                f'<rect x="{j * _CELL}" y="{i * _CELL}" width="{_CELL}" height="{_CELL}" fill="{colour}" '
                f'fill-opacity="{strength:.2f}"><title>row {i}, column {j}: {value:.3g}</title></rect>'
            )
    height, width = len(rows) * _CELL, (len(rows[0]) if rows else 0) * _CELL
    return (
        f'<svg role="img" aria-label="a generator" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<rect width="{width}" height="{height}" fill="none" stroke="#888"/>{"".join(cells)}</svg> '
    )


def _refused(refused: list[dict[str, str]]) -> str:
    if not refused:
        return ""
    rows = "".join(f"<li>{escape(one['what'])}: {escape(one['reason'])}</li>" for one in refused)
    return f"<section><h2>Looked for and not claimed</h2><ul>{rows}</ul></section>"


def _origin(found: dict[str, Any]) -> str:
    rows = [("command", found["command_line"]), ("commit", found["commit"])]
    rows += [("time", f"{number(found['seconds'], 3)} s")]
    rows += list(found["versions"].items())
    lines = "".join(
        f'<tr><th scope="row">{escape(str(name))}</th><td>{escape(str(value))}</td></tr>'
        for name, value in rows
        if value is not None
    )
    table = f'<table class="pairs"><caption>Where it comes from</caption><tbody>{lines}</tbody></table>'
    return f'<div class="card">{table}</div>'
