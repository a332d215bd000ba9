"""C++ kernels, compiled on first use and kept in the user's cache folder.

Where there is no compiler, no folder to write to, or a system that was not tried, :func:`library` gives None and
torch's own operations are used instead. The file's name holds a digest of the sources, the compiler's command and the
processor, so that different machines can share a folder. The file is written under a temporary name and then
renamed, so that two processes can start at once.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

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
_TIMEOUT = 120


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
    if os.environ.get("METASYM_KERNELS") == "torch" or not found:
        return None
    try:
        return _load(found, source, _folder())
    except (OSError, subprocess.SubprocessError, RuntimeError):  # the last: no home folder to keep them in
        return None


def _folder() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "metasym" / "kernels"


def _load(compiler: str, source: Path, folder: Path) -> ctypes.CDLL:
    command = [compiler, *FLAGS]
    digest = hashlib.sha256(source.read_bytes())
    for header in sorted(source.parent.glob("*.h")):
        digest.update(header.read_bytes())
    digest.update("\0".join([*command, platform.machine(), _processor()]).encode())
    target = folder / f"{source.stem}-{digest.hexdigest()[:20]}.so"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / "kernels.so"
            subprocess.run(
                [*command, str(source), "-o", str(made)],
                check=True,
                timeout=_TIMEOUT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            made.replace(target)
    return ctypes.CDLL(str(target))


def _processor() -> str:
    """What ``-march=native`` depends on: the model and its features."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
