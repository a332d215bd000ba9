"""MiniImagenet: 100 classes of ImageNet with 600 images each, 84 x 84, split by Ravi and Larochelle.

Pixels are in [0, 1]. Images of another size are resized to 84 x 84 with antialiasing (bilinear).
"""

from __future__ import annotations

import csv
import dataclasses
import io
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from metasym.argument_types import checked
from metasym.tasks.images.archives import Archive, Npz
from metasym.tasks.images.cache import SUFFIX, data_folder, open_images
from metasym.tasks.images.classes import SPLITS, ImageClasses, Images
from metasym.tasks.images.decode import check_size, decode, read_file
from metasym.tasks.images.folder import class_folders, image_file, images_under
from metasym.tasks.images.prepare import DataSet, prepared
from metasym.tasks.images.sources import Files, ImageFile, Listed, Source, check_once
from metasym.types import MetasymError

SIZES = {"train": 64, "val": 16, "test": 20}
IMAGES = 600
NPZ = "mini_imagenet.npz"
LISTS = {"train": "train.csv", "val": "val.csv", "test": "test.csv"}
SPLITS_ZIP = "mini_imagenet_splits.zip"
_GROWTH = 10
"""Encoded images hardly shrink when they are compressed again: what grows by more than this holds no images."""
_PLACES = ("", "mini_imagenet", "mini-imagenet", "miniimagenet", "miniImagenet")


@checked
def mini_imagenet(
    split: str = "train",
    *,
    data: str | os.PathLike[str] | None = None,
    size: int = 84,
) -> ImageClasses:
    """Return the classes of one part of MiniImagenet: 64 of ``"train"``, 16 of ``"val"``, 20 of ``"test"``.

    Args:
        split: The part.
        data: Folder of the images. Default: ``METASYM_DATA``, else the user's cache folder. They are converted
            there at the first use.
        size: Height and width of an image.
    """
    if split not in SPLITS:
        raise MetasymError(
            f"expected split to be one of {', '.join(SPLITS)}, found {split!r}", about="split", found=split
        )
    check_size(size)
    return open_images(prepared(data_set(size), data_folder(data)), split)


def data_set(size: int = 84, lists: Path | None = None) -> DataSet:
    """How MiniImagenet is found and what it is called when converted; ``lists``: where the split lists are."""
    return DataSet(
        title="MiniImagenet",
        name=f"mini_imagenet-{size}{SUFFIX}",
        find=lambda path, lists: find(path, size, lists),
        lists=lists,
        provide=(
            "it cannot be downloaded freely: put there, or name with `metasym data miniimagenet --from PATH`, a "
            "folder with its 60,000 images under the names of Ravi and Larochelle's lists and with their "
            f"{', '.join(LISTS.values())} (columns filename,label; or --splits PATH), or folders train, val and "
            f"test of 64, 16 and 20 class folders, or {NPZ}"
        ),
    )


def find(path: Path, size: int, lists: Path | None = None) -> Source | None:
    """The images at ``path``: an ``.npz``, or a folder with it, with split lists or with split folders."""
    npz = path if path.is_file() else path / NPZ
    if npz.suffix == ".npz" and npz.is_file():
        if lists is not None:
            raise MetasymError(
                f"{lists}: expected split lists (--splits) with a folder of images only, "
                f"found {npz}, which has its own",
                about="--splits",
                found=str(npz),
            )
        return EncodedNpz(npz, size)
    if path.is_file():
        raise MetasymError(
            f"{path}: expected a folder or an .npz of MiniImagenet, found {path.suffix or 'another file'} "
            "(pickles are not read: they can run code)",
            about=str(path),
            found=path.suffix,
        )
    for place in _PLACES:
        folder = path / place
        there = lists or next((p for p in _lists_near(folder) if _has_lists(p)), None)
        if folder.is_dir() and there is not None:
            return from_lists(folder, there, size)
        if all((folder / split).is_dir() for split in SPLITS):
            return from_split_folders(folder, size)
    return None


