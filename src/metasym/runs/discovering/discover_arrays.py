"""``ms.discover``: one door for a function and for a family of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from metasym.discovery.claim_thresholds import TOLERANCE
from metasym.discovery.families.family_symmetries import discover_family_in
from metasym.discovery.models.preprocessing import TEST
from metasym.discovery.one_function import discover_in
from metasym.discovery.search_settings import Note, forget
from metasym.runs.discovering.discover_options import DiscoverOptions
from metasym.runs.discovering.discover_run import config_of
from metasym.runs.discovering.discovered_run import DiscoveredRun
from metasym.tasks.dataset import dataset, family, is_family


def discover(
    x: Any,
    y: Any,
    *,
    tasks: bool | None = None,
    seed: int = 0,
    test: float = TEST,
    tolerance: float = TOLERANCE,
    continuous: bool = True,
    finite: bool = True,
    labels: bool | None = None,
    note: Note = lambda _: None,
) -> DiscoveredRun:
    """Symmetries of the function behind ``x [examples, ...]`` and ``y [examples, ...]``, or of a family of functions.

    Whole numbers ``y [examples]`` are labels. A part ``test`` of the examples takes no part in the search: symmetries
    are certified on it, and it is what the errors are of. A symmetry is named where the data allow no violation of
    more than ``tolerance`` of the variance that the moved inputs carry. ``note`` is told what is being done. Of more
    than 10,000 examples a random sample by ``seed`` is looked at, and the result's notes say so.

    Arrays ``x [tasks, examples, ...]`` and ``y [tasks, examples, ...]`` are tasks of a family (``tasks`` says so
    where the shapes leave it open): finite symmetries that all of them have.
    """
    options = DiscoverOptions(seed, test, tolerance, continuous, finite)
    together = is_family(np.asarray(x), np.asarray(y)) if tasks is None else tasks
    if together:
        tasks_of = family(x, y, seed=seed)
        found = discover_family_in(tasks_of, options, note=note, memory=forget)
        return DiscoveredRun(None, config_of(tasks_of, "arrays", options), found)
    data = dataset(x, y, labels=labels, seed=seed)
    found = discover_in(data, options, note=note)
    return DiscoveredRun(None, config_of(data, "arrays", options), found)
