"""``config.json`` of every kind of run: one reader, with a description for each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypedDict

from metasym.runs.files.learn_files import LearnConfig
from metasym.storage.described import Count, described
from metasym.storage.file_names import CONFIG
from metasym.storage.json_files import read_json
from metasym.types import MetasymError

Kind = Literal["learn", "discover", "run", "train"]
"""Which command, or ``ms.train``, has made a run."""


class TrainConfig(TypedDict, total=False):
    """``config.json`` of a training by ``ms.train``, or of a program of its own: few fields have a meaning."""

    name: str
    experiment: str
    method: str
    outer_steps: Count
    learner: dict[str, Any]
    run: dict[str, Any]
    choices: dict[str, Any]


def kind_of(config: dict[str, Any]) -> Kind:
    """The kind of the run with this config."""
    if config.get("command") == "learn":
        return "learn"
    if config.get("command") == "discover":
        return "discover"
    return "run" if isinstance(config.get("recipe"), dict) else "train"


def check_config(found: dict[str, Any], name: str) -> None:
    """Refuse a config with a field that cannot be; ``name`` is what errors call the file."""
    kind = kind_of(found)
    if kind == "run":
        from metasym.paper.config import experiment_from  # no other kind of run needs recipes

        experiment_from(found, name)
    elif kind == "discover":
        from metasym.runs.files.discover_files import DiscoverConfig  # nor the words of discoveries

        described(found, DiscoverConfig, name)
    else:
        described(found, LearnConfig if kind == "learn" else TrainConfig, name)


def read_config(folder: Path, kind: Kind | None = None) -> dict[str, Any]:
    """The config of the run in ``folder``, of this kind, with every field that has a meaning as it may be."""
    path = folder / CONFIG
    if not folder.is_dir():
        raise MetasymError(
            f"{folder}: expected the folder of a run, found {'a file' if folder.exists() else 'nothing there'}",
            about=str(folder),
            found="a file" if folder.exists() else None,
        )
    if not path.exists():
        runs = sorted(str(below.parent.relative_to(folder)) for below in folder.glob(f"*/{CONFIG}"))[:3]
        inside = f", but runs below it: {', '.join(runs)}, ..." if runs else ""
        raise MetasymError(
            f"{folder}: expected the folder of a run with {CONFIG}, found none{inside}",
            about=str(folder / CONFIG),
        )
    found = read_json(path, "the config of a run")
    if kind is not None and kind_of(found) != kind:
        raise MetasymError(
            f"{folder}: expected a run of {kind_words(kind)}, found one of {kind_words(kind_of(found))}",
            about=str(folder),
            found=kind_of(found),
        )
    check_config(found, str(path))
    return found


def kind_words(kind: Kind) -> str:
    """Who has made a run."""
    return "ms.train" if kind == "train" else f"metasym {kind}"
