"""The automatic choices: what the shapes of the data say, unless the user says otherwise."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch
from torch import nn

from metasym.adaptation.functional import ModelPredictor, parameters_of
from metasym.adaptation.linear_solve import check_linear
from metasym.certification.certificate_thresholds import TOLERANCE
from metasym.diagnosis.findings import CAUTION, Diagnosis, Finding
from metasym.errors import asked, in_one_line
from metasym.inspection.pattern import MOST_WEIGHTS
from metasym.runs.files.learn_options import Choices, Options, Reason
from metasym.runs.learning.choice_words import adaptation_words, network_words, steps_words
from metasym.runs.learning.large_layers import MOST_DIRECTIONS, fits
from metasym.runs.learning.learning_by_evidence import by_evidence
from metasym.runs.learning.network_shapes import NetworkShapes
from metasym.runs.learning.networks import filter_entries, plain_network, stored_dense
from metasym.runs.learning.standardising import layout_of, needs_bias, standard_words
from metasym.runs.learning.training_effort import affordable_steps
from metasym.symmetry.selection import select_layers
from metasym.tasks.sampling import mix, sample
from metasym.tasks.stored import StoredTasks, split_blocks, split_tasks
from metasym.tasks.task_file import TaskFile
from metasym.types import MetasymError

_SPLIT = 34
_VALIDATION, _TEST = 0.1, 0.2
LARGEST_SOLVE = 1024
"""Unknowns, or equations if those are fewer, of an exact solve for each task."""


def choose(file: TaskFile, options: Options, diagnosis: Diagnosis) -> tuple[Choices, list[Reason]]:
    """Everything that a run of the file's tasks needs, and the choices in words."""
    shapes = NetworkShapes(file, options)
    bias = needs_bias(diagnosis, options, single_layer=shapes.single_layer, padding=shapes.padding)
    train, validation, test = (len(part) for part in split(file, options))
    support = options.support or _support(file)
    train_support = options.train_support or _train_support(file, support)
    for name, value in (("support", support), ("train_support", train_support)):
        if value >= file.examples:
            raise MetasymError(
                f"expected --{name.replace('_', '-')} below the {file.examples} examples of a task, so that one is "
                f"left as query, found {value}",
                about=name,
                found=value,
            )
    choices = Choices(
        model=shapes.model,
        single_layer=shapes.single_layer,
        hidden=options.hidden or (40 if shapes.model == "mlp" else 16),
        kernel_size=shapes.kernel_size,
        padding=shapes.padding,
        bias=bias,
        symmetry=options.symmetry,
        filter_size=options.filter_size,
        support=support,
        train_support=train_support,
        train_tasks=train,
        validation_tasks=validation,
        test_tasks=test,
        solver="sgd",
        penalty=options.penalty,
        inner_steps=options.inner_steps or (5 if file.classes else 3),
        inner_lr=0.1 if options.inner_lr is None else options.inner_lr,
        find_steps=0,
        outer_steps=options.outer_steps or 1500,
        outer_lr=2e-3 if options.outer_lr is None else options.outer_lr,
        tasks_per_step=options.tasks_per_step or 16,
        validate_every=25,
        patience=options.patience or 8,
        seed=options.seed,
        stride=shapes.stride,
        layout=layout_of(file, options, diagnosis, shapes.model, (shapes.inputs, shapes.outputs), bias),
        left_out=() if options.outliers == "keep" else diagnosis.outliers,
        tolerance=TOLERANCE if options.tolerance is None else options.tolerance,
    )
    model = plain_network(choices)
    _check_network(file, choices, model)
    choices = _solver(file, options, choices, model)
    if file.classes and options.solver == "ridge":
        raise MetasymError(
            f"expected {asked('solver', 'sgd')} for labels, found ridge: it minimises squares",
            about="solver",
            found="ridge",
        )
    _check_solver_flags(options, choices.solver)
    _check_network_flags(options, choices, model)
    return choices, reasons(file, choices, model)


