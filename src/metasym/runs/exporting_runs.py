"""``metasym export``: the deployable model of a run, compiled or not, and what it costs."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from metasym.fast_layers.compilation import StructurePlan
from metasym.fast_layers.deployment import structured as compiled_copy
from metasym.fast_layers.exporting import check_suffix, export
from metasym.inspection.layers import inspect
from metasym.inspection.projection import project
from metasym.learners import Learner
from metasym.learners.adaptable import with_parameters
from metasym.runs.discovering.discovered_run import DiscoveredRun
from metasym.runs.learning.learned_run import LearnedRun
from metasym.runs.open_runs import open_run
from metasym.runs.run import Run
from metasym.storage.plain_files import open_plain
from metasym.symmetry.reparam import symmetries
from metasym.tasks.npz import DAMAGED
from metasym.tasks.plain_facts import TABLES
from metasym.tasks.table_files import read_one_task
from metasym.types import Batch, MetasymError

_EXAMPLES, _SEED = 64, 0


@dataclass(frozen=True, eq=False)
class Exported:
    """What was written."""

    path: Path
    bytes: int
    plan: StructurePlan | None
    """What each layer became; None without ``structured``."""
    change: float | None
    """The largest relative change of a U that was projected; None without ``structured``."""
    difference: float | None
    """The largest difference of outputs on random inputs: compiled beside dense, both with the projected U."""
    scale: float
    """The largest output on them."""
    constant: bool
    """Whether all outputs on them are the same, as those of most models that are adapted to no task."""
    adapted: bool
    """Whether the model was adapted to a task, or is as it starts."""
    file_difference: float
    """The same between the file, loaded again, and the model; NaN where nothing is installed that can load it."""


def export_run(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    support: str | os.PathLike[str] | None = None,
    structured: bool = False,
    force: bool = False,
    batch: int = 32,
) -> Exported:
    """Write the model of the run in ``folder``, adapted to the task in the file ``support``, to ``out``.

    ``structured`` compiles layers for batches of ``batch`` examples; ``force`` projects also a U that has its
    symmetry only nearly.
    """
    path = Path(out)
    check_suffix(path)
    run = open_run(folder)
    if isinstance(run, DiscoveredRun):
        return _export_discovered(run, path, support, structured=structured)
    learner: Learner = run.learner
    plan, change = None, None
    if structured:
        if not symmetries(learner.model):
            raise MetasymError(
                f"{folder}: expected a run that learned a U for --structured, found one without: leave it out",
                about=f"{folder}: U",
            )
        before = {name: p.detach().clone() for name, p in learner.model.state_dict().items()}
        if force:
            project(learner.model, inspect(learner.model))
        fast = compiled_copy(learner, batch=batch, onnx=path.suffix == ".onnx")
        learner, plan = fast.learner, fast.plan
        change = _change(before, learner.model)
    task = None if support is None else _read_task(run, Path(support))
    try:
        batch_of_task = None if task is None else _batch(run, *task)
    except MetasymError as error:
        raise MetasymError(f"{support}: {error}", about=error.about, found=error.found) from None
    # A prior found by evidence is kept in float64; what is deployed takes float32, as adapted models do.
    dense = (
        with_parameters(learner.model, {}).float() if batch_of_task is None else learner.adapt(batch_of_task)
    )
    if plan is not None:  # of the numbers that are written, not of those that were learned with
        sizes = {
            name: m.weight.element_size() for name, m in dense.named_modules() if isinstance(m, nn.Linear)
        }
        plan = StructurePlan(tuple(replace(layer, element_size=sizes[layer.name]) for layer in plan.layers))
    compiled = dense if plan is None else plan.apply(dense)
    g = torch.Generator().manual_seed(_SEED)
    x = torch.randn(_EXAMPLES, *_input_shape(run), generator=g)
    model, plain = _deployed(run, compiled).eval(), _deployed(run, dense).eval()
    with torch.no_grad():
        expected = plain(x)
        difference = None if plan is None else float((model(x) - expected).abs().max())
    file_difference = export(model, x, path)
    size, scale, constant = path.stat().st_size, float(expected.abs().max()), _constant(expected)
    return Exported(path, size, plan, change, difference, scale, constant, task is not None, file_difference)


def _export_discovered(
    run: DiscoveredRun, path: Path, support: str | os.PathLike[str] | None, *, structured: bool
) -> Exported:
    """The model that ``discover`` fitted: of one function as it is, of a family adapted to the task ``support``."""
    if structured:
        raise MetasymError(
            f"{run.folder}: expected a run that learned a U for --structured, found one of metasym discover",
            about="--structured",
            found=run.kind,
        )
    if run.family and support is None:
        raise MetasymError(
            f"{run.folder}: expected --support TASK, because a family's model is adapted to a task, found none",
            about="--support",
            found=None,
        )
    if not run.family and support is not None:
        raise MetasymError(
            f"{run.folder}: expected --support only for a family of tasks, found a run of one function",
            about="--support",
            found=str(support),
        )
    model = run.adapt(*read_support(support)) if support is not None else run.model
    assert isinstance(model, nn.Module)
    front = 2 if run.family else 1
    shape = [int(size) for size in run.config["data"]["x"]["shape"][front:]]
    x = torch.randn(_EXAMPLES, *shape, generator=torch.Generator().manual_seed(_SEED))
    with torch.no_grad():
        given = model.eval()(x)
    difference, scale = export(model, x, path), float(given.abs().max())
    return Exported(path, path.stat().st_size, None, None, None, scale, _constant(given), True, difference)


def _read_task(run: Run, path: Path) -> tuple[Tensor, Tensor]:
    """One task's examples from an npz file, or from a table with the columns that the run learned from."""
    if path.suffix.lower() not in TABLES:
        return read_support(path)
    columns = run.columns if isinstance(run, LearnedRun) else None
    if columns is None:
        raise MetasymError(
            f"{path}: expected an npz file, because the run did not learn from a table, found {path.suffix}",
            about=str(path),
            found=path.suffix,
        )
    x, y, names = read_one_task(path, columns, labels=run.labels)
    if not run.labels:
        return torch.from_numpy(x).float(), torch.from_numpy(y).float()
    known = list(run.config["data"]["output_names"])
    unknown = [name for name in names if name not in known]
    if unknown:
        raise MetasymError(
            f"{path}: expected labels among {', '.join(known)}, found {unknown[0]}",
            about=f"{path}: labels",
            found=unknown[0],
        )
    return torch.from_numpy(x).float(), torch.tensor([known.index(name) for name in names])[
        torch.from_numpy(y)
    ]


