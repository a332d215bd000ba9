"""The runs in a folder, read from their files; a file that cannot be read is a fault, named in one line."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metasym.report.page.html_words import number, plural
from metasym.runs.files.config_files import check_config, kind_of, read_config
from metasym.runs.files.result_files import read_result
from metasym.storage.atomic import read_bytes
from metasym.storage.file_names import BASELINE, CONFIG, CURRENT, FIND, MODEL, RESULT
from metasym.storage.serialization import CheckpointError, unpack
from metasym.training import metrics
from metasym.types import MetasymError
from metasym.verdicts.symmetry_report import SymmetryReport

FILES = (CONFIG, metrics.NAME, CURRENT, MODEL, RESULT)
"""A folder with one of these files is a run's folder."""
_COLUMNS = ("outer_loss", "inner_loss_before", "inner_loss_after", "gradient_norm", "validation")


@dataclass(frozen=True)
class Records:
    """``metrics.jsonl`` by column, each as long as ``steps``; a number that is not there or not finite is NaN."""

    steps: list[int] = field(default_factory=list)
    columns: dict[str, list[float]] = field(default_factory=dict)
    step_sizes: dict[str, list[float]] = field(default_factory=dict)
    skipped_tasks: int = 0
    torn: bool = False
    """Whether a half-written last line was left out: the run was killed, or is writing it now."""

    @property
    def not_finite(self) -> int:
        """How many outer losses are NaN or infinite."""
        return sum(not math.isfinite(value) for value in self.columns.get("outer_loss", []))


@dataclass(frozen=True)
class Run:
    """What the files of one run say."""

    folder: Path
    name: str
    """The folder as seen from the one that the page is about."""
    config: dict[str, Any]
    records: Records
    first_stage: Records
    """The records of a first stage that finds the filter's size; empty where there was none."""
    result: dict[str, Any] | None
    """None while the run is not finished."""
    has_checkpoint: bool

    @property
    def title(self) -> str:
        """The experiment's name, or the folder's where it has none."""
        found = (
            (self.result or {}).get("experiment") or self.config.get("name") or self.config.get("experiment")
        )
        return found if isinstance(found, str) and found else self.name

    @property
    def problem(self) -> str:
        """What was learned, whatever the method: the tasks' file, or the experiment without its method."""
        data = self.config.get("data")
        if isinstance(data, dict) and isinstance(data.get("path"), str):
            return str(data["path"])
        return self.title.rpartition("/")[0] or self.title

    @property
    def method(self) -> str:
        """The method, by whichever file names it."""
        learner = self.config.get("learner")
        described = learner.get("method") if isinstance(learner, dict) else None
        found = (self.result or {}).get("method") or self.config.get("method") or described
        return str(found) if found else "-"

    @property
    def recipe(self) -> dict[str, Any]:
        """The recipe's fields; empty where the config has none."""
        found = self.config.get("recipe")
        return found if isinstance(found, dict) else {}

    @property
    def planned_steps(self) -> int | None:
        """How many outer steps the run was to take, as far as its config says."""
        found = self.chosen("outer_steps")
        return found if isinstance(found, int) else None

    def chosen(self, name: str) -> Any:
        """A choice by its name: of a recipe, of ``metasym learn``, or of a plain training; None without it."""
        choices = self.config.get("choices")
        for place in (self.recipe, choices if isinstance(choices, dict) else {}, self.config):
            if place.get(name) is not None:
                return place[name]
        return None

    @property
    def report(self) -> SymmetryReport | None:
        """What an inspection said at the end of the run, where the run stored it."""
        stored = (self.result or {}).get("symmetry")
        if not isinstance(stored, dict):
            return None
        try:
            return SymmetryReport.from_json(stored, f"{self.folder / RESULT}: symmetry")
        except MetasymError as error:
            raise MetasymError(
                f"{self.folder / RESULT}: {error}", about=error.about, found=error.found
            ) from None

    @property
    def state(self) -> str:
        """Whether it is finished, and if not, how far it is."""
        if self.result is not None:
            return "finished"
        if not self.records.steps:
            return "unfinished, no step recorded"
        step, planned = self.records.steps[-1], self.planned_steps
        if planned:
            return f"unfinished, at step {step:,} of {planned:,}"
        return f"trained for {step:,} steps, not scored (run.add_score puts a score in)"


@dataclass(frozen=True)
class DiscoveredRun:
    """A run of ``metasym discover``, which has a page of its own: here its verdict and its errors."""

    name: str
    verdict: str
    plain: str
    symmetric: str
    """The error with the symmetry built in; ``-`` where none is claimed."""


@dataclass(frozen=True)
class Runs:
    """The runs that could be read, and a line for each that could not."""

    folder: Path
    runs: list[Run]
    faults: list[str]
    discovered: list[DiscoveredRun] = field(default_factory=list)

    def baseline(self, run: Run) -> Run | None:
        """The plain network that ``metasym learn`` trained beside the run, where it is there."""
        return next((other for other in self.runs if other.folder == run.folder / BASELINE), None)

    @property
    def counted(self) -> str:
        """How many runs there are, in words; a baseline is counted as one, not as a run."""
        baselines = sum(self.baseline(run) is not None for run in self.runs)
        runs = plural(len(self.runs) + len(self.discovered) - baselines, "run")
        if not baselines:
            return runs
        return (
            f"{runs} and its baseline" if runs == "1 run" else f"{runs} and {plural(baselines, 'baseline')}"
        )

    @property
    def alone(self) -> bool:
        """Whether the page is about one run, its baseline not counted."""
        if self.faults or self.discovered:
            return not self.runs and not self.discovered
        others = [run for run in self.runs if run.folder != self.folder / BASELINE]
        return len(others) == 1 and (len(self.runs) == 1 or others[0].folder == self.folder)


