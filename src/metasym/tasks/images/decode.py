"""Bytes that others made, to pixels and arrays: bounded in size, never unpickled, every fault one line."""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.lib import format as npy
from PIL import Image, ImageOps, UnidentifiedImageError

from metasym.tasks.images.classes import Images
from metasym.types import MetasymError

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "PPM")
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".ppm", ".pgm")
MOST_PIXELS = 50_000_000
MOST_BYTES = 1 << 26
"""Of one image file."""
_MODES = {1: "L", 3: "RGB"}
_HEADERS: dict[Any, Any] = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def check_size(size: int) -> None:
    """Refuse sizes that no image is converted to."""
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= 4096:
        raise MetasymError(f"expected an image size from 1 to 4096, found {size!r}")


def decode(data: bytes, name: str, *, channels: int, size: int, invert: bool = False) -> Images:
    """An image file to ``[channels, size, size]``, uint8; resized with antialiasing, whatever its aspect ratio."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image: Image.Image = Image.open(io.BytesIO(data), formats=FORMATS)
        width, height = image.size
        if width * height > MOST_PIXELS:  # known from the header, before any pixel is decoded
            raise MetasymError(
                f"{name}: expected an image of at most {MOST_PIXELS:,} pixels, found {width} x {height}"
            )
        if image.format == "JPEG":
            image = ImageOps.exif_transpose(image)
        image = image.convert(_MODES[channels])
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise MetasymError(
            f"{name}: expected an image of at most {MOST_PIXELS:,} pixels, found more"
        ) from None
    except UnidentifiedImageError:
        raise MetasymError(
            f"{name}: expected an image ({', '.join(FORMATS)}), found something else"
        ) from None
    except MetasymError:
        raise
    except Exception as error:  # decoders raise whatever they stumble over
        raise MetasymError(f"{name}: expected an image that decodes, found {_first_line(error)}") from None
    pixels = np.asarray(image)
    return resize(255 - pixels if invert else pixels, size)


def resize(pixels: Images, size: int) -> Images:
    """``[H, W]`` or ``[H, W, 3]``, uint8, to ``[channels, size, size]``: bilinear, antialiased where it shrinks."""
    if pixels.shape[:2] != (size, size):
        pixels = np.asarray(Image.fromarray(pixels).resize((size, size), Image.Resampling.BILINEAR))
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def read_file(path: Path) -> bytes:
    """The bytes of an image file, of at most ``MOST_BYTES``."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise MetasymError(f"{path}: expected an image, found {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise MetasymError(f"{path}: expected an image of at most {MOST_BYTES:,} bytes, found more")
    return data


class Archive:
    """A zip file, read member by member into memory; nothing is ever extracted to the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except OSError as error:
            raise MetasymError(f"{path}: expected a zip file, found {error.strerror or error}") from None
        except Exception:  # BadZipFile, or whatever a damaged directory makes zipfile stumble over
            raise MetasymError(f"{path}: expected a zip file, found a truncated or damaged one") from None

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    def names(self) -> list[str]:
        """The members that are files. A name that leads out of the archive is refused, though none is extracted."""
        found = []
        for member in self._zip.infolist():
            name = member.filename
            if name.startswith(("/", "\\")) or ":" in name or ".." in name.replace("\\", "/").split("/"):
                raise MetasymError(
                    f"{self.path}: expected names that stay inside the archive, found {name!r:.120}"
                )
            if name and not name.endswith("/"):
                found.append(name)
        return found

    def size(self, name: str) -> int:
        """How many bytes a member claims to have; no more are ever read."""
        try:
            return self._zip.getinfo(name).file_size
        except KeyError:
            raise MetasymError(f"{self.path}: expected a member {name}, found none") from None

    def read(self, name: str, most: int = MOST_BYTES) -> bytes:
        """The bytes of a member, of at most ``most``; its checksum is verified."""
        size = self.size(name)
        if size > most:
            raise MetasymError(f"{self.path}: expected {name} of at most {most:,} bytes, found {size:,}")
        try:
            with self._zip.open(name) as file:
                data = file.read(most)
        except Exception as error:  # damaged, encrypted, an unknown compression
            raise self._broken(name, error) from None
        if len(data) != size:
            raise self._broken(name, EOFError("a truncated one"))
        return data

    def _broken(self, name: str, error: Exception) -> MetasymError:
        return MetasymError(f"{self.path}: expected a sound member {name}, found {_first_line(error)}")


class Npz:
    """The arrays of an ``.npz`` file: type and size are checked before an array is read, objects are refused."""

    def __init__(self, path: Path) -> None:
        self.path, self._archive = path, Archive(path)

    def __enter__(self) -> Npz:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._archive.__exit__(kind, error, trace)

    def array(self, key: str, kinds: str, dimensions: int, *, most: int = 1 << 24) -> Images:
        """The array ``key``, of a type in ``kinds`` (numpy's letters); in the file it has at most ``most`` bytes."""
        member = f"{key}.npy"
        if member not in self._archive.names():
            raise MetasymError(f"{self.path}: expected an array {key}, found none")
        data = self._archive.read(member, most)
        file = io.BytesIO(data)
        try:
            shape, fortran, dtype = _HEADERS[npy.read_magic(file)](file)  # type: ignore[no-untyped-call]
        except Exception:  # numpy parses the header as Python: errors of all kinds
            raise MetasymError(f"{self.path}: expected an array {key}, found a damaged one") from None
        if dtype.hasobject or dtype.kind not in kinds or len(shape) != dimensions:
            raise MetasymError(
                f"{self.path}: expected {key} of kind {'|'.join(kinds)} with {dimensions} dimensions, "
                f"found {dtype} {list(shape)}"
            )
        count = math.prod(shape)
        if count * dtype.itemsize != len(data) - file.tell():
            raise MetasymError(f"{self.path}: expected an array {key}, found a truncated one")
        flat: np.ndarray[Any, Any] = np.frombuffer(data, dtype=dtype, count=count, offset=file.tell())
        return flat.reshape(shape, order="F" if fortran else "C")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