def _lists_near(folder: Path) -> tuple[Path, ...]:
    return folder, folder / "splits", folder / SPLITS_ZIP


def _has_lists(place: Path) -> bool:
    if place.is_file():
        return place.suffix == ".zip"
    return any((place / name).is_file() for name in LISTS.values())


def from_lists(folder: Path, lists: Path, size: int) -> Source:
    """The images that the lists name, wherever in ``folder`` they are; ``lists`` is a folder or a zip of them."""
    classes: dict[tuple[str, str], list[tuple[str, str]]] = {}
    first_use: dict[str, tuple[str, str]] = {}
    lines: dict[str, str] = {}
    for split, name in LISTS.items():
        for line, file, label in _read_list(lists, name):
            where = f"{name} line {line}"
            other, before = first_use.setdefault(label, (split, where))
            if other != split:
                raise MetasymError(
                    f"{lists}: {where}: expected every class in one list, found class {label} in {before} too",
                    about=f"{lists}: {where}: class {label}",
                    found=before,
                )
            if file in lines:
                raise MetasymError(
                    f"{lists}: {where}: expected every image once, found {file} in {lines[file]} too",
                    about=f"{lists}: {where}: {file}",
                    found=lines[file],
                )
            lines[file] = where
            classes.setdefault((split, label), []).append((where, file))
    listing = [
        Listed(label, split, len(files))
        for (split, label), files in sorted(
            classes.items(), key=lambda item: (SPLITS.index(item[0][0]), item[0][1])
        )
    ]
    check_complete(str(lists), listing)
    there: dict[str, Path] = {}
    for path in images_under(folder):
        if there.setdefault(path.name, path) != path:
            raise MetasymError(
                f"{path}: expected every image once, found {there[path.name]} of the same name",
                about=str(path),
                found=str(there[path.name]),
            )
    found = []
    for listed in listing:
        for where, file in classes[listed.split, listed.name]:
            if file not in there:
                raise MetasymError(
                    f"{lists}: {where}: expected the image {file} in {folder}, found none",
                    about=f"{lists}: {where}: {file}",
                )
        found.append([image_file(there[file]) for _, file in classes[listed.split, listed.name]])
    return Files(f"{folder} ({lists})", listing, found, channels=3, size=size)


def _read_list(lists: Path, name: str) -> list[tuple[int, str, str]]:
    """``(line, filename, label)`` of a list."""
    if lists.is_dir():
        data = read_file(lists / name) if (lists / name).is_file() else None
    else:
        with Archive(lists) as archive:
            member = next((m for m in archive.names() if m.split("/")[-1] == name), None)
            data = None if member is None else archive.read(member)
    if data is None:
        raise MetasymError(
            f"{lists}: expected the lists {', '.join(LISTS.values())}, found no {name}",
            about=f"{lists}: {name}",
        )
    # Some editors begin a file with a mark of its encoding; file names need not be UTF-8.
    text = io.StringIO(data.decode("utf-8-sig", errors="surrogateescape"), newline="")
    rows, reader, line = [], csv.reader(text, strict=True), 1
    try:
        for row in reader:
            rows.append((line, row))
            line = reader.line_num + 1
    except csv.Error as error:  # a quote that is not closed, a field without end
        raise MetasymError(
            f"{lists}: {name} line {line}: expected a filename and a label, found {error}",
            about=f"{lists}: {name} line {line}",
            found=str(error),
        ) from None
    if not rows or [cell.strip() for cell in rows[0][1]] != ["filename", "label"]:
        found = [row for _, row in rows[:1]]
        raise MetasymError(
            f"{lists}: {name}: expected the columns filename,label, found {found!s:.80}",
            about=f"{lists}: {name}",
            found=found,
        )
    for line, row in rows[1:]:
        if row and len(row) != 2:
            raise MetasymError(
                f"{lists}: {name} line {line}: expected a filename and a label, found {row!s:.80}",
                about=f"{lists}: {name} line {line}",
                found=row,
            )
    return [(line, row[0].strip(), row[1].strip()) for line, row in rows[1:] if row]


