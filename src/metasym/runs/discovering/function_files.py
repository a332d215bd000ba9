"""Functions that a user names: the file of a network, or ``package.module:function``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from metasym.discovery.callables.called_function import CalledFunction
from metasym.discovery.callables.function_symmetries import discover_function_in, looked_at
from metasym.discovery.search_settings import Note
from metasym.errors import in_one_line
from metasym.fast_layers.exporting import SUFFIXES
from metasym.runs.discovering.discover_options import DiscoverOptions
from metasym.runs.discovering.discover_run import result_of
from metasym.runs.files.command_line import command_line, flags
from metasym.runs.files.config_files import read_config
from metasym.runs.files.discover_files import COMMAND
from metasym.runs.files.result_files import read_result, write_result
from metasym.runs.named_functions import named_function
from metasym.storage.file_names import CONFIG, RESULT
from metasym.storage.json_files import write_json
from metasym.storage.locks import FolderLock
from metasym.storage.options import changed
from metasym.storage.plain_files import check_plain
from metasym.storage.same_run import check_same_run
from metasym.tasks.npz import NAMES, damage
from metasym.types import MetasymError

Function = Callable[[Any], Any]


def as_function(given: Any) -> Function | None:
    """A function, or the one in a file that is named; None for data."""
    if isinstance(given, str | os.PathLike):
        return load_function(os.fspath(given))
    if isinstance(given, torch.export.ExportedProgram):
        return given.module()
    return given if callable(given) and not hasattr(given, "__array__") else None


def is_function(name: str) -> bool:
    """Whether a name on the command line is that of a function, not of data."""
    return Path(name).suffix in SUFFIXES or (":" in name and not Path(name).exists())


def load_function(name: str) -> Function:
    """The function in a ``.pt2`` or ``.onnx`` file, or ``package.module:function``, which is imported."""
    path = Path(name)
    if path.suffix in SUFFIXES:
        if not path.is_file():
            raise MetasymError(f"{name}: expected a file with a network, found none", about=name)
        try:
            return _onnx(path) if path.suffix == ".onnx" else torch.export.load(path).module()
        except MetasymError:
            raise
        except Exception as error:  # the readers' own errors are of many kinds
            said = in_one_line(error)
            raise MetasymError(
                f"{name}: expected an exported network, found {type(error).__name__}: {said}", about=name
            ) from None
    if ":" not in name:
        raise MetasymError(
            f"expected a function, a file {' or '.join(SUFFIXES)}, or package.module:function, found {name!r}",
            about="f",
            found=name,
        )
    return named_function(name)


def _onnx(path: Path) -> Function:
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError:
        raise MetasymError(
            "expected the package onnxruntime for .onnx, found none: pip install 'metasym[onnx]'",
            about="onnxruntime",
        ) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    kind = np.float64 if given.type == "tensor(double)" else np.float32

    def run(x: Any) -> Any:
        return session.run(None, {given.name: np.asarray(x, dtype=kind)})[0]

    run.__name__ = path.name
    return run


def read_inputs(path: Path) -> tuple[Any, tuple[str, ...]]:
    """The array ``x`` of an ``.npz`` file, or its only one, and ``input_names``; or an ``.npy`` file."""
    try:
        check_plain(path)
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found, ()
        names = [one for one in found.files if one not in NAMES]
        called = found["input_names"].tolist() if "input_names" in found.files else []
        name = "x" if "x" in names else names[0] if len(names) == 1 else None
        if name is None:
            raise MetasymError(
                f"{path}: expected an array x, found {', '.join(names) or 'none'}", about=str(path)
            )
        return found[name], tuple(map(str, called))
    except MetasymError:
        raise
    except Exception as error:  # a damaged file may raise anything
        said = " ".join(damage(error).split())[:200]
        raise MetasymError(
            f"{path}: expected inputs in an .npz file, found {said}", about=str(path)
        ) from None


def function_config(
    called: CalledFunction, name: str, options: DiscoverOptions, **more: Any
) -> dict[str, Any]:
    """What ``config.json`` holds."""
    data = {"path": name, "function": True, "input_shape": list(called.input_shape)}
    data |= {"output_shape": list(called.output_shape), **more}
    return {"command": COMMAND, "data": data, "options": asdict(options)}


def discover_function_file(
    name: str,
    inputs: Path,
    out: str | os.PathLike[str],
    options: DiscoverOptions,
    *,
    centre: list[float] | None = None,
    matrix_output: bool = False,
    note: Note = lambda _: None,
) -> dict[str, Any]:
    """Look for symmetries of the function called ``name`` at ``inputs``; everything goes into the folder ``out``."""
    folder = Path(out)
    f, (x, names) = load_function(name), read_inputs(inputs)
    called, draws = looked_at(f, x, options.seed, names=names)
    lock = FolderLock(folder)
    try:
        more = {"inputs": str(inputs.resolve()), "points": len(x), "matrix_output": matrix_output}
        more |= {"input_names": list(draws.names)} if draws.names else {}
        more |= {} if centre is None else {"centre": centre}
        config = function_config(called, name, options, **more)
        if (folder / CONFIG).exists():
            check_same_run(config, read_config(folder, "discover"), str(folder))
            if (folder / RESULT).exists():
                return read_result(folder / RESULT)
        write_json(folder / CONFIG, config)
        began = time.perf_counter()
        found = discover_function_in(
            called, draws, options, centre=centre, matrix_output=matrix_output, note=note
        )
        own: dict[str, Any] = {"matrix_output": True} if matrix_output else {}
        own |= {} if centre is None else {"centre": ",".join(map(str, centre))}
        given = flags({"inputs": str(inputs), **own, **changed(options)})
        typed = command_line(COMMAND, name, given)
        seconds = time.perf_counter() - began
        return write_result(folder, result_of(found, f"{COMMAND}/{called.name}", typed, config, seconds))
    finally:
        lock.release()
