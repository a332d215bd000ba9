"""Zips and ``.npz`` files that others made: bounded in size, never unpacked or unpickled; errors are one line."""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.lib import format as npy

from metasym.errors import in_one_line
from metasym.storage.plain_files import check_plain
from metasym.tasks.images.classes import Images
from metasym.tasks.images.decode import MOST_BYTES
from metasym.types import MetasymError

_LONGEST_HEADER = 1 << 14
_HEADERS: dict[Any, Any] = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class Archive:
    """A zip file, read member by member into memory; nothing is ever extracted to the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            check_plain(path)
            self._zip = zipfile.ZipFile(path)
        except OSError as error:
            raise MetasymError(
                f"{path}: expected a zip file, found {error.strerror or error}",
                about=str(path),
                found=error.strerror or str(error),
            ) from None
        except Exception:  # BadZipFile, or whatever a damaged directory makes zipfile stumble over
            raise MetasymError(
                f"{path}: expected a zip file, found a truncated or damaged one",
                about=str(path),
                found="a truncated or damaged one",
            ) from None

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
                    f"{self.path}: expected names that stay inside the archive, found {name!r:.120}",
                    about=str(self.path),
                    found=name,
                )
            if name and not name.endswith("/"):
                found.append(name)
        return found

    def size(self, name: str) -> int:
        """How many bytes a member claims to have; no more are ever read."""
        try:
            return self._zip.getinfo(name).file_size
        except KeyError:
            raise MetasymError(
                f"{self.path}: expected a member {name}, found none", about=f"{self.path}: {name}"
            ) from None

    def packed(self, name: str) -> int:
        """How many bytes a member takes in the archive; never more than the whole file has."""
        return min(self._zip.getinfo(name).compress_size, self.path.stat().st_size)

    def start(self, name: str, count: int) -> bytes:
        """The first ``count`` bytes of a member, or all if it has fewer; no checksum is verified."""
        try:
            with self._zip.open(name) as file:
                return file.read(count)
        except Exception as error:  # damaged, encrypted, an unknown compression
            raise self._broken(name, error) from None

    def read(self, name: str, most: int = MOST_BYTES) -> bytes:
        """The bytes of a member, of at most ``most``; its checksum is verified."""
        size = self.size(name)
        if size > most:
            raise MetasymError(
                f"{self.path}: expected {name} of at most {most:,} bytes, found {size:,}",
                about=f"{self.path}: {name}",
                found=size,
            )
        try:
            with self._zip.open(name) as file:
                data = file.read(most)
        except Exception as error:  # damaged, encrypted, an unknown compression
            raise self._broken(name, error) from None
        if len(data) != size:
            raise self._broken(name, EOFError("a truncated one"))
        return data

    def _broken(self, name: str, error: Exception) -> MetasymError:
        return MetasymError(
            f"{self.path}: expected a sound member {name}, found {in_one_line(error)}",
            about=f"{self.path}: {name}",
            found=in_one_line(error),
        )


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

    def header(self, key: str, kinds: str, dimensions: int) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and type of the array ``key``, checked as in :meth:`array`; its numbers are not read."""
        member = self._member(key)
        data = self._archive.start(member, _LONGEST_HEADER)
        (shape, _, dtype), begin = self._checked(key, data, kinds, dimensions)
        if math.prod(shape) * dtype.itemsize != self._archive.size(member) - begin:
            raise self._truncated(key)
        return shape, dtype

    def array(self, key: str, kinds: str, dimensions: int, *, most: int = 1 << 24) -> Images:
        """The array ``key``, of a type in ``kinds`` (numpy's letters); in the file it has at most ``most`` bytes."""
        data = self._archive.read(self._member(key), most)
        (shape, fortran, dtype), begin = self._checked(key, data, kinds, dimensions)
        count = math.prod(shape)
        if count * dtype.itemsize != len(data) - begin:
            raise self._truncated(key)
        flat: np.ndarray[Any, Any] = np.frombuffer(data, dtype=dtype, count=count, offset=begin)
        return flat.reshape(shape, order="F" if fortran else "C")

    def check_growth(self, key: str, most: int) -> None:
        """Refuse an array that is over ``most`` times (and over a MB) as large as it is compressed."""
        member = self._member(key)
        size, packed = self._archive.size(member), self._archive.packed(member)
        if size > most * packed + (1 << 20):
            raise MetasymError(
                f"{self.path}: expected {key} to grow at most {most} times when it is read, "
                f"found {packed:,} bytes that become {size:,}",
                about=f"{self.path}: {key}",
                found=(packed, size),
            )

    def _member(self, key: str) -> str:
        member = f"{key}.npy"
        if member not in self._archive.names():
            raise MetasymError(
                f"{self.path}: expected an array {key}, found none", about=f"{self.path}: {key}"
            )
        return member

    def _checked(
        self, key: str, data: bytes, kinds: str, dimensions: int
    ) -> tuple[tuple[tuple[int, ...], bool, np.dtype[Any]], int]:
        """``(shape, Fortran's order, type)`` from the first bytes of an array, and where its numbers begin."""
        file = io.BytesIO(data)
        try:
            shape, fortran, dtype = _HEADERS[npy.read_magic(file)](file)  # type: ignore[no-untyped-call]
        except Exception:  # numpy parses the header as Python: errors of all kinds
            raise MetasymError(
                f"{self.path}: expected an array {key}, found a damaged one",
                about=f"{self.path}: {key}",
                found="a damaged one",
            ) from None
        if dtype.hasobject or dtype.kind not in kinds or len(shape) != dimensions:
            raise MetasymError(
                f"{self.path}: expected {key} of kind {'|'.join(kinds)} with {dimensions} dimensions, "
                f"found {dtype} {list(shape)}",
                about=f"{self.path}: {key}",
                found=(str(dtype), tuple(shape)),
            )
        return (shape, fortran, dtype), file.tell()

    def _truncated(self, key: str) -> MetasymError:
        return MetasymError(
            f"{self.path}: expected an array {key}, found a truncated one",
            about=f"{self.path}: {key}",
            found="a truncated one",
        )