def _check_solver_flags(options: Options, solver: str) -> None:
    """Refuse flags of the other solver, which would change nothing."""
    of_ridge = {"find_steps": options.find_steps or None, "penalty": options.penalty}
    of_sgd = {"inner_steps": options.inner_steps, "inner_lr": options.inner_lr}
    for name, value in (of_ridge if solver == "sgd" else of_sgd).items():
        if value is not None:
            other = "ridge" if solver == "sgd" else "sgd"
            raise MetasymError(
                f"expected {asked(name)} only where tasks adapt by {asked('solver', other)}, found "
                f"{asked(name, value)} and {solver}",
                about=name,
                found=value,
            )


def _check_network_flags(options: Options, choices: Choices, model: nn.Module) -> None:
    """Refuse flags of another network or another U, which would change nothing."""
    own = ":" in choices.model
    if options.hidden is not None and (choices.single_layer or own):
        raise MetasymError(
            f"expected {asked('hidden')} only for a network with hidden layers, found "
            f"{asked('model', choices.model)}",
            about="hidden",
            found=choices.model,
        )
    if options.kernel_size is not None and (choices.model in ("fc", "mlp") or own):
        raise MetasymError(
            f"expected {asked('kernel_size')} only for conv1d and conv2d, found {asked('model', choices.model)}",
            about="kernel_size",
            found=choices.model,
        )
    if options.filter_size is None:
        return
    if options.symmetry == "kronecker":
        raise MetasymError(
            f"expected {asked('filter_size')} only for a dense U, found {asked('symmetry', 'kronecker')}",
            about="filter_size",
            found="kronecker",
        )
    largest = max(m.weight.numel() for _, m in select_layers(model, None))  # type: ignore[operator]
    if options.filter_size > largest:
        raise MetasymError(
            f"expected {asked('filter_size')} of at most {largest}, the weights of the layer, found "
            f"{options.filter_size}",
            about="filter_size",
            found=options.filter_size,
        )


def split(file: TaskFile, options: Options) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Which tasks train, validate and test, by the seed alone; tasks of one block stay together."""
    validation = _VALIDATION if options.validation is None else options.validation
    test = _TEST if options.test is None else options.test
    if file.blocks:
        names, inverse = np.unique(np.array(file.blocks), return_inverse=True)
        turn = mix(options.seed, _SPLIT, torch.arange(len(names))).argsort()
        return split_blocks(torch.from_numpy(inverse), validation, test, turn)
    order = mix(options.seed, _SPLIT, torch.arange(file.tasks)).argsort()
    return split_tasks(file.tasks, validation, test, order)


def parts(
    file: TaskFile, options: Options, choices: Choices
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The tasks that train, validate and test: as :func:`split` cuts them, outliers in the test alone."""
    train, validation, test = split(file, options)
    left_out = torch.tensor(choices.left_out, dtype=torch.int64)
    kept = [ids[~torch.isin(ids, left_out)] for ids in (train, validation)]
    return (kept[0] if len(kept[0]) else train), (kept[1] if len(kept[1]) else validation), test


