"""A user's own images: one folder for each class."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from metasym.argument_types import checked
from metasym.tasks.images.cache import SUFFIX, data_folder, expanded, open_images
from metasym.tasks.images.classes import ImageClasses
from metasym.tasks.images.decode import SUFFIXES, check_size, read_file
from metasym.tasks.images.prepare import DataSet, mark, prepare, target
from metasym.tasks.images.sources import Files, ImageFile, Listed, Progress
from metasym.types import MetasymError

_READING = b"2"
"""Changes whenever the same file would give other pixels: conversions by an older version are not used."""


@checked
def from_folder(
    path: str | os.PathLike[str],
    *,
    size: int,
    channels: int = 3,
    invert: bool = False,
    data: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> ImageClasses:
    """Return the images in a folder of class folders, as ``[channels, size, size]`` with pixels in [0, 1].

    Images are resized with antialiasing, without regard to their aspect ratio. Transparent pixels are laid on
    white, and of 16 bits the upper 8 are kept. Files count as images by their names (``decode.SUFFIXES``: PNG,
    JPEG, WebP, BMP, GIF, PPM, TIFF), also in folders below a class's; others are ignored. They are converted once,
    and again when a file is added, removed or changed.

    Args:
        path: The folder.
        size: Height and width of an image.
        channels: 3 (colour) or 1 (grey).
        invert: Make dark ink 1.
        data: Folder for the converted images. Default: ``METASYM_DATA``, else the user's cache folder.
        progress: Called with the progress of the conversion.
    """
    if channels not in (1, 3):
        raise MetasymError(
            f"expected channels to be 1 or 3, found {channels!r}", about="channels", found=channels
        )
    check_size(size)
    root = expanded(path)
    source, stamp = class_folders(root, size=size, channels=channels, invert=invert)
    kind = f"-{size}x{channels}{'-inverted' if invert else ''}{SUFFIX}"
    data_set = DataSet(f"{root}", f"folder-{mark(root)}-{stamp}{kind}", lambda *_: source, "")
    folder = data_folder(data)
    if not target(data_set, folder).is_file():
        made = prepare(data_set, folder, source, origin=root, progress=progress).path
        for old in made.parent.glob(f"*folder-{mark(root)}-*{kind}"):
            if old.name.endswith(kind) and old != made:
                with contextlib.suppress(OSError):
                    old.unlink()
    return open_images(target(data_set, folder))


def class_folders(root: Path, *, size: int, channels: int, invert: bool = False) -> tuple[Files, str]:
    """The files of each class, and a stamp that changes when any of them does."""
    try:
        folders = sorted(p for p in root.iterdir() if p.is_dir() and not _hidden(p.name))
    except OSError as error:
        raise MetasymError(
            f"{root}: expected a folder of class folders, found {error.strerror}",
            about=str(root),
            found=error.strerror,
        ) from None
    if not folders:
        raise MetasymError(f"{root}: expected a folder for each class, found none", about=str(root))
    stamp = hashlib.sha256(_READING)
    listing, files = [], []
    for folder in folders:
        found = sorted(images_under(folder))
        if not found:
            raise MetasymError(
                f"{folder}: expected at least one image of class {folder.name}, found none", about=str(folder)
            )
        for file in found:
            about = _regular(file)
            stamp.update(os.fsencode(file.relative_to(root)))  # names need not be UTF-8
            stamp.update(f"\0{about.st_size}\0{about.st_mtime_ns}\0".encode())
        listing.append(Listed(folder.name, "", len(found)))
        files.append([image_file(file) for file in found])
    return Files(str(root), listing, files, channels=channels, size=size, invert=invert), stamp.hexdigest()[
        :12
    ]


def images_under(folder: Path) -> Iterator[Path]:
    """The image files in a folder and in folders below it, chosen by their names; hidden ones are left out.

    Whatever has the name of an image but is no file (a link to nothing, a pipe) is refused.
    """

    def unreadable(error: OSError) -> None:
        raise MetasymError(
            f"{error.filename}: expected a folder of images, found {error.strerror}",
            about=str(error.filename),
            found=error.strerror,
        )

    for place, folders, names in os.walk(folder, onerror=unreadable):
        folders[:] = [name for name in folders if not _hidden(name)]
        for name in names:
            if name.lower().endswith(SUFFIXES) and not _hidden(name):
                _regular(Path(place, name))
                yield Path(place, name)


def _regular(path: Path) -> os.stat_result:
    """What is known about a path, which must be a regular file: opening a pipe would wait for ever."""
    try:
        about = path.stat()
    except FileNotFoundError:
        raise MetasymError(
            f"{path}: expected an image, found a link to nothing", about=str(path), found="a link to nothing"
        ) from None
    except OSError as error:
        raise MetasymError(
            f"{path}: expected an image, found {error.strerror}", about=str(path), found=error.strerror
        ) from None
    if not stat.S_ISREG(about.st_mode):
        kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        raise MetasymError(
            f"{path}: expected an image, found {kinds.get(stat.S_IFMT(about.st_mode), 'a device')}",
            about=str(path),
            found=kinds.get(stat.S_IFMT(about.st_mode), "a device"),
        )
    return about


def image_file(path: Path) -> ImageFile:
    """A file on the disk, read when its turn comes."""
    return ImageFile(str(path), lambda: read_file(path))


def _hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"
