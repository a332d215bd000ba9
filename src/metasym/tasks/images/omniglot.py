"""Omniglot: 1,623 characters of 50 alphabets, each drawn once by 20 people.

Images are 28 x 28 with ink 1 on paper 0, resized from 105 x 105 with antialiasing (bilinear).
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from metasym.argument_types import checked
from metasym.tasks.images.archives import Archive, Npz
from metasym.tasks.images.cache import SUFFIX, data_folder, open_images, unusable
from metasym.tasks.images.classes import SPLITS, ImageClasses, Images
from metasym.tasks.images.decode import SUFFIXES, check_size, resize
from metasym.tasks.images.download import download
from metasym.tasks.images.folder import image_file, images_under
from metasym.tasks.images.prepare import DataSet, prepared, writable
from metasym.tasks.images.sources import Files, ImageFile, Listed, Progress, Source, check_once
from metasym.types import MetasymError

CHARACTERS, DRAWERS = 1623, 20
SIZES = (1028, 172, 423)
"""How many characters are in train, val and test."""
PARTS = ("images_background", "images_evaluation")
NPZ = "omniglot.npz"
_PLACES = ("", "omniglot-py", "omniglot", "python", "omniglot/python", "raw")
"""Folders in which torchvision, learn2learn, torchmeta and a clone of Omniglot's repository keep the images."""
_MOST_PIXELS_A_SIDE = 4096
URL = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"
MD5 = ("68d2efa1b9178cc56df9314c21c6e718", "6b91aef0f799c5bb55b94e3f2daec811")
"""The checksums of the official zips, in the order of ``PARTS``."""
_LARGEST_ZIP = 1 << 26


@checked
def omniglot(
    split: str = "train",
    *,
    data: str | os.PathLike[str] | None = None,
    size: int = 28,
    rotated_classes: bool = False,
    seed: int = 0,
) -> ImageClasses:
    """Return the characters of one part of Omniglot: 1,028 of ``"train"``, 172 of ``"val"``, 423 of ``"test"``.

    Args:
        split: The part.
        data: Folder of the images. Default: ``METASYM_DATA``, else the user's cache folder. ``metasym data omniglot``
            fetches them; they are converted there at the first use.
        size: Height and width of an image.
        rotated_classes: Add each character turned by 90, 180 and 270 degrees as new classes.
        seed: Chooses which characters are in which part.
    """
    if split not in SPLITS:
        raise MetasymError(
            f"expected split to be one of {', '.join(SPLITS)}, found {split!r}", about="split", found=split
        )
    check_size(size)
    classes = open_images(prepared(data_set(size), data_folder(data)))
    chosen = classes.split(*SIZES, seed=seed)[SPLITS.index(split)]
    return chosen.with_rotations() if rotated_classes else chosen


def data_set(size: int = 28) -> DataSet:
    """How Omniglot is found and what it is called when converted."""
    return DataSet(
        title="Omniglot",
        name=f"omniglot-{size}{SUFFIX}",
        find=lambda path, _: find(path, size),
        provide=(
            "`metasym data omniglot` downloads it (16 MB), `metasym data omniglot --from PATH` converts "
            f"{PARTS[0]}.zip and {PARTS[1]}.zip, their folders, or {NPZ}"
        ),
    )


def find(path: Path, size: int) -> Source | None:
    """The images at ``path``: an ``.npz``, zips, folders of alphabets, or a folder with any of these, or None."""
    if path.is_file():
        if path.suffix == ".npz":
            return PackedNpz(path, size)
        if path.suffix == ".zip":
            official = path.stem in PARTS
            return from_parts(_parts(path.parent, unpacked=False) if official else [path], size)
        raise MetasymError(
            f"{path}: expected a folder, a .zip or an .npz of Omniglot, found {path.suffix or 'another file'}",
            about=str(path),
            found=path.suffix,
        )
    if (path / NPZ).is_file():
        return PackedNpz(path / NPZ, size)
    for place in _PLACES:
        folder = path / place
        parts = _parts(folder, unpacked=all((folder / part).is_dir() for part in PARTS))
        if parts:
            return from_parts(parts, size)
    if path.is_dir() and path.name in PARTS:  # one of the two was named: the other is beside it
        return from_parts(_parts(path.parent, unpacked=True), size)
    if any(path.glob("*/character[0-9]*")):  # all alphabets in one folder
        return from_parts([path], size)
    return None


def _parts(folder: Path, *, unpacked: bool) -> list[Path]:
    """What ``folder`` has of each part: its folder or its zip; where it has both, the folder if ``unpacked``."""
    found = []
    for part in PARTS:
        tree, packed = folder / part, folder / f"{part}.zip"
        there = [place for place, is_there in ((tree, tree.is_dir()), (packed, packed.is_file())) if is_there]
        found += there[:1] if unpacked else there[-1:]
    return found