def unread_layers(choices: Choices, file: TaskFile) -> list[Finding]:
    """Cautions about layers that are too large for their symmetry to be read, or for the examples of a task."""
    sizes = {name: m.weight for name, m in select_layers(plain_network(choices), None)}
    found = []
    for name, weight in sizes.items():
        assert isinstance(weight, torch.Tensor)
        if weight.ndim == 2 and stored_dense(choices, weight.numel()) and weight.numel() > MOST_WEIGHTS:
            shape = " x ".join(str(size) for size in weight.shape)
            said = (
                f"The weight of {name or 'the layer'}, {shape}, has {weight.numel():,} entries. It is trained and "
                f"scored, but its symmetry is not read (limit {MOST_WEIGHTS:,} entries). Use fewer inputs or "
                f"outputs, or {asked('symmetry', 'kronecker')}, whose factors are read one by one"
            )
            found.append(Finding("layer_not_read", CAUTION, said, {"layer": name, "weights": weight.numel()}))
        outputs, inputs = weight.shape[0], weight[0].numel()
        enough = inputs + 2
        if (
            choices.model == "fc"
            and not file.classes
            and choices.symmetry is None
            and not stored_dense(choices, weight.numel())
            and not fits(inputs, outputs, file.examples)
            and fits(inputs, outputs, enough)
        ):
            said = (
                f"The weight of {name or 'the layer'}, {outputs} x {inputs}, is read as a whole only if every task "
                f"has at least {enough:,} examples (inputs + 2); these have {file.examples:,}. Kronecker factors "
                "are learned instead, and read one by one"
            )
            details = {"layer": name, "weights": weight.numel(), "examples": file.examples, "enough": enough}
            found.append(Finding("few_examples_for_layer", CAUTION, said, details))
    return found


def reasons(file: TaskFile, choices: Choices, model: nn.Module) -> list[Reason]:
    """The choices in words, with the flags that change them."""
    layers = [(name, m.weight.numel()) for name, m in select_layers(model, None)]  # type: ignore[operator]
    dense = [name for name, entries in layers if stored_dense(choices, entries)]
    kinds = (
        "dense" if len(dense) == len(layers) else "Kronecker" if not dense else "dense or Kronecker by size"
    )
    sizes = ", ".join(
        f"{filter_entries(choices, entries)} of {entries}"
        if stored_dense(choices, entries)
        else "as the weight's"
        for _, entries in layers
    )
    outliers = f"; {len(choices.left_out)} outliers never train" if choices.left_out else ""
    exact, evidence = choices.solver == "ridge", choices.solver == "evidence"
    adapting, finding = ("--penalty", "--find-steps, ") if exact else ("--inner-steps, --inner-lr", "")
    if evidence:
        adapting, sizes = "--penalty", "as many as the evidence of the validation tasks asks for"
    found = [
        Reason("network", network_words(choices), "--model"),
        Reason("bias", "yes" if choices.bias else "none", "--bias, --no-bias"),
        Reason("symmetry matrix U", kinds, "--symmetry"),
        Reason("filter entries", sizes, "--filter-size"),
        Reason(
            "tasks",
            f"{choices.train_tasks} to train, {choices.validation_tasks} to validate, {choices.test_tasks} to test"
            f"{outliers}",
            "--validation, --test" + (", --outliers keep" if outliers else ""),
        ),
        Reason("support examples", f"{choices.support} of {file.examples}", "--support"),
        Reason(
            "in training",
            "all, of every task" if evidence else f"{choices.train_support} of {file.examples}",
            "--train-support",
        ),
        Reason("scale", standard_words(choices.layout), "--scale"),
        Reason("adaptation", adaptation_words(choices), f"--solver, {adapting}"),
        Reason("outer steps", steps_words(choices), f"{finding}--outer-steps, --patience"),
        Reason("seed", str(choices.seed), "--seed"),
    ]
    if evidence:
        named = Reason(
            "a symmetry is named", f"unless refuted, up to a defect of {choices.tolerance:.2%}", "--tolerance"
        )
        found.insert(len(found) - 1, named)
    return found if ":" not in choices.model else [r for r in found if r.what != "bias"]


