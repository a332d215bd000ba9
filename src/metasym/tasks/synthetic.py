"""The paper's synthetic problems: partial translation symmetry, rotations, rotations with flips.

Every task is drawn from a seed of its own, made of the problem's seed, the part (training or test) and the
task's number: a problem has the same tasks in every process and on every machine, however many of them are
asked for and in whatever order. NumPy's generators are used for that: their normal numbers are
integer arithmetic but for rare tails, while torch's depend on the processor's vector instructions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from metasym.argument_types import checked
from metasym.groups import KernelBasis, conv_basis
from metasym.tasks.arrays import ArrayTasks, draw_seed, shuffled, single
from metasym.tasks.random_images import convolve, normal_images
from metasym.tasks.sampling import mix
from metasym.tasks.subset import Subset
from metasym.types import Batch, Episode, MetasymError, Tasks

INPUTS, WIDTH, OUTPUTS = 70, 3, 68
RANKS = (1, 2, 5)
SIZES = ("small", "large")
KINDS = ("rot90", "rot45", "rot45-flip")
FIELDS = 3
SUPPORT = 1

TRAIN_TASKS = {1: 400, 2: 800, 5: 800}
TEST_TASKS = {1: 100, 2: 200, 5: 200}
TRAIN_EXAMPLES = {"small": {1: 2, 2: 2, 5: 4}, "large": {1: 20, 2: 20, 5: 20}}
TEST_EXAMPLES = 20
"""Examples of a test task: one is support, as in the paper, and 19 are query; the paper does not say how many."""
ROTATION_TRAIN_TASKS, ROTATION_TEST_TASKS, ROTATION_EXAMPLES = 8000, 2000, 20

_MIXING, _TRAIN, _TEST = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Problem:
    """Training and test tasks that share a symmetry, and the space that the symmetry leaves."""

    name: str
    description: str
    train: Tasks
    test: Tasks
    input_shape: tuple[int, ...]
    """The shape of one example's inputs."""
    output_shape: tuple[int, ...]
    """The shape of one example's outputs."""
    weight_shape: tuple[int, ...]
    """The shape of the weight, different for each task, of the single layer that makes the outputs."""
    true_basis: Tensor
    """``[prod(weight_shape), d]``, orthonormal columns, float64: every task's weight lies in its span."""

    def __repr__(self) -> str:
        return f"Problem({self.name!r}: {self.train!r:.150}; to test on {self.test!r:.150})"

    @property
    def dimension(self) -> int:
        """The dimension d of the space of all tasks' weights."""
        return int(self.true_basis.shape[1])


@checked
def translation(
    rank: int,
    size: str = "small",
    seed: int = 0,
    *,
    train_tasks: int | None = None,
    test_tasks: int | None = None,
) -> Problem:
    """Return the paper's translation problem: a locally connected layer, 70 -> 68, width 3, with filters of rank
    ``rank``.

    The filter at place p is ``sum_j mixing[p, j] filter_j``. The mixing weights, a softmax over j of normal
    numbers, are drawn once for the problem; each task draws ``rank`` filters from N(0, 1). For rank 1 the mixing
    weights are 1: a convolution. Test tasks do not depend on ``size``, and the examples of a small problem are the
    first ones of the corresponding large problem.

    Args:
        rank: Number of shared filters.
        size: ``"small"`` or ``"large"``.
        seed: Seed of everything drawn.
        train_tasks: Number of training tasks. Default: the paper's.
        test_tasks: Number of test tasks. Default: the paper's.
    """
    if rank not in RANKS:
        raise MetasymError(
            f"expected rank to be one of {', '.join(map(str, RANKS))}, found {rank}", about="rank", found=rank
        )
    if size not in SIZES:
        raise MetasymError(
            f"expected size to be one of {', '.join(SIZES)}, found {size!r}", about="size", found=size
        )
    counts = (train_tasks or TRAIN_TASKS[rank], test_tasks or TEST_TASKS[rank])
    mixing = mixing_weights(rank, seed)
    examples = TRAIN_EXAMPLES[size][rank]
    spread = translation_basis(mixing)
    return Problem(
        name=f"translation/rank{rank}/{size}",
        description=(
            f"{INPUTS} inputs, {OUTPUTS} outputs, filters of width {WIDTH} and rank {rank}: weights in a space "
            f"of {spread.shape[1]} of {OUTPUTS * INPUTS} dimensions; {counts[0]} training tasks of {examples} "
            f"examples, {counts[1]} test tasks of {TEST_EXAMPLES}, {SUPPORT} of them support"
        ),
        train=_translation_tasks(mixing, counts[0], examples, seed, _TRAIN),
        test=_translation_tasks(mixing, counts[1], TEST_EXAMPLES, seed, _TEST),
        input_shape=(INPUTS,),
        output_shape=(OUTPUTS,),
        weight_shape=(OUTPUTS, INPUTS),
        true_basis=torch.linalg.qr(spread).Q,
    )


