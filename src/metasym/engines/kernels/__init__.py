"""Kernels in C++, compiled where there is a compiler; exported here: batch norm, ReLU and max-pooling in one."""

from metasym.engines.kernels.engine_kernels import available
from metasym.engines.kernels.norm_pool import (
    WINDOWS,
    Normed,
    Tangent,
    backward,
    forward,
    tangent,
    tangent_backward,
)

__all__ = [
    "WINDOWS",
    "Normed",
    "Tangent",
    "available",
    "backward",
    "forward",
    "tangent",
    "tangent_backward",
]
