"""The notebooks under docs/notebooks: runs them, and makes a page of the site of each.

``python -m website.notebooks [NAME ...]`` runs them and writes what their cells gave into the files, which are kept
in the repository; the tests run them again and compare. The page of a notebook needs neither Jupyter nor any of its
packages: a notebook is JSON, and its text is Markdown.
"""

from __future__ import annotations

import html
import json
import re
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "docs" / "notebooks"
_LONGEST = 400_000
"""Characters of an output in HTML, or of a picture, that a page shows."""
_VOLATILE = ("execution_count", "metadata", "id")


def executed(path: Path, timeout: int = 300) -> dict[str, Any]:
    """The notebook with what its cells give now; run beside its file, in a kernel of its own."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=timeout, kernel_name="python3", resources={"metadata": {"path": str(Path.cwd())}}
    )
    client.execute()
    found: dict[str, Any] = json.loads(nbformat.writes(notebook))
    for cell in found["cells"]:
        cell["metadata"] = {}
        if cell["cell_type"] == "code":
            cell["outputs"] = [_stripped(output) for output in cell["outputs"]]
    found["metadata"] = {"language_info": {"name": "python"}}
    return found


def _stripped(output: dict[str, Any]) -> dict[str, Any]:
    """An output without what differs from machine to machine."""
    if "metadata" in output:
        output["metadata"] = {}
    return output


def texts(notebook: dict[str, Any]) -> list[str]:
    """What the cells gave as text, that of HTML included; without bars of progress, which tell a machine's speed."""
    found = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            if output["output_type"] == "stream":
                found.append(_joined(output["text"]))
            elif not _is_progress(output):
                found.append(_joined(output.get("data", {}).get("text/plain", "")))
                found += (
                    [words] if (words := _words(_joined(output.get("data", {}).get("text/html", "")))) else []
                )
    return found


def _words(text: str) -> str:
    """What a reader of an output in HTML reads; numbers, which differ by rounding, as ``#``."""
    for _ in range(2):  # a page inside a frame is escaped once more
        text = re.sub(r"<(script|style|svg)\b.*?</\1>", " ", html.unescape(text), flags=re.DOTALL)
    plain = re.sub(r"<[^<>]*>", " ", text)
    return " ".join(re.sub(r"\d+(?:\.\d+)?(?:e[−-]?\d+)?", "#", plain).split())


def page(notebook: dict[str, Any], name: str) -> str:
    """The notebook as a page in Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = _joined(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [shown for output in cell["outputs"] if (shown := _shown(output))]
    parts.append(f"[The notebook itself]({name}.ipynb), to run it yourself.")
    return "\n\n".join(parts) + "\n"


def _shown(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return f"```text\n{_joined(output['text']).rstrip()}\n```"
    if _is_progress(output):
        return ""
    data = output.get("data", {})
    picture = _joined(data.get("image/png", "")).strip()
    if picture and len(picture) <= _LONGEST:
        words = html.escape(_joined(data.get("text/plain", "a figure")), quote=True)
        return f'<img alt="{words}" src="data:image/png;base64,{picture}">'
    framed = _joined(data.get("text/html", ""))
    if framed.startswith("<iframe srcdoc=") and len(framed) <= _LONGEST:
        return framed.replace("\n", "&#10;")
    return f"```text\n{_joined(data.get('text/plain', '')).rstrip()}\n```"


def _is_progress(output: dict[str, Any]) -> bool:
    return "<progress" in _joined(output.get("data", {}).get("text/html", ""))


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def main(names: list[str]) -> None:
    """Run the notebooks ``names``, or all, and write them with what they gave."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not names or path.stem in names:
            print(path.stem, flush=True)
            path.write_text(json.dumps(executed(path), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
