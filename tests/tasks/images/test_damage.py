"""Bytes changed at random: what is accepted is right, all else is one line."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from metasym.tasks.images.cache import convert, open_images
from metasym.tasks.images.decode import FORMATS, decode
from metasym.tasks.images.sources import read_all
from metasym.types import MetasymError
from tests.tasks.images.builders import omniglot_module, write_npz, write_zips
from tests.tasks.images.builders import small_omniglot as small_omniglot
from tests.tasks.images.test_mini_imagenet import encoded


def spoiled(data: bytes, rng: random.Random) -> bytes:
    """Cut short, or with up to 20 other bytes, more of them where the headers and directories are."""
    if rng.random() < 0.2:
        return data[: rng.randrange(len(data))]
    found = bytearray(data)
    for _ in range(rng.choice((1, 2, 20))):
        near = rng.randrange(min(400, len(data)))
        place = rng.choice((rng.randrange(len(data)), near, len(data) - 1 - near))
        found[place] = rng.choice((0, 255, rng.randrange(256)))
    return bytes(found)


def outcome(read: Callable[[], object]) -> object:
    try:
        return read()
    except MetasymError as error:
        assert "\n" not in str(error)
        return None


def from_source(path: Path) -> list[tuple[str, bytes]]:
    source = omniglot_module.find(path, 28)
    return [(found.name, found.images.tobytes()) for found in read_all(source)]


def from_cache(path: Path) -> list[tuple[str, bytes]]:
    classes = open_images(path)
    return [
        (name, np.asarray(classes.images[first : first + count]).tobytes())
        for name, first, count in zip(
            classes.names, classes.first.tolist(), classes.counts.tolist(), strict=True
        )
    ]


@pytest.mark.parametrize("kind", ["zip", "npz", "images"])
def test_damaged_files(small_omniglot, kind):
    write_zips(small_omniglot)
    path, read = small_omniglot / "images_background.zip", from_source
    if kind == "npz":
        path = write_npz(small_omniglot / "o.npz")
    elif kind == "images":
        source = omniglot_module.find(path, 28)
        path, read = small_omniglot / "o.images", from_cache
        convert(path, "a test", lambda: read_all(source))
    good, wanted = path.read_bytes(), read(path)
    rng = random.Random(0)
    refused = 0
    for _ in range(80):
        path.write_bytes(spoiled(good, rng))
        found = outcome(lambda: read(path))
        assert found is None or found == wanted
        refused += found is None
    assert refused > 40


@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_images(kind):
    good = encoded("n01", 1, kind, size=12)
    rng = random.Random(0)
    for _ in range(60):
        bad = spoiled(good, rng)
        found = outcome(lambda data=bad: decode(data, "image", channels=3, size=12))
        assert found is None or (found.shape == (3, 12, 12) and found.dtype == np.uint8)
