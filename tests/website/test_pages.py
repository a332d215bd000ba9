"""The site's pages: their Python runs and prints what they say, and the reference has every public name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from website.public_names import public_names

from tests.test_readme import BLOCK, run_blocks

DOCS = Path(__file__).parents[2] / "docs"
NEED_RUNS = {"reproduction.md"}
"""Pages whose Python reads runs of many hours."""

WITH_CODE = sorted(
    path
    for path in DOCS.rglob("*.md")
    if path.parent.name != "gallery"
    and path.name not in NEED_RUNS
    and BLOCK.search(path.read_text(encoding="utf-8"))
)


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda path: str(path.relative_to(DOCS)))
def test_a_pages_python_prints_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_blocks(page)


def test_a_verdict_is_read_in_whole_sentences() -> None:
    """A box of code cuts its lines off; the page begins with the verdict as text."""
    text = (DOCS / "howto" / "verdict.md").read_text(encoding="utf-8")
    before, _, _ = text.partition("| words | meaning |")
    assert "\n> The tasks share a symmetry" in before
    assert "```" not in before


def test_the_reference_has_every_public_name_once() -> None:
    written = [
        name
        for path in (DOCS / "reference").glob("*.md")
        for name in re.findall(r"^::: (\S+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert sorted(written) == sorted(public_names())
