"""The README's Python runs, in order, and prints what the README says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"```python\n(.*?)```(?:\n```text\n(.*?)```)?", re.DOTALL)


def run_blocks(page: Path) -> int:
    """Run a page's Python, block after block in one namespace; each prints what stands below it. Their number."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    names: dict[str, object] = {"__name__": "__page__"}
    for code, expected in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), names)
        assert printed.getvalue() == expected
    return len(blocks)


def test_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_blocks(README) >= 1


def test_the_users_own_example_is_short() -> None:
    section = README.read_text(encoding="utf-8").split("## Your own data")[1]
    code = BLOCK.findall(section)[0][0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 20


def test_it_is_short_and_its_links_lead_somewhere() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 120
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (README.parent / link).exists(), link