def _support(file: TaskFile) -> int:
    """A tenth of the examples; of labels half, so that every class has its turn."""
    if file.classes:
        return max(1, min(file.examples - 1, max(file.classes, file.examples // 2)))
    return max(1, file.examples // 10)


def _train_support(file: TaskFile, support: int) -> int:
    """Half of the examples: the more a task's support tells, the sooner the outer loop sees what tasks share."""
    return support if file.classes else max(support, file.examples // 2)


def _solver(file: TaskFile, options: Options, choices: Choices, model: nn.Module) -> Choices:
    """Exact adaptation where the network is linear in what adapts and small; its two stages of training."""
    if by_evidence(file, options, choices):
        steps, patience = options.outer_steps or 125, options.patience or 4  # of the baseline
        return dataclasses.replace(choices, solver="evidence", outer_steps=steps, patience=patience)
    linear = not file.classes and options.solver != "sgd" and _is_linear(file, choices, model)
    if options.solver == "ridge" and not linear:
        raise MetasymError(
            f"expected {asked('solver', 'sgd')} for {asked('model', choices.model)}, found ridge, which needs a "
            "network that is linear in its weights and targets y of floats",
            about="solver",
            found="ridge",
        )
    rows = choices.train_support * math.prod(choices.layout.output_shape)
    exact = dataclasses.replace(choices, solver="ridge")
    outputs, inputs = math.prod(choices.layout.output_shape), math.prod(choices.layout.input_shape)
    wished = options.symmetry or options.filter_size or options.find_steps
    if linear and choices.model == "fc" and not wished and fits(inputs, outputs, file.examples):
        size = min(choices.train_tasks, MOST_DIRECTIONS)
        steps, patience = options.outer_steps or 125, options.patience or 4  # of the baseline
        return dataclasses.replace(
            exact, symmetry="dense", filter_size=size, find_steps=0, outer_steps=steps, patience=patience
        )
    entries = [m.weight.numel() for _, m in select_layers(model, None)]  # type: ignore[operator]
    unknowns = sum(filter_entries(exact, n) if stored_dense(exact, n) else n for n in entries)
    if not linear or (min(rows, unknowns) > LARGEST_SOLVE and options.solver is None):
        if options.outer_steps is not None:
            return choices
        return affordable_steps(choices, model, file.examples - choices.train_support)
    dense = all(stored_dense(exact, n) for n in entries)
    if options.find_steps and not dense:
        raise MetasymError(
            f"expected a dense U ({asked('symmetry', 'dense')}) with {asked('find_steps')}, found a Kronecker one",
            about="symmetry",
            found="kronecker",
        )
    return dataclasses.replace(
        exact,
        find_steps=(125 if dense else 0) if options.find_steps is None else options.find_steps,
        outer_steps=options.outer_steps or 125,
        patience=options.patience or 4,
    )


def _is_linear(file: TaskFile, choices: Choices, model: nn.Module) -> bool:
    x = _some(file, choices).support.x[0]
    params = parameters_of(model)
    try:
        check_linear(ModelPredictor(model, params), params, x)
    except MetasymError:
        return False
    return True


def _check_network(file: TaskFile, choices: Choices, model: nn.Module) -> None:
    """Refuse a network that does not take the examples or does not give outputs of their shape."""
    episode = _some(file, choices)
    x, y = episode.support.x[0], episode.support.y[0]
    try:
        with torch.no_grad():
            found: Any = model(x)
    except Exception as error:
        raise MetasymError(
            f"{asked('model', choices.model)}: expected a network for x {list(x.shape)}, "
            f"found {type(error).__name__}: {in_one_line(error)}",
            about="model",
            found=type(error).__name__,
        ) from None
    shape = list(getattr(found, "shape", []))
    want = [len(x), file.classes] if file.classes else list(y.shape)
    fits = (
        shape[:1] == want[:1] and len(shape) == 2 and shape[1] >= file.classes
        if file.classes
        else shape == want
    )
    if not fits:
        raise MetasymError(
            f"{asked('model', choices.model)}: expected predictions {want} for x {list(x.shape)}, found {shape}",
            about="model",
            found=shape,
        )


def _some(file: TaskFile, choices: Choices) -> Any:
    tasks = StoredTasks(file, [0, 1], support=choices.train_support, layout=choices.layout)
    return sample(tasks, torch.tensor([0]), 0)
