"""Where a data set's images come from: a list of classes, each read and decoded when its turn comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from metasym.tasks.images.cache import Converted
from metasym.tasks.images.classes import Images
from metasym.tasks.images.decode import decode
from metasym.types import MetasymError

Progress = Callable[[int, int], None]
"""``progress(images done, images in all)``."""


@dataclass(frozen=True)
class Listed:
    """A class of a source before it is read."""

    name: str
    split: str
    count: int


class Source(Protocol):
    """A data set as a user has it. Faults are MetasymErrors of one line that name the file."""

    @property
    def text(self) -> str:
        """What it is, in words."""
        ...

    @property
    def listing(self) -> Sequence[Listed]:
        """Its classes, sorted by name (within a split)."""
        ...

    def read(self, number: int) -> Images:
        """The images of class ``number`` of the listing, ``[images, C, H, W]``, uint8."""
        ...


@dataclass(frozen=True)
class ImageFile:
    """An image file that can be read: the name that errors give it, and how to get its bytes."""

    name: str
    read: Callable[[], bytes]


@dataclass(frozen=True)
class Files:
    """Image files, class by class."""

    text: str
    listing: Sequence[Listed]
    files: Sequence[Sequence[ImageFile]]
    channels: int
    size: int
    invert: bool = False

    def read(self, number: int) -> Images:
        """The decoded images of one class."""
        decoded = [
            decode(file.read(), file.name, channels=self.channels, size=self.size, invert=self.invert)
            for file in self.files[number]
        ]
        return np.stack(decoded)


def read_all(source: Source, progress: Progress | None = None) -> Iterator[Converted]:
    """The classes of a source, one after the other."""
    done, total = 0, sum(listed.count for listed in source.listing)
    for number, listed in enumerate(source.listing):
        if progress is not None:
            progress(done, total)
        yield Converted(listed.name, listed.split, source.read(number))
        done += listed.count
    if progress is not None:
        progress(done, total)


def check_once(path: Path, what: str, names: Sequence[str]) -> None:
    """Refuse names, such as those of classes, that are not all different."""
    for name, count in Counter(names).items():
        if count > 1:
            raise MetasymError(
                f"{path}: expected every {what} once, found {name} {count} times",
                about=f"{path}: {what} {name}",
                found=count,
            )
