"""C++ kernels, compiled on first use and kept in the user's cache folder.

Where there is no compiler, no folder to write to, or a system that was not tried, :func:`library` gives None and
torch's own operations are used instead. The file's name holds a digest of the sources, the compiler's command and the
processor, so that different machines can share a folder. The file is written under a temporary name and then
renamed, so that two processes can start at once.

A compiled file is executed, so it is loaded only from where no other user could have put it:
:mod:`metasym.native.trusted_places`. Where the cache folder is not such a place, each process compiles into a
folder of its own. A file that is not the one we would build, or that cannot be loaded, is built again.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from metasym.native.trusted_places import UntrustedError, check_trusted
from metasym.storage.plain_files import read_plain

FLAGS = (
    "-O3",
    "-march=native",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp",
    "-shared",
    "-fPIC",
    "-std=c++17",
)
_TIMEOUT = 60
"""Seconds after which a compiler is given up, for all kernels of this process."""
_MARK = "metasym_build"
"""A constant in every compiled file; it holds the digest in the file's name."""


class _HungError(Exception):
    """The compiler did not end."""


def compiler() -> str | None:
    """The C++ compiler that is used; None where there is none, or a system whose compilers were not tried."""
    if not sys.platform.startswith("linux"):
        return None
    return os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")


@functools.cache
def library(source: Path) -> ctypes.CDLL | None:
    """The compiled functions of a source file, or None where they cannot be had.

    ``METASYM_KERNELS=torch`` in the environment forgoes them.
    """
    found = compiler()
    if os.environ.get("METASYM_KERNELS") == "torch" or not found or found in _hung:
        return None
    with contextlib.suppress(OSError, subprocess.SubprocessError, UntrustedError, _HungError):
        return _load(found, source, _trusted_folder())
    if found in _hung:
        return None
    try:
        return _load(found, source, _private_folder())
    except (OSError, subprocess.SubprocessError, UntrustedError, _HungError):
        return None


_hung: set[str] = set()


def cache_folder() -> Path:
    """Where compiled files are kept; raises ``UntrustedError`` where no absolute path says so."""
    root = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not root.is_absolute():  # empty, or relative: the XDG specification has both ignored
        try:
            root = Path.home() / ".cache"
        except RuntimeError:
            raise UntrustedError("no home folder") from None
    if not root.is_absolute():
        raise UntrustedError(f"{root} is not absolute")
    return root / "metasym" / "kernels"


def _trusted_folder() -> Path:
    """The cache folder, made if need be; only this user (and root) can write there."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return check_trusted(folder)


@functools.cache
def _private_folder() -> Path:
    """A folder for this process alone, removed at its end."""
    folder = tempfile.mkdtemp(prefix="metasym-kernels-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return check_trusted(Path(folder))


def _load(compiler: str, source: Path, folder: Path) -> ctypes.CDLL:
    """The functions from the file in ``folder``; it is built if it is missing, not ours, or cannot be loaded."""
    command = [compiler, *FLAGS]
    digest = hashlib.sha256(source.read_bytes())
    for header in sorted(source.parent.glob("*.h")):
        digest.update(header.read_bytes())
    digest.update("\0".join([*command, platform.machine(), _processor()]).encode())
    build = digest.hexdigest()[:20]
    target = folder / f"{source.stem}-{build}.so"
    with contextlib.suppress(OSError, UntrustedError):
        check_trusted(target)
        if f"{_MARK}={build}".encode() in read_plain(target):
            return ctypes.CDLL(str(target))
    _build(command, source, target, f"{_MARK}={build}")
    return ctypes.CDLL(str(target))


def _build(command: list[str], source: Path, target: Path, mark: str) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        made, marked = Path(scratch) / target.name, Path(scratch) / "mark.cpp"
        marked.write_text(f'extern "C" const char {_MARK}[] = "{mark}";\n', encoding="ascii")
        process = subprocess.Popen(
            [*command, str(source), str(marked), "-o", str(made)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a compiler is several processes: they end together
        )
        try:
            status = process.wait(_TIMEOUT)
        except subprocess.TimeoutExpired:
            _hung.add(command[0])
            raise _HungError from None
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if status:
            raise subprocess.CalledProcessError(status, command)
        made.replace(target)


def _processor() -> str:
    """What ``-march=native`` depends on: the model and its features."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
