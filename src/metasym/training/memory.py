"""Large buffers that are used again instead of being given back to the system after every step."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


SMALL, LARGE = 2**24, 2**30
_kept = 0


def keep_freed_memory(largest: int) -> None:
    """Have glibc keep freed blocks of up to ``largest`` bytes for the next step; elsewhere, do nothing.

    By itself it gives them back after every step, and maps every block above 32 MiB anew, which the kernel then
    clears page by page. ``SMALL`` blocks are those of a linear layer, a tenth of whose step that takes. ``LARGE``
    ones, such as the outputs of a rotation problem (55 MB a step and more), take three times as long to clear as to
    compute, but kept in one heap they cost memory: a tenth more at the peak.
    """
    global _kept
    if not sys.platform.startswith("linux") or largest <= _kept:
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, largest)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
        _kept = largest
