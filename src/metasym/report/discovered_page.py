"""The page about a run of ``metasym discover``: verdict, bounds, generators as pictures, errors, what was refused."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from metasym.report.discovered_lead import GLOSSARY, lead
from metasym.report.page.html_words import number
from metasym.report.page.templates import template
from metasym.runs.files.config_files import read_config
from metasym.runs.files.discover_files import read_model
from metasym.runs.files.result_files import read_result
from metasym.storage.atomic import as_bytes, make_folder, write_atomically
from metasym.storage.file_names import MODEL, RESULT
from metasym.types import MetasymError
from metasym.verdicts.defect_words import measured, percent
from metasym.verdicts.defects import defect_of
from metasym.verdicts.discovery_words import interval_words
from metasym.verdicts.outcomes import Outcome

_MOST_GENERATORS = 12
_MOST_CYCLES = 16
_CELL = 14


def write_discovered(folder: Path, out: Path) -> str:
    """The page about a finished run, written to the file ``out`` whole or not at all."""
    if not (folder / RESULT).exists():
        raise MetasymError(
            f"{folder}: expected a finished run with {RESULT}, found none: metasym discover --resume continues it",
            about=str(folder / RESULT),
        )
    if out.is_dir():
        raise MetasymError(
            f"{out}: expected a file to write the page to, found a folder", about=str(out), found="a folder"
        )
    read_config(folder, "discover")
    if (folder / MODEL).exists():  # the page does not need it, but whoever reads the page will use it
        read_model(folder / MODEL)
    html = _page(read_result(folder / RESULT))
    make_folder(out.parent)
    write_atomically(out, as_bytes(html), what="a page")
    return html


def _page(found: dict[str, Any]) -> str:
    style = files("metasym.report.page").joinpath("page.css").read_text(encoding="utf-8")
    names = _names(found)
    return template("discovered.html").render(
        cell=_CELL,
        title=found["verdict"]["words"],
        style=Markup(style),
        data=Path(str(found["config"]["data"]["path"])).name,
        lead=lead(found, names[0]),
        answer=(found.get("answer") or {}).get("words"),
        scores=_scores(found),
        symmetries=[_symmetry(one, *names) for one in found["symmetries"]],
        refused=_refused(found["refused"]),
        notes=[f"{text[:1].upper()}{text[1:]}." for text in found["notes"]],
        origin=_origin(found),
        glossary=GLOSSARY,
    )


def _scores(found: dict[str, Any]) -> dict[str, Any] | None:
    if found["plain"] is None:  # a function was called, and nothing fitted
        return None
    metric = found["plain"]["metric"]
    rows = []
    for label, key in (("without symmetry", "plain"), ("with the symmetry built in", "symmetric")):
        score = found.get(key)
        if isinstance(score, dict):
            value = f"{number(score['mean'])} ± {number(score['ci95'], 2)}"
            rows.append((label, value, _percent(score["relative"])))
    what = "tasks" if found.get("family") else "examples"
    words = "Accuracy" if metric == "accuracy" else "Mean squared error"
    caption = f"{words} on {found['held_out']} held-out {what}, and the unexplained variance of y"
    return {"caption": caption, "metric": metric, "rows": rows}


def _names(found: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The user's own names of inputs and outputs; none where the data have none."""
    data = found["config"]["data"]
    given = (data.get("input_names"), data.get("output_names"))
    inner, outer = ([str(name) for name in names] if isinstance(names, list) else [] for names in given)
    return inner, outer


def _percent(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.3%}"


def _symmetry(one: dict[str, Any], inputs: list[str], outputs: list[str]) -> dict[str, Any]:
    continuous = one["kind"] == "continuous"
    size = f"dimension {one.get('dimension', '?')}" if continuous else f"{one.get('order', '?')} elements"
    about = (
        f"The data allow a violation of at most {number(one['violation_upper'], 2)} of the variance of y (95 %). The "
        f"part of a free model that breaks the symmetry does not predict the residual of the symmetric model: "
        f"{interval_words(one['beta'], *one['beta_ci'])}."
    )
    if one.get("defect") is not None:
        about = (
            f"Checked by calls at {one['tested_on']} fresh points: f(g x) and g' f(x) differ by "
            f"{measured(one['defect'])} (root mean square of the worst element, relative to what the moved inputs "
            "change), at most by "
            f"{percent(defect_of(one['violation_upper']))} at 95 %."
        )
    if one.get("rows_upper") is not None:
        what = "rows" if one.get("defect") is None else "points"
        about += f" At most {percent(one['rows_upper'])} of further {what} may violate it much more (95 %)."
    shown = one["generators"][:_MOST_GENERATORS]
    if continuous:
        how = "Generators A of x → A x + a, the column a last (blue positive, red negative):"
    else:
        how = "Every element is a product of these moves, after which the function's answers are the same"
        how += " but for their own moves:" if one.get("outputs") else ":"
    turned = one.get("output_generators") if continuous else None
    return {
        "title": f"{one['name']}, {one['kind']}, {size}",
        "about": about,
        "how": how,
        "pictures": [_matrix(g) for g in shown if isinstance(g, list)] if continuous else [],
        "output_pictures": [_matrix(g) for g in turned[:_MOST_GENERATORS]]
        if isinstance(turned, list)
        else None,
        "moves": None if continuous else [_move(g, inputs, outputs) for g in shown if isinstance(g, dict)],
        "more": max(0, len(one["generators"]) - len(shown)),
    }


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


def _matrix(rows: list[list[float]]) -> dict[str, Any]:
    """A matrix as coloured squares: blue positive, red negative."""
    largest = max((abs(v) for row in rows for v in row), default=0.0) or 1.0
    squares = []
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            strength = min(1.0, abs(value) / largest)
            if strength >= 0.01:
                colour = "#2166ac" if value > 0 else "#b2182b"
                title = f"row {i}, column {j}: {value:.3g}"
                squares.append((j * _CELL, i * _CELL, colour, f"{strength:.2f}", title))
    width = (len(rows[0]) if rows else 0) * _CELL
    return {"width": width, "height": len(rows) * _CELL, "squares": squares}


def _refused(refused: list[dict[str, Any]]) -> list[tuple[str, list[tuple[str, str]]]]:
    unseen = [one for one in refused if one["outcome"] == Outcome.NOT_EXAMINED]
    seen = [one for one in refused if one["outcome"] != Outcome.NOT_EXAMINED]
    named = (("Tested and not claimed", seen), ("Not tested", unseen))
    return [(title, [(one["what"], one["words"]) for one in some]) for title, some in named if some]


def _origin(found: dict[str, Any]) -> list[tuple[str, Any]]:
    rows = [("command", found["command"]), ("commit", found["commit"])]
    rows += [("time", f"{number(found['seconds'], 3)} s")]
    rows += list(found["versions"].items())
    return [(name, value) for name, value in rows if value is not None]