def from_split_folders(folder: Path, size: int) -> Source:
    """Folders train, val and test, each with a folder for each class."""
    listing: list[Listed] = []
    files: list[Sequence[ImageFile]] = []
    first_use: dict[str, str] = {}
    for split in SPLITS:
        part, _ = class_folders(folder / split, size=size, channels=3)
        for listed in part.listing:
            other = first_use.setdefault(listed.name, split)
            if other != split:
                raise MetasymError(
                    f"{folder / split / listed.name}: expected every class in one split, "
                    f"found class {listed.name} in {folder / other} too",
                    about=str(folder / split / listed.name),
                    found=str(folder / other),
                )
        listing += [dataclasses.replace(listed, split=split) for listed in part.listing]
        files += part.files
    check_complete(str(folder), listing)
    return Files(str(folder), listing, files, channels=3, size=size)


class EncodedNpz:
    """Encoded images (WebP, JPEG) one after the other in one ``.npz``, split by split.

    Only one split's bytes are in memory at a time.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.text, self._path, self._size = str(path), path, size
        self.listing: list[Listed] = []
        self._rows: list[tuple[str, Images]] = []
        self._offsets: dict[str, Images] = {}
        self._loaded: tuple[str, Images] | None = None
        with Npz(path) as npz:
            names = [str(name) for name in npz.array("wnid", "U", 1)]
            splits = [str(name) for name in npz.array("class_split", "U", 1)]
            check_once(path, "class", names)
            for split in SPLITS:
                offsets = npz.array(f"{split}_offsets", "i", 1)
                labels = npz.array(f"{split}_label", "iu", 1)
                fits = (
                    len(splits) == len(names)
                    and len(offsets) == len(labels) + 1
                    and len(labels) > 0
                    and offsets[0] == 0
                    and npz.header(f"{split}_bytes", "u", 1) == ((int(offsets[-1]),), np.dtype(np.uint8))
                    and bool((np.diff(offsets) > 0).all())
                    and bool(labels.min() >= 0 and labels.max() < len(names))
                )
                if not fits:
                    raise MetasymError(
                        f"{path}: expected the {split} arrays of MiniImagenet, found some that do not fit together",
                        about=f"{path}: {split}",
                        found="arrays that do not fit together",
                    )
                npz.check_growth(f"{split}_bytes", _GROWTH)
                self._offsets[split] = offsets
                for label in sorted(np.unique(labels).tolist(), key=names.__getitem__):
                    rows = np.flatnonzero(labels == label)
                    if splits[label] != split:
                        raise MetasymError(
                            f"{path}: expected class {names[label]} in {splits[label]}, found it in {split}",
                            about=f"{path}: class {names[label]}",
                            found=split,
                        )
                    self.listing.append(Listed(names[label], split, len(rows)))
                    self._rows.append((split, rows))
        check_complete(self.text, self.listing)

    def read(self, number: int) -> Images:
        """The decoded images of one class."""
        split, rows = self._rows[number]
        data, offsets = self._bytes(split), self._offsets[split]
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

    def _bytes(self, split: str) -> Images:
        if self._loaded is None or self._loaded[0] != split:
            self._loaded = None  # before the next is read
            with Npz(self._path) as npz:
                self._loaded = split, npz.array(f"{split}_bytes", "u", 1, most=1 << 31)
        return self._loaded[1]


def check_complete(text: str, listing: list[Listed]) -> None:
    """Refuse all but 64, 16 and 20 classes of 600 images."""
    for split, wanted in SIZES.items():
        found = sum(listed.split == split for listed in listing)
        if found != wanted:
            raise MetasymError(
                f"{text}: expected {wanted} {split} classes of MiniImagenet, found {found}",
                about=f"{text}: {split} classes",
                found=found,
            )
    for listed in listing:
        if listed.count != IMAGES:
            raise MetasymError(
                f"{text}: expected {IMAGES} images of class {listed.name}, found {listed.count}",
                about=f"{text}: class {listed.name}",
                found=listed.count,
            )
