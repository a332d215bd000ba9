"""JSON schemas of what other programs read: ``inspect --json`` and ``result.json`` of every kind of run.

They promise the fields that are named here, with these types; files hold more, which may change. A change of a
promise is a new version. ``python -m metasym.runs.files.schemas docs/schema`` writes them as files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import msgspec

from metasym.storage.described import Count, Scalar, Score

VERSION = 1


class PromisedElement(TypedDict):
    """A signed permutation: output i goes to ``outputs[i]`` with a sign, inputs likewise."""

    outputs: list[Count]
    inputs: list[Count]
    output_signs: list[int]
    input_signs: list[int]


class PromisedGroup(TypedDict):
    """The group that was found in a layer."""

    name: str
    order: int
    generators: list[PromisedElement]
    defect_upper: Score


class PromisedRung(TypedDict):
    """A group that was tested on held-out tasks."""

    name: str
    generators: list[PromisedElement]
    defect_upper: Score
    refuted: bool


class PromisedLayer(TypedDict):
    """A layer with a symmetry."""

    name: str
    group: PromisedGroup | None
    ladder: list[PromisedRung]


class PromisedInspection(TypedDict):
    """``metasym inspect --json``."""

    version: Count
    layers: list[PromisedLayer]


class PromisedConfig(TypedDict):
    """Of ``metasym run``: the name of the recipe; other commands have none."""

    recipe_name: NotRequired[str]


class PromisedResult(TypedDict):
    """``result.json`` of ``metasym run`` and ``metasym learn``."""

    schema: NotRequired[Count]
    experiment: str
    recipe: str
    mean: Score
    ci95: Score
    per_task: list[Score]
    config: PromisedConfig


class PromisedSymmetry(TypedDict):
    """A finite symmetry has an order, a continuous one a dimension."""

    kind: str
    name: str
    order: NotRequired[int]
    dimension: NotRequired[Count]


class PromisedDiscovery(TypedDict):
    """``result.json`` of ``metasym discover``."""

    schema: NotRequired[Count]
    experiment: str
    recipe: str
    symmetries: list[PromisedSymmetry]
    versions: dict[str, Scalar]


PROMISED: dict[str, Any] = {
    "inspect": PromisedInspection,
    "result": PromisedResult,
    "discover-result": PromisedDiscovery,
}


def schema(name: str) -> dict[str, Any]:
    """The JSON schema of one kind of file, with its version."""
    found = msgspec.json.schema(PROMISED[name])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"metasym/{name}/{VERSION}",
        "version": VERSION,
        **found,
    }


def write_schemas(folder: Path) -> None:
    """Write each schema into a file of its own."""
    for name in PROMISED:
        (folder / f"{name}.json").write_text(json.dumps(schema(name), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))
