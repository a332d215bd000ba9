"""The rows of the study of more rows than memory: so many of each task, and each task's map turns with its ring."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

arrow = pytest.importorskip("pyarrow")


def test_every_task_has_its_rows_and_a_map_of_a_ring(tmp_path: Path) -> None:
    from pyarrow import parquet
    from studies.many_rows import FILES, SIZE, write_rows

    write_rows(tmp_path, tasks=3, each=5 * FILES)
    rows = parquet.read_table(tmp_path).to_pandas()
    assert rows.groupby("task").size().tolist() == [5 * FILES] * 3
    for _, own in rows.groupby("task"):
        x, y = (own[[f"{name}{i}" for i in range(SIZE)]].to_numpy() for name in "xy")
        found = np.linalg.lstsq(x, y, rcond=None)[0].T
        np.testing.assert_allclose(found, np.roll(found, (1, 1), (0, 1)), atol=0.01)
        assert np.abs(found).max() > 0.1
