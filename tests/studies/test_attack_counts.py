"""The page's tables of attacks are those of the stored runs; a warning that is always there does not count."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies.attack_counts import named, rare, tables

from metasym.storage.json_files import read_json

ROOT = Path(__file__).parents[2]


def test_the_tables_of_the_page_are_those_of_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = Path("docs/evidence-studies.md").read_text()
    for lines in tables():
        assert "\n".join(lines) in page


@pytest.mark.parametrize(("often", "counts"), [(5, True), (6, False)])
def test_a_warning_counts_where_few_ordinary_runs_have_it(often: int, counts: bool) -> None:
    ordinary = [{"findings": ["not_linear"] if i < often else []} for i in range(100)]
    row = {"name": "cubic-sensor", "findings": ["not_linear"]}
    assert named(row, rare(ordinary)) is counts


def test_a_warning_counts_where_it_names_what_is_broken() -> None:
    shares = rare([{}])
    assert not named({"name": "heavy-noise", "findings": ["not_linear"]}, shares)
    assert not named({"name": "duplicates", "findings": ["not_linear"]}, shares)
    assert named({"name": "duplicates", "findings": ["copied_tasks"]}, shares)


def test_each_statement_is_false_in_few_mixed_populations_of_each_kind() -> None:
    found = read_json(ROOT / "results/attacks/mixed-populations.json", "counts")
    assert found["files"] >= 1000
    for stratum in found["strata"].values():
        assert max(stratum["false_bound"], stratum["false_share"]) <= 0.05
