"""What ``ms.discover`` or ``metasym discover`` found, in the user's hands."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from metasym.argument_types import checked
from metasym.discovery.discovered import Discovered, Scores
from metasym.discovery.families.family_symmetries import FamilyModel
from metasym.report.discovered_page import write_discovered
from metasym.report.page.page import NAME
from metasym.report.plots import run_figure
from metasym.runs.discovering.discover_run import module_in, result_of
from metasym.runs.files.config_files import Kind, read_config
from metasym.runs.files.discover_files import read_model
from metasym.runs.files.result_files import read_result, write_result
from metasym.runs.run import Run
from metasym.storage.atomic import write_atomically
from metasym.storage.file_names import CONFIG, MODEL, RESULT
from metasym.storage.json_files import write_json
from metasym.storage.serialization import pack
from metasym.types import MetasymError, shortened
from metasym.verdicts.asked_groups import FunctionAnswer
from metasym.verdicts.discovery_verdict import DiscoveryVerdict


@dataclass(frozen=True, eq=False)
class DiscoveredRun(Run):
    """Symmetries of one function, or of the functions of a family, with the model to use."""

    found: Discovered
    function: Callable[[Any], Any] | None = None
    """The function that was called; None for data, and for a run that was opened."""

    kind: ClassVar[Kind] = "discover"

    def __repr__(self) -> str:
        return shortened(f"DiscoveredRun({self.verdict}; {self.folder or 'not saved'})")

    def plot(self) -> Any:
        """Draw the error on held-out data, with and without what is claimed, and return the matplotlib figure."""
        fitted = {"without symmetry": self.found.plain, "with the symmetry": self.found.symmetric}
        scores = {name: one.as_dict(self.metric) for name, one in fitted.items() if one is not None}
        bars = {name: (one["mean"], one["ci95"]) for name, one in scores.items()}
        return run_figure(None, bars, self.metric, self.name)

    @property
    def verdict(self) -> DiscoveryVerdict:
        """What is claimed, and what became of every other candidate; ``str`` of it is one line."""
        return self.found.verdict

    @property
    def answer(self) -> FunctionAnswer | None:
        """About the group that was asked about, ``group=``; ``str`` of it is one line. None where none was."""
        return self.found.answer

    @property
    def symmetries(self) -> list[dict[str, Any]]:
        """What is claimed, as in ``result.json``; empty where nothing is."""
        return self.found.symmetries

    @property
    def refused(self) -> list[dict[str, Any]]:
        """What was looked at and is not claimed, with the reason."""
        return self.found.refused

    @property
    def scores(self) -> Scores:
        """The error on held-out examples: with what is claimed built in, or else without."""
        return self.plain if self.found.symmetric is None else self.found.symmetric

    @property
    def plain(self) -> Scores:
        """The error of the model without symmetry."""
        if self.found.plain is None:
            raise self._missing("scores: nothing is fitted to a function that was called")
        return self.found.plain

    @property
    def symmetric(self) -> Scores | None:
        """The error with what is claimed built in; None where nothing is."""
        return self.found.symmetric

    @property
    def notes(self) -> list[str]:
        """What else is to be known."""
        return self.found.notes

    @property
    def metric(self) -> str:
        """``"mse"`` or ``"accuracy"``."""
        return self.found.metric

    @property
    def examples(self) -> int:
        """How many examples (of a family: tasks) were looked at."""
        return self.found.examples

    @property
    def held_out(self) -> int:
        """How many of them are held out from the search."""
        return self.found.held_out

    @property
    def family(self) -> bool:
        """Whether these are tasks of a family."""
        return self.found.family

    @property
    def labels(self) -> bool:
        """Whether targets are classes."""
        return self.found.metric == "accuracy"

    @property
    def model(self) -> nn.Module | FamilyModel | Callable[[Any], Any]:
        """Of data an ordinary module, ``x [points, ...]`` to y; of a family a model with ``adapt(x, y)``.

        Of a function that was called, the function itself.
        """
        if self.found.state is None:
            if self.function is None:
                raise self._missing("a model: nothing is fitted to a function that was called")
            return self.function
        return module_in(self.found.state, str(self.folder or MODEL))

    def adapt(self, x: Any, y: Any) -> nn.Module:
        """Of a family: an ordinary module for a new task."""
        model = self.model
        if not isinstance(model, FamilyModel):
            raise self._missing("tasks to adapt to: run.model(x) predicts")
        return model.adapt(x, y)

    def predict(self, *examples: Any, interval: float | None = None) -> Any:
        """``predict(x)`` of one function; ``predict(x_support, y_support, x_query)`` of a family's new task."""
        if interval is not None:
            raise self._missing("a posterior, which predictive intervals need")
        if self.family:
            return super().predict(*examples)
        (x,) = examples
        if self.function is not None:
            return self.function(x)
        with torch.no_grad():
            found = self.model(self.inputs(x))  # type: ignore[operator]
        found = found.argmax(-1) if self.labels else found
        return found if isinstance(x, torch.Tensor) else found.numpy()

    @checked
    def report(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Write the page about this run, one self-contained HTML file, and return its path."""
        if self.folder is not None:
            out = self.folder / NAME if path is None else Path(path)
            write_discovered(self.folder, out)
            return out
        if path is None:
            raise MetasymError(
                "expected a path for the page of a run that was not saved, found none", about="path"
            )
        with tempfile.TemporaryDirectory(prefix="metasym-") as scratch:
            self._write(Path(scratch) / "run")
            write_discovered(Path(scratch) / "run", Path(path))
        return Path(path)

    def _write(self, target: Path) -> None:
        if self.folder is not None:
            super()._write(target)
            return
        target.mkdir()
        write_json(target / CONFIG, self.config)
        name, typed = "discover/arrays", "ms.discover(x, y)"
        if self.found.state is None:
            name, typed = f"discover/{self.config['data']['path']}", "ms.discover(f, x)"
        else:
            write_atomically(target / MODEL, pack(self.found.state), what="a model")
        write_result(target, result_of(self.found, name, typed, self.config, 0.0))


def open_discovered(folder: Path) -> DiscoveredRun:
    """The finished run of ``metasym discover``, or a saved one of ``ms.discover``, in ``folder``."""
    config = read_config(folder, "discover")
    if not (folder / RESULT).exists():
        raise MetasymError(
            f"{folder}: expected a finished run with {RESULT}, found none: metasym discover --resume continues it",
            about=str(folder / RESULT),
        )
    result = read_result(folder / RESULT)
    state = None
    if result["plain"] is not None:
        state = read_model(folder / MODEL)
        module_in(state, str(folder / MODEL))  # reports tensors that do not fit each other
    found = Discovered(
        verdict=DiscoveryVerdict.from_json(result, result["held_out"] if result["family"] else None),
        plain=None if result["plain"] is None else _scores(result["plain"]),
        symmetric=None if result["symmetric"] is None else _scores(result["symmetric"]),
        state=state,
        metric="mse" if result["plain"] is None else result["plain"]["metric"],
        examples=result["examples"],
        held_out=result["held_out"],
        notes=result["notes"],
        answer=None if result.get("answer") is None else FunctionAnswer.from_json(result["answer"]),
        family=result["family"],
    )
    return DiscoveredRun(folder, config, found)


def _scores(stored: dict[str, Any]) -> Scores:
    mean, reach, relative = (
        float("nan") if stored[key] is None else stored[key] for key in ("mean", "ci95", "relative")
    )
    own = tuple(float("nan") if one is None else one for one in stored.get("by_output", ()))
    return Scores(1 - mean if stored["metric"] == "accuracy" else mean, reach, relative, own)
