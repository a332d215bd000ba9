"""The choices of a run, in words."""

from __future__ import annotations

from metasym.runs.files.learn_options import Choices
from metasym.runs.learning.large_layers import is_large


def network_words(choices: Choices) -> str:
    """The network and its sizes."""
    shape = "x".join(map(str, choices.layout.input_shape))
    outputs = "x".join(map(str, choices.layout.output_shape))
    words = {
        "fc": "fc: one fully connected layer",
        "mlp": f"mlp: {choices.hidden} hidden units",
        "conv1d": f"conv1d: kernels of {choices.kernel_size}",
        "conv2d": f"conv2d: kernels of {choices.kernel_size} x {choices.kernel_size}",
    }.get(choices.model, choices.model)
    if choices.model.startswith("conv"):
        words += (
            ", one layer" if choices.single_layer else f", two layers of {choices.hidden} channels, pooled"
        )
        words += f", stride {choices.stride}" if choices.stride > 1 else ""
    return f"{words}, {shape} -> {outputs}"


def adaptation_words(choices: Choices) -> str:
    """How a task is adapted to."""
    if choices.solver == "evidence":
        return "posterior mean under the prior with the highest evidence"
    if choices.solver == "sgd":
        return f"{choices.inner_steps} steps of SGD, step sizes learned from {choices.inner_lr:g}"
    if choices.penalty is None:
        return "exact (ridge), penalty chosen on the validation tasks"
    return f"exact (ridge), penalty {choices.penalty:g}"


def steps_words(choices: Choices) -> str:
    """How long is trained."""
    if is_large(choices):
        return f"none: U is read from the tasks' own weights; at most {choices.outer_steps} for the baseline"
    if choices.solver == "evidence":
        return f"none; at most {choices.outer_steps} for the baseline"
    first = f"{choices.find_steps} to find the filter's size, then " if choices.find_steps else ""
    return (
        f"{first}at most {choices.outer_steps}, until {choices.patience} validations "
        f"(one in {choices.validate_every} steps) in a row are no better"
    )
