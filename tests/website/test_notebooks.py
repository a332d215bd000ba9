"""The notebooks give what they show, and have pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from website import notebooks

pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

NAMES = ["first-steps", "own-data", "own-network", "what-was-learned"]


def test_all_are_known() -> None:
    assert sorted(path.stem for path in notebooks.FOLDER.glob("*.ipynb")) == NAMES
    nav = (notebooks.FOLDER.parent.parent / "mkdocs.yml").read_text()
    assert all(f"notebooks/{name}.md" in nav for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_gives_what_it_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = notebooks.FOLDER / f"{name}.ipynb"
    stored = json.loads(path.read_text(encoding="utf-8"))
    expected = notebooks.texts(stored)
    assert len(expected) >= 3
    assert notebooks.texts(notebooks.executed(path)) == expected


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_every_cell(name: str) -> None:
    stored = json.loads((notebooks.FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))
    page = notebooks.page(stored, name)
    for cell in stored["cells"]:
        assert "".join(cell["source"]) in page
    assert page.startswith("# ")
    assert "http://" not in page.split("srcdoc")[0]