def _batch(run: Run, x: Tensor, y: Tensor) -> Batch:
    return run.support(x, y) if isinstance(run, LearnedRun) else Batch(x, y)


def _deployed(run: Run, network: nn.Module) -> nn.Module:
    return run.deployed(network) if isinstance(run, LearnedRun) else network


def _input_shape(run: Run) -> tuple[int, ...]:
    """Of one example, as the exported model takes it."""
    if isinstance(run, LearnedRun):
        return tuple(int(size) for size in run.config["data"]["x"]["shape"][2:])
    shape: tuple[int, ...] = run.input_shape
    return shape


def read_support(path: str | os.PathLike[str]) -> tuple[Tensor, Tensor]:
    """The examples of one task, ``x [examples, ...]`` and ``y [examples, ...]``, from an npz file."""
    what = f"{os.fspath(path)}: expected an npz file with x [examples, ...] and y [examples, ...] of one task"
    try:
        with open_plain(path) as stream, np.load(stream, allow_pickle=False) as file:
            found = {name: file[name] for name in ("x", "y") if name in file}
    except OSError as error:
        raise MetasymError(
            f"{what}, found {error.strerror or 'another format'}", about=str(path), found=error.strerror
        ) from None
    except DAMAGED:
        raise MetasymError(f"{what}, found another format", about=str(path)) from None
    if len(found) < 2:
        raise MetasymError(
            f"{what}, found {', '.join(found) or 'neither'}", about=str(path), found=tuple(found)
        )
    for name, value in found.items():
        if value.dtype.kind not in "fiu" or value.ndim < 1:
            raise MetasymError(
                f"{what}, found {name} of {value.dtype} {list(value.shape)}",
                about=f"{path}: {name}",
                found=(str(value.dtype), tuple(value.shape)),
            )
    x, y = (torch.from_numpy(np.ascontiguousarray(found[name])) for name in ("x", "y"))
    return x.float(), y.float() if y.is_floating_point() else y.long()


def _constant(outputs: Tensor) -> bool:
    """Whether every example has the same output."""
    return bool((outputs == outputs[:1]).all())


def _change(before: dict[str, Tensor], model: nn.Module) -> float:
    """The largest relative change of a tensor of the model."""
    changes = [0.0]
    for name, value in model.state_dict().items():
        norm = float(torch.linalg.vector_norm(before[name].double()))
        gap = float(torch.linalg.vector_norm((value - before[name]).double()))
        if norm and math.isfinite(gap):
            changes.append(gap / norm)
    return max(changes)
