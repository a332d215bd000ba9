"""A model as a file that other programs run: ``torch.export``'s archive or ONNX, by the file's suffix."""

from __future__ import annotations

import copy
import io
import logging
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from metasym.fast_layers.compiled_layer import FilterUser
from metasym.storage.atomic import make_folder, write_atomically
from metasym.types import MetasymError

SUFFIXES = (".onnx", ".pt2")


def check_suffix(path: Path) -> None:
    """Refuse a file whose suffix says neither format."""
    if path.suffix not in SUFFIXES:
        raise MetasymError(
            f"{path}: expected a file {' or '.join(SUFFIXES)}, found {path.suffix or 'no suffix'!r}",
            about=str(path),
            found=path.suffix,
        )


def export(model: nn.Module, example: Tensor, path: Path) -> float:
    """Write ``model``, for any number of examples like ``example [examples, ...]``; whole or not at all.

    Returns the largest difference between the outputs of the file, loaded again, and the model's own on
    ``example``; NaN for ONNX where no onnxruntime is installed to load it.
    """
    check_suffix(path)
    model = copy.deepcopy(model).eval()
    for module in model.modules():
        if isinstance(module, FilterUser):
            module.freeze()  # a file is not trained: spectra and the like are part of it
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            data = _onnx(model, example) if path.suffix == ".onnx" else _archive(model, example)
        except MetasymError:
            raise
        except Exception as error:  # the exporters' own errors are of many kinds
            first = (str(error).splitlines() or [""])[0]
            raise MetasymError(
                f"{path}: expected a model that can be exported, found {type(error).__name__}: {first}",
                about=str(path),
                found=type(error).__name__,
            ) from None
        found = _run_onnx(data, example) if path.suffix == ".onnx" else _run_archive(data, example)
        expected = model(example)
    make_folder(path.parent)
    write_atomically(path, data, what="a model")
    return float("nan") if found is None else float((found - expected).abs().max())


def _exported(model: nn.Module, example: Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(model, (example,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))


def _archive(model: nn.Module, example: Tensor) -> bytes:
    file = io.BytesIO()
    torch.export.save(_exported(model, example), file)
    return file.getvalue()


def _run_archive(data: bytes, example: Tensor) -> Tensor:
    found: Tensor = torch.export.load(io.BytesIO(data)).module()(example)
    return found


def _onnx(model: nn.Module, example: Tensor) -> bytes:
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MetasymError(
            f"expected the package {error.name} for .onnx, found none: pip install 'metasym[onnx]'",
            about=error.name,
        ) from None
    loud = logging.getLogger("torch.onnx")
    level = loud.level
    loud.setLevel(logging.ERROR)
    try:
        program = torch.onnx.export(_exported(model, example), dynamo=True, verbose=False)
    finally:
        loud.setLevel(level)
    assert program is not None
    found: bytes = program.model_proto.SerializeToString()
    return found


def _run_onnx(data: bytes, example: Tensor) -> Tensor | None:
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError:
        return None
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: example.numpy()})
    return torch.from_numpy(found)
