"""One thing changed in one file: a field, some bytes, or content that is sealed again."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from metasym.storage.serialization import pack, unpack


def deep(levels: int) -> list[Any]:
    """A list in a list in a list."""
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


POISONS: tuple[Any, ...] = (
    *(-1, 0, 1, 7, 10**6, 10**12, 2**63, 2**70, 10**400, -0.5, 1e-300, 1e308, float("nan"), float("inf")),
    *({}, {"a": 1}, [], [1], ["a"], [None], deep(50), deep(500), None, True, False),
    *("", "x", "x" * 10**5, "../../etc/passwd", "\ud800", "<script>", "cuda", "os:system"),
)


def poisoned(tree: Any, draw: random.Random, poisons: tuple[Any, ...] = POISONS) -> tuple[Any, str]:
    """A copy of a nested value with one place changed, removed or added; and which."""
    tree = copy.deepcopy(tree)
    places = list(_places(tree, ()))
    path = draw.choice(places)
    holder = tree
    for step in path[:-1]:
        holder = holder[step]
    what = draw.random()
    name = ".".join(map(str, path))
    if what < 0.1 and isinstance(holder, dict):
        del holder[path[-1]]
        return tree, f"{name} removed"
    if what < 0.15 and isinstance(holder, dict):
        holder["unknown"] = draw.choice(poisons)
        return tree, f"{name} beside an unknown field"
    holder[path[-1]] = draw.choice(poisons)
    return tree, f"{name} = {holder[path[-1]]!r:.40}"


def _places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        # Of a long list some entries stand for all: else nothing but scores of tasks would be tried.
        if not isinstance(value, list) or key < 3:
            yield from _places(item, (*path, key))


def flipped(data: bytes, draw: random.Random) -> tuple[bytes, str]:
    """Bytes with one bit changed, cut off, or with some of them replaced."""
    what, at = draw.random(), draw.randrange(len(data))
    if what < 0.6:
        bit = draw.randrange(8)
        return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :], f"bit {bit} of byte {at}"
    if what < 0.8:
        return data[:at], f"cut at {at}"
    return data[:at] + draw.randbytes(8) + data[at + 8 :], f"8 bytes at {at}"


def resealed(data: bytes, draw: random.Random) -> tuple[bytes, str]:
    """A sealed file whose content was changed by someone who can seal it again."""
    odd = (torch.zeros(0), torch.ones(3, 3), torch.tensor(float("nan")), torch.ones(2, dtype=torch.int64))
    poisons = (*(p for p in POISONS if p != "\ud800"), *odd)
    while True:
        state, what = poisoned(unpack(data, "x"), draw, poisons)
        with contextlib.suppress(Exception):  # a few cannot be packed: too deep
            return pack(state), f"sealed again, {what}"


def tampered(path: Path, kind: str, draw: random.Random) -> str:
    """Change one thing in the file; what."""
    if kind == "metrics":
        lines = path.read_text().splitlines()
        number = draw.randrange(len(lines))
        if draw.random() < 0.2:
            data, what = flipped(path.read_bytes(), draw)
            path.write_bytes(data)
            return what
        record, what = poisoned(json.loads(lines[number]), draw)
        lines[number] = json.dumps(record)
        path.write_text("\n".join(lines) + "\n")
        return f"line {number + 1}: {what}"
    if kind in ("config", "result"):
        value, what = poisoned(json.loads(path.read_text()), draw)
        path.write_text(json.dumps(value))
        return what
    data, what = (resealed if draw.random() < 0.5 else flipped)(path.read_bytes(), draw)
    path.write_bytes(data)
    return what


def odd_npz(path: Path, draw: random.Random) -> str:
    """A file of tasks with something wrong in it, or in its bytes."""
    if draw.random() < 0.6:
        data, what = flipped(path.read_bytes(), draw)
        path.write_bytes(data)
        return what
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in ("x", "y")}
    name = draw.choice(("x", "y"))
    good = arrays[name]
    odd: dict[str, Any] = {
        "nan": np.where(np.arange(good.size).reshape(good.shape) == 3, np.nan, good),
        "infinite": good * np.inf,
        "zeros": good * 0,
        "huge": good * 1e300,
        "text": good.astype(str),
        "objects": np.array([{"a": 1}], dtype=object),
        "complex": good.astype(complex),
        "empty": good[:0],
        "one number": np.float64(3),
        "two dimensions": good[:, :, 0],
        "other tasks": good[:-1],
        "other examples": good[:, :-1],
        "whole numbers": good.astype(np.int64),
        "negative labels": -np.ones(good.shape[:2], dtype=np.int64),
        "one task": good[:1],
        "one example": good[:, :1],
        "many dimensions": good.reshape(*good.shape, 1, 1, 1),
        "times": good.astype("datetime64[s]"),
        "big-endian": good.astype(">f8"),
        "half": good.astype(np.float16),
    }
    what = draw.choice(list(odd))
    arrays[name] = odd[what]
    if draw.random() < 0.1:
        del arrays[name]
        what = "missing"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return f"{name}: {what}"


def circular(path: Path) -> None:
    """Tasks for ``metasym learn``: circular convolutions of 4 points."""
    draw = np.random.default_rng(0)
    filters, x = draw.standard_normal((24, 4)), draw.standard_normal((24, 6, 4))
    y = np.stack([np.einsum("tpq,teq->tep", np.stack([np.roll(filters, i, 1) for i in range(4)], 1), x)])[0]
    np.savez(path, x=x, y=y)
