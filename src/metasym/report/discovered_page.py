"""The page about a run of ``metasym discover``: verdict, bounds, generators as pictures, errors, what was refused."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from metasym.report.discovered_lead import GLOSSARY, lead
from metasym.report.page.html_words import number
from metasym.runs.files.config_files import read_config
from metasym.runs.files.discover_files import read_model
from metasym.runs.files.result_files import read_result
from metasym.storage.atomic import make_folder, write_atomically
from metasym.storage.file_names import MODEL, RESULT
from metasym.types import MetasymError
from metasym.verdicts.discovery_reasons import Outcome

_MOST_GENERATORS = 12
_MOST_CYCLES = 16
_CELL = 14


def write_discovered(folder: Path, out: Path) -> str:
    """The page about a finished run, written to the file ``out`` whole or not at all."""
    if not (folder / RESULT).exists():
        raise MetasymError(
            f"{folder}: expected a finished run with {RESULT}, found none: metasym discover --resume goes on with it"
        )
    if out.is_dir():
        raise MetasymError(f"{out}: expected a file to write the page to, found a folder")
    read_config(folder, "discover")
    if (folder / MODEL).exists():  # the page does not need it, but whoever reads the page will use it
        read_model(folder / MODEL)
    html = _page(read_result(folder / RESULT))
    make_folder(out.parent)
    write_atomically(out, html.encode(), what="a page")
    return html


def _page(found: dict[str, Any]) -> str:
    style = files("metasym.report.page").joinpath("page.css").read_text(encoding="utf-8")
    path = found["config"]["data"]["path"]
    parts = [
        f"<h1>Symmetries in {escape(Path(str(path)).name)}</h1>",
        f'<p class="lead">{escape(" ".join(lead(found, _names(found)[0])))}</p>',
        _scores(found),
        *(_symmetry(one, *_names(found)) for one in found["symmetries"]),
        _refused(found["refused"]),
        "".join(f'<p class="note">{escape(text[:1].upper() + text[1:])}.</p>' for text in found["notes"]),
        _origin(found),
        _words(),
    ]
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(found['verdict']['words'])}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<main style="padding-top: 1.5rem">\n{body}\n</main>\n'
        "</body>\n</html>\n"
    )


def _words() -> str:
    items = "".join(f"<dt>{escape(word)}</dt><dd>{escape(meaning)}</dd>" for word, meaning in GLOSSARY)
    return f'<section><h2 id="words">Words</h2><dl class="words">{items}</dl></section>'


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
    what = "tasks" if found.get("family") else "examples"
    words = "Accuracy" if metric == "accuracy" else "Mean squared error"
    caption = (
        f"{words} on {found['held_out']} {what} that took no part, and the variance of y left unexplained"
    )
    return (
        f'<div class="card slim"><table><caption>{caption}</caption><thead><tr><th>model</th><th>{metric}</th>'
        f"<th>unexplained</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _names(found: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The user's own names of inputs and outputs; none where the data have none."""
    data = found["config"]["data"]
    given = (data.get("input_names"), data.get("output_names"))
    inner, outer = ([str(name) for name in names] if isinstance(names, list) else [] for names in given)
    return inner, outer


def _percent(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.3%}"


