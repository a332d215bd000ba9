"""A run of ``metasym learn`` or ``ms.learn`` in the user's hands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from metasym.evidence.intervals import width_at
from metasym.fast_layers.deployment import StructuredLearner
from metasym.fast_layers.deployment import structured as compiled_copy
from metasym.learners.evidence_msr import EvidenceMSR
from metasym.runs.files.config_files import Kind, read_config
from metasym.runs.files.learn_files import columns_of
from metasym.runs.files.learn_options import Choices, Options
from metasym.runs.files.result_files import read_result, score_of
from metasym.runs.learning.automatic_choices import split
from metasym.runs.learning.chosen_learners import score
from metasym.runs.learning.loading import AnyLearned, load_scored
from metasym.runs.learning.predictive_intervals import Predicted
from metasym.runs.run import Run
from metasym.storage.file_names import BASELINE, CONFIG, RESULT
from metasym.tasks.frames import Frame, is_frame
from metasym.tasks.reading import read_tasks
from metasym.tasks.stored import Layout, StoredTasks
from metasym.tasks.task_file import Columns, Reading, TaskFile
from metasym.types import Batch, MetasymError, Score, shortened
from metasym.verdicts.discovery_verdict import DiscoveryVerdict
from metasym.verdicts.function_reports import AdaptedFunctions
from metasym.verdicts.layer_words import summary_words
from metasym.verdicts.reports import GroupAnswer
from metasym.verdicts.symmetry_report import SymmetryReport
from metasym.verdicts.verdict import Status, Verdict


class Deployed(nn.Module):
    """An adapted network on examples as the user has them: ``x [examples, ...]`` in, predictions out.

    Scales and shapes x for the network and its outputs back. Takes arrays and frames too, ``names`` being the
    columns that the run learned from.
    """

    def __init__(
        self,
        network: nn.Module,
        layout: Layout,
        x_shape: tuple[int, ...],
        y_shape: tuple[int, ...],
        *,
        labels: bool,
        names: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self.names = names
        self.network = network
        self.example_shape = x_shape
        self.input_shape = layout.input_shape
        self.output_shape = None if labels else y_shape
        for name, offset, columns, scale in (
            ("x", layout.x_offset, layout.x_columns, layout.x_scale),
            ("y", layout.y_offset, layout.y_columns, layout.y_scale),
        ):  # whole tensors, so that an export carries them
            self.register_buffer(f"{name}_offset", torch.tensor(offset or (0.0,)))
            self.register_buffer(f"{name}_scale", torch.tensor(columns or (1.0,)) * scale)

    x_offset: Tensor
    y_offset: Tensor
    x_scale: Tensor
    y_scale: Tensor

    def forward(self, x: Any) -> Tensor:
        """``x [examples, ...]`` as in the file; ``[examples, ...]`` as y there, or a score for each class."""
        if not isinstance(x, Tensor):
            x = _tensor(_by_name(x, "x", self.names))
        # Without this, numbers of one example would be read as those of several, or the other way round.
        if x.ndim < 1 or tuple(x.shape[1:]) != self.example_shape:
            wanted = ", ".join(["examples", *map(str, self.example_shape)])
            raise MetasymError(
                f"expected x [{wanted}], found {list(x.shape)}", about="x", found=tuple(x.shape)
            )
        x = x.to(self.x_scale.dtype)  # NumPy's float64 too; nothing where the type is right, exports included
        inputs = (x.flatten(1) if x.ndim > 1 else x[:, None]) - self.x_offset
        found: Tensor = self.network((inputs / self.x_scale).reshape(-1, *self.input_shape))
        if self.output_shape is None:
            return found
        return (found.flatten(1) * self.y_scale + self.y_offset).reshape(-1, *self.output_shape)


@dataclass(frozen=True, eq=False)
class LearnedRun(Run):
    """What ``ms.learn`` or ``metasym learn`` learned: a network that adapts to new tasks."""

    learner: AnyLearned
    """The learner exactly as it was scored; it sees examples shaped and scaled by ``choices.layout``."""
    choices: Choices
    result: dict[str, Any]
    """``result.json``."""
    tasks: TaskFile | None = None
    """The tasks that it learned from, where they are at hand; else they are read from their file."""
    _structured: dict[int, StructuredLearner] = field(default_factory=dict, repr=False)
    """By size of the batches that it was compiled for."""

    kind: ClassVar[Kind] = "learn"

    def __repr__(self) -> str:
        found = (
            ", ".join(summary_words(layer) for layer in self.symmetry)
            if "symmetry" in self.result
            else "maml"
        )
        plain = self._baseline_result()
        beside = "" if plain is None else f", baseline {score_of(plain).mean:.4g}"
        return shortened(f"Run({found}; {self.scores.metric} {self.scores.mean:.4g}{beside}; {self.folder})")

    @property
    def symmetry(self) -> SymmetryReport:
        """What was found in each layer: groups with their bounds, ladders, patterns."""
        if "symmetry" not in self.result:
            raise self._missing("a symmetry: it is a baseline's")
        return SymmetryReport.from_json(self.result["symmetry"], f"{self.folder}: symmetry")

    @property
    def answer(self) -> GroupAnswer:
        """What the tasks say about the group that ``ms.learn(..., group=)`` or ``--group`` asked about."""
        for layer in self.symmetry:
            if layer.answer is not None:
                return layer.answer
        raise self._missing(self._PARTS["answer"])

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What is known about each layer's symmetry."""
        return tuple(layer.verdict for layer in self.symmetry)

    @property
    def verdict(self) -> Verdict:
        """What is known about the symmetry that the tasks share.

        Of a deep network it is that of functions fitted to the tasks; else, of several layers, the one that says
        most.
        """
        if "tasks_share" in self.result:
            return DiscoveryVerdict.from_json(self.result["tasks_share"], self.choices.test_tasks)
        order = list(Status)
        return min(self.verdicts, key=lambda found: order.index(found.status))

    def __str__(self) -> str:
        return str(self.verdict) if "tasks_share" in self.result else super().__str__()

    @property
    def function(self) -> AdaptedFunctions:
        """How far the networks adapted to the test tasks are from what the tasks share: of a deep network."""
        if "function" not in self.result:
            raise self._missing("adapted networks tested for a group: use ms.check_equivariance")
        return AdaptedFunctions.from_json(self.result["function"])

    @property
    def scores(self) -> Score:
        """On the test tasks, from ``choices.support`` examples each, in the units of y."""
        return score_of(self.result)

    @property
    def baseline(self) -> Score | None:
        """The same of MAML on the plain network; None where it was not trained."""
        plain = self._baseline_result()
        return None if plain is None else score_of(plain)

    def _baseline_result(self) -> dict[str, Any] | None:
        assert self.folder is not None
        path = self.folder / BASELINE / RESULT
        return read_result(path) if path.exists() else None

    @property
    def labels(self) -> bool:
        """Whether targets are classes."""
        return bool(self.config["data"]["classes"])

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one example, as the learner sees it."""
        return self.choices.layout.input_shape

    @property
    def test_seed(self) -> int:
        """Of the episodes of the test tasks."""
        return self.choices.seed

    @property
    def model(self) -> nn.Module:
        """The network, with the U that was learned; for ``ms.inspect``, ``ms.save_symmetry``, ``ms.project``."""
        return self.learner.model

    @property
    def columns(self) -> Columns | None:
        """The columns of the table that the run learned from: ``task``, ``inputs`` and ``outputs``, by name.

        The numbers of x are those of ``columns.inputs`` in this order, the numbers of y those of ``columns.outputs``
        (one column of labels). None where the run learned from arrays.
        """
        return columns_of(self.config["data"])

    def adapt(self, x: Any, y: Any, *, structured: bool = False, batch: int = 32) -> nn.Module:
        """An ordinary ``nn.Module`` adapted to a new task from its examples.

        ``x [examples, ...]`` and ``y [examples, ...]``, tensors or arrays, are as one task's in the file; of a data
        frame (pandas), the columns that the run learned from are taken by name. The module takes such x,
        and predicts such y, as a tensor (for labels: a score for each class, ``[examples, classes]``).
        ``structured``: with U projected on the symmetry that was found in it, and layers compiled to use it
        where that pays for ``batch`` examples at once.
        """
        support = self.support(x, y)
        if not structured:
            return self.deployed(self.learner.adapt(support))
        if batch not in self._structured:
            self._structured[batch] = compiled_copy(self.learner, batch=batch)
        return self.deployed(self._structured[batch].adapt(support))

    def predict(self, x_support: Any, y_support: Any, x_query: Any, *, interval: float | None = None) -> Any:
        """As :meth:`Run.predict`; ``interval=0.9`` gives ``Predicted(mean, lower, upper)``.

        The posterior of the tasks' weights says how uncertain each prediction is; errors on the run's validation and
        test tasks, how many standard deviations an interval needs.
        """
        if interval is None:
            return super().predict(x_support, y_support, x_query)
        if not isinstance(interval, int | float) or not 0 < interval < 1:
            raise MetasymError(
                f"expected interval between 0 and 1, found {interval!r}", about="interval", found=interval
            )
        if not isinstance(self.learner, EvidenceMSR):
            return super().predict(x_support, y_support, x_query, interval=interval)
        support, layout = self.support(x_support, y_support), self.choices.layout
        asked = self.inputs(x_query)
        seen = torch.from_numpy(layout.inputs(asked.reshape(len(asked), -1).cpu().numpy())).float()
        batch = Batch(support.x.flatten(1)[None], support.y.flatten(1)[None])
        mean, variance = self.learner.predictive(batch, seen[None])
        stored = self.result.get("intervals", {"by_support": {}})["by_support"]
        width = width_at({int(count): one for count, one in stored.items()}, interval, len(support.x))
        scale = torch.tensor(layout.y_columns or (1.0,), dtype=torch.float64) * layout.y_scale
        offset = torch.tensor(layout.y_offset or (0.0,), dtype=torch.float64)
        shape = (len(asked), *self.config["data"]["y"]["shape"][2:])
        middle, reach = mean[0] * scale + offset, width * variance[0].sqrt() * scale
        found = [one.reshape(shape).to(asked.dtype) for one in (middle, middle - reach, middle + reach)]
        return Predicted(*(found if isinstance(x_query, Tensor) else [one.numpy() for one in found]))

    def inputs(self, x: Any) -> Tensor:
        """``x [examples, ...]`` of a task, tensors, arrays or a frame, as the adapted module takes it."""
        if is_frame(x) and (columns := self.columns) is not None:
            x = _by_name(x, "x", columns.inputs)
        found = _tensor(x)
        _check("x", found, tuple(self.config["data"]["x"]["shape"][2:]), least=0)
        return found.to(torch.get_default_dtype())

    def support(self, x: Any, y: Any) -> Batch:
        """The examples of one task as the learner sees them: checked, shaped and scaled."""
        layout, classes = self.choices.layout, int(self.config["data"]["classes"])
        x_shape, y_shape = (tuple(self.config["data"][name]["shape"][2:]) for name in ("x", "y"))
        if (is_frame(x) or is_frame(y)) and (columns := self.columns) is not None:
            x, y = _by_name(x, "x", columns.inputs), _by_name(y, "y", columns.outputs)
        inputs, targets = _tensor(x), _tensor(y)
        _check("x", inputs, x_shape)
        _check("y", targets, y_shape)
        if len(inputs) != len(targets):
            raise MetasymError(
                f"expected as many y as x, found {len(targets)} and {len(inputs)}",
                about="y",
                found=len(targets),
            )
        seen = torch.from_numpy(layout.inputs(inputs.reshape(len(inputs), -1).cpu().numpy()))
        seen = seen.float().reshape(len(inputs), *layout.input_shape)
        if classes:
            targets = targets.long()
        else:
            flat = torch.from_numpy(layout.targets(targets.reshape(len(targets), -1).cpu().numpy()))
            targets = flat.float().reshape(len(targets), *layout.output_shape)
        return Batch(seen, targets)

    def deployed(self, network: nn.Module) -> nn.Module:
        """A network of the learner's on examples as they are in the file."""
        layout, classes = self.choices.layout, int(self.config["data"]["classes"])
        x_shape, y_shape = (tuple(self.config["data"][name]["shape"][2:]) for name in ("x", "y"))
        names = () if self.columns is None else self.columns.inputs
        return Deployed(network, layout, x_shape, y_shape, labels=bool(classes), names=names).eval()

    def test_tasks(self) -> StoredTasks:
        """The tasks that the run was tested on, as they are in the file now: it has to be the same."""
        file = self.tasks
        if file is None:
            file = read_tasks(self.config["data"]["path"], Reading(**self.config["data"].get("reading", {})))
        found = file.describe()
        for name in ("x", "y"):
            if found[name] != self.config["data"][name]:
                raise MetasymError(
                    f"{file.path}: expected the run's own {name}, {self.config['data'][name]}, found {found[name]}",
                    about=f"{file.path}: {name}",
                    found=found[name],
                )
        choices = self.choices
        parts = Options(
            seed=choices.seed,
            validation=choices.validation_tasks / file.tasks,
            test=choices.test_tasks / file.tasks,
        )
        return StoredTasks(file, split(file, parts)[2], support=choices.support, layout=choices.layout)

    def score(self) -> Score:
        """The score on the run's test tasks."""
        if self.config["data"]["classes"]:
            return score(self.choices, self.learner, self.test_tasks(), "accuracy", "auto")
        found = score(self.choices, self.learner, self.test_tasks(), "mse", "auto")
        return in_units(found, self.choices.layout.y_scale**2)


