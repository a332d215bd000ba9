"""Every choice of a run in one frozen dataclass: what the command line offers as flags and ``config.json`` holds."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from metasym.adaptation.choices import AUTO, SOLVERS, STEP_SIZES
from metasym.models import image_networks
from metasym.storage.described import described
from metasym.storage.options import LARGEST_SEED, check_options, option
from metasym.types import MetasymError

OPTIMIZERS = ("adam", "adamw", "sgd")
SCHEDULES = ("constant", "cosine", "linear")
SYMMETRIES = ("none", "dense", "kronecker", "true")
METHODS = ("maml", "msr", "msr-joint", "mtsr", "oracle", "anil", "protonet")
NETWORKS = ("fc", "lc", "conv1d", "conv2d", *image_networks.NETWORKS)
MAPS = ("auto", "vmap", "loop")
AUTOCASTS = ("none", "bfloat16")
_MANY, _STEPS, _PIXELS, _IMAGES, _THREADS, _FIELDS = 10**8, 10_000, 1024, 10_000, 1024, 64
"""Bounds of outer steps (also tasks and entries), inner steps, pixels a side, images a class, and threads: a larger
number is a typing error."""


@dataclass(frozen=True)
class Recipe:
    """How a network is meta-trained and tested; the defaults are the paper's for the translation problems."""

    outer_steps: int = option(1000, "outer steps", least=1, most=_MANY)
    tasks_per_step: int = option(32, "tasks in one outer step", least=1, most=_MANY)
    outer_lr: float = option(5e-4, "learning rate of the outer optimizer", least=0)
    optimizer: str = option("adam", "outer optimizer", OPTIMIZERS)
    weight_decay: float = option(0.0, "weight decay of the outer optimizer", least=0)
    schedule: str = option("constant", "how the outer learning rate falls, to 0 at the end", SCHEDULES)
    warmup_steps: int = option(0, "outer steps over which the learning rate rises", least=0, most=_MANY)
    average: float | None = option(
        None, "decay of an average of the outer parameters, which is then tested (none: the last parameters)"
    )
    clip_norm: float | None = option(None, "bound of the outer gradient's norm", least=0)
    inner_steps: int = option(3, "steps (cg: iterations) of adaptation in training", least=0, most=_STEPS)
    test_inner_steps: int = option(9, "steps of adaptation at test", least=0, most=_STEPS)
    choose_inner_steps: int = option(
        0,
        "steps of adaptation at test: the number from 1 to this one that validation tasks prefer (image problems; "
        "0: test_inner_steps)",
        least=0,
        most=_STEPS,
    )
    inner_lr: float = option(0.02, "initial inner step sizes (mtsr: Adam's rate at test)")
    step_sizes: str = option("layer", "which inner step sizes are learned", STEP_SIZES)
    solver: str = option("sgd", "how the inner problem is solved", SOLVERS)
    penalty: float = option(1e-6, "penalty of the solvers ridge and cg", least=0)
    learn_start: bool = option(True, "learn the values that adaptation starts from")
    first_order: bool = option(False, "take inner gradients as constants")
    symmetry: str = option("none", "how the layer is reparameterized", SYMMETRIES)
    filter_size: int | None = option(None, "entries of the filter v of a dense symmetry", least=1, most=_MANY)
    u_std: float = option(0.01, "standard deviation of U's start", least=0)
    filter_std: float | None = option(
        None, "standard deviation of v's start (none: fitted to the layer's)", least=0
    )
    find_steps: int = option(
        0,
        "outer steps of a first stage that finds how few filter entries are needed (0: no such stage)",
        least=0,
        most=_MANY,
    )
    find_lr: float = option(2e-3, "learning rate of that stage", least=0)
    find_penalty: float = option(0.1, "penalty of the inner solver in that stage", least=0)
    find_solver: str = option("same", "how that stage solves the inner problem", ("same", *SOLVERS))
    find_equal: bool = option(False, "give all directions that this stage keeps the same strength")
    nuclear: float = option(0.1, "strength of the nuclear norm on U in that stage", least=0)
    validation_fraction: float = option(0.0, "part of the training tasks held out for validation", least=0)
    validate_every: int = option(0, "outer steps between validations", least=0, most=_MANY)
    on_nonfinite: str = option("stop", "what a task with an infinite or NaN loss does", ("stop", "skip"))
    image_size: int = option(32, "height and width of the images (rotation problems)", least=3, most=_PIXELS)
    queries: int = option(15, "query images per class in training (image problems)", least=1, most=_IMAGES)
    test_queries: int = option(15, "query images per class at test (image problems)", least=1, most=_IMAGES)
    d8_fields: int | None = option(
        None,
        "regular fields of a layer of maml-d8, 16 channels each (none: as many channels as MAML's 1-shot network)",
        least=1,
        most=_FIELDS,
    )
    rotated_classes: bool = option(
        False, "classes turned by 90, 180 and 270 degrees are classes too (Omniglot)"
    )
    data: str | None = option(None, "folder of the images (default: METASYM_DATA, or else the user's cache)")
    train_tasks: int | None = option(None, "training tasks (none: as many as the paper)", least=1, most=_MANY)
    test_tasks: int | None = option(None, "test tasks (none: as many as the paper)", least=1, most=_MANY)
    seed: int = option(0, "seed of the start, of the episodes, and of the data", least=0, most=LARGEST_SEED)
    data_seed: int | None = option(
        None, "seed of the data (none: the same as --seed)", least=0, most=LARGEST_SEED
    )
    device: str = option("cpu", "cpu or cuda")
    map: str = option("auto", "how tasks are mapped over (auto: by a fixed rule on the network)", MAPS)
    paths: str = option(AUTO, "ways of computing a step, if forced: name=way,... (auto: by a cost model)")
    autocast: str = option("none", "mixed precision of the training steps", AUTOCASTS)
    threads: int | None = option(
        None,
        "threads of torch (none: one for small networks, else torch's own choice)",
        least=1,
        most=_THREADS,
    )
    chunk_size: int | None = option(
        None, "tasks held in memory at once (none: all of a step)", least=1, most=_MANY
    )
    checkpoint_every: int = option(100, "outer steps between checkpoints", least=1, most=_MANY)

    def __post_init__(self) -> None:
        check_options(self)
        if self.paths != AUTO:
            from metasym.engines.plan import parse  # not for readers of results, who compute nothing

            parse(self.paths)
        if self.find_steps and self.symmetry != "dense":
            raise MetasymError(
                f"expected a dense symmetry with find_steps, found {self.symmetry!r}",
                about="symmetry",
                found=self.symmetry,
            )

    def check_validation(self, classes: bool) -> None:
        """Validation needs tasks that are not trained on; with ``classes`` the data set has some of its own."""
        fraction, every = self.validation_fraction, self.validate_every
        if classes and fraction > 0:
            raise MetasymError(
                f"expected no validation_fraction where classes are held out, found {fraction}",
                about="validation_fraction",
                found=fraction,
            )
        if not classes and ((fraction > 0) != (every > 0) or fraction >= 1):
            raise MetasymError(
                "expected a validation_fraction below 1 together with validate_every, "
                f"found {fraction} and {every}",
                about="validation_fraction, validate_every",
                found=(fraction, every),
            )


