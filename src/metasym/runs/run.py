"""``ms.Run``: a run in the user's hands, whichever command or function has made it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from metasym.argument_types import checked
from metasym.report.page.cards import framed
from metasym.report.page.page import NAME, write
from metasym.report.plots import run_figure
from metasym.runs.files.config_files import Kind, kind_words
from metasym.storage.atomic import make_folder
from metasym.storage.file_names import METRICS
from metasym.training.metrics import read_records
from metasym.types import MetasymError, Score, Tasks, shortened


class MissingPartError(MetasymError, AttributeError):
    """A run of this kind does not have what was asked for."""


@dataclass(frozen=True, eq=False)
class Run:
    """A run: what was found, how well it does, and the model exactly as it was scored.

    >>> run = ms.learn(x, y)                        # or ms.discover(x, y), ms.open_run(folder)  # doctest: +SKIP
    >>> print(run)                                  # what was found, in words          # doctest: +SKIP
    >>> run.verdict, run.symmetry                   # as values                         # doctest: +SKIP
    >>> run.scores.mean, run.baseline.mean          # the test error, and MAML's        # doctest: +SKIP
    >>> network = run.adapt(x_new, y_new)           # an ordinary nn.Module             # doctest: +SKIP

    What a kind of run does not have raises one line that says so.
    """

    folder: Path | None
    """Where its files are; None for a run in memory that was not saved."""
    config: dict[str, Any]
    """``config.json``."""

    kind: ClassVar[Kind] = "train"
    _PARTS: ClassVar[dict[str, str]] = {
        "learner": "a learner",
        "model": "a model",
        "verdict": "a verdict",
        "verdicts": "verdicts",
        "symmetry": "a report on layers",
        "symmetries": "symmetries of a function",
        "function": "adapted networks that were asked about a group",
        "answer": "an answer: no group was given with group= or --group",
        "scores": "scores",
        "baseline": "a baseline",
        "curves": "learning curves",
        "columns": "columns of a table",
        "choices": "choices",
        "refused": "refused symmetries",
        "plain": "a plain model",
        "symmetric": "a symmetric model",
        "notes": "notes",
        "input_shape": "the shape of an input",
        "result": "a result",
    }

    def __getattr__(self, name: str) -> Any:
        if name in Run._PARTS:
            raise self._missing(Run._PARTS[name])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _missing(self, what: str) -> MissingPartError:
        place = f"{self.folder}: " if self.folder is not None else ""
        return MissingPartError(
            f"{place}expected a run with {what}, found one of {kind_words(self.kind)}, which has none",
            about=what,
            found=self.kind,
        )

    @property
    def name(self) -> str:
        """What the run is of."""
        found = self.config.get("experiment") or self.config.get("name")
        return str(found) if found else "a run" if self.folder is None else self.folder.name

    @property
    def curves(self) -> dict[str, list[Any]]:
        """The records of training by column: ``step``, ``outer_loss``, ``validation``, ..."""
        records = [] if self.folder is None else read_records(self.folder / METRICS).records
        if not records:
            raise self._missing("learning curves")
        names = ("step", "outer_loss", "inner_loss_before", "inner_loss_after", "gradient_norm", "validation")
        return {name: [record.get(name) for record in records] for name in names}

    def adapt(self, x: Any, y: Any) -> nn.Module:
        """An ordinary module, adapted to a new task from its examples ``x [examples, ...]`` and ``y``."""
        raise self._missing("a learner that adapts")

    def predict(self, x_support: Any, y_support: Any, x_query: Any, *, interval: float | None = None) -> Any:
        """What a new task's outputs are at ``x_query``, after adapting to its examples.

        Arrays give an array, tensors a tensor; of a data frame the columns that were learned from are taken. For
        labels the most likely class, ``[examples]``. ``interval=0.9`` gives ``(mean, lower, upper)`` with the bounds
        that an output is within in nine of ten cases, of runs that learned a posterior: one linear layer by evidence.
        """
        if interval is not None:
            raise self._missing("a posterior, which predictive intervals need")
        network = self.adapt(x_support, y_support)
        with torch.no_grad():
            found = network(self.inputs(x_query))
        if self.labels:
            found = found.argmax(-1)
        return found if isinstance(x_query, torch.Tensor) else found.numpy()

    def inputs(self, x: Any) -> torch.Tensor:
        """``x [examples, ...]`` of a task as the adapted module takes it."""
        return torch.as_tensor(x).to(torch.get_default_dtype())

    @property
    def labels(self) -> bool:
        """Whether targets are classes."""
        return False

    @property
    def test_seed(self) -> int:
        """Of the episodes of the test tasks."""
        return 0

    def test_tasks(self) -> Tasks:
        """The run's test tasks, their queries as they are: not augmented."""
        raise self._missing("test tasks")

    def score(self) -> Score:
        """The score of the model, as it is now, on the run's test tasks, with the same episodes every time."""
        raise self._missing("test tasks")

    @checked
    def report(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Write the page about this run, one self-contained HTML file, and return its path."""
        if self.folder is None:
            raise self._missing("a folder: use run.save(folder)")
        out = self.folder / NAME if path is None else Path(path)
        write(self.folder, out)
        return out

    def _repr_html_(self) -> str:
        with tempfile.TemporaryDirectory(prefix="metasym-") as scratch:
            return framed(self.report(Path(scratch) / NAME).read_text(encoding="utf-8"), self.name)

    def plot(self) -> Any:
        """Draw the learning curves and the scores of the test tasks, and return the matplotlib figure."""
        parts: dict[str, Any] = {}
        for part in ("curves", "scores", "baseline"):
            with contextlib.suppress(MissingPartError):
                parts[part] = getattr(self, part)
        scores = {"learned": parts.get("scores"), "baseline": parts.get("baseline")}
        found = {name: score for name, score in scores.items() if isinstance(score, Score)}
        metric = next((score.metric for score in found.values()), "")
        bars = {name: (score.mean, score.ci95) for name, score in found.items()}
        return run_figure(parts.get("curves"), bars, metric, self.name)

    def __repr__(self) -> str:
        return shortened(f"{type(self).__name__}({self.name!r}; {self.folder or 'not saved'})")

    def __str__(self) -> str:
        for part in ("symmetry", "verdict"):
            with contextlib.suppress(MissingPartError):
                return str(getattr(self, part))
        return repr(self)

    @checked
    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Put the run's files into a new or empty folder, which ``ms.open_run`` and the command line open."""
        target = Path(folder).resolve()
        if target.is_file() or (target.is_dir() and any(target.iterdir())):
            found = "a file" if target.is_file() else "one in use"
            raise MetasymError(
                f"{target}: expected a new or empty folder to save the run to, found {found}",
                about=str(target),
                found=found,
            )
        try:
            make_folder(target.parent)
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".metasym-") as scratch:
                whole = Path(scratch) / "run"
                self._write(whole)
                if not target.exists():
                    whole.replace(target)
                else:  # it may be the current folder, which has to stay the same one
                    for child in whole.iterdir():
                        child.replace(target / child.name)
        except OSError as error:
            raise MetasymError(
                f"{target}: expected a folder to write to, found {error.strerror}",
                about=str(target),
                found=error.strerror,
            ) from None
        return target

    def _write(self, target: Path) -> None:
        """Write all files into ``target``, which is not there yet."""
        assert self.folder is not None
        _copy(self.folder, target)


def _copy(source: Path, target: Path) -> None:
    """Copy files and folders; a link, which may lead out of a run from someone else, is refused."""
    target.mkdir()
    for path in sorted(source.iterdir()):
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            kind = "a symbolic link" if path.is_symlink() else "neither"
            raise MetasymError(
                f"{path}: expected a file or a folder of a run, found {kind}", about=str(path), found=kind
            )
        if path.is_dir():
            _copy(path, target / path.name)
        else:
            shutil.copyfile(path, target / path.name)
