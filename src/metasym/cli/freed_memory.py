"""Large buffers that are used again instead of being given back to the system after every step.

This changes the allocator of the whole process. Therefore only the program ``metasym`` does it, never the library.
"""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MOST_BYTES = 2**30
"""Bytes of the largest block that is kept."""


def keep_freed_memory() -> None:
    """Have glibc keep freed blocks for the next step; elsewhere, do nothing.

    By itself glibc gives them back after every step, and maps every block above 32 MiB again, which the kernel then
    clears page by page: a tenth of the step of a linear layer. The outputs of a rotation problem (55 MB a step and
    more) take three times as long to clear as to compute. Keeping all blocks in one heap costs a tenth more memory.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MOST_BYTES)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
