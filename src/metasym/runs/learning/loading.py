"""The learner of ``metasym learn`` as it is scored and stored: made from choices and the sizes of its filters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from metasym.learners.evidence_msr import EvidenceMSR
from metasym.learners.gradient import GradientLearner
from metasym.runs.files.learn_options import Choices
from metasym.runs.files.model_files import filter_sizes, layers_of, read_model_file, write_model
from metasym.runs.learning.chosen_learners import loss_of, maml, msr
from metasym.runs.learning.networks import plain_network, symmetric_network
from metasym.storage.file_names import MODEL, SYMMETRY
from metasym.training.checkpoint import check_learner
from metasym.types import MetasymError

AnyLearned = GradientLearner | EvidenceMSR


def as_stored(choices: Choices, classes: int, method: str, learner: AnyLearned) -> AnyLearned:
    """The learner as opening its run will make it: what is scored is what is stored, to the bit."""
    sizes = {name: math.prod(layer["filter_shape"]) for name, layer in layers_of(learner.model).items()}
    made = _blank(choices, classes, method, sizes, None)
    made.load_state_dict(learner.state_dict())
    _set_penalty(made, _penalty(learner))
    return made.to(next(learner.parameters()).device)


def store(folder: Path, learner: AnyLearned) -> None:
    """Write the learner, with the penalty that was chosen for it."""
    write_model(
        folder, learner.model, learner.state_dict(), learner.describe(), {"penalty": _penalty(learner)}
    )


def load_scored(
    folder: Path, config: Mapping[str, Any], choices: Choices, function: Callable[[], nn.Module] | None
) -> AnyLearned:
    """The learner of a finished run (MSR's folder, or the baseline's in it), exactly as it was scored."""
    stored = read_model_file(folder)
    if function is None and ":" in choices.model:  # not imported by itself: a run's files execute no code
        raise MetasymError(
            f"{folder}: expected the function that makes the network, ms.open_run(..., model={choices.model}), "
            f"found none; metasym inspect {folder / SYMMETRY} needs none",
            about="model",
        )
    made = _blank(choices, config["data"]["classes"], config["method"], filter_sizes(stored), function)
    check_learner(made, stored, str(folder / MODEL), method_only=True)
    made.load_state_dict(stored["learner"])
    _set_penalty(made, stored["settings"].get("penalty"))
    return made


def _blank(
    choices: Choices,
    classes: int,
    method: str,
    sizes: Mapping[str, int],
    function: Callable[[], nn.Module] | None,
) -> AnyLearned:
    loss = loss_of(classes)
    if method != "msr":
        return maml(choices, plain_network(choices, function), loss)
    if choices.solver == "evidence":
        (directions,) = sizes.values()
        inputs, outputs = (math.prod(s) for s in (choices.layout.input_shape, choices.layout.output_shape))
        return EvidenceMSR(inputs, outputs, bias=choices.bias, directions=directions)
    return msr(choices, symmetric_network(choices, sizes, function), loss)


def _penalty(learner: AnyLearned) -> float | None:
    return learner.penalty if isinstance(learner, GradientLearner) and learner.solver != "sgd" else None


def _set_penalty(learner: AnyLearned, penalty: Any) -> None:
    if isinstance(learner, GradientLearner) and penalty is not None:
        learner.penalty = float(penalty)