def _symmetry(one: dict[str, Any], inputs: list[str], outputs: list[str]) -> str:
    continuous = one["kind"] == "continuous"
    size = f"dimension {one.get('dimension', '?')}" if continuous else f"{one.get('order', '?')} elements"
    low, high = (number(value, 2) for value in one["beta_ci"])
    about = (
        f"The data allow a violation of at most {number(one['violation_upper'], 2)} of the variance of y: up to that "
        f"the function keeps it. beta = {number(one['beta'], 2)}, interval {low} to {high}: what breaks the "
        "symmetry in a model without it does not predict what the symmetric model leaves (0 for a true symmetry)."
    )
    shown = one["generators"][:_MOST_GENERATORS]
    more = len(one["generators"]) - len(shown)
    rest = f'<p class="quiet">{more} more generators are in result.json.</p>' if more > 0 else ""
    if continuous:
        how = "Generators A of x → A x + a, the column a last (blue positive, red negative):"
        pictures = "".join(_matrix(g) for g in shown if isinstance(g, list))
        turned = one.get("output_generators")
        if isinstance(turned, list):
            pictures += "<p>What they do to the outputs, B of y → B y + b:</p>"
            pictures += "".join(_matrix(g) for g in turned[:_MOST_GENERATORS])
    else:
        how = "Every element is a product of these moves, after which the function's answers are the same"
        how += " but for their own moves:" if one.get("outputs") else ":"
        moves = [g for g in shown if isinstance(g, dict)]
        pictures = f"<ul>{''.join(f'<li>{escape(_move(g, inputs, outputs))}</li>' for g in moves)}</ul>"
    return (
        f"<section><h2>{escape(one['name'])}, {one['kind']}, {size}</h2><p>{about}</p>"
        f"<p>{how}</p>{pictures}{rest}</section>"
    )


def _move(g: dict[str, Any], inputs: list[str], outputs: list[str]) -> str:
    """A signed permutation in words: ``inputs: x0 ↔ x1, x4 → -x4; outputs: y0 ↔ y1``."""
    inner = _side(g["inputs"], g["input_signs"], inputs, "x")
    outer = _side(g.get("outputs", []), g.get("output_signs", []), outputs, "y")
    parts = [f"inputs: {inner}" if inner else "", f"outputs: {outer}" if outer else ""]
    return "; ".join(part for part in parts if part)


def _side(images: list[int], signs: list[int], names: list[str], letter: str) -> str:
    """Cycles: two that change places, longer rounds, and changes of sign."""
    if len(signs) != len(images) or sorted(images) != list(range(len(images))):
        return "not a permutation"

    def name(i: int) -> str:
        return names[i] if i < len(names) else f"{letter}{i}"

    found, seen = [], set()
    for start in range(len(images)):
        if start in seen or (images[start] == start and signs[start] > 0):
            continue
        cycle = [start]
        while images[cycle[-1]] != start:
            cycle.append(images[cycle[-1]])
        seen.update(cycle)
        if len(cycle) == 2 and all(signs[i] > 0 for i in cycle):
            found.append(f"{name(cycle[0])} ↔ {name(cycle[1])}")
            continue
        steps = [name(start)]
        sign = 1
        for i in cycle:
            sign *= -1 if signs[i] < 0 else 1
            steps.append(("-" if sign < 0 else "") + name(images[i]))
        found.append(" → ".join(steps))
    more = len(found) - _MOST_CYCLES
    return ", ".join(found[:_MOST_CYCLES]) + (f" and {more} more" if more > 0 else "")


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


def _refused(refused: list[dict[str, Any]]) -> str:
    unseen = [one for one in refused if one["outcome"] == Outcome.NOT_EXAMINED]
    seen = [one for one in refused if one["outcome"] != Outcome.NOT_EXAMINED]
    found = ""
    for title, some in (("Looked for and not claimed", seen), ("Not looked for", unseen)):
        rows = "".join(f"<li>{escape(one['what'])}: {escape(one['words'])}</li>" for one in some)
        found += f"<section><h2>{title}</h2><ul>{rows}</ul></section>" if rows else ""
    return found


def _origin(found: dict[str, Any]) -> str:
    rows = [("command", found["command"]), ("commit", found["commit"])]
    rows += [("time", f"{number(found['seconds'], 3)} s")]
    rows += list(found["versions"].items())
    lines = "".join(
        f'<tr><th scope="row">{escape(str(name))}</th><td>{escape(str(value))}</td></tr>'
        for name, value in rows
        if value is not None
    )
    table = f'<table class="pairs"><caption>Where it comes from</caption><tbody>{lines}</tbody></table>'
    return f'<div class="card slim">{table}</div>'
