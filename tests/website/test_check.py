"""The check of the built site finds what is wrong with one."""

from __future__ import annotations

from pathlib import Path

from website.check import problems


def of(site: Path) -> list[str]:
    return [line for line in problems(site) if not line.startswith("reference:")]


def test_dead_links_anchors_and_fetches_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<p id="here">x</p><a href="b.html#there">b</a><a href="#here">a</a>')
    (tmp_path / "b.html").write_text('<p id="there">y</p><a href="https://example.org">elsewhere</a>')
    assert of(tmp_path) == []
    (tmp_path / "c.html").write_text(
        '<a href="none.html">1</a><a href="b.html#nowhere">2</a><a href="#nowhere">3</a>'
        '<script src="https://example.org/x.js"></script><link rel="stylesheet" href="//example.org/x.css">'
    )
    (tmp_path / "s.css").write_text("@import url(https://example.org/font.css);")
    found = of(tmp_path)
    assert sorted(line.split(": ")[1] for line in found[:5]) == [
        "fetched from elsewhere",
        "fetched from elsewhere",
        "leads to no anchor",
        "leads to no anchor",
        "leads to no file",
    ]
    assert found[5:] == ["s.css: a style that fetches from elsewhere"]


def test_a_missing_public_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<p id="metasym.train">x</p>')
    found = list(problems(tmp_path))
    assert "reference: no entry for metasym.evaluate" in found
    assert "reference: no entry for metasym.train" not in found
