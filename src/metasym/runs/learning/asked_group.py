"""The group that a user asks a run about, on the outputs and inputs of its tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metasym.errors import asked, option_name
from metasym.runs.files.learn_options import Choices
from metasym.storage.same_run import as_stored
from metasym.tasks.task_file import TaskFile
from metasym.types import MetasymError
from metasym.verdicts.reports import AskedGroup

if TYPE_CHECKING:
    from metasym.inspection.given_groups import GivenGroup


def check_same_group(wanted: Mapping[str, Any], stored: Mapping[str, Any], folder: Path) -> None:
    """Refuse a folder whose run was asked about another group than the ``wanted`` choices ask about."""
    one, other = (as_stored(choices).get("asked") for choices in (wanted, stored))
    if one == other:
        return
    here, there = (
        f"no {option_name('group')}" if given is None else asked("group", given["text"])
        for given in (one, other)
    )
    found = f"one with {there}" if here != there else "one where that was another group"
    raise MetasymError(
        f"{folder}: expected an empty folder or a run with {here}, found {found}",
        about=f"{folder}: {option_name('group')}",
        found=None if other is None else other["text"],
    )


def asked_group(group: GivenGroup | None, choices: Choices, file: TaskFile) -> AskedGroup | None:
    """The group that the user asks about, on the tasks' outputs and inputs."""
    if group is None:
        return None
    if choices.solver != "evidence":
        used = f"{asked('model', choices.model)} by {asked('solver', choices.solver)}"
        found = "labels" if file.classes else used
        raise MetasymError(
            f"expected {asked('group')} only where one linear layer is learned by evidence, found {found}; the "
            "adapted networks of any finished run answer metasym inspect --function --group",
            about="group",
            found=found,
        )
    from metasym.inspection.given_groups import hypothesis  # few runs ask

    layout = choices.layout
    given = hypothesis(group, math.prod(layout.output_shape), math.prod(layout.input_shape))
    return AskedGroup(given.text, given.group.generators, given.invariance)
