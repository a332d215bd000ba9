"""What is opened is an ordinary file: a pipe or a device is refused before anybody waits for it."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path

import pytest

from metasym.errors import MetasymError
from metasym.storage.atomic import write_atomically
from metasym.storage.plain_files import check_plain, open_plain, read_plain


@pytest.fixture
def odd(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the name of a socket has to be short
    os.mkfifo("pipe")
    Path("device").symlink_to("/dev/zero")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind("socket")
    Path("link").symlink_to("pipe")
    yield {"pipe": "a pipe", "link": "a pipe", "device": "a device", "socket": "a socket"}
    listening.close()


@pytest.mark.parametrize("look", [check_plain, open_plain, read_plain])
def test_what_is_no_file_is_named(odd, look):
    for name, kind in odd.items():
        with pytest.raises(OSError, match="a ") as refused:
            look(name)
        assert refused.value.strerror == kind
        assert refused.value.filename == name


def test_what_is_no_file_is_not_replaced_by_one(odd, tmp_path):
    """A device in the folder of the test: with the rights to do it, writing removed it."""
    with contextlib.suppress(PermissionError):
        os.mknod("own", stat.S_IFCHR | 0o600, os.makedev(1, 5))
        odd["own"] = "a device"
    Path("folder").mkdir()
    for name in (*odd, "folder"):
        before = Path(name).lstat()
        with pytest.raises(MetasymError) as refused:
            write_atomically(Path(name), b"abc", what="a page")
        assert refused.value.about == name
        assert os.path.samestat(Path(name).lstat(), before)
    write_atomically(Path("file"), b"abc", what="a page")
    write_atomically(Path("file"), b"abcd", what="a page")
    assert read_plain("file") == b"abcd"


def test_a_folder_and_nothing_are_told_as_usual(tmp_path):
    with pytest.raises(IsADirectoryError):
        open_plain(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_plain(tmp_path / "none")


def test_a_file_that_becomes_a_pipe_is_not_read(tmp_path, monkeypatch):
    """Between the question and the opening somebody else may exchange it."""
    path = tmp_path / "file"
    os.mkfifo(path)
    monkeypatch.setattr("metasym.storage.plain_files.check_plain", lambda _: None)
    with pytest.raises(OSError, match="a ") as refused:
        open_plain(path)
    assert refused.value.strerror == "a pipe"


def test_a_file_and_a_link_to_one_are_read(tmp_path):
    (tmp_path / "file").write_bytes(b"\x00abc")
    (tmp_path / "link").symlink_to("file")
    assert read_plain(tmp_path / "link") == b"\x00abc"
