"""``ms.discover``: one door for data of a function, for data of a family of them, and for a function itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from metasym.argument_types import checked
from metasym.discovery.callables.function_symmetries import discover_function_in, looked_at
from metasym.discovery.claim_thresholds import SPLIT, TOLERANCE
from metasym.discovery.families.family_symmetries import discover_family_in
from metasym.discovery.one_function import discover_in
from metasym.discovery.search_settings import Note, forget
from metasym.inspection.given_groups import GivenGroup, given_group
from metasym.runs.discovering.discover_options import DiscoverOptions
from metasym.runs.discovering.discover_run import asked_of, config_of, refuse_group
from metasym.runs.discovering.discovered_run import DiscoveredRun
from metasym.runs.discovering.function_files import as_function, function_config
from metasym.runs.machine import threads_of_small_problems
from metasym.tasks.dataset import dataset, family, is_family
from metasym.tasks.frames import names_in
from metasym.types import MetasymError


@checked
def discover(
    x: Any,
    y: Any,
    *,
    tasks: bool | None = None,
    seed: int = 0,
    test: float = SPLIT.held_out,
    tolerance: float = TOLERANCE,
    continuous: bool = True,
    finite: bool = True,
    labels: bool | None = None,
    group: GivenGroup | None = None,
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
        x: Inputs ``[examples, ...]``, an array or a frame, whose columns name them; or ``f``, which maps a batch
            ``[points, ...]`` to ``[points, ...]``: a function of numpy or torch, a module, or the path of a ``.pt2``
            or ``.onnx`` file.
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
        group: A group that the function behind rows may have: a name as ``metasym inspect --group`` takes
            (``"dihedral"``), a :class:`~metasym.groups.Group`, or elements. ``run.answer`` says yes, no or how
            nearly, with the bound and what breaks it.
        threads: Threads of numpy and torch. Default: one, whatever the environment says.
        centre: The point ``[n]`` that moves with signs keep, for a function. Default: 0, or the mean of the inputs
            where that is far from 0.
        matrix_output: Whether ``f`` gives matrices with ``f(g x) = g f(x) g^T``.
        note: Called with what is being done.

    Returns:
        A :class:`DiscoveredRun`: verdict, symmetries, errors and a model to predict with.

    Example:
        >>> import numpy as np, metasym as ms
        >>> x = np.random.default_rng(0).normal(size=(300, 3))
        >>> found = ms.discover(lambda x: (x**2).sum(1), x, continuous=False)
        >>> print(found.verdict.status, found.verdict.claims[0].name)
        certified S_4 x Z_2
    """
    function = as_function(x)
    if function is not None:
        if group is not None:
            raise MetasymError(
                "expected group= together with data, found a function: ms.check_equivariance(f, x, group) calls it",
                about="group",
                found="a function",
            )
        return _of_function(
            function,
            y,
            DiscoverOptions(seed, test, tolerance, continuous, finite),
            centre,
            matrix_output,
            note,
        )
    if centre is not None or matrix_output:
        raise MetasymError(
            "expected centre and matrix_output together with a function, found data",
            about="centre, matrix_output",
            found="data",
        )
    text = group if isinstance(group, str) or group is None else given_group(group)[0]
    options = DiscoverOptions(seed, test, tolerance, continuous, finite, text)
    together = is_family(np.asarray(x), np.asarray(y)) if tasks is None else tasks
    if together:
        refuse_group(group)
        tasks_of = family(x, y, seed=seed)
        with threads_of_small_problems(threads):
            found = discover_family_in(tasks_of, options, note=note, memory=forget)
        return DiscoveredRun(None, config_of(tasks_of, "arrays", options), found)
    data = dataset(x, y, labels=labels, seed=seed, names=names_in(x), outputs=names_in(y))
    with threads_of_small_problems(threads):
        found = discover_in(data, options, note=note, asked=asked_of(data, group))
    return DiscoveredRun(None, config_of(data, "arrays", options), found)


def _of_function(
    f: Callable[[Any], Any], x: Any, options: DiscoverOptions, centre: Any, matrix_output: bool, note: Note
) -> DiscoveredRun:
    called, draws = looked_at(f, x, options.seed)
    found = discover_function_in(
        called, draws, options, centre=centre, matrix_output=matrix_output, note=note
    )
    named = {"input_names": list(draws.names)} if draws.names else {}
    return DiscoveredRun(None, function_config(called, called.name, options, **named), found, f)
