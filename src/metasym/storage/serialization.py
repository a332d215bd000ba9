"""Nested state as the bytes of one sealed safetensors file, and back, without executing anything.

Tensors become entries of the safetensors file; everything else becomes JSON in its ``__metadata__``.
A seal, the SHA-256 of all bytes of the file (its own 64 digits taken as zeros), stands beside that
JSON: one changed byte anywhere is found before a single value is used.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from metasym.types import MetasymError

FORMAT = "metasym"
VERSION = 1
_BLANK = b"0" * 64
_SEAL = b'"sha256":"'


class CheckpointError(MetasymError):
    """A file that is not a whole, unchanged metasym checkpoint, or not one of this run."""


def pack(state: dict[str, Any]) -> bytes:
    """The bytes of a sealed file holding ``state``: nested dicts, lists, tuples, numbers, text, tensors.

    Tensors that share memory are stored once each (safetensors refuses aliases), views contiguously.
    """
    tensors: dict[str, Tensor] = {}
    tree = _encode(state, "", tensors)
    text = json.dumps({"format": FORMAT, "version": VERSION, "state": tree}, separators=(",", ":"))
    sealed = {"metasym": text, "sha256": _BLANK.decode()}
    data = _in_order(safetensors.torch.save(tensors, metadata=sealed), sealed)
    start, digest = _seal(data)
    data[start : start + 64] = digest
    return bytes(data)


def _in_order(data: bytes, metadata: dict[str, str]) -> bytearray:
    """The same file with its metadata in one order: the library's own order differs from process to process."""
    size = int.from_bytes(data[:8], "little")
    entries = json.loads(data[8 : 8 + size])
    del entries["__metadata__"]
    header = json.dumps({"__metadata__": metadata, **entries}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # tensors begin at multiples of eight bytes
    return bytearray(len(header).to_bytes(8, "little") + header + data[8 + size :])


def unpack(data: bytes, name: str) -> dict[str, Any]:
    """The state that :func:`pack` stored in ``data``; ``name`` is what errors call the file."""
    if not data:
        raise CheckpointError(
            f"{name}: expected a metasym checkpoint, found an empty file", about=name, found="an empty file"
        )
    try:
        size = int.from_bytes(data[:8], "little")
        if len(data) < 8 or size > len(data) - 8:
            raise ValueError
        metadata = json.loads(data[8 : 8 + size]).get("__metadata__", {})
        text, digest = metadata["metasym"], metadata["sha256"]
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise CheckpointError(
            f"{name}: expected a metasym checkpoint, found a truncated or corrupted file, or another format",
            about=name,
            found="another format",
        ) from None
    try:
        intact = _seal(data)[1].decode() == digest
    except ValueError:
        intact = False
    if not intact:
        raise CheckpointError(
            f"{name}: expected the SHA-256 stored in the file, found other content: corrupted",
            about=name,
            found="other content",
        )
    try:
        header = json.loads(text)
        found = (header["format"], header["version"])
        if found == (FORMAT, VERSION):
            state = dict(_decode(header["state"], safetensors.torch.load(data)))
    except (ValueError, KeyError, TypeError, RecursionError, safetensors.SafetensorError) as error:
        raise CheckpointError(
            f"{name}: expected a metasym checkpoint, found bad content ({error})",
            about=name,
            found="bad content",
        ) from None
    if found != (FORMAT, VERSION):
        raise CheckpointError(
            f"{name}: expected format {FORMAT} version {VERSION}, found {found[0]!s:.40} version {found[1]!s:.40}",
            about=name,
            found=found,
        )
    return state


def _seal(data: bytes | bytearray) -> tuple[int, bytes]:
    """Where the seal's 64 digits start, and the digits that belong there.

    Quotes inside JSON text and tensor names are escaped, so the first match is the metadata's own.
    """
    start = data.index(_SEAL) + len(_SEAL)
    view = memoryview(data)
    digest = hashlib.sha256(view[:start])
    digest.update(_BLANK)
    digest.update(view[start + 64 :])
    return start, digest.hexdigest().encode()


def _encode(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """``value`` as JSON; tensors are moved into ``tensors`` under their path, and a reference takes their place."""
    if isinstance(value, Tensor):
        tensors[path] = value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        return {"$tensor": path}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list):
        return [_encode(v, f"{path}/{i}", tensors) for i, v in enumerate(value)]
    if isinstance(value, tuple):
        return {"$tuple": _encode(list(value), path, tensors)}
    if isinstance(value, dict):
        plain = all(isinstance(k, str) and not k.startswith("$") for k in value)
        if plain and not isinstance(value, Counter):
            return {k: _encode(v, f"{path}/{k}".lstrip("/"), tensors) for k, v in value.items()}
        kind = "$counter" if isinstance(value, Counter) else "$items"
        return {kind: [[k, _encode(v, f"{path}/{k}", tensors)] for k, v in value.items()]}
    raise MetasymError(
        f"expected tensors, numbers, text, lists, tuples and dicts in {path}, found {type(value).__name__}",
        about=path,
        found=type(value).__name__,
    )


def _decode(tree: Any, tensors: dict[str, Tensor]) -> Any:
    """The inverse of :func:`_encode`."""
    if isinstance(tree, list):
        return [_decode(v, tensors) for v in tree]
    if not isinstance(tree, dict):
        return tree
    if "$tensor" in tree:
        return tensors[tree["$tensor"]]
    if "$tuple" in tree:
        return tuple(_decode(tree["$tuple"], tensors))
    if "$items" in tree:
        return {k: _decode(v, tensors) for k, v in tree["$items"]}
    if "$counter" in tree:
        return Counter(dict(tree["$counter"]))
    return {k: _decode(v, tensors) for k, v in tree.items()}
