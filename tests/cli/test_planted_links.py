"""Folders that somebody else has prepared: no command follows a link out of the folder that it was given.

First a command runs undisturbed, to learn the names that it writes. Then links to a victim stand in the places of
those names, and of the names that older versions wrote first.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.test_unwritable_places import WRITES, files, forked

__all__ = ["files"]  # a fixture

INTO_FOLDERS = {
    **{
        name: WRITES[name]
        for name in ("learn, outer steps", "discover", "run", "reproduce", "angles", "data")
    },
    "report": ["report", "OUT"],
    "export": ["export", "RUN", "--out", "OUT/model.pt2"],
}


def victims(place: Path) -> dict[str, str]:
    return {str(p.relative_to(place)): p.read_text() for p in place.rglob("*") if p.is_file()}


@pytest.mark.parametrize("command", INTO_FOLDERS)
def test_nothing_outside_the_folder_is_touched(tmp_path, files, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    victim = tmp_path / "victim"
    (victim / "inside").mkdir(parents=True)
    for name in ("file", "inside/result.json", "inside/config.json"):
        (victim / name).write_text(f"mine: {name}")
    before = victims(victim)

    def run(out: Path) -> tuple[int, str]:
        names = {**files, "OUT": str(out)}
        return forked([names.get(a, a.replace("OUT", str(out))) for a in INTO_FOLDERS[command]], lambda: None)

    def begin(out: Path) -> Path:
        if command == "report":
            shutil.copytree(files["RUN"], out)
        else:
            out.mkdir()
        return out

    clean = begin(tmp_path / "clean")
    there = {p.relative_to(clean) for p in clean.rglob("*")}
    status, said = run(clean)
    assert status == 0, said
    written = sorted({p.relative_to(clean) for p in clean.rglob("*")} - there)
    assert written

    planted = begin(tmp_path / "planted")
    for name in [*written, *there]:
        for suffix in (".tmp", ".lock", ".part", ".0123abcd.tmp"):
            place = planted / name.with_name(name.name + suffix)
            if (clean / name).is_file() and not place.exists() and place.parent.is_dir():
                place.symlink_to(victim / "file")
    status, said = run(planted)
    assert victims(victim) == before
    assert "Traceback" not in said
    # The lock of converted images has a known name, on which processes must agree: a link there is refused.
    assert status == (2 if command == "data" else 0), said

    for name in written:
        out = begin(tmp_path / "one")
        place = out / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(victim / "inside" if (clean / name).is_dir() else victim / "file")
        status, said = run(out)
        assert victims(victim) == before, name
        assert status in (0, 2), said
        assert "Traceback" not in said
        shutil.rmtree(out)
