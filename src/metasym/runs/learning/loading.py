"""A finished run of ``metasym learn``, opened: its config, its choices, its learner as trained."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from metasym.learners.evidence_msr import EvidenceMSR
from metasym.learners.gradient import GradientLearner
from metasym.runs.files.config_files import read_config
from metasym.runs.files.learn_options import Choices
from metasym.runs.files.result_files import read_result
from metasym.runs.learning.networks import plain_network, symmetric_network
from metasym.runs.learning.restored_directions import completed
from metasym.runs.learning.training_stages import loss_of, maml, msr
from metasym.storage.file_names import CONFIG, CURRENT, RESULT, SYMMETRY
from metasym.training.checkpoint import load
from metasym.types import MetasymError

AnyLearned = GradientLearner | EvidenceMSR


def open_learned(
    folder: str | os.PathLike[str], function: Callable[[], nn.Module] | None = None
) -> tuple[dict[str, Any], Choices, AnyLearned]:
    """The config of a finished run (MSR's folder, or the baseline's in it), its choices, its learner as trained."""
    path = Path(folder)
    config = read_config(path, "learn")
    if not (path / RESULT).exists():
        raise MetasymError(
            f"{path}: expected a finished run with {RESULT}, found none: metasym learn --resume goes on with it"
        )
    choices, result = Choices.from_dict(config["choices"], str(path / CONFIG)), read_result(path / RESULT)
    if function is None and ":" in choices.model:  # not imported by itself: a run's files execute no code
        raise MetasymError(
            f"{path}: expected the function that makes the network, ms.load_learned(..., model={choices.model}), "
            f"found none; metasym inspect {path / SYMMETRY} needs none"
        )
    loss = loss_of(config["data"]["classes"])
    penalty = result["penalty"] if result.get("penalty") is not None else 0.0
    if config["method"] != "msr":
        learner = maml(choices, plain_network(choices, function), loss, penalty)
        return config, choices, load(path / CURRENT, learner)
    sizes = {name: math.prod(shape) for name, shape in result["filter_sizes"].items()}
    if choices.solver == "evidence":
        (directions,) = sizes.values()
        inputs, outputs = (math.prod(s) for s in (choices.layout.input_shape, choices.layout.output_shape))
        blank = EvidenceMSR(inputs, outputs, bias=choices.bias, directions=directions)
        return config, choices, load(path / CURRENT, blank)
    found = load(path / CURRENT, msr(choices, symmetric_network(choices, sizes, function), loss, penalty))
    given = result.get("completed")
    return config, choices, found if given is None else completed(choices, found, float(given["strength"]))
