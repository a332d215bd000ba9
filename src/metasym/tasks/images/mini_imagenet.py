"""MiniImagenet: 100 classes of ImageNet with 600 images each, 84 x 84, split by Ravi and Larochelle.

Pixels are in [0, 1]. Images of another size are resized to 84 x 84 with antialiasing (bilinear).
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from metasym.tasks.images.cache import SUFFIX, data_folder, open_images
from metasym.tasks.images.classes import SPLITS, ImageClasses, Images
from metasym.tasks.images.decode import Npz, decode
from metasym.tasks.images.prepare import DataSet, prepared
from metasym.tasks.images.sources import Listed, Source
from metasym.types import MetasymError

SIZES = {"train": 64, "val": 16, "test": 20}
IMAGES = 600
NPZ = "mini_imagenet.npz"


def mini_imagenet(
    split: str = "train",
    *,
    data: str | os.PathLike[str] | None = None,
    size: int = 84,
) -> ImageClasses:
    """The classes of one part: 64 of ``"train"``, 16 of ``"val"``, 20 of ``"test"``.

    The images come from the folder ``data`` (else ``METASYM_DATA``, else the user's cache folder), converted
    there at the first use.
    """
    if split not in SPLITS:
        raise MetasymError(f"expected split to be one of {', '.join(SPLITS)}, found {split!r}")
    return open_images(prepared(data_set(size), data_folder(data)), split)


def data_set(size: int = 84) -> DataSet:
    """How MiniImagenet is found and what it is called when converted."""
    return DataSet(
        title="MiniImagenet",
        name=f"mini_imagenet-{size}{SUFFIX}",
        find=lambda path: find(path, size),
        missing=f"provide {NPZ}",
    )


def find(path: Path, size: int) -> Source | None:
    """The images at ``path``: an ``.npz``, or a folder with it."""
    if path.is_file() and path.suffix == ".npz":
        return EncodedNpz(path, size)
    if (path / NPZ).is_file():
        return EncodedNpz(path / NPZ, size)
    return None


class EncodedNpz:
    """Encoded images (WebP, JPEG) one after the other in one ``.npz``, split by split."""

    def __init__(self, path: Path, size: int) -> None:
        self.text, self._size = str(path), size
        self.listing: list[Listed] = []
        self._rows: list[tuple[str, Images]] = []
        self._encoded: dict[str, tuple[Images, Images]] = {}
        with Npz(path) as npz:
            names = [str(name) for name in npz.array("wnid", "U", 1)]
            splits = [str(name) for name in npz.array("class_split", "U", 1)]
            for split in SPLITS:
                data = npz.array(f"{split}_bytes", "u", 1)
                offsets = npz.array(f"{split}_offsets", "i", 1)
                labels = npz.array(f"{split}_label", "iu", 1)
                fits = (
                    len(splits) == len(names)
                    and data.dtype == np.uint8
                    and len(offsets) == len(labels) + 1
                    and len(labels) > 0
                    and offsets[0] == 0
                    and offsets[-1] == len(data)
                    and bool((np.diff(offsets) > 0).all())
                    and bool(labels.min() >= 0 and labels.max() < len(names))
                )
                if not fits:
                    raise MetasymError(
                        f"{path}: expected the {split} arrays of MiniImagenet, found some that do not fit together"
                    )
                self._encoded[split] = data, offsets
                for label in np.unique(labels).tolist():
                    rows = np.flatnonzero(labels == label)
                    if splits[label] != split:
                        raise MetasymError(
                            f"{path}: expected class {names[label]} in {splits[label]}, found it in {split}"
                        )
                    self.listing.append(Listed(names[label], split, len(rows)))
                    self._rows.append((split, rows))
        check_complete(self.text, self.listing)

    def read(self, number: int) -> Images:
        """The decoded images of one class."""
        split, rows = self._rows[number]
        data, offsets = self._encoded[split]
        return np.stack(
            [
                decode(
                    data[offsets[row] : offsets[row + 1]].tobytes(),
                    f"{self.text}: {split} image {row}",
                    channels=3,
                    size=self._size,
                )
                for row in rows.tolist()
            ]
        )


def check_complete(text: str, listing: list[Listed]) -> None:
    """Refuse all but 64, 16 and 20 classes of 600 images."""
    for split, wanted in SIZES.items():
        found = sum(listed.split == split for listed in listing)
        if found != wanted:
            raise MetasymError(f"{text}: expected {wanted} {split} classes of MiniImagenet, found {found}")
    for listed in listing:
        if listed.count != IMAGES:
            raise MetasymError(
                f"{text}: expected {IMAGES} images of class {listed.name}, found {listed.count}"
            )
