"""The package as it is published: one version everywhere, and inside it all that it needs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import metasym
from metasym.cli import main

ROOT = Path(__file__).parent.parent
NEEDED = (".cpp", ".h", ".html", ".css", ".js", "py.typed")


def test_one_version_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited is not None
    assert cited[1] == metasym.__version__
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "metasym.__version__"}
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"metasym {metasym.__version__}\n"


def test_what_is_imported_at_once_is_a_dependency() -> None:
    """A package that one function needs (kornia, pyarrow, onnx, ...) is an extra, imported where it is used."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split(r"[<>=~!\[; ]", line)[0] for line in project["dependencies"]}
    imported = {
        name.partition(".")[0]
        for path in (ROOT / "src" / "metasym").rglob("*.py")
        for statement in ast.parse(path.read_text(encoding="utf-8")).body
        for name in _modules(statement)
    }
    others = imported - sys.stdlib_module_names - {"metasym"}
    names = {"PIL": "pillow", "sklearn": "scikit-learn"}
    assert {names.get(name, name) for name in others} <= needed
    assert "kornia" in project["optional-dependencies"]
    assert "kornia" not in needed


def _modules(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    return [statement.module or ""] if isinstance(statement, ast.ImportFrom) else []


@pytest.mark.slow
def test_the_wheel_and_the_sdist_hold_all_that_is_needed(tmp_path: Path) -> None:
    pytest.importorskip("build")
    found = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    (wheel,), (sdist,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    source = ROOT / "src" / "metasym"
    wanted = {
        path.relative_to(source.parent).as_posix()
        for path in source.rglob("*")
        if path.suffix == ".py" or path.name.endswith(NEEDED)
    }
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    assert wanted <= inside
    assert {name.split("/")[0] for name in inside} == {"metasym", f"metasym-{metasym.__version__}.dist-info"}
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in wanted} <= names
    assert {"LICENSE", "README.md", "CITATION.cff", "CHANGELOG.md"} <= names
    assert not any(name.startswith(("results", "tests", "docs")) for name in names)
    assert max(wheel.stat().st_size, sdist.stat().st_size) < 2 * 10**6
