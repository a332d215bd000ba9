"""Tasks that are others again, number by number or nearly: they are no further tasks."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from metasym.diagnosis.findings import CAUTION, Finding
from metasym.diagnosis.samples import Ints
from metasym.tasks.task_file import TaskFile

_DIGITS = 6
_NEAR = 0.05
"""Tasks whose inputs and outputs both differ by less than this part of their size are one task, measured again."""
_APART = 0.5
"""If inputs of typical tasks differ by less than this part of their size, they are a design that all tasks share."""
_MOST, _NUMBERS = 2000, 2**25
"""Tasks that are compared with each other, and numbers of a file that are held for it."""
_SKETCH = 24
"""Random numbers that stand for the examples of a task, before the examples themselves are compared."""
_FEW = 100


def copied_tasks(file: TaskFile) -> Ints:
    """``[tasks]``: the first task of the file with the same numbers in x and y, to six digits of their scale."""
    seen: dict[bytes, int] = {}
    found = np.arange(file.tasks)
    scale = [max(float(np.abs(np.asarray(array[:_FEW])).max()), 1e-300) for array in (file.x, file.y)]
    for index in range(file.tasks):
        x, y = (
            np.round(v.astype(np.float64) / s, _DIGITS) + 0.0
            for v, s in zip(file.task(index), scale, strict=True)
        )
        found[index] = seen.setdefault(blake2b(x.tobytes() + y.tobytes(), digest_size=16).digest(), index)
    return found


def near_copies(file: TaskFile) -> Ints:
    """``[tasks]``: the first task with nearly the same examples, in whatever order; itself where there is none.

    Tasks that share one design of inputs are not compared: outputs alone may be near by chance.
    """
    found = np.arange(file.tasks)
    if file.classes or file.ragged or not 2 < file.tasks <= _MOST or file.x.size + file.y.size > _NUMBERS:
        return found
    x, y = (
        np.asarray(array, dtype=np.float64).reshape(file.tasks, file.examples, -1)
        for array in (file.x, file.y)
    )
    draw = np.random.default_rng(0)
    order = np.argsort(x @ draw.standard_normal(x.shape[2]), axis=1, kind="stable")
    flat, near = [], np.ones((file.tasks, file.tasks), dtype=bool)
    for number, values in enumerate((x, y)):
        sorted_ = np.take_along_axis(values, order[:, :, None], 1).reshape(file.tasks, -1)
        sorted_ /= float(np.sqrt((sorted_**2).mean())) or 1.0
        sketch = sorted_ @ (draw.standard_normal((sorted_.shape[1], _SKETCH)) / np.sqrt(sorted_.shape[1]))
        apart = cdist(sketch, sketch) / np.sqrt(_SKETCH)
        if number == 0 and np.median(apart[np.triu_indices(file.tasks, 1)]) < _APART:
            return found
        near &= apart < 3 * _NEAR  # a sketch's distances err by a third
        flat.append(sorted_)
    for later, first in np.argwhere(np.tril(near, -1)):
        if all(np.sqrt(((one[later] - one[first]) ** 2).mean()) < _NEAR for one in flat):
            found[later] = min(found[later], found[first])
    return found


def dependent_blocks(file: TaskFile) -> Ints:
    """``[tasks]``: a number for each task, equal for those of one block of the user's and for copies."""
    own = np.arange(file.tasks)
    labels = [copied_tasks(file), near_copies(file)]
    if file.blocks:
        _, first, inverse = np.unique(np.array(file.blocks), return_index=True, return_inverse=True)
        labels.append(first[inverse])
    rows, columns = np.concatenate([own] * len(labels)), np.concatenate(labels)
    graph = coo_matrix((np.ones(len(rows)), (rows, columns)), shape=(file.tasks, file.tasks))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def copies_among_tasks(file: TaskFile) -> tuple[list[Finding], tuple[int, ...]]:
    """A word where tasks are copies of others, or nearly: they are no further tasks; and which tasks these are."""
    exact = np.flatnonzero(copied_tasks(file) != np.arange(file.tasks)).tolist()
    near = sorted(set(np.flatnonzero(near_copies(file) != np.arange(file.tasks)).tolist()) - set(exact))
    found = []
    for kind, ids, how in (
        ("copied_tasks", exact, "exact copies of others"),
        ("near_copies", near, f"repeated measurements of others: x and y differ by less than {_NEAR:.0%}"),
    ):
        if not ids:
            continue
        shown = ", ".join(file.name_of_task(i).removeprefix("task ") for i in ids[:6])
        more = f" and {len(ids) - 6} more" if len(ids) > 6 else ""
        found.append(
            Finding(
                kind,
                CAUTION,
                f"{len(ids)} of {file.tasks} tasks are {how} (task{'s' if len(ids) > 1 else ''} {shown}{more}). A "
                "task and its copies count as one in certificates. Scores are too good where a test task has a copy "
                "in training; --blocks keeps tasks together that belong together",
                {"tasks": ids},
            )
        )
    return found, (*exact, *near)
