"""Runs the scripts under examples/ and makes a page of each: its text, its code, its real output and its pictures.

``python -m website.gallery [NAME ...]`` (``make gallery``) runs them as they are and writes docs/gallery; the pages
are kept in the repository, so that building the site needs no simulator. A page holds a digest of the script that it
was made from, by which the tests tell an old page.

A script is ordinary Python. Its docstring is the title and an introduction; its line ``Extras: a, b`` names what has
to be installed besides metasym. A line ``# %%`` begins a part: comment lines right after it are text, the rest is
code. Matplotlib figures that are open at the end of a part become its pictures. ``QUICK`` in the environment asks for
little work.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import os
import re
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
EXAMPLES, PAGES = ROOT / "examples", ROOT / "docs" / "gallery"
WIDTH = 108
"""Columns of the terminal that the pages show; as many fit beside the site's menus."""
_EXTRAS = re.compile(r"^Extras: (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Part:
    """Some text, and code that follows it."""

    text: str
    code: str
    line: int


@dataclass(frozen=True)
class Example:
    """A script, read but not run."""

    name: str
    title: str
    about: str
    extras: tuple[str, ...]
    parts: tuple[Part, ...]
    digest: str


def read(path: Path) -> Example:
    """The parts of a script."""
    source = path.read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(source)) or ""
    title, _, about = docstring.partition("\n")
    found = _EXTRAS.search(about)
    extras = tuple(name.strip() for name in found[1].split(",")) if found else ()
    parts = []
    lines = source.splitlines()
    starts = [number for number, line in enumerate(lines) if line.strip() == "# %%"]
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        body = lines[start + 1 : stop]
        count = next((i for i, line in enumerate(body) if not line.startswith("#")), len(body))
        text = "\n".join(line[2:] for line in body[:count])
        parts.append(Part(text, "\n".join(body[count:]).strip("\n"), start + 1 + count))
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    return Example(path.stem, title.rstrip("."), _EXTRAS.sub("", about).strip(), extras, tuple(parts), digest)


def run(path: Path, pictures: Path | None = None) -> tuple[str, list[Path]]:
    """Run a script part by part; its page in Markdown, and the pictures that were drawn into ``pictures``."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    example = read(path)
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    page, drawn, began = [f"# {example.title}\n", example.about, _install(example)], [], time.process_time()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for part in example.parts:
            printed = io.StringIO()
            # Blank lines in front keep the line numbers of a traceback true.
            program = compile("\n" * part.line + part.code, str(path), "exec")
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
                exec(program, names)
            page.append(part.text)
            if part.code:
                page.append(f"```python\n{part.code.strip()}\n```")
            if printed.getvalue().strip():
                page.append(f'```text title="output"\n{_as_shown(printed.getvalue())}\n```')
            for number in plt.get_fignums():
                figure = plt.figure(number)
                if pictures is not None:
                    file = pictures / f"{example.name}-{len(drawn) + 1}.png"
                    figure.savefig(file, dpi=110, bbox_inches="tight")
                    drawn.append(file)
                    alt = figure.get_label() or example.title
                    page.append(f"![{alt}]({file.name})")
            plt.close("all")
    seconds = time.process_time() - began
    page.append(
        f"*This page was made by running `examples/{path.name}`, which takes {seconds:.0f} s of one core.*\n\n"
        f"<!-- made from {example.digest} -->"
    )
    return "\n\n".join(block for block in page if block) + "\n", drawn


def _as_shown(printed: str) -> str:
    """What was printed, its long lines broken as a terminal would, but between words."""
    lines = textwrap.TextWrapper(
        WIDTH, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False
    )
    return "\n".join(lines.fill(line) for line in printed.rstrip().splitlines())


def _install(example: Example) -> str:
    wanted = f"[{','.join(example.extras)}]" if example.extras else ""
    return f"Needs `pip install 'metasym{wanted}'`, nothing else." if wanted else "Needs metasym alone."


def index(examples: list[Example]) -> str:
    """The gallery's first page: a card for each example that has a page."""
    cards = []
    for example in examples:
        picture = (
            f'<img src="{example.name}-1.png" alt="">' if (PAGES / f"{example.name}-1.png").exists() else ""
        )
        first = example.about.split("\n\n")[0].replace("\n", " ").replace("`", "")
        cards.append(f'<a href="{example.name}.html">{picture}<strong>{example.title}</strong>{first}</a>')
    return (
        "# Gallery\n\nEach page is a script under `examples/` with the output that it really gave. The tests run all "
        'of them.\n\n<div class="cards" markdown="0">\n' + "\n".join(cards) + "\n</div>\n"
    )


def main() -> None:
    """Make the pages of the named examples, or of all."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["COLUMNS"] = str(WIDTH)
    wanted = sys.argv[1:] or [path.stem for path in sorted(EXAMPLES.glob("*.py"))]
    PAGES.mkdir(exist_ok=True)
    for name in wanted:
        for old in PAGES.glob(f"{name}-*.png"):
            old.unlink()
        page, drawn = run(EXAMPLES / f"{name}.py", PAGES)
        (PAGES / f"{name}.md").write_text(page, encoding="utf-8")
        print(f"{name}: {len(drawn)} pictures")
    made = [read(path) for path in sorted(EXAMPLES.glob("*.py")) if (PAGES / f"{path.stem}.md").exists()]
    (PAGES / "index.md").write_text(index(made), encoding="utf-8")


if __name__ == "__main__":
    main()
