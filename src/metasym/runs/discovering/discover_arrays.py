"""``ms.discover``: one door for data of a function, for data of a family of them, and for a function itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from metasym.discovery.callables.function_symmetries import discover_function_in, looked_at
from metasym.discovery.claim_thresholds import TOLERANCE
from metasym.discovery.families.family_symmetries import discover_family_in
from metasym.discovery.models.preprocessing import TEST
from metasym.discovery.one_function import discover_in
from metasym.discovery.search_settings import Note, forget
from metasym.runs.discovering.discover_options import DiscoverOptions
from metasym.runs.discovering.discover_run import config_of
from metasym.runs.discovering.discovered_run import DiscoveredRun
from metasym.runs.discovering.function_files import as_function, function_config
from metasym.runs.machine import threads_of_small_problems
from metasym.tasks.dataset import dataset, family, is_family
from metasym.types import MetasymError


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
    threads: int | None = None,
    centre: Any = None,
    matrix_output: bool = False,
    note: Note = lambda _: None,
) -> DiscoveredRun:
    """Symmetries of the function behind ``x [examples, ...]`` and ``y [examples, ...]``, or of a family of functions.

    Whole numbers ``y [examples]`` are labels. A part ``test`` of the examples takes no part in the search: symmetries
    are certified on it, and it is what the errors are of. A symmetry is named where the data allow no violation of
    more than ``tolerance`` of the variance that the moved inputs carry. ``threads`` are those of numpy and torch: one
    where nothing else is asked for, whatever the environment says. ``note`` is told what is being done. Of more
    than 10,000 examples a random sample by ``seed`` is looked at, and the result's notes say so.

    Arrays ``x [tasks, examples, ...]`` and ``y [tasks, examples, ...]`` are tasks of a family (``tasks`` says so
    where the shapes leave it open): finite symmetries that all of them have.

    ``discover(f, x)`` looks at a function itself. ``f`` maps a batch ``[points, ...]`` to ``[points, ...]``: a
    function of numpy or torch, a module, or the path of a ``.pt2`` or ``.onnx`` file. ``x`` is a sample of inputs, or
    a function ``x(count, generator)`` that draws them with numpy's generator; f gets tensors where x are tensors.
    Nothing is fitted: every claim is checked by calls at fresh points, with its ``defect``. ``centre [n]`` is the
    point that moves with signs keep (default: 0, or the mean of x where that is far from 0); ``matrix_output``: f
    gives matrices with ``f(g x) = g f(x) g^T``.
    """
    function = as_function(x)
    if function is not None:
        return _of_function(
            function,
            y,
            DiscoverOptions(seed, test, tolerance, continuous, finite),
            centre,
            matrix_output,
            note,
        )
    if centre is not None or matrix_output:
        raise MetasymError("expected centre and matrix_output together with a function, found data")
    options = DiscoverOptions(seed, test, tolerance, continuous, finite)
    together = is_family(np.asarray(x), np.asarray(y)) if tasks is None else tasks
    if together:
        tasks_of = family(x, y, seed=seed)
        with threads_of_small_problems(threads):
            found = discover_family_in(tasks_of, options, note=note, memory=forget)
        return DiscoveredRun(None, config_of(tasks_of, "arrays", options), found)
    data = dataset(x, y, labels=labels, seed=seed)
    with threads_of_small_problems(threads):
        found = discover_in(data, options, note=note)
    return DiscoveredRun(None, config_of(data, "arrays", options), found)


def _of_function(
    f: Callable[[Any], Any], x: Any, options: DiscoverOptions, centre: Any, matrix_output: bool, note: Note
) -> DiscoveredRun:
    called, draws = looked_at(f, x, options.seed)
    found = discover_function_in(
        called, draws, options, centre=centre, matrix_output=matrix_output, note=note
    )
    return DiscoveredRun(None, function_config(called, called.name, options), found, f)
