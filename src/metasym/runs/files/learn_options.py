"""What a user may ask of ``metasym learn``, and what was chosen."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from metasym.storage.described import described
from metasym.storage.options import LARGEST_SEED, MOST, check_options, option
from metasym.tasks.stored import Layout
from metasym.types import MetasymError
from metasym.verdicts.reports import AskedGroup

MODELS = ("fc", "mlp", "conv1d", "conv2d")
_LARGEST_VALUES = {
    "inner_steps": 10_000,
    "kernel_size": 1024,
    "hidden": 10**5,
    "outer_lr": 1e6,
    "seed": LARGEST_SEED,
}
"""The largest values of choices, ``MOST`` of others. What is beyond is a slip, or was not written by a run."""


@dataclass(frozen=True)
class Options:
    """The user's wishes; None is automatic."""

    model: str | None = option(
        None, f"{', '.join(MODELS)}, or package.module:function that returns an nn.Module"
    )
    hidden: int | None = option(
        None,
        "width of the hidden layer of mlp, channels of a conv network",
        least=1,
        most=_LARGEST_VALUES["hidden"],
    )
    kernel_size: int | None = option(
        None, "width of the kernels of conv1d and conv2d", least=1, most=_LARGEST_VALUES["kernel_size"]
    )
    bias: bool | None = option(None, "biases, adapted to each task, in the network")
    symmetry: str | None = option(None, "how U is stored", choices=("dense", "kronecker"))
    filter_size: int | None = option(None, "filter entries k of a dense U", least=1)
    support: int | None = option(None, "support examples of a new task, as scored", least=1)
    train_support: int | None = option(None, "support examples of an episode in training", least=1)
    validation: float | None = option(None, "fraction of the tasks used to decide when to stop", least=0)
    test: float | None = option(None, "fraction of the tasks held out for the scores", least=0)
    solver: str | None = option(None, "how a network adapts to a task", choices=("evidence", "ridge", "sgd"))
    penalty: float | None = option(None, "penalty of ridge", least=0)
    inner_steps: int | None = option(None, "steps of sgd", least=1, most=_LARGEST_VALUES["inner_steps"])
    inner_lr: float | None = option(None, "initial step sizes of sgd", least=0)
    find_steps: int | None = option(None, "outer steps that find how few filter entries are needed", least=0)
    outer_steps: int | None = option(None, "largest number of outer steps (of the last stage)", least=1)
    outer_lr: float | None = option(None, "learning rate of the outer steps", least=0)
    tasks_per_step: int | None = option(None, "tasks in one outer step", least=1)
    patience: int | None = option(
        None, "number of validations without a better score before training stops", least=1
    )
    scale: str | None = option(None, "none: do not rescale x and y", choices=("none",))
    outliers: str | None = option(
        None, "keep: also train on tasks that are far larger than all others", choices=("keep",)
    )
    tolerance: float | None = option(
        None,
        "defect |W - gW| / |W| up to which a symmetry that the tasks do not refute is named (default 0.2)",
        least=0,
    )
    group: str | None = option(
        None,
        "also test whether the tasks have this group: shifts, dihedral, permutations, FILE.json, ... as metasym "
        "inspect --group takes",
    )
    baseline: bool = option(True, "also train MAML on the plain network, for comparison")
    max_minutes: float | None = option(
        None,
        "stop training after this many minutes in all, with the best result so far",
        least=0.01,
    )
    seed: int = option(0, "seed of the split, the start and the episodes", least=0, most=LARGEST_SEED)
    device: str = option("cpu", "cpu or cuda")
    threads: int | None = option(
        None, "threads of torch (default: one for small networks, else torch's choice)", least=1
    )

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class Choices:
    """Everything that defines a run; with the data, equal choices give an equal run."""

    model: str
    single_layer: bool
    hidden: int
    kernel_size: int
    padding: int
    bias: bool
    symmetry: str | None
    filter_size: int | None
    support: int
    train_support: int
    train_tasks: int
    validation_tasks: int
    test_tasks: int
    solver: str
    penalty: float | None
    """None: the best of some on the validation tasks."""
    inner_steps: int
    inner_lr: float
    find_steps: int
    outer_steps: int
    outer_lr: float
    tasks_per_step: int
    validate_every: int
    patience: int
    seed: int
    layout: Layout
    stride: int = 1
    """Of the two layers of a conv network: large images are read more coarsely."""
    left_out: tuple[int, ...] = ()
    """Tasks that neither train nor validate because they are unlike all others."""
    tolerance: float = 0.2
    """The largest defect of a symmetry that is named, where one can be certified."""
    asked: AskedGroup | None = None
    """A group that the user asks about."""

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for ``config.json``."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, value: dict[str, Any], name: str) -> Choices:
        """The choices that :meth:`as_dict` wrote; ``name`` is what errors call the file."""
        found: Choices = described(value, cls, f"{name}: choices")
        return found

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int | float) and not 0 <= value <= _LARGEST_VALUES.get(field.name, MOST):
                raise MetasymError(
                    f"expected {field.name} from 0 to {_LARGEST_VALUES.get(field.name, MOST):,}, found {value}",
                    about=field.name,
                    found=value,
                )
        shapes = (*self.layout.input_shape, *self.layout.output_shape)
        if not all(1 <= size <= MOST for size in shapes) or not self.layout.input_shape:
            raise MetasymError(
                f"expected shapes of an input and an output in layout, found {shapes}",
                about="layout: shapes",
                found=shapes,
            )
        layout = self.layout
        for scale in (layout.x_scale, layout.y_scale, *layout.x_columns, *layout.y_columns):
            if not 0 < scale < math.inf:
                raise MetasymError(
                    f"expected scales > 0 in layout, found {scale}", about="layout: scales", found=scale
                )
        for name, columns, shape in (
            ("x", (layout.x_offset, layout.x_columns), layout.input_shape),
            ("y", (layout.y_offset, layout.y_columns), layout.output_shape),
        ):
            if any(column and len(column) != math.prod(shape) for column in columns):
                raise MetasymError(
                    f"expected an offset and a scale for each number of {name} in layout, found others",
                    about=f"layout: {name}",
                )


@dataclass(frozen=True)
class Reason:
    """One automatic (or given) choice, in words."""

    what: str
    value: str
    flag: str
    """What changes it."""
