from __future__ import annotations

import errno
import hashlib
import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from metasym.tasks import omniglot
from metasym.tasks.images.download import download
from tests.refusals import refused
from tests.tasks.images.builders import accepted, omniglot_module, refused_data, write_zips
from tests.tasks.images.builders import small_omniglot as small_omniglot

BODY = bytes(range(256)) * 1200
MD5 = hashlib.md5(BODY).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Serves ``files``; breaks connections and forgets ranges when told to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {"/file": BODY}
        self.asked: list[tuple[str, str | None]] = []
        self.ranges = True
        self.break_after: list[int] = []
        """How many bytes each of the next answers gives before it breaks off."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.asked.append((self.path, wanted))
        body = self.server.files.get(self.path)
        if body is None:
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.server.ranges else 0
        if start >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        end = start + self.server.break_after.pop(0) if self.server.break_after else len(body)
        self.wfile.write(body[start:end])

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr("metasym.tasks.images.download.PAUSE", 0.0)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Server() as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def fetch(server: Server, path: Path, md5: str = MD5, most: int = 1 << 20, **options) -> None:
    download(f"{server.url}/file", path, md5=md5, most=most, **options)


def test_a_file_arrives_whole_and_is_not_fetched_twice(server, tmp_path):
    seen = []
    fetch(server, tmp_path / "f", progress=lambda done, total: seen.append((done, total)))
    assert (tmp_path / "f").read_bytes() == BODY
    assert seen[-1] == (len(BODY), len(BODY))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    fetch(server, tmp_path / "f")
    assert len(server.asked) == 1


def test_a_pipe_is_not_replaced_by_what_arrives(server, tmp_path):
    os.mkfifo(tmp_path / "f")
    with refused(str(tmp_path / "f"), "a pipe"):
        fetch(server, tmp_path / "f")
    assert (tmp_path / "f").is_fifo()
    assert not server.asked


def test_a_broken_connection_is_resumed_where_it_broke(server, tmp_path):
    server.break_after = [100_000, 50_000]
    fetch(server, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == BODY
    assert [wanted for _, wanted in server.asked] == [None, "bytes=100000-", "bytes=150000-"]


def test_what_a_killed_process_left_is_used(server, tmp_path):
    (tmp_path / "f.part").write_bytes(BODY[:200_000])
    fetch(server, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == BODY
    assert server.asked == [("/file", "bytes=200000-")]
    assert not (tmp_path / "f.part").exists()


def test_a_server_without_ranges_gives_all_of_it_again(server, tmp_path):
    server.ranges = False
    server.break_after = [100_000]
    fetch(server, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == BODY


def test_a_part_that_is_longer_than_the_file_is_dropped(server, tmp_path):
    (tmp_path / "f.part").write_bytes(BODY + b"more")
    fetch(server, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == BODY


def test_a_wrong_checksum_is_refused_and_leaves_nothing(server, tmp_path):
    (tmp_path / "f.part").write_bytes(b"wrong" * 10)
    with refused(f"{server.url}/file") as caught:
        fetch(server, tmp_path / "f")
    assert caught.value.found != MD5
    assert not (tmp_path / "f").exists()
    fetch(server, tmp_path / "f")  # the next attempt is a fresh one
    assert (tmp_path / "f").read_bytes() == BODY


def test_a_connection_that_always_breaks_gives_up_and_keeps_what_came(server, tmp_path):
    server.break_after = [1000] + [0] * 20
    with refused(f"{server.url}/file", "the connection ended after 1,000 of 307,200 bytes"):
        fetch(server, tmp_path / "f")
    assert (tmp_path / "f.part").read_bytes() == BODY[:1000]
    server.break_after = []
    fetch(server, tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == BODY


@pytest.mark.parametrize(
    ("call", "about", "found"),
    [
        (lambda s, p: fetch(s, p, most=1000), "{server}/file", len(BODY)),
        (
            lambda s, p: download(f"{s.url}/none", p, md5=MD5, most=10),
            "{server}/none",
            "404 Not Found",
        ),
        (lambda s, p: download("file:///etc/passwd", p, md5=MD5, most=10), "url", "file:///etc/passwd"),
        (
            lambda s, p: download("http://127.0.0.1:1/x", p, md5=MD5, most=10),
            "http://127.0.0.1:1/x",
            f"[Errno {errno.ECONNREFUSED}] {os.strerror(errno.ECONNREFUSED)}",
        ),
    ],
)
def test_bad_downloads_are_one_line(server, tmp_path, call, about, found):
    with refused(about.format(server=server.url), found):
        call(server, tmp_path / "f")
    assert not (tmp_path / "f").exists()


def test_the_command_line_downloads_omniglot(server, small_omniglot, monkeypatch, capsys):
    write_zips(small_omniglot / "origin")
    sums = []
    for part in omniglot_module.PARTS:
        body = (small_omniglot / "origin" / f"{part}.zip").read_bytes()
        server.files[f"/python/{part}.zip"] = body
        sums.append(hashlib.md5(body).hexdigest())
    monkeypatch.setattr(omniglot_module, "MD5", tuple(sums))
    data = small_omniglot / "data"
    command = ("data", "omniglot", "--data", data, "--url", f"{server.url}/python/")
    del server.files["/python/images_evaluation.zip"]
    refused_data(command, "images_evaluation.zip")
    server.files["/python/images_evaluation.zip"] = (
        small_omniglot / "origin" / "images_evaluation.zip"
    ).read_bytes()
    assert "18 images" in accepted(capsys, *command)
    assert [path for path, _ in server.asked] == [
        "/python/images_background.zip",
        "/python/images_evaluation.zip",
        "/python/images_evaluation.zip",
    ], "the zip that had arrived was fetched again"
    assert len(omniglot(data=data)) == 3
    assert "there already" in accepted(capsys, *command)
    assert len(server.asked) == 3


def test_the_official_addresses_and_checksums():
    assert omniglot_module.URL == "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"
    assert omniglot_module.PARTS == ("images_background", "images_evaluation")
    assert all(len(md5) == 32 for md5 in omniglot_module.MD5)