def mixing_weights(rank: int, seed: int) -> Tensor:
    """``[places, rank]``, float64: how each place combines a task's filters; rows sum to 1."""
    drawn = _generator(int(mix(seed, rank, _MIXING))).standard_normal((OUTPUTS, rank))
    return torch.from_numpy(drawn).softmax(dim=1)


def translation_basis(mixing: Tensor) -> Tensor:
    """``[places * inputs, rank * width]``: the weight matrices of single filter entries, as columns."""
    places, rank = mixing.shape
    spread = torch.zeros(places, INPUTS, rank, WIDTH, dtype=mixing.dtype)
    rows = torch.arange(places)
    for w in range(WIDTH):
        spread[rows, rows + w, :, w] = mixing
    return spread.reshape(places * INPUTS, rank * WIDTH)


def _translation_tasks(mixing: Tensor, tasks: int, examples: int, seed: int, part: int) -> ArrayTasks:
    rank = mixing.shape[1]
    seeds = mix(seed, rank, part, torch.arange(tasks))
    filters, inputs = [], []
    for task_seed in seeds.tolist():
        generator = _generator(task_seed)
        filters.append(generator.standard_normal((rank, WIDTH)))
        inputs.append(generator.standard_normal((examples, INPUTS)))
    x = torch.from_numpy(np.stack(inputs))
    at_place = mixing @ torch.from_numpy(np.stack(filters))  # [tasks, places, width]
    y = torch.einsum("tepw,tpw->tep", x.unfold(-1, WIDTH, 1), at_place)
    return ArrayTasks(x.float(), y.float(), support=SUPPORT)