def find_runs(folder: Path) -> Runs:
    """The run in ``folder``, or all runs below it, in the order of their names.

    The files of a folder that is itself a run, and the only one, must be whole. Among many runs, those with
    damaged files are left out, and a line names each.
    """
    if not folder.is_dir():
        found = "a file" if folder.exists() else "none"
        raise MetasymError(
            f"{folder}: expected the folder of a run or of runs, found {found}",
            about=str(folder),
            found=found,
        )
    places = sorted(_places(folder))
    if not places:
        raise MetasymError(
            f"{folder}: expected a run ({', '.join(FILES)}) or a folder of runs, found none of these files",
            about=str(folder),
        )
    read = Runs(folder, [], [])
    for place in places:
        try:
            if is_discovered(place):
                read.discovered.append(_read_discovered(place, folder))
            else:
                read.runs.append(read_run(place, folder))
        except MetasymError as error:
            if len(places) == 1:
                raise
            read.faults.append(" ".join(str(error).split()))
    if not read.runs and not read.discovered:
        faults = read.faults
        raise MetasymError(
            f"{faults[0]} (and so on: none of {len(faults)} runs can be read)",
            about=str(folder),
            found=len(faults),
        )
    return read


def is_discovered(folder: Path) -> bool:
    """Whether the folder holds a run of ``metasym discover``."""
    return (folder / CONFIG).is_file() and kind_of(read_config(folder)) == "discover"


def _read_discovered(folder: Path, root: Path) -> DiscoveredRun:
    if not (folder / RESULT).exists():
        return DiscoveredRun(_name(folder, root), "unfinished", "-", "-")
    found = read_result(folder / RESULT)
    plain, symmetric = (
        "-" if part is None else f"{number(part['mean'])} ± {number(part['ci95'], 2)}"
        for part in (found["plain"], found["symmetric"])
    )
    return DiscoveredRun(_name(folder, root), found["verdict"]["words"], plain, symmetric)


def _name(folder: Path, root: Path) -> str:
    return str(folder.relative_to(root)) if folder != root else folder.resolve().name or str(folder)


def _places(folder: Path) -> Iterator[Path]:
    """Folders of runs, links included, each once; a run's first stage belongs to the run."""
    seen: set[Path] = set()
    for place, below, files in os.walk(folder, followlinks=True):
        real = Path(place).resolve()
        if real in seen:  # a link to where we have been: a circle, or a second name
            below.clear()
            continue
        seen.add(real)
        if any(name in files for name in FILES):
            yield Path(place)
            if FIND in below:
                below.remove(FIND)


def broken_seals(folder: Path) -> list[str]:
    """A line for each damaged file of a run among those that the page does not need.

    The model itself is read, and refused, when it is drawn.
    """
    drawn = folder / (MODEL if (folder / MODEL).exists() else CURRENT)
    found = []
    for path in sorted([*folder.glob("*.safetensors"), *(folder / FIND).glob("*.safetensors")]):
        if path != drawn:
            try:
                unpack(read_bytes(path), str(path))
            except CheckpointError as error:
                found.append(" ".join(str(error).split()))
    return found


def read_run(folder: Path, root: Path) -> Run:
    """All small files of one run; the checkpoint is read when it is drawn."""
    try:
        return _read_run(folder, root)
    except MetasymError:
        raise
    except OSError as error:
        raise MetasymError(
            f"{folder}: expected a run, found {error.strerror}", about=str(folder), found=error.strerror
        ) from None


def _read_run(folder: Path, root: Path) -> Run:
    config: dict[str, Any] = {}
    if (folder / CONFIG).exists():
        config = read_config(folder)
    result = read_result(folder / RESULT) if (folder / RESULT).exists() else None
    if result is not None and "symmetries" in result:
        raise MetasymError(
            f"{folder / CONFIG}: expected one of metasym discover, found another", about=str(folder / CONFIG)
        )
    if not config and result is not None and isinstance(result.get("config"), dict):
        config = result["config"]
        check_config(config, f"{folder / RESULT}: config")
    return Run(
        folder=folder,
        name=_name(folder, root),
        config=config,
        records=read_records(folder / metrics.NAME),
        first_stage=read_records(folder / FIND / metrics.NAME),
        result=result,
        has_checkpoint=(folder / CURRENT).exists() or (folder / MODEL).exists(),
    )


def read_records(path: Path) -> Records:
    """The records of a run; none where the file is missing. A torn last line is left out."""
    stored = metrics.read_records(path)
    steps: list[int] = []
    columns: dict[str, list[float]] = {name: [] for name in _COLUMNS}
    sizes: dict[str, list[float]] = {}
    for record in stored.records:
        for name, column in columns.items():
            column.append(_number(record.get(name)))
        for name, value in record.get("step_sizes", {}).items():
            sizes.setdefault(name, [math.nan] * len(steps)).append(_number(value))
        steps.append(record["step"])
        for column in sizes.values():
            column.extend([math.nan] * (len(steps) - len(column)))
    skipped = sum(record.get("skipped_tasks", 0) for record in stored.records)
    return Records(steps, columns, sizes, skipped, stored.torn)


def _number(value: Any) -> float:
    """A finite number, or NaN; JSON's ``NaN`` and ``Infinity``, which others may write, are not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    return float(value) if abs(value) < 1e300 else math.nan
