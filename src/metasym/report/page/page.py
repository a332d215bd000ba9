"""The page itself: its parts, put into the template."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import metasym
from metasym.report.page.headline import GLOSSARY, headline
from metasym.report.page.html_words import number, plural
from metasym.report.page.layer_section import LayerPart, Names, inspected, layer_part
from metasym.report.page.learned_layers import learned
from metasym.report.page.run_folders import Run, Runs, broken_seals, find_runs
from metasym.report.page.score_section import (
    Methods,
    Row,
    description,
    intervals_figure,
    methods,
    pooled,
    row,
    score_text,
    tasks_figure,
)
from metasym.report.page.templates import template
from metasym.report.page.training_section import (
    Figure,
    by_evidence,
    compared_curves,
    training_figures,
    training_notes,
    training_remark,
)
from metasym.storage.atomic import as_bytes, make_folder, write_atomically
from metasym.symmetry.parametrized import short_name
from metasym.types import MetasymError
from metasym.verdicts.layer_words import summary_words
from metasym.verdicts.reports import LayerReport

NAME = "report.html"
Note = Callable[[str], None]
DETAIL = 20
"""How many runs are drawn; for further runs only the scores are shown."""
_MOST_LAYERS = 8
_MOST_TOLD = 8


@dataclass(frozen=True)
class Page:
    """A rendered page."""

    html: str
    runs: int
    drawn: int
    faults: list[str]
    """A line for each run that could not be read, or only in part."""
    counted: str
    """How many runs there are, in words, with baselines counted separately."""


@dataclass(frozen=True)
class RunPart:
    """What the page shows about one run."""

    anchor: str
    name: str
    title: str
    state: str
    finished: bool
    headline: str
    about: str
    scores: list[tuple[str, str]]
    lead: list[str]
    """What was found, how sure it is and what it is worth: sentences of one paragraph."""
    methods: Methods | None
    lower: bool
    """Whether lower scores are better."""
    score_figure: Figure | None
    training: list[Figure]
    step_sizes: list[tuple[str, str]]
    notes: list[str]
    findings: list[tuple[str, str]]
    training_remark: str
    layers: list[LayerPart]
    layer_note: str
    config: list[tuple[str, str | None]]
    origin: list[tuple[str, str]]


def write(
    folder: Path, out: Path, *, detail: int = DETAIL, note: Note = lambda _: None, place: str | None = None
) -> Page:
    """The page about ``folder``, written to the file ``out`` whole or not at all.

    ``note`` receives which of several runs is being drawn, a line each: a large U takes seconds. ``place`` stands
    where the page would name the folder, which may not stay there.
    """
    found = find_runs(folder)
    if out.is_dir():
        raise MetasymError(
            f"{out}: expected a file to write the page to, found a folder", about=str(out), found="a folder"
        )
    make_folder(out.parent)
    page = _render(found, detail, note, place)
    write_atomically(out, as_bytes(page.html), what="a page")
    return page


def render(folder: Path, *, detail: int = DETAIL) -> Page:
    """The page about the run in ``folder``, or the runs below it; the first ``detail`` are drawn."""
    return _render(find_runs(folder), detail, lambda _: None, None)


def _render(found: Runs, detail: int, note: Note, place: str | None) -> Page:
    faults, parts, rows = list(found.faults), [], []
    faults += [fault for run in found.runs for fault in broken_seals(run.folder)]
    alone = found.alone
    for index, run in enumerate(found.runs):
        anchor = f"run-{index + 1}" if index < detail else None
        if anchor is not None:
            if not alone:
                note(f"drawing {index + 1} of {min(detail, len(found.runs))}: {run.name}")
            try:
                parts.append(run_part(run, anchor, named=place is None, baseline=found.baseline(run)))
            except MetasymError as error:
                if alone:
                    raise
                anchor = None
                faults.append(" ".join(str(error).split()))
        rows.append(row(run, anchor, _found(run, parts[-1] if anchor else None)))
    script = files("metasym.report.page").joinpath("page.js").read_text(encoding="utf-8")
    style = files("metasym.report.page").joinpath("page.css").read_text(encoding="utf-8")
    scores = intervals_figure(found.runs)
    overview = [*([] if scores is None else [scores]), *compared_curves(found.runs)]
    html = template("page.html").render(
        title=place or (found.runs[0].title if alone else found.folder.resolve().name),
        discovered=found.discovered,
        alone=alone,
        folder=None if place else str(found.folder),
        rows=rows,
        show=_columns(rows),
        pooled=[] if alone else pooled(found.runs),
        overview=[] if alone else overview,
        glossary=GLOSSARY,
        parts=parts,
        faults=faults,
        counted=found.counted,
        told=[] if alone else told(parts, found),
        detail=detail,
        version=metasym.__version__,
        script=script,
        style=style,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return Page(html, len(found.runs) + len(found.discovered), len(parts), faults, found.counted)


def _found(run: Run, part: RunPart | None) -> str:
    """The symmetries of a run's layers in a few words, from the part that is drawn, or from what the run stored."""
    if part is not None:
        words = [layer.short for layer in part.layers if layer.short]
    else:
        try:
            words = [summary_words(layer) for layer in run.report or ()]
        except MetasymError:
            words = []
    alike = Counter(words)
    words = [word if count == 1 else f"{word} ({count} layers)" for word, count in alike.items()]
    return "; ".join(words[:3]) + ("; …" if len(words) > 3 else "") or "-"


