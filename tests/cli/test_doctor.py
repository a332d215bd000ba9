"""``metasym doctor`` says what is missing and what that costs, and never fails because of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import metasym
from metasym.cli import doctor, main
from metasym.native import compiled


def examined(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    assert main(["doctor", "--json"]) == 0
    return {line["what"]: line for line in json.loads(capsys.readouterr().out)}


def test_it_looks_at_everything(capsys, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("METASYM_DATA", str(tmp_path / "none" / "yet"))
    found = examined(capsys)
    for what in (
        "metasym",
        "Python",
        "packages",
        "C++ compiler",
        "threads",
        "GPU",
        "data folder",
        "free memory",
    ):
        assert what in found
    assert found["metasym"]["found"] == metasym.__version__
    assert found["data folder"]["ok"] is False
    assert "metasym data omniglot" in str(found["data folder"]["costs"])
    assert all(line["ok"] or line["costs"] for line in found.values())


def test_without_a_compiler(capsys, monkeypatch) -> None:
    monkeypatch.setattr(compiled, "compiler", lambda: None)
    found = examined(capsys)
    assert (found["C++ compiler"]["found"], found["C++ compiler"]["ok"]) == ("none", False)
    assert "kernels" not in found


def test_every_kernel_source_is_compiled_and_named(capsys, monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(compiled, "compiler", lambda: "g++")
    monkeypatch.setattr(compiled, "library", lambda source: asked.append(source.name) or object())
    line = examined(capsys)["kernels"]
    sources = {path.name for path in Path(metasym.__file__).parent.rglob("*.cpp")}
    assert {"random_images.cpp", "winograd.cpp"} <= sources == set(asked)
    assert all(source.removesuffix(".cpp") in str(line["found"]) for source in sources)


def test_kernels_that_the_user_forgoes(capsys, monkeypatch) -> None:
    monkeypatch.setattr(compiled, "compiler", lambda: "g++")
    monkeypatch.setattr(compiled, "library", lambda _: None)
    monkeypatch.setenv("METASYM_KERNELS", "torch")
    assert "METASYM_KERNELS=torch disables them" in str(examined(capsys)["kernels"]["found"])


def test_an_extra_that_is_missing_names_what_installs_it(capsys, monkeypatch) -> None:
    monkeypatch.setattr(doctor, "_EXTRAS", {"tables": (("no_such_module",), "no tables")})
    line = examined(capsys)["extra tables"]
    assert line["ok"] is False
    assert line["costs"] == "no tables; pip install 'metasym[tables]'"


def test_the_table(capsys) -> None:
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "what that costs" in said
    assert metasym.__version__ in said


def test_it_names_every_extra_that_a_user_may_want() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    for_developers = {"test", "bench", "docs", "dev"}
    assert set(doctor._EXTRAS) == set(project["project"]["optional-dependencies"]) - for_developers


def test_where_there_is_no_pynauty_the_package_in_its_place_is_told(capsys, monkeypatch) -> None:
    there = {"pynauty": None, "igraph": "1.2.3"}
    monkeypatch.setattr(doctor, "_version", lambda name: there.get(name, "0"))
    told = examined(capsys)["packages"]["found"]
    assert "igraph 1.2.3" in told
    assert "pynauty" not in told