def fetch(folder: Path, *, url: str = URL, progress: Progress | None = None) -> list[Path]:
    """Download into ``folder`` those of the two official zips that are not there."""
    if folder.is_dir() and not writable(folder):
        raise unusable(folder, "to download to", PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    paths = []
    for part, md5 in zip(PARTS, MD5, strict=True):
        paths.append(folder / f"{part}.zip")
        download(f"{url.rstrip('/')}/{part}.zip", paths[-1], md5=md5, most=_LARGEST_ZIP, progress=progress)
    return paths


def lacks_zip(folder: Path) -> bool:
    """Whether there is nothing in ``folder`` to convert but, perhaps, one of the two official zips."""
    zips = [(folder / f"{part}.zip").is_file() for part in PARTS]
    if all(zips):
        return False
    others = [folder / NPZ, *(folder / place / part for place in _PLACES for part in PARTS)]
    others += [folder / place / f"{part}.zip" for place in _PLACES[1:] for part in PARTS]
    return not any(path.exists() for path in others) and not any(folder.glob("*/character[0-9]*"))


def from_parts(paths: Sequence[Path], size: int) -> Source:
    """The characters in one or several places, each a zip or a folder of alphabets."""
    found = []
    for path in paths:
        if path.is_dir():
            found += [(file.as_posix(), image_file(file)) for file in images_under(path)]
            continue
        archive = Archive(path)
        found += [
            (name, ImageFile(f"{path}: {name}", partial(archive.read, name))) for name in archive.names()
        ]
    return _by_character(", ".join(map(str, paths)), found, size)


def _by_character(text: str, found: Iterable[tuple[str, ImageFile]], size: int) -> Source:
    """Files sorted by alphabet, character and name, from paths that end in alphabet/character/name."""
    characters: dict[str, dict[str, ImageFile]] = {}
    for path, file in found:
        parts = path.split("/")
        if (
            len(parts) < 3
            or "__MACOSX" in parts
            or not parts[-1].lower().endswith(SUFFIXES)
            or not re.fullmatch(r"character\d+", parts[-2])
        ):
            continue
        files = characters.setdefault(f"{parts[-3]}/{parts[-2]}", {})
        if parts[-1] in files:
            raise MetasymError(
                f"{file.name}: expected every image once, found {files[parts[-1]].name} of the same name",
                about=str(file.name),
                found=str(files[parts[-1]].name),
            )
        files[parts[-1]] = file
    names = sorted(characters)
    for name in names:
        if len(characters[name]) != DRAWERS:
            raise MetasymError(
                f"{text}: expected {DRAWERS} images of character {name}, found {len(characters[name])}",
                about=f"{text}: character {name}",
                found=len(characters[name]),
            )
    _check_complete(text, len(names))
    files_of = [[characters[name][key] for key in sorted(characters[name])] for name in names]
    listing = [Listed(name, "", DRAWERS) for name in names]
    return Files(text, listing, files_of, channels=1, size=size, invert=True)


class PackedNpz:
    """The bits of all images in one ``.npz``: ``images_packed``, ``character``, ``drawer`` and names."""

    def __init__(self, path: Path, size: int) -> None:
        self.text, self._size = str(path), size
        with Npz(path) as npz:
            packed = npz.array("images_packed", "u", 2, most=1 << 28)
            character = npz.array("character", "iu", 1)
            drawer = npz.array("drawer", "iu", 1)
            alphabet = npz.array("character_alphabet", "iu", 1)
            character_name = npz.array("character_name", "U", 1)
            alphabet_name = npz.array("alphabet_name", "U", 1)
            self._shape = tuple(int(npz.array(key, "iu", 0)) for key in ("height", "width"))
        count, (height, width) = len(character_name), self._shape
        fits = (
            0 < height <= _MOST_PIXELS_A_SIDE
            and 0 < width <= _MOST_PIXELS_A_SIDE
            and packed.dtype == np.uint8
            and packed.shape == (len(character), -(-height * width // 8))
            and len(drawer) == len(character)
            and len(alphabet) == count
            and _within(character, count)
            and _within(alphabet, len(alphabet_name))
        )
        if not fits:
            raise MetasymError(
                f"{path}: expected the arrays of one Omniglot, found some that do not fit together",
                about=str(path),
                found="arrays that do not fit together",
            )
        _check_complete(self.text, count)
        names = [f"{alphabet_name[a]}/{n}" for a, n in zip(alphabet, character_name, strict=True)]
        counts = np.bincount(character, minlength=count)
        for name, number in zip(names, counts.tolist(), strict=True):
            if number != DRAWERS:
                raise MetasymError(
                    f"{path}: expected {DRAWERS} images of character {name}, found {number}",
                    about=f"{path}: character {name}",
                    found=number,
                )
        check_once(path, "character", names)
        self._rows = np.lexsort((drawer, character)).reshape(count, DRAWERS)
        twice = (np.diff(drawer[self._rows].astype(np.int64)) == 0).any(axis=1)
        if twice.any():
            name = names[int(twice.argmax())]
            raise MetasymError(
                f"{path}: expected one image of {name} from each drawer, found two from one",
                about=f"{path}: character {name}",
                found="two from one drawer",
            )
        self._packed = packed
        self._order = sorted(range(count), key=names.__getitem__)
        self.listing = [Listed(names[i], "", DRAWERS) for i in self._order]

    def read(self, number: int) -> Images:
        """The images of one character."""
        height, width = self._shape
        rows = self._packed[self._rows[self._order[number]]]
        bits = np.unpackbits(rows, axis=1, count=height * width).reshape(-1, height, width)
        return np.stack([resize(ink * np.uint8(255), self._size) for ink in bits])


def _within(numbers: Images, count: int) -> bool:
    return len(numbers) == 0 or bool(numbers.min() >= 0 and numbers.max() < count)


def _check_complete(text: str, count: int) -> None:
    if count != CHARACTERS:
        known = {964: f"; {PARTS[1]} is missing", 659: f"; {PARTS[0]} is missing"}
        raise MetasymError(
            f"{text}: expected all {CHARACTERS:,} characters of Omniglot, found {count:,}{known.get(count, '')}",
            about=f"{text}: characters",
            found=count,
        )
