"""Which points permutations take to each other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


def orbit_labels(permutations: npt.ArrayLike, size: int) -> npt.NDArray[np.int64]:
    """``[size]``: equal numbers, from 0 in the order of their first points, for points of one orbit.

    ``permutations [generators, size]`` generate the group; there may be none.
    """
    ends = np.asarray(permutations, dtype=np.int64).reshape(-1, size)
    starts = np.broadcast_to(np.arange(size), ends.shape)
    edges = coo_array((np.ones(ends.size, dtype=np.int8), (starts.ravel(), ends.ravel())), shape=(size, size))
    return np.asarray(connected_components(edges, directed=False)[1], dtype=np.int64)