@dataclass(frozen=True)
class Experiment:
    """One cell of one table: a problem, a method, a network, and the recipe."""

    name: str
    problem: str
    method: str
    network: str
    recipe_name: str = "paper"
    recipe: Recipe = dataclasses.field(default_factory=Recipe)

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise MetasymError(
                f"expected method to be one of {', '.join(METHODS)}, found {self.method!r:.40}",
                about="method",
                found=self.method,
            )
        self.recipe.check_validation(self.has_classes)
        if self.recipe.choose_inner_steps and not self.has_classes:
            raise MetasymError(
                f"expected choose_inner_steps with image problems only, found {self.name}",
                about="choose_inner_steps",
                found=self.name,
            )
        if self.recipe.d8_fields and self.network != "conv4-d8":
            raise MetasymError(
                f"expected d8_fields with maml-d8 only, found {self.name}", about="d8_fields", found=self.name
            )

    @property
    def has_classes(self) -> bool:
        """Whether the problem is to distinguish classes of images (else: regression)."""
        return self.problem.startswith("aug-")

    @property
    def metric(self) -> str:
        """What the tests measure: ``"accuracy"`` or ``"mse"``."""
        return "accuracy" if self.has_classes else "mse"

    @property
    def data_seed(self) -> int:
        """The seed of the problem's tasks."""
        return self.recipe.seed if self.recipe.data_seed is None else self.recipe.data_seed

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for ``config.json``."""
        return dataclasses.asdict(self)

    def replace(self, **changes: Any) -> Experiment:
        """The same cell with some of its recipe's fields changed."""
        known = {f.name for f in dataclasses.fields(Recipe)}
        for name in changes:
            if name not in known:
                raise MetasymError(f"expected a field of the recipe, found {name!r}", about=name)
        return dataclasses.replace(self, recipe=dataclasses.replace(self.recipe, **changes))


def experiment_from(stored: dict[str, Any], name: str) -> Experiment:
    """The experiment that :meth:`Experiment.as_dict` wrote; other keys of ``config.json`` are left out.

    A field that the file ``name`` does not know yet has its default.
    """
    found: Experiment = described(stored, Experiment, name)
    check_known(stored["recipe"], name)
    return found


def check_known(recipe: dict[str, Any], name: str) -> None:
    """Refuse a recipe with a field that this version does not know: it would run something else."""
    unknown = [key for key in recipe if key not in {field.name for field in dataclasses.fields(Recipe)}]
    if unknown:
        raise MetasymError(
            f"{name}: expected the fields of a recipe, found recipe.{unknown[0]}",
            about=f"{name}: recipe.{unknown[0]}",
        )
