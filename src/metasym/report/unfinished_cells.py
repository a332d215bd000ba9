"""The cells of a table that have no result, with the steps an hour that were measured for them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from metasym.paper.catalogue import names
from metasym.storage.described import Count, Number
from metasym.storage.file_names import RATES
from metasym.storage.json_files import read_json


class Rate(TypedDict):
    """How fast a cell trains on one thread; hours are of processor time."""

    steps_an_hour: Number
    measured_steps: Count
    outer_steps: Count
    tasks_per_step: Count
    peak_memory_mb: Number
    commit: str


class RatesFile(TypedDict):
    """What ``studies/step_rates.py`` writes, one file for each recipe."""

    command: str
    recipe: str
    cells: dict[str, Rate]


@dataclass(frozen=True)
class UnfinishedCell:
    """A cell without a result."""

    name: str
    recipe: str
    outer_steps: int
    tasks_per_step: int
    steps_an_hour: float

    @property
    def hours(self) -> float:
        """Hours of training in all, at the measured rate."""
        return self.outer_steps / self.steps_an_hour


def load_unfinished(
    folder: Path,
    finished: Collection[tuple[str, str]],
    recipes: Sequence[str] | None = None,
    only: str | None = None,
) -> list[UnfinishedCell]:
    """The cells with a measured rate that are not among ``finished``, pairs of a name and a recipe."""
    wanted = None if only is None else set(names(only))
    found = []
    for path in sorted((folder / RATES).glob("*.json")):
        rates = read_json(path, "measured steps an hour", RatesFile)
        for name, rate in rates["cells"].items():
            left_out = bool(recipes and rates["recipe"] not in recipes) or (
                wanted is not None and name not in wanted
            )
            if not left_out and (name, rates["recipe"]) not in finished:
                found.append(
                    UnfinishedCell(
                        name,
                        rates["recipe"],
                        rate["outer_steps"],
                        rate["tasks_per_step"],
                        float(rate["steps_an_hour"]),
                    )
                )
    return found
