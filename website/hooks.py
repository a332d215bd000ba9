"""The page about the command line is made from the parser itself; pictures of results come from where they are."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from mkdocs.structure.files import File, Files

from website import notebooks

MARKER = "<!-- every command's --help -->"


RESULTS = re.compile(r"\]\(\.\./(results/[^)]+\.png)\)")


def on_files(files: Files, *, config: Any, **_: Any) -> Files:
    """Pictures under results/, beside the pages: a site that is put elsewhere has them too; a page a notebook."""
    root = Path(config.docs_dir).parent
    for page in sorted(Path(config.docs_dir).glob("*.md")):
        for name in RESULTS.findall(page.read_text(encoding="utf-8")):
            files.append(File.generated(config, name, abs_src_path=str(root / name)))
    for notebook in sorted(notebooks.FOLDER.glob("*.ipynb")):
        text = notebooks.page(json.loads(notebook.read_text(encoding="utf-8")), notebook.stem)
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the help of all commands where the page asks for it, and name the pictures as the site has them."""
    markdown = RESULTS.sub(r"](\1)", markdown)
    return markdown.replace(MARKER, "\n\n".join(_sections())) if MARKER in markdown else markdown


def _sections() -> Iterator[str]:
    from metasym.cli.main import parser

    for command in _commands(parser()):
        with patch.dict(os.environ, COLUMNS="88"):  # argparse asks for it; nothing else is to see it
            text = command.format_help().rstrip()
        yield f"## {command.prog}\n\n```text\n{text}\n```"


def _commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The commands that can be typed: those without commands of their own."""
    inner = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not inner:
        yield parser
    for action in inner:
        for child in action.choices.values():
            yield from _commands(child)
