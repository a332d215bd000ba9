"""Large buffers that are used again instead of being given back to the system after every step."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> None:
    """Have glibc keep freed blocks of up to 1 GiB for the next step; elsewhere, do nothing.

    By itself it maps every block above 32 MiB anew, and the kernel clears it page by page: for the outputs of
    a rotation problem (55 MB a step and more) that takes three times as long as computing them.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 2**30)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
