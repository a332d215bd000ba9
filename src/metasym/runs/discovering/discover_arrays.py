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
    """Find the symmetries of the function behind a data set, of a family of functions, or of a function that you
    can call.

    ``discover(x, y)`` fits a model to rows. Arrays ``x [tasks, examples, ...]`` and ``y [tasks, examples, ...]``
    are tasks of a
    family: finite symmetries that all of them have. ``discover(f, x)`` looks at a function itself: nothing is
        fitted, and
    every claim is checked by calls at fresh points.

    Args:
        x: Inputs ``[examples, ...]``; or ``f``, which maps a batch ``[points, ...]`` to ``[points, ...]``: a
            function of numpy or torch, a module, or the path of a ``.pt2`` or ``.onnx`` file.
        y: Outputs ``[examples, ...]``; whole numbers ``[examples]`` are labels. For a function ``f``: a sample of
            inputs, or a function ``y(count, generator)`` that draws them with numpy's generator. ``f`` gets
            tensors if they are tensors.
        tasks: Whether the arrays are tasks of a family, where their shapes leave it open.
        seed: Seed of everything drawn. Of more than 10,000 examples it chooses a random sample, and the result's
            notes say so.
        test: Fraction of the examples held out: symmetries are certified on it, and errors are measured on it.
        tolerance: Largest violation, as a fraction of the variance that the moved inputs carry, with which a
            symmetry is named.
        continuous: Whether to look for continuous symmetries.
        finite: Whether to look for finite ones.
        labels: Whether ``y`` are labels. Default: decided by their type.
        threads: Threads of numpy and torch. Default: one, whatever the environment says.
        centre: The point ``[n]`` that moves with signs keep, for a function. Default: 0, or the mean of the inputs
            where that is far from 0.
        matrix_output: Whether ``f`` gives matrices with ``f(g x) = g f(x) g^T``.
        note: Called with what is being done.

    Returns:
        A :class:`DiscoveredRun`: verdict, symmetries, errors and a model to predict with.
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
