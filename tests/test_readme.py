"""The README's Python runs, in order, and prints what the README says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCK = re.compile(r"```python\n(.*?)```(?:\n```text\n(.*?)```)?", re.DOTALL)


def test_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(README.read_text())
    assert len(blocks) >= 4
    names: dict[str, object] = {}
    for code, expected in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(README), "exec"), names)
        assert printed.getvalue() == expected


def test_the_users_own_example_is_short() -> None:
    section = README.read_text().split("## From Python")[1]
    code = BLOCK.findall(section)[0][0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
