"""The study of shared parameters: its distance, and that files are taken up again."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import numpy as np
from studies.sharing import partition_distance, run, table


def by_trying(one: list[int], two: list[int]) -> int:
    """Over all ways to call the groups of the first by numbers of the second."""
    numbers = range(max(*one, *two) + 1)
    return min(sum(names[a] != b for a, b in zip(one, two, strict=True)) for names in permutations(numbers))


def test_the_partition_distance_is_the_fewest_changes() -> None:
    draw = np.random.default_rng(0)
    for _ in range(30):
        one, two = draw.integers(0, 4, size=(2, 6))
        assert partition_distance(one, two) == by_trying(one.tolist(), two.tolist())


def test_a_run_goes_on_where_it_ended(tmp_path: Path) -> None:
    run("means-6-1", range(2), tmp_path)
    path = tmp_path / "means-6-1.json"
    first = json.loads(path.read_text())["runs"]
    path.write_text(path.read_text().replace(f'"error": {first["0"]["error"]}', '"error": 7.5'))
    both = run("means-6-1", range(3), tmp_path)["runs"]
    assert sorted(both) == ["0", "1", "2"]
    assert both["0"]["error"] == 7.5  # not made again
    assert "| means-6-1 | 3 |" in table(tmp_path)
