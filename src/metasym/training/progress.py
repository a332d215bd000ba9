"""Showing a run: a bar on a terminal and in a notebook, plain lines in a pipe, curves in TensorBoard."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from metasym.types import MetasymError, Record

ProgressChoice = Literal["auto", "plain", "silent"]
_LINE_SECONDS = 5.0
_PATIENCE_SECONDS = 2.0
"""What is done within this time needs no progress."""
_DRAW_SECONDS = 0.1


class Display(Protocol):
    """Something that receives every Record of a run."""

    def show(self, record: Record) -> None:
        """Take notice of one step."""
        ...

    def close(self) -> None:
        """Finish: the run has ended, however it did."""
        ...


def displays(choice: ProgressChoice, *, total: int, done: int, tensorboard: Path | None) -> list[Display]:
    """What shows a run of ``total`` steps of which ``done`` are done; all text goes to standard error."""
    found: list[Display] = []
    if choice == "auto" and in_notebook():
        found.append(_NotebookSteps(total))
    elif choice == "plain" or (choice == "auto" and not sys.stderr.isatty()):
        found.append(_Lines(total))
    elif choice == "auto":
        found.append(_Bar(total, done))
    if tensorboard is not None:
        found.append(_TensorBoard(tensorboard, done))
    return found


def _summary(record: Record) -> str:
    text = f"loss {record.outer_loss:.4g}"
    return text if record.validation is None else f"{text}  validation {record.validation:.4g}"


class _Lines:
    """The first and the last step, every validation, and otherwise one line in five seconds."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._next = 0.0

    def show(self, record: Record) -> None:
        now = time.monotonic()
        if now < self._next and record.step != self._total and record.validation is None:
            return
        self._next = now + _LINE_SECONDS
        rate = record.steps_per_second
        left = timedelta(seconds=round((self._total - record.step) / rate)) if rate > 0 else "?"
        line = f"step {record.step}/{self._total}  {_summary(record)}  {rate:.1f} steps/s  {left} left\n"
        sys.stderr.write(line)
        sys.stderr.flush()

    def close(self) -> None:
        pass


class _Bar:
    """A bar with the rate and the time left, drawn at most ten times a second."""

    def __init__(self, total: int, done: int) -> None:
        self._bar = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]:.1f} steps/s"),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=Console(stderr=True),
            refresh_per_second=4,
        )
        self._task = self._bar.add_task("", total=total, completed=done, rate=0.0)
        self._total = total
        self._next = 0.0
        self._bar.start()

    def show(self, record: Record) -> None:
        now = time.monotonic()
        if now < self._next and record.step != self._total:
            return
        self._next = now + _DRAW_SECONDS
        self._bar.update(
            self._task, completed=record.step, description=_summary(record), rate=record.steps_per_second
        )

    def close(self) -> None:
        self._bar.stop()


def in_notebook() -> bool:
    """Whether this is a notebook's kernel: what goes to standard error is red there."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class NotebookBar:
    """A bar in the output of a notebook's cell, redrawn in place."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._handle: Any = None

    def draw(self, done: int, text: str) -> None:
        """``done`` of all are done."""
        from IPython.display import display  # a notebook has it

        bar = _HtmlBar(done, self._total, text)
        if self._handle is None:
            self._handle = display(bar, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(bar)


class _HtmlBar:
    """One state of a bar, for a page and for what shows text only."""

    def __init__(self, done: int, total: int, text: str) -> None:
        self._done, self._total, self._text = done, total, text

    def _repr_html_(self) -> str:
        return f'<progress value="{self._done}" max="{self._total}"></progress> {self}'

    def __repr__(self) -> str:
        return f"{self._done}/{self._total}  {self._text}"


class _NotebookSteps:
    """The steps of a training as a bar in a notebook, drawn at most ten times a second."""

    def __init__(self, total: int) -> None:
        self._bar, self._total, self._next = NotebookBar(total), total, 0.0

    def show(self, record: Record) -> None:
        now = time.monotonic()
        if now < self._next and record.step != self._total:
            return
        self._next = now + _DRAW_SECONDS
        rate = record.steps_per_second
        left = timedelta(seconds=round((self._total - record.step) / rate)) if rate > 0 else "?"
        self._bar.draw(record.step, f"{_summary(record)}  {rate:.1f} steps/s  {left} left")

    def close(self) -> None:
        pass


class Counter:
    """Lines that say how many of ``total`` are done, for what takes longer than two seconds; a bar in a notebook.

    Lines and no bar: on a terminal they stand above the bar of a training that scores meanwhile.
    """

    def __init__(self, choice: ProgressChoice, doing: str, total: int, unit: str) -> None:
        self._said, self._total, self._unit = choice != "silent", total, unit
        self._doing, self._began = doing, time.monotonic()
        self._next = self._began + _PATIENCE_SECONDS
        self._bar = NotebookBar(total) if choice == "auto" and in_notebook() else None

    def show(self, done: int) -> None:
        """Take notice that ``done`` are done."""
        now = time.monotonic()
        if not self._said or now < self._next or not 0 < done < self._total:
            return
        self._next = now + _LINE_SECONDS
        left = timedelta(seconds=round((now - self._began) / done * (self._total - done)))
        if self._bar is not None:
            self._bar.draw(done, f"{self._unit} {self._doing}  {left} left")
            return
        sys.stderr.write(f"{self._doing} {done}/{self._total} {self._unit}  {left} left\n")
        sys.stderr.flush()


class _TensorBoard:
    """Every number of every Record; what a killed run wrote after the checkpoint is hidden on resuming."""

    def __init__(self, folder: Path, done: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MetasymError(
                "expected the package tensorboard for Files(tensorboard=True), found none: pip install tensorboard",
                about="tensorboard",
            ) from None
        self._writer = SummaryWriter(str(folder), purge_step=done + 1)

    def show(self, record: Record) -> None:
        values = record.as_dict()
        step, sizes = values.pop("step"), values.pop("step_sizes")
        values.update({f"step_sizes/{name}": size for name, size in sizes.items()})
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()
