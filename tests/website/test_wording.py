"""The pages use none of the phrases that the glossary retires."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
OUTPUT = re.compile(r"```(?:text|console|json).*?```", re.DOTALL)
"""What programs print: their words are those of the package."""

PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.py")]
    if path.parent.name not in ("notes", "gallery")
)


def retired() -> list[str]:
    """The phrases in the first column of the glossary's last table."""
    table = GLOSSARY.read_text(encoding="utf-8").split("## Retired phrases")[1]
    rows = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)[1:]
    return [phrase for row in rows for phrase in row.split("; ")]


def found(text: str) -> list[str]:
    plain = re.sub(r"\s+", " ", OUTPUT.sub(" ", text).replace("\n# ", " "))
    return [
        phrase
        for phrase in retired()
        if re.search(rf"(?:^|\b|(?=,)){re.escape(phrase)}\b", plain, re.IGNORECASE)
    ]


def test_the_phrases_are_read() -> None:
    assert len(retired()) >= 20
    assert found("the 120 tasks that took\n no part in learning") == ["that took no part", "took no part in"]
    assert found("better than the plain network's, surely") == [", surely"]
    assert found("```text\nread off U\n``` the symmetry was measured") == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_has_none(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page == GLOSSARY:
        text = text.split("## Retired phrases")[0]
    assert found(text) == []
