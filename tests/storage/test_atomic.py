"""Files are written whole or not at all, and never through a link that somebody has put there."""

from __future__ import annotations

import os
import stat

import pytest

from metasym.storage.atomic import check_inside, make_inside, open_own, write_atomically
from metasym.storage.locks import temporary
from metasym.types import MetasymError
from tests.refusals import refused


def test_the_file_holds_the_new_bytes_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "a.json"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_the_file_has_the_rights_that_the_umask_gives(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


@pytest.mark.parametrize("name", ["a.json.tmp", "a.json.0123abcd.tmp"])
def test_a_planted_temporary_name_is_not_written_to(tmp_path, name):
    victim, folder = tmp_path / "victim", tmp_path / "run"
    victim.write_text("mine")
    folder.mkdir()
    (folder / name).symlink_to(victim)
    write_atomically(folder / "a.json", b"new")
    assert victim.read_text() == "mine"
    assert (folder / "a.json").read_bytes() == b"new"


@pytest.mark.parametrize("kept", [False, True])
def test_a_link_in_the_place_of_the_file_is_refused_and_nothing_is_changed(tmp_path, kept):
    victim, folder = tmp_path / "victim", tmp_path / "run"
    victim.write_text("mine")
    folder.mkdir()
    path, keep = folder / "new", folder / "old"
    (keep if kept else path).symlink_to(victim)
    with refused(str(keep if kept else path), "a symbolic link"):
        write_atomically(path, b"new", keep=keep)
    assert victim.read_text() == "mine"
    assert [p.is_symlink() for p in folder.iterdir()] == [True]


def test_what_a_killed_write_left_is_removed_and_what_another_process_writes_is_not(tmp_path):
    path = tmp_path / "a[1].json"
    (tmp_path / "a[1].json.0123abcd.tmp").write_text("half")
    (tmp_path / "b.json.0123abcd.tmp").write_text("half of another")
    with temporary(path) as (_, other):
        write_atomically(path, b"whole")
        names = {p.name for p in tmp_path.iterdir()}
        assert names == {path.name, other.name, "b.json.0123abcd.tmp"}


@pytest.mark.parametrize("kind", ["symbolic", "hard", "pipe", "folder"])
def test_a_file_that_is_changed_in_place_is_an_ordinary_file_of_one_name(tmp_path, kind):
    victim, path = tmp_path / "victim", tmp_path / "metrics.jsonl"
    victim.write_text("mine")
    if kind == "symbolic":
        path.symlink_to(victim)
    elif kind == "hard":
        path.hardlink_to(victim)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises((MetasymError, OSError)) as caught, open(path, "a", opener=open_own) as file:
        file.write("more")
    if kind in ("symbolic", "hard"):
        assert isinstance(caught.value, MetasymError)
        assert caught.value.about == str(path)
    assert victim.read_text() == "mine"


def test_a_folder_of_ours_is_no_link_but_the_users_own_may_be(tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    given = tmp_path / "given"
    given.symlink_to(real)
    assert make_inside(given, "maml").is_dir()
    (given / "find").symlink_to(tmp_path)
    with refused(str(given / "find"), "a symbolic link"):
        make_inside(given, "find")
    with refused(str(given / "find"), "a symbolic link"):
        check_inside(given, given / "find" / "deeper")
