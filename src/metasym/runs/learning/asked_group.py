"""The group that a user asks a run about, on the outputs and inputs of its tasks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from metasym.runs.files.learn_options import Choices
from metasym.tasks.task_file import TaskFile
from metasym.types import MetasymError
from metasym.verdicts.reports import AskedGroup

if TYPE_CHECKING:
    from metasym.inspection.given_groups import GivenGroup


def asked_group(group: GivenGroup | None, choices: Choices, file: TaskFile) -> AskedGroup | None:
    """The group that the user asks about, on the tasks' outputs and inputs."""
    if group is None:
        return None
    if choices.solver != "evidence":
        found = "labels" if file.classes else f"--model {choices.model} by --solver {choices.solver}"
        raise MetasymError(
            f"expected --group only where one linear layer is learned by evidence, found {found}; the adapted "
            "networks of any finished run answer metasym inspect --function --group",
            about="group",
            found=found,
        )
    from metasym.inspection.given_groups import hypothesis  # few runs ask

    layout = choices.layout
    asked = hypothesis(group, math.prod(layout.output_shape), math.prod(layout.input_shape))
    return AskedGroup(asked.text, asked.group.generators, asked.invariance)
