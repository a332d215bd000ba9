"""``metasym discover``: a file in, a folder with the verdict, the errors and the model out. Resumable."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import sklearn
import torch
from torch import nn

from metasym.discovery.discovered import Discovered
from metasym.discovery.families.family_symmetries import FamilyModel, discover_family_in
from metasym.discovery.models.fitted_module import module_of
from metasym.discovery.one_function import discover_in
from metasym.discovery.search_settings import Note
from metasym.errors import in_one_line
from metasym.inspection.given_groups import GivenGroup, Hypothesis, hypothesis
from metasym.runs.discovering.discover_options import DiscoverOptions, DiscoverReading
from metasym.runs.files.command_line import command_line, flags
from metasym.runs.files.config_files import read_config
from metasym.runs.files.discover_files import (
    COMMAND,
    StageFile,
)
from metasym.runs.files.result_files import read_result, write_result
from metasym.runs.machine import commit, threads_of_small_problems, versions
from metasym.storage.atomic import make_inside, write_atomically
from metasym.storage.file_names import CONFIG, MODEL, RESULT, STAGES
from metasym.storage.json_files import read_json, write_json
from metasym.storage.locks import FolderLock
from metasym.storage.options import changed
from metasym.storage.same_run import check_same_run
from metasym.storage.serialization import CheckpointError, pack
from metasym.storage.system import peak_memory
from metasym.tasks.dataset import DataSet, Family
from metasym.types import MetasymError


def discover_file(
    data: DataSet | Family,
    path: Path,
    out: str | os.PathLike[str],
    options: DiscoverOptions,
    *,
    reading: DiscoverReading | None = None,
    resume: bool = False,
    note: Note = lambda _: None,
    threads_used: int | None = None,
) -> dict[str, Any]:
    """Look for symmetries in ``data``, which came from ``path``; everything goes into the folder ``out``.

    ``reading`` holds the options that ``path`` was read with, for the command line in the result. ``threads_used``
    is one where it is not given: systems of some thousand rows gain little by more. Gives what ``result.json`` holds.
    A finished run of the same data and options is not run again; with ``resume`` one that was killed goes on behind
    the last search that ended.
    """
    folder = Path(out)
    lock = FolderLock(folder)
    try:
        wanted = config_of(data, str(path.resolve()), options)
        if (folder / CONFIG).exists():
            check_same_run(_settings(wanted), _settings(read_config(folder, "discover")), str(folder))
            if (folder / RESULT).exists():
                return read_result(folder / RESULT)
        else:
            write_json(folder / CONFIG, wanted)
        stages = make_inside(folder, STAGES)
        if not resume:
            for old in stages.glob("*.json"):
                old.unlink()
        began = time.perf_counter()
        with threads_of_small_problems(threads_used):
            memory = _memory(stages, note)
            with _as_searched(stages):
                if isinstance(data, Family):
                    refuse_group(options.group)
                    found = discover_family_in(data, options, note=note, memory=memory)
                else:
                    asked = asked_of(data, options.group)
                    found = discover_in(data, options, note=note, memory=memory, asked=asked)
        write_atomically(folder / MODEL, pack(found.state or {}), what="a model")
        given = flags({**changed(reading or DiscoverReading()), **changed(options)})
        typed = command_line(COMMAND, str(path), given)
        return write_result(
            folder, result_of(found, f"{COMMAND}/{path.stem}", typed, wanted, time.perf_counter() - began)
        )
    finally:
        lock.release()


def config_of(data: DataSet | Family, path: str, options: DiscoverOptions) -> dict[str, Any]:
    """What ``config.json`` holds."""
    return {"command": COMMAND, "data": {"path": path, **data.describe()}, "options": asdict(options)}


def asked_of(data: DataSet, group: GivenGroup | None) -> Hypothesis | None:
    """The group that a user asks about, on the outputs and inputs of the data."""
    return None if group is None else hypothesis(group, data.y.shape[1], data.x.shape[1])


def refuse_group(group: GivenGroup | None) -> None:
    """A family of tasks is asked elsewhere."""
    if group is not None:
        raise MetasymError(
            "expected a group together with rows of one function, found tasks of a family: metasym learn --group, "
            "ms.learn(x, y, group=...) asks them",
            about="group",
            found="a family",
        )


def module_in(state: dict[str, Any], name: str) -> nn.Module | FamilyModel:
    """The model that ``state`` defines: an ordinary module, ``x [points, ...]`` to y.

    Of a family of tasks, a model whose ``adapt(x, y)`` gives such a module for a new task. ``name`` is what errors
    call the file.
    """
    try:
        if "family" in state:
            return FamilyModel(state)
        module = module_of(state)
        inner = state["inner"] if "orbits" in state else state
        width = state["sources"].shape[1] if "sources" in state else int(inner["used"].max()) + 1
        module(torch.zeros(2, width))  # tensors that do not fit each other show only here
        return module
    except (KeyError, TypeError, ValueError, RuntimeError, IndexError) as error:
        said = in_one_line(error)
        raise CheckpointError(
            f"{name}: expected a model of metasym discover, found {said}", about=name, found=said
        ) from None


@contextlib.contextmanager
def _as_searched(folder: Path) -> Iterator[None]:
    """What goes wrong with the findings of earlier searches, as one line; without any it is a defect."""
    before = any(folder.glob("*.json"))
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
        if not before:
            raise
        said = in_one_line(error)
        raise MetasymError(
            f"{folder}: expected what searches of these data found, found {type(error).__name__}: {said}; without "
            "--resume they run again",
            about=str(folder),
            found=type(error).__name__,
        ) from error


def _memory(folder: Path, note: Note) -> Callable[[str, Callable[[], dict[str, Any]]], dict[str, Any]]:
    """What a search found, kept in a file of its own: a run that was killed does not search again."""

    def remember(stage: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        path = folder / f"{stage.replace(' ', '-')}.json"
        if path.exists():
            with contextlib.suppress(MetasymError):  # a damaged one is made again
                found = read_json(path, "what a search found", StageFile)
                note(f"{stage}: searched before")
                return found
        found = compute()
        write_json(path, found)
        return read_json(path, "what a search found")

    return remember


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """What makes a run the run it is: a file may have been moved."""
    data = {key: value for key, value in config["data"].items() if key != "path"}
    return {"data": data, "options": config["options"]}


def result_of(
    found: Discovered, name: str, typed: str, config: dict[str, Any], seconds: float
) -> dict[str, Any]:
    """What ``result.json`` holds."""
    symmetric = None if found.symmetric is None else found.symmetric.as_dict(found.metric)
    return {
        "experiment": name,
        "recipe": COMMAND,
        **found.verdict.to_json(),
        "plain": None if found.plain is None else found.plain.as_dict(found.metric),
        "symmetric": symmetric,
        "answer": None if found.answer is None else found.answer.to_json(),
        "examples": found.examples,
        "held_out": found.held_out,
        "family": found.family,
        "notes": found.notes,
        "seconds": seconds,
        "peak_memory_mb": peak_memory(),
        "command": typed,
        "commit": commit(),
        "versions": {**versions(), "scikit-learn": sklearn.__version__},
        "config": config,
    }