def told(parts: Sequence[RunPart], found: Runs) -> list[tuple[str | None, str, str]]:
    """The first words about many runs: anchor, name and sentence of each that has a symmetry."""
    lines: list[tuple[str | None, str, str]] = []
    for part in parts:
        if part.lead and any(layer.found for layer in part.layers):
            # What was found, and last whether it pays.
            said = part.lead[:1] if len(part.lead) == 1 else [part.lead[0], part.lead[-1]]
            lines.append((part.anchor, part.name, " ".join(said)))
    lines += [("discovered", run.name, f"{run.verdict}.") for run in found.discovered]
    rest = max(0, len(lines) - _MOST_TOLD)
    return [*lines[:_MOST_TOLD], *([(None, "", f"{rest} more below.")] if rest else [])]


def run_part(run: Run, anchor: str, *, named: bool = True, baseline: Run | None = None) -> RunPart:
    """All that the page shows of one run, beside its baseline where it has one; ``named``: its folder too."""
    layers, reports, note = _learned(run)
    result = run.result
    return RunPart(
        anchor=anchor,
        name=run.name,
        title=run.title,
        state=run.state,
        finished=result is not None,
        headline="" if result is None else f"{result['metric']} {score_text(result)}",
        about="" if result is None else str(description(result)),
        scores=[] if result is None else _scores(run, result),
        lead=headline(run, baseline, reports),
        lower=result is not None and result["metric"] != "accuracy",
        methods=None
        if result is None
        else methods(result, None if baseline is None else baseline.result, reports),
        score_figure=None if result is None else tasks_figure(result),
        training=training_figures(run),
        step_sizes=_step_sizes(result),
        notes=training_notes(run),
        findings=_findings(run),
        training_remark=training_remark(run),
        layers=layers,
        layer_note=note,
        config=_config(run),
        origin=_origin(run, named),
    )


def _findings(run: Run) -> list[tuple[str, str]]:
    """What ``metasym learn`` noticed about the data before it trained: severity and sentence of each."""
    stored = run.config.get("findings")
    found = [one for one in stored if isinstance(one, dict)] if isinstance(stored, list) else []
    return [(str(one.get("severity", "note")), f"{one.get('sentence', '')}.") for one in found]


