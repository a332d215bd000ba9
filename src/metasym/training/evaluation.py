"""Per-task scores on test tasks, with their mean and the 95 % interval over tasks."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from metasym.adaptation.functional import evaluating
from metasym.argument_types import checked
from metasym.learners.base import Learner, Metric, accuracy
from metasym.learners.own_learner import checked_scores
from metasym.tasks.sampling import check_seed, explained, sample
from metasym.training.distributed import connect
from metasym.training.progress import Counter, ProgressChoice
from metasym.training.task_scores import summarise
from metasym.types import MetasymError, Score, Tasks

MetricChoice = Literal["loss", "accuracy"] | Metric
_LOG = logging.getLogger(__name__)


@checked
def evaluate(
    learner: Learner,
    tasks: Tasks,
    *,
    inner_steps: int | None = None,
    metric: MetricChoice = "loss",
    seed: int = 0,
    tasks_per_chunk: int = 32,
    ids: Sequence[int] | None = None,
    progress: ProgressChoice = "auto",
) -> Score:
    """Adapt to the support set of every task and score on its query set.

    The learner is in evaluation mode (no dropout) during the call. Work that takes longer than two seconds shows its
    progress on standard error. Under ``torchrun`` every rank has to call this: chunks are split over the ranks,
    and all ranks return the same Score as one process does.

    Args:
        learner: A trained learner.
        tasks: The test tasks. Of an endless family, such as ``FewShotTasks``, the first ``tasks.scored`` are scored.
        inner_steps: Inner steps. Default: the learner's number for test time.
        metric: ``"loss"`` (the learner's own), ``"accuracy"``, or ``metric(prediction, target) -> scalar`` for one
            task.
        seed: An equal seed gives equal episodes.
        tasks_per_chunk: Tasks held in memory at once.
        ids: Score only these tasks.
        progress: ``"auto"``, ``"plain"`` or ``"silent"``.

    Returns:
        A :class:`Score`: the mean with its 95 % interval, and the score of every task.

    Example:
        >>> import torch, metasym as ms
        >>> data = ms.tasks.planted("signed8", tasks=60)
        >>> tasks = ms.tasks.ArrayTasks(data.x, data.y, support=5)
        >>> learner = ms.MAML(torch.nn.Linear(8, 8, bias=False), solver="ridge", penalty=1e-3)
        >>> score = ms.evaluate(learner, tasks)
        >>> len(score.per_task), score.mean > 0
        (60, True)
    """
    check_seed(seed)
    chosen = torch.arange(number_to_score(tasks)) if ids is None else torch.as_tensor(list(ids))
    if len(chosen) == 0:
        raise MetasymError("expected at least one task to evaluate on, found none", about="tasks", found=0)
    if chosen.is_floating_point() or chosen.ndim != 1:
        raise MetasymError(
            f"expected ids to be a list of whole numbers, found {ids!r:.80}", about="ids", found=ids
        )
    chosen = chosen.to(torch.int64)
    wrong = chosen[(chosen < 0) | (chosen >= len(tasks))]
    if len(wrong) > 0:
        raise MetasymError(
            f"expected ids from 0 to {len(tasks) - 1}, found {int(wrong[0])}",
            about="ids",
            found=int(wrong[0]),
        )
    if tasks_per_chunk < 1:
        raise MetasymError(
            f"expected tasks_per_chunk >= 1, found {tasks_per_chunk}",
            about="tasks_per_chunk",
            found=tasks_per_chunk,
        )
    found = score_tasks(
        learner,
        tasks,
        chosen,
        inner_steps=inner_steps,
        metric=metric,
        seed=seed,
        tasks_per_chunk=tasks_per_chunk,
        progress=progress,
    )
    assert found is not None  # nothing interrupts it
    return found


def never() -> bool:
    """What interrupts nothing."""
    return False


def score_tasks(
    learner: Learner,
    tasks: Tasks,
    chosen: Tensor,
    *,
    metric: MetricChoice,
    seed: int,
    inner_steps: int | None = None,
    tasks_per_chunk: int = 32,
    interrupted: Callable[[], bool] = never,
    progress: ProgressChoice = "silent",
) -> Score | None:
    """The scores of the tasks ``chosen``; None where ``interrupted()``, which is asked between chunks, says so.

    All ranks ask equally often, after as many chunks as there are ranks: they may agree in it.
    """
    function, name = resolve_metric(learner, metric)
    device = device_of(learner)
    ranks = connect(device)
    scores = torch.zeros(len(chosen), dtype=torch.float64)
    counter = Counter(progress if ranks.main else "silent", "scored", len(chosen), "tasks")
    with evaluating(learner):
        for number, start in enumerate(range(0, len(chosen), tasks_per_chunk)):
            if start and number % ranks.size == 0:
                if interrupted():
                    return None
                counter.show(start)
            if number % ranks.size == ranks.rank:
                part = slice(start, start + tasks_per_chunk)
                episodes = sample(tasks, chosen[part], seed).to(device)
                with explained(episodes, "evaluate"):
                    found = learner.scores(episodes, function, inner_steps=inner_steps)
                scores[part] = checked_scores(learner, found, len(chosen[part])).detach().double().cpu()
    if ranks.size > 1:
        scores = ranks.sum([scores.to(device)])[0].cpu()
    return summarise(scores.numpy(), name)


def number_to_score(tasks: Tasks) -> int:
    """Return how many tasks are scored by default: all, or the ``scored`` of a family without end, noted once."""
    wanted = getattr(tasks, "scored", None)
    if wanted is None:
        return len(tasks)
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
        raise MetasymError(
            f"expected tasks.scored to be a whole number >= 1, found {wanted!r}",
            about="tasks.scored",
            found=wanted,
        )
    if wanted < len(tasks):
        _say_once(f"metasym: {type(tasks).__name__} has tasks without end: the first {wanted:,} are scored")
    return min(wanted, len(tasks))


@functools.cache
def _say_once(text: str) -> None:
    _LOG.warning(text)


def resolve_metric(learner: Learner, metric: MetricChoice) -> tuple[Metric, str]:
    """The function that ``metric`` stands for, and its name."""
    if callable(metric):
        return metric, getattr(metric, "__name__", type(metric).__name__)
    if metric == "loss":
        return learner.loss, metric
    if metric == "accuracy":
        return accuracy, metric
    raise MetasymError(
        f"expected metric to be 'loss', 'accuracy' or a function, found {metric!r}",
        about="metric",
        found=metric,
    )


def device_of(module: nn.Module) -> torch.device:
    """Where the module's parameters (or buffers) are; the CPU for one without any."""
    for tensor in (*module.parameters(), *module.buffers()):
        return tensor.device
    return torch.device("cpu")
