"""The pages and the package use none of the phrases that the glossary retires."""

from __future__ import annotations

import functools
import json
import re
import tokenize
from pathlib import Path

import pytest

from website import notebooks

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TEMPLATES = sorted((ROOT / "src").rglob("*.html"))
GLOSSARY = ROOT / "docs" / "glossary.md"
OUTPUT = re.compile(r"```(?:text|console|json).*?```", re.DOTALL)
"""What programs print: their words are those of the package."""

PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.py")]
    if path.parent.name != "notes"
)
STUDIES = sorted((ROOT / "studies").rglob("*.py"))
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@functools.cache
def retired() -> list[str]:
    """The phrases in the first column of the glossary's last table."""
    table = GLOSSARY.read_text(encoding="utf-8").split("## Retired phrases")[1]
    rows = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)[1:]
    return [phrase for row in rows for phrase in row.split("; ")]


def found(text: str) -> list[str]:
    plain = re.sub(r"\s+", " ", OUTPUT.sub(" ", text).replace("\n# ", " ")).lower()
    return [
        phrase
        for phrase in retired()
        if phrase.lower() in plain and re.search(rf"(?:\b|(?=,)){re.escape(phrase.lower())}\b", plain)
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


def words_of(source: Path) -> str:
    """Strings, docstrings and comments of a module; a sentence in several pieces comes out whole."""
    with source.open("rb") as file:
        tokens = list(tokenize.tokenize(file.readline))
    said = []
    for token in tokens:
        if token.type == tokenize.COMMENT:
            said.append(token.string.lstrip("# ") + " ")
        elif token.type == tokenize.STRING:
            said.append(re.sub(r'^[rbfRBF]*("""|"|\'\'\'|\')|("""|"|\'\'\'|\')$', "", token.string))
        elif token.type == getattr(tokenize, "FSTRING_MIDDLE", -1):  # Python 3.12 takes f-strings apart
            said.append(token.string)
        elif token.type in (tokenize.OP, tokenize.NAME, tokenize.NEWLINE):
            said.append(" | ")
    return "".join(said)


def test_a_sentence_in_pieces_is_read_whole(tmp_path: Path) -> None:
    source = tmp_path / "module.py"
    source.write_text(
        'x = (f"{n} tasks that "\n     "took no part in it")  # read off\n# U\nsurely = 1, surely\n'
    )
    assert found(words_of(source)) == ["that took no part", "took no part in", "read off"]


def test_the_package_and_the_studies_have_none() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in [*SOURCES, *TEMPLATES, *STUDIES]}
    assert len(texts) > 400
    # Lines joined as they stand may hold code too: where they hold a phrase, strings and comments are read exactly.
    joined = {path: re.sub(r'"?\s*\n\s*(?:# ?|f?")?', " ", text) for path, text in texts.items()}
    held = [path for path, text in joined.items() if found(text)]
    exact = {path: words_of(path) if path.suffix == ".py" else texts[path] for path in held}
    assert {str(path.relative_to(ROOT)): said for path, text in exact.items() if (said := found(text))} == {}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_none(path: Path) -> None:
    """Neither in what it says nor in what its cells gave, HTML included."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    said = ["".join(cell["source"]) for cell in notebook["cells"]]
    assert {text for text in [*said, *notebooks.texts(notebook)] if found(text)} == set()


def test_the_output_of_a_gallery_page_is_read_too() -> None:
    """It is printed by the package: a retired phrase there is a page that was not made anew."""
    pages = [page for page in PAGES if page.parent.name == "gallery"]
    assert len(pages) > 5
    texts = {page.name: page.read_text(encoding="utf-8").replace("```", " ") for page in pages}
    assert {name: said for name, text in texts.items() if (said := found(text))} == {}