def _learned(run: Run) -> tuple[list[LayerPart], list[LayerReport], str]:
    if not run.has_checkpoint:
        return [], [], "There is no checkpoint here, so the page cannot show what was learned."
    found = learned(run)
    if not found:
        return [], [], "The checkpoint holds no weight of two or more dimensions."
    # Layers with a symmetry first: they are what the page is about.
    ordered = sorted(found, key=lambda layer: layer.symmetry is None and layer.columns is None)
    reports = inspected(found, run.report)
    names = _names(run)
    shown = [layer_part(layer, reports.get(layer.name), names) for layer in ordered[:_MOST_LAYERS]]
    told = [reports[layer.name] for layer in ordered if layer.name in reports]
    rest = len(ordered) - len(shown)
    return shown, told, f"{plural(rest, 'more layer')} not shown." if rest else ""


def _names(run: Run) -> Names:
    data = run.config.get("data")
    found = data if isinstance(data, dict) else {}
    inputs, outputs = (
        tuple(map(str, value)) if isinstance(value := found.get(key), list) else ()
        for key in ("input_names", "output_names")
    )
    return Names(inputs, outputs)


def _scores(run: Run, result: dict[str, Any]) -> list[tuple[str, str]]:
    line = row(run, None)
    found = [
        (f"{result['metric']}, mean with 95 % interval", line.score),
        ("median", line.median),
        ("diverged tasks", line.diverged),
    ]
    if line.paper != "-":
        found.append(("the paper's", line.paper))
    for key, what in (("target_mean_square", "0"), ("mean_prediction", "the mean")):
        if isinstance(result.get(key), float):
            found.append((f"error of predicting {what}", number(result[key])))
    found.append(("method", line.method))
    found.append(
        ("rounds over all tasks" if by_evidence(run) else "outer steps", f"{result['outer_steps']:,}")
    )
    rate = result.get("outer_steps_per_second")
    if isinstance(rate, int | float):
        found.append(("outer steps per second", number(rate)))
    return found


def _step_sizes(result: dict[str, Any] | None) -> list[tuple[str, str]]:
    """The learned step sizes, by what people would call the tensor, such as ``v of conv1``."""
    rows = []
    for name, size in ({} if result is None else result["inner_lrs"]).items():
        if size is None or isinstance(size, int | float):
            part, colon, tensor = name.partition(":")
            rows.append((short_name(tensor) if colon else part, number(size)))
    return rows


def _config(run: Run) -> list[tuple[str, str | None]]:
    """The configuration as rows; a row without a value heads those of a nested table."""
    rows: list[tuple[str, str | None]] = []

    def walk(values: dict[str, Any], name: str) -> None:
        nested = {key: value for key, value in values.items() if isinstance(value, dict) and value}
        rows.extend((str(key), _plain(value)) for key, value in values.items() if key not in nested)
        for key, value in nested.items():
            inner = f"{name}.{key}" if name else str(key)
            rows.append((inner, None))
            walk(value, inner)

    walk(run.config, "")
    return rows


def _plain(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(_plain(item) for item in value) or "none"
    return str(value)


def _origin(run: Run, named: bool) -> list[tuple[str, str]]:
    """Where the run comes from: command, seed, commit, versions, machine."""
    result = run.result or {}
    rows = [("folder", str(run.folder))] if named else []
    for key, label in (
        ("command", "command"),
        ("commit", "commit"),
        ("seed", "seed"),
        ("threads", "threads"),
    ):
        if result.get(key) is not None:
            rows.append((label, _plain(result[key])))
    for key, label, unit in (("seconds", "time", " s"), ("peak_memory_mb", "most memory", " MiB")):
        if isinstance(result.get(key), int | float):
            rows.append((label, f"{number(result[key])}{unit}"))
    versions = result.get("versions")
    if isinstance(versions, dict):
        rows += [(str(name), str(version)) for name, version in versions.items()]
    return rows


def _columns(rows: list[Row]) -> dict[str, bool]:
    """Which columns of the table have anything to show."""
    return {
        "symmetry": any(line.symmetry != "-" for line in rows),
        "paper": any(line.paper != "-" for line in rows),
        "recipe": any(line.recipe != "-" for line in rows),
        "state": any(not line.finished for line in rows),
        "experiment": any(line.experiment.rpartition("/")[2] not in line.name.split("/") for line in rows),
    }