def in_units(value: Score, unit: float) -> Score:
    """A score of scaled data in the data's own units."""
    return Score(
        per_task=tuple(v * unit for v in value.per_task),
        mean=value.mean * unit,
        ci95=value.ci95 * unit,
        median=value.median * unit,
        metric=value.metric,
        diverged=value.diverged,
    )


def open_learned(
    folder: Path, model: Callable[[], nn.Module] | None = None, *, tasks: TaskFile | None = None
) -> LearnedRun:
    """The run of ``metasym learn`` in ``folder`` (``folder/maml`` is its baseline). Executes no code from it.

    ``model`` is the function that makes the network, for a run with a network of the user's own. ``tasks`` are
    those that it learned from, where they are not in a file.
    """
    config = read_config(folder, "learn")
    if not (folder / RESULT).exists():
        raise MetasymError(
            f"{folder}: expected a finished run with {RESULT}, found none: metasym learn --resume continues it",
            about=str(folder / RESULT),
        )
    choices = Choices.from_dict(config["choices"], str(folder / CONFIG))
    learner = load_scored(folder, config, choices, model)
    return LearnedRun(folder, config, learner, choices, read_result(folder / RESULT), tasks)


def _check(name: str, value: Tensor, shape: tuple[int, ...], least: int = 1) -> None:
    """Refuse examples of another shape than one task's in the file, and numbers that are not finite."""
    if value.ndim < 1 or tuple(value.shape[1:]) != shape or len(value) < least:
        wanted = ", ".join([f"examples >= {least}", *map(str, shape)])
        raise MetasymError(
            f"expected {name} of one task, [{wanted}], found {list(value.shape)}",
            about=name,
            found=tuple(value.shape),
        )
    if not bool(value.isfinite().all()):
        raise MetasymError(
            f"expected {name} of finite numbers, found NaN or infinity", about=name, found="NaN or infinity"
        )


def _by_name(value: Any, what: str, names: tuple[str, ...]) -> Any:
    """The columns of a data frame that the run learned from, in its order; anything without such names as it is."""
    found = set(Frame(value).names) if is_frame(value) else set()
    if not found.intersection(names):
        return value
    for name in names:
        if name not in found:
            raise MetasymError(
                f"expected {what} with the columns that the run learned from, found no {name!r}",
                about=f"{what}: {name}",
            )
    return np.stack(list(Frame(value).read([], list(names))[1].values()), axis=1)


def _tensor(value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach()
    try:
        found = np.asarray(value)
        return torch.as_tensor(
            found if found.flags.writeable else found.copy()
        )  # a frame's are often read-only
    except (TypeError, ValueError) as error:
        raise MetasymError(
            f"expected numbers, found {type(value).__name__}: {error}",
            about="numbers",
            found=type(value).__name__,
        ) from None
