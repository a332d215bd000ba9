"""The engines' own C++ kernels, by name (see ``metasym.native.compiled``)."""

from __future__ import annotations

import ctypes
from pathlib import Path

from metasym.native import compiled as native


def available() -> bool:
    """Whether the compiled kernels are used; ``METASYM_KERNELS=torch`` in the environment forgoes them."""
    return library() is not None


def library(name: str = "norm_pool") -> ctypes.CDLL | None:
    """The compiled kernels of ``name.cpp``, or None where they cannot be had."""
    return native.library(Path(__file__).with_name(f"{name}.cpp"))
