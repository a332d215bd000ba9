from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

from metasym.native import compiled
from metasym.native.trusted_places import UntrustedError, check_trusted

needs_compiler = pytest.mark.skipif(compiled.compiler() is None, reason="no C++ compiler on this machine")


def no_such_user(number: int) -> None:
    raise KeyError(number)


def test_without_a_home_folder_kernels_are_compiled_into_a_private_folder(monkeypatch, source):
    for name in ("HOME", "XDG_CACHE_HOME", "METASYM_KERNELS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", no_such_user)
    with pytest.raises(UntrustedError):
        compiled.cache_folder()
    if compiled.compiler() is not None:
        assert answer(source) == 42


@pytest.fixture
def source(tmp_path, monkeypatch) -> Path:
    """A kernel that answers 42, a cache folder of its own, and a process that has compiled nothing yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("METASYM_KERNELS", raising=False)
    monkeypatch.setattr(compiled, "_hung", set())
    compiled._private_folder.cache_clear()
    path = tmp_path / "tiny.cpp"
    path.write_text('extern "C" int answer() { return 42; }')
    return path


def answer(source: Path) -> int | None:
    """What the kernel says in a process that begins now."""
    found = compiled.library.__wrapped__(source)
    return None if found is None else found.answer()


def plant(place: Path, code: str) -> None:
    """Other code in the place of a compiled file, not loaded before under that name."""
    other = place.with_name("other.cpp")
    other.write_text(code)
    subprocess.run([str(compiled.compiler()), "-shared", "-fPIC", str(other), "-o", str(place)], check=True)
    other.unlink()


def kept(source: Path, tmp_path: Path) -> Path:
    """The compiled file's place in the cache folder, without having loaded it in this process."""
    places = []
    build = compiled._build

    def seen(command, source, target, mark):
        places.append(target)
        raise OSError

    compiled._build = seen
    try:
        assert compiled.library.__wrapped__(source) is None
    finally:
        compiled._build = build
    place = places[0]
    assert place.parent == tmp_path / "cache" / "metasym" / "kernels"
    return place


PLANTED = 'extern "C" int answer() { return 13; }'


@needs_compiler
def test_a_compiled_kernel_is_kept_and_used_again(source, tmp_path, monkeypatch):
    assert answer(source) == 42
    (made,) = (tmp_path / "cache" / "metasym" / "kernels").iterdir()
    monkeypatch.setattr(compiled, "_build", None)
    assert answer(source) == 42
    assert made.exists()


@needs_compiler
@pytest.mark.parametrize(
    ("folder", "file"), [(0o777, 0o644), (0o700, 0o666), (0o777, 0o666), (0o770, 0o644)], ids=oct
)
def test_a_file_that_others_could_have_written_is_not_executed(source, tmp_path, folder, file, monkeypatch):
    place = kept(source, tmp_path)
    build = place.stem.rpartition("-")[2]
    plant(place, f'{PLANTED}\nextern "C" const char metasym_build[] = "metasym_build={build}";')
    if folder == 0o770:
        monkeypatch.setattr("metasym.native.trusted_places.has_other_members", lambda group: True)
    place.chmod(file)
    place.parent.chmod(folder)
    assert answer(source) == 42


@needs_compiler
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("given", ["file", "folder", "above"])
def test_a_file_of_another_user_is_not_executed(source, tmp_path, given):
    place = kept(source, tmp_path)
    build = place.stem.rpartition("-")[2]
    plant(place, f'{PLANTED}\nextern "C" const char metasym_build[] = "metasym_build={build}";')
    os.chown({"file": place, "folder": place.parent, "above": tmp_path / "cache"}[given], 12345, 12345)
    assert answer(source) == 42


@needs_compiler
def test_a_relative_cache_folder_is_ignored(source, tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.chdir(tmp_path)
    assert answer(source) == 42
    assert not (tmp_path / "cache").exists()
    assert len(list((home / ".cache" / "metasym" / "kernels").iterdir())) == 1


@needs_compiler
@pytest.mark.parametrize("content", ["garbage", "nothing", "another library", "a folder"])
def test_what_is_not_our_kernel_is_built_again(source, tmp_path, content):
    place = kept(source, tmp_path)
    build = place.stem.rpartition("-")[2]
    if content == "garbage":  # with the mark, so that it is tried
        place.write_bytes(f"metasym_build={build}".encode() * 100)
    elif content == "nothing":
        place.touch()
    elif content == "a folder":
        place.mkdir()
    else:
        plant(place, "int other() { return 1; }")
    assert answer(source) == 42
    if content != "a folder":  # that stays, and the kernel is compiled into a private folder
        assert ctypes.CDLL(str(place)).answer() == 42
        assert [p.name for p in place.parent.iterdir()] == [place.name]


@needs_compiler
def test_a_compiler_that_hangs_is_given_up_for_all_kernels(source, tmp_path, monkeypatch):
    tries = tmp_path / "tries"
    hanging = tmp_path / "g++"
    hanging.write_text(f"#!/bin/sh\necho try >> {tries}\nsleep 600\n")
    hanging.chmod(0o755)
    monkeypatch.setenv("CXX", str(hanging))
    monkeypatch.setattr(compiled, "_TIMEOUT", 0.5)
    assert answer(source) is None
    assert answer(source) is None
    assert tries.read_text() == "try\n"
    assert (
        shutil.which("pgrep") is None
        or not subprocess.run(["pgrep", "-f", str(hanging)], capture_output=True, check=False).stdout
    )


def test_a_sticky_folder_above_is_trusted_and_its_own_contents_are_not(tmp_path):
    tmp_path.chmod(0o1777)
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o700)
    assert check_trusted(mine) == mine.resolve()
    with pytest.raises(UntrustedError):
        check_trusted(tmp_path)
    tmp_path.chmod(0o777)
    with pytest.raises(UntrustedError):
        check_trusted(mine)
    tmp_path.chmod(0o700)
