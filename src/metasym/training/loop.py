"""The outer loop: a generator of Records."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Generator
from typing import Any, Literal

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from metasym.argument_types import checked
from metasym.errors import LostRankError
from metasym.learners.base import Learner
from metasym.storage.atomic import make_inside
from metasym.storage.locks import FolderLock
from metasym.tasks.sampling import check_seed
from metasym.training.averaging import Average
from metasym.training.checkpoint import Checkpoints, training_state
from metasym.training.distributed import connect, pick_device, ranks_of_run
from metasym.training.evaluation import device_of, number_to_score, resolve_metric
from metasym.training.guard import NonFiniteError
from metasym.training.held_out import HeldOut
from metasym.training.metrics import NAME, MetricsFile, cut_back
from metasym.training.outer_optimizer import (
    OptimizerFactory,
    SchedulerFactory,
    make_optimizer,
    make_scheduler,
)
from metasym.training.outer_step import OuterLoop
from metasym.training.progress import ProgressChoice, displays
from metasym.training.records import Training
from metasym.training.settings import (
    Files,
    Validation,
    check_choice,
    check_whole,
    files_of,
    validation_of,
)
from metasym.training.signals import StopRequests, stop
from metasym.types import MetasymError, Record, Tasks


@checked
def train(
    learner: Learner,
    tasks: Tasks,
    *,
    outer_steps: int,
    tasks_per_step: int = 32,
    outer_lr: float = 1e-3,
    optimizer: Optimizer | OptimizerFactory | None = None,
    scheduler: LRScheduler | SchedulerFactory | None = None,
    clip_norm: float | None = None,
    average: float | None = None,
    validation: Tasks | Validation | None = None,
    validate_every: int = 0,
    seed: int = 0,
    out: str | os.PathLike[str] | Files | None = None,
    resume: bool = False,
    on_nonfinite: Literal["stop", "skip"] = "stop",
    progress: ProgressChoice = "auto",
    device: str | torch.device | None = None,
    autocast: Literal["bfloat16"] | None = None,
    max_seconds: float | None = None,
    patience: int | None = None,
) -> Training:
    """Meta-train ``learner`` in place on ``tasks``, and yield the Record of every outer step.

    Each step is taken when its Record is asked for: loop over what is returned, or call its ``run()``. Everything
    in a Record except its times (``steps_per_second``, ``validation_seconds``) is reproducible.

    **Files.** With ``out``, the folder holds ``config.json`` (the settings, unless the folder has one),
    ``metrics.jsonl`` (a Record per line) and ``checkpoint.safetensors``, written at the start, every 100 steps and
    at the end; the previous one is kept. A folder that holds a checkpoint is refused without ``resume``, and so is
    a folder in which another run is training. Leaving the loop early, by ``break`` or ``close()``, leaves the last
    regular checkpoint, and the learner with the best parameters where there was a validation (else the average, or
    those of the last yielded step); a loop that goes on takes up the latest ones again.

    **Stopping.** SIGINT (Ctrl-C) and SIGTERM finish the step, write the checkpoint and yield the Record; the next
    ``next()`` raises ``KeyboardInterrupt`` or ``SystemExit(143)``, also after the last step. In a validation of
    several chunks they write the checkpoint and raise at once; resuming repeats that validation, then yields the
    step's Record. A second signal ends without a checkpoint.

    **Many processes.** Make the same call under ``torchrun``, on every rank. Tasks are split, gradients are
    summed, all ranks have rank 0's parameters, and only rank 0 writes and shows progress. A signal to one rank
    stops all. A rank that does not answer for 45 s ends the others with :class:`LostRankError`. Where ranks may
    differ by more than that, call ``torch.distributed.init_process_group(timeout=...)`` first; that group is then
    used.

    Args:
        learner: What to train.
        tasks: The training tasks.
        outer_steps: Number of outer steps.
        tasks_per_step: Tasks of a step, drawn without repetition by ``seed`` and the step's number alone (all of
            them, in order, where there are not more).
        outer_lr: Learning rate of Adam, which descends the mean query loss.
        optimizer: Replaces Adam and brings its own rate: a torch optimizer of (some of)
            ``learner.outer_parameters().values()``, or a function that makes one from them, such as
            ``lambda p: torch.optim.SGD(p, lr=0.1)``.
        scheduler: A scheduler of that optimizer, or a function that makes one from it. It is stepped after every step
            (``ReduceLROnPlateau``: with the outer loss, or at every validation with its score).
        clip_norm: Largest norm of the gradient. Records hold the norm before clipping.
        average: Decay, such as 0.99, of an exponential average of the outer parameters. Validation scores the
            average, and the learner holds it when the last Record is yielded.
        validation: Tasks to score every ``validate_every`` steps, always with the same episodes (of an endless
            family, such as ``FewShotTasks``, the first 600). When the last Record is yielded, the learner has the
            parameters with the lowest loss. For another metric or goal, fewer tasks, or the latest parameters, give a
            :class:`Validation`.
        validate_every: Steps from one validation to the next.
        seed: Seed of the tasks drawn.
        out: Folder for files (see above). For checkpoints at other steps, or curves for TensorBoard, give a
            :class:`Files`.
        resume: Continue from the checkpoint in ``out``, bit for bit as if the run had not been interrupted, also to a
            larger ``outer_steps``. Without a checkpoint it starts afresh. A finished run yields nothing, and the
            learner has its parameters once the generator has been asked.
        on_nonfinite: At a NaN or infinite loss or gradient, ``"stop"`` raises :class:`NonFiniteError` with the
            parameters as before the step; ``"skip"`` leaves such tasks out and counts them in the Record.
        progress: ``"auto"`` (a bar on a terminal, lines in a pipe), ``"plain"`` or ``"silent"``.
        device: Where to train, such as ``"cuda"``; the learner is moved there.
        autocast: ``"bfloat16"`` computes in mixed precision.
        max_seconds: End after this time, counted from the first Record, with the step that was begun, a validation
            and a checkpoint, as if it had been the last one.
        patience: End as well when this many validations in a row were not better than the best before them.

    Returns:
        An iterator of :class:`Record`, from step 1.

    Example:
        >>> import torch, metasym as ms
        >>> data = ms.tasks.planted("signed8", tasks=60)
        >>> tasks = ms.tasks.ArrayTasks(data.x, data.y, support=5)
        >>> model = ms.reparameterize(torch.nn.Linear(8, 8, bias=False), "dense", filter_size=8)
        >>> learner = ms.MSR(model, solver="ridge", penalty=1e-3)
        >>> for record in ms.train(learner, tasks, outer_steps=2, outer_lr=2e-2, progress="silent"):
        ...     print(record.step)
        1
        2
    """
    check_whole(outer_steps=outer_steps, tasks_per_step=tasks_per_step)
    check_choice("on_nonfinite", on_nonfinite, ("stop", "skip"))
    check_choice("progress", progress, ("auto", "plain", "silent"))
    check_choice("autocast", autocast, (None, "bfloat16"))
    check_seed(seed)
    if len(tasks) < 1:
        raise MetasymError("expected at least one task to train on, found none", about="tasks", found=0)
    if clip_norm is not None and not clip_norm > 0:
        raise MetasymError(f"expected clip_norm > 0, found {clip_norm}", about="clip_norm", found=clip_norm)
    if max_seconds is not None and not max_seconds >= 0:
        raise MetasymError(
            f"expected max_seconds >= 0, found {max_seconds}", about="max_seconds", found=max_seconds
        )
    wanted = validation_of(validation, validate_every)
    if patience is not None:
        check_whole(patience=patience)
        if wanted is None or not wanted.keep_best:
            raise MetasymError(
                "expected patience together with a validation that keeps the best parameters, found none",
                about="patience",
                found=patience,
            )
    if (
        min(tasks_per_step, len(tasks)) < ranks_of_run()
    ):  # before they join: one that leaves takes others along
        raise MetasymError(
            f"expected at least one task per step for each of {ranks_of_run()} ranks, "
            f"found {min(tasks_per_step, len(tasks))}",
            about="tasks_per_step",
            found=min(tasks_per_step, len(tasks)),
        )
    place = pick_device(device, device_of(learner))
    learner.to(place)
    ranks = connect(place)
    held_out = None
    if wanted is not None:
        name = resolve_metric(learner, wanted.metric)[1]
        goal = wanted.goal or ("max" if name == "accuracy" else "min")
        count = min(wanted.count, len(wanted.tasks)) if wanted.count else number_to_score(wanted.tasks)
        held_out = HeldOut(wanted.tasks, wanted.every, wanted.metric, name, goal, count)
    chosen = make_optimizer(learner, optimizer, outer_lr)
    averaged = None if average is None else Average(learner.outer_parameters(), average)
    loop = OuterLoop(
        learner=learner,
        tasks=tasks,
        tasks_per_step=tasks_per_step,
        optimizer=chosen,
        scheduler=make_scheduler(scheduler, chosen),
        clip_norm=clip_norm,
        validation=held_out,
        keep_best=wanted is None or wanted.keep_best,
        seed=seed,
        skip=on_nonfinite == "skip",
        device=place,
        autocast=autocast is not None,
        ranks=ranks,
        average=averaged,
    )
    limit = math.inf if max_seconds is None else max_seconds
    return Training(_run(loop, outer_steps, files_of(out), resume, progress, limit, patience), loop)


def _run(
    loop: OuterLoop,
    outer_steps: int,
    files: Files | None,
    resume: bool,
    progress: ProgressChoice,
    max_seconds: float,
    patience: int | None,
) -> Generator[Record, None, None]:
    """Drive the loop: files, progress and signals around its steps."""
    ranks, until = loop.ranks, time.perf_counter() + max_seconds
    checkpoints = None if files is None else Checkpoints(files.path)
    metrics: MetricsFile | None = None
    last_saved: int | None = None

    def open_files() -> bytes | None:
        if checkpoints is None:
            return None
        stack.callback(FolderLock(checkpoints.folder).release)
        data = checkpoints.open(resume=resume, check=loop.check)
        lines = checkpoints.folder / NAME
        if not resume and lines.exists() and lines.stat().st_size > 0:
            raise MetasymError(
                f"{lines}: expected a folder without a run, found records of one",
                about=str(lines),
                found="records",
            )
        cut_back(lines, _recorded(training_state(data, str(checkpoints.current))) if data else 0)
        if data is None:
            checkpoints.write_settings(loop.settings)
        return data

    def checkpoint() -> None:
        nonlocal last_saved
        if checkpoints is None or last_saved == loop.step:
            return
        loop.check_parameters()
        state = loop.state()
        if ranks.main:
            if metrics is not None:
                metrics.sync()
            checkpoints.write(state)
        last_saved = loop.step

    def interrupted() -> bool:
        return bool(loop.agree(requests.received))

    with contextlib.ExitStack() as stack:
        requests = stack.enter_context(StopRequests())
        try:
            data = ranks.on_main(open_files)
            if data is None:
                ranks.copy_from_main(
                    v for v in loop.learner.state_dict().values() if isinstance(v, torch.Tensor)
                )
            else:
                name = "the checkpoint" if checkpoints is None else str(checkpoints.current)
                loop.restore(training_state(data, name), name)
                last_saved = loop.step
            shown = []
            if ranks.main:
                curves = None
                if files is not None:
                    metrics = MetricsFile(files.path / NAME)
                    stack.callback(metrics.close)
                    curves = make_inside(files.path, "tensorboard") if files.tensorboard else None
                for display in displays(progress, total=outer_steps, done=loop.step, tensorboard=curves):
                    stack.callback(display.close)
                    shown.append(display)
            checkpoint()
            quiet: ProgressChoice = progress if ranks.main else "silent"
            began, first = time.perf_counter(), loop.step
            ended = loop.unfinished is None and (loop.step >= outer_steps or loop.tired(patience))
            if ended:
                loop.take_best()
            while not ended and (loop.step < outer_steps or loop.unfinished is not None):
                record = loop.advance(began, first, until, interrupted=interrupted, progress=quiet)
                signal = loop.agree(requests.received)
                if record is None:
                    checkpoint()
                    raise stop(signal)
                last = loop.out_of_time or loop.step == outer_steps or loop.tired(patience)
                if metrics is not None:
                    metrics.write(record)
                for display in shown:
                    display.show(record)
                if signal or last or (files is not None and loop.step % files.checkpoint_every == 0):
                    checkpoint()
                if last:  # before the yield: the caller may never ask for another record
                    loop.take_best()
                yield record
                loop.come_back()
                # A signal that came since waits: several ranks can agree only at the end of another step.
                if ranks.size == 1 or last:
                    signal = signal or requests.received
                if signal:
                    checkpoint()
                    raise stop(signal)
                if last:
                    break
        except GeneratorExit:
            loop.leave()
            raise
        except (NonFiniteError, LostRankError) as error:
            if checkpoints is not None and last_saved is not None:
                error.args = (f"{error}; last good checkpoint: {checkpoints.current} (step {last_saved})",)
            raise


def _recorded(state: dict[str, Any]) -> int:
    """The last step of a checkpoint that has its Record; an unfinished one has none yet."""
    return int(state["step"]) - (state.get("unfinished") is not None)