class RotationTasks:
    """Tasks that share a steerable convolution: random filter banks of ``basis``, random images.

    Nothing is stored: a task's seed gives its bank and its images, the same ones at every visit. Only the choice
    of the support set is drawn for each episode. The bank is drawn before the images, so it does not depend on
    their size.

    Args:
        basis: The space of filter banks.
        tasks: Number of tasks.
        image_size: Height and width of an image.
        examples: Images of a task.
        seed: Seed of the family.
        part: Number of the part (training, test), so that parts with equal seeds differ.
    """

    @checked
    def __init__(
        self, basis: KernelBasis, *, tasks: int, image_size: int, examples: int, seed: int, part: int
    ) -> None:
        self.basis, self.image_size, self.examples = basis, image_size, examples
        self._seeds = mix(seed, basis.rep_out.order, part, torch.arange(tasks))

    def __repr__(self) -> str:
        return f"RotationTasks({len(self)} tasks of {self.examples} images, {self.image_size} x {self.image_size})"

    def __len__(self) -> int:
        return len(self._seeds)

    def banks(self, ids: Tensor) -> Tensor:
        """The filter banks ``[tasks, out, 1, k, k]`` of tasks ``ids [tasks]``, float32."""
        return self._draw(ids)[0]

    def examples_of(self, index: int) -> Batch:
        """All examples of one task in their own order, ``x [examples, 1, s, s]``."""
        bank, images = self._draw(torch.tensor([index]))
        batch = self._outputs(bank, images)
        return Batch(batch.x[0], batch.y[0])

    def episode(self, index: int, generator: torch.Generator) -> Episode:
        """The support and query set of task ``index``, split by ``generator``."""
        return single(self.episodes(torch.tensor([index]), draw_seed(generator)))

    def episodes(self, ids: Tensor, seeds: Tensor) -> Episode:
        """The episodes of tasks ``ids [tasks]``, each split by its own seed of ``seeds [tasks]``."""
        # The images are put in order before they are convolved: outputs are up to 48 times as large.
        banks, images = self._draw(ids, shuffled(seeds, self.examples))
        support, query = (self._outputs(banks, part) for part in (images[:SUPPORT], images[SUPPORT:]))
        return Episode(support, query, ids)

    def subset(self, ids: Sequence[int] | Tensor) -> Subset:
        """The tasks ``ids`` as a family of their own."""
        return Subset(self, ids)

    def _draw(self, ids: Tensor, order: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Banks ``[tasks, out, 1, k, k]`` and images ``[examples, tasks, s, s]`` in this order, float32."""
        coefficients = np.empty((len(ids), self.basis.dimension))
        generators = [_generator(seed) for seed in self._seeds[ids].tolist()]
        for generator, own in zip(generators, coefficients, strict=True):
            generator.standard_normal(out=own)
        banks = self.basis.expand(torch.from_numpy(coefficients) * self.basis.he_std)
        return banks.float(), normal_images(generators, self.examples, self.image_size, order)

    def _outputs(self, banks: Tensor, images: Tensor) -> Batch:
        """Images ``[examples, tasks, s, s]`` and what each task's bank makes of them."""
        return Batch(images.transpose(0, 1).unsqueeze(2), convolve(banks, images))


@checked
def rotation(
    kind: str,
    image_size: int = 32,
    seed: int = 0,
    *,
    train_tasks: int | None = None,
    test_tasks: int | None = None,
) -> Problem:
    """Return the paper's rotation problem: a valid 3 x 3 steerable convolution of random images to three regular
    fields.

    Each task draws the coefficients of its filter bank as e2cnn starts a layer (generalized He).

    Args:
        kind: ``"rot90"`` (C_4, 12 output channels), ``"rot45"`` (C_8, 24) or ``"rot45-flip"`` (D_8, 48).
        image_size: Height and width of an image.
        seed: Seed of everything drawn.
        train_tasks: Number of training tasks. Default: the paper's.
        test_tasks: Number of test tasks. Default: the paper's.
    """
    if kind not in KINDS:
        raise MetasymError(
            f"expected kind to be one of {', '.join(KINDS)}, found {kind!r}", about="kind", found=kind
        )
    if not isinstance(image_size, int) or image_size < 3:
        raise MetasymError(
            f"expected an image size of at least 3 for 3 x 3 kernels, found {image_size}",
            about="image_size",
            found=image_size,
        )
    basis = rotation_basis(kind)
    counts = (train_tasks or ROTATION_TRAIN_TASKS, test_tasks or ROTATION_TEST_TASKS)
    train, test = (
        RotationTasks(
            basis,
            tasks=count,
            image_size=image_size,
            examples=ROTATION_EXAMPLES,
            seed=seed,
            part=part,
        )
        for count, part in zip(counts, (_TRAIN, _TEST), strict=True)
    )
    places = image_size - 2
    return Problem(
        name=f"rotation/{kind}",
        description=(
            f"{image_size} x {image_size} images, 3 x 3 kernels to {FIELDS} regular fields of "
            f"{basis.rep_out.order} channels: weights in a space of {basis.dimension} of "
            f"{math.prod(basis.shape)} dimensions; {counts[0]} training and {counts[1]} test tasks of "
            f"{ROTATION_EXAMPLES} examples, {SUPPORT} of them support"
        ),
        train=train,
        test=test,
        input_shape=(1, image_size, image_size),
        output_shape=(basis.channels_out, places, places),
        weight_shape=basis.shape,
        true_basis=basis.orthonormal(),
    )


def rotation_basis(kind: str) -> KernelBasis:
    """The steerable kernels of a rotation problem, from one channel to three regular fields."""
    rotations = {"rot90": 4, "rot45": 8, "rot45-flip": 8}[kind]
    return conv_basis(3, rotations, flips=kind.endswith("-flip"), fields_out=FIELDS)


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))
