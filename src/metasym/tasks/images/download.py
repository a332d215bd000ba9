"""A file from the network: resumed where it broke off, checked, moved to its place when it is whole."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from metasym.storage.atomic import open_own, refuse_other
from metasym.storage.locks import locked
from metasym.storage.plain_files import open_plain
from metasym.tasks.images.cache import make_folder, unusable
from metasym.tasks.images.sources import Progress
from metasym.types import MetasymError

TIMEOUT = 30.0
ATTEMPTS = 5
PAUSE = 1.0
"""Seconds before the second attempt; doubled before each further one."""
_CHUNK = 1 << 16


def download(url: str, path: Path, *, md5: str, most: int, progress: Progress | None = None) -> None:
    """Fetch ``url`` to ``path``, at most ``most`` bytes, unless it is there; verify ``md5``.

    What has arrived stays in ``path.part`` when the connection breaks or the process is killed, and is not
    fetched again. A second process waits for the first.
    """
    if not url.startswith(("http://", "https://")):
        raise MetasymError(
            f"expected an address that begins with https:// or http://, found {url!r:.80}",
            about="url",
            found=url,
        )
    part = path.with_name(path.name + ".part")
    try:
        make_folder(path.parent, "to download to")
        with locked(path):
            if path.is_file():
                return
            refuse_other(path, "a downloaded file, or nothing yet")
            _attempts(url, part, most, progress)
            found = _md5(part)
            if found != md5:
                part.unlink()
                raise MetasymError(
                    f"{url}: expected a file with MD5 {md5}, found {found}; try again later",
                    about=url,
                    found=found,
                )
            part.replace(path)
    except OSError as error:
        raise unusable(path.parent, "to download to", error) from None


def _attempts(url: str, part: Path, most: int, progress: Progress | None) -> None:
    left, pause = ATTEMPTS, PAUSE
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            _fetch(url, part, most, progress)
            return
        except urllib.error.HTTPError as error:
            error.close()
            problem = f"{error.code} {error.reason}"
            if error.code == 416:  # the part on the disk does not fit the server's file
                part.unlink(missing_ok=True)
            elif error.code < 500:
                left = 1
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
            problem = str(getattr(error, "reason", error) or type(error).__name__)
        after = part.stat().st_size if part.exists() else 0
        left = ATTEMPTS if after > before else left - 1
        if left <= 0:
            raise MetasymError(
                f"{url}: expected to download it, found: {problem}; run again to go on from {after:,} bytes, or "
                "fetch the file another way and give its place with --from",
                about=url,
                found=problem,
            )
        time.sleep(pause if after == before else PAUSE)
        pause = min(2 * pause, 16 * PAUSE)


def _fetch(url: str, part: Path, most: int, progress: Progress | None) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "metasym", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        start, total = _stretch(answer)
        if start != have:  # the server gives all of it again
            have = 0
            if start != 0:
                raise http.client.HTTPException(f"bytes from {start} instead of those asked for")
        if (total or 0) > most:
            raise MetasymError(
                f"{url}: expected a file of at most {most:,} bytes, found {total:,}", about=url, found=total
            )
        with open(part, "r+b" if have else "wb", opener=open_own) as file:
            file.seek(have)
            while chunk := answer.read(_CHUNK):
                have += len(chunk)
                if have > most:
                    raise MetasymError(
                        f"{url}: expected a file of at most {most:,} bytes, found more",
                        about=url,
                        found="more bytes",
                    )
                file.write(chunk)
                if progress is not None:
                    progress(have, total or have)
            file.flush()
            os.fsync(file.fileno())
    if total is not None and have < total:
        raise http.client.HTTPException(f"the connection ended after {have:,} of {total:,} bytes")


def _stretch(answer: Any) -> tuple[int, int | None]:
    """Where the answer's bytes begin, and how many the whole file has, if the server says so."""
    if answer.status == 206:
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range", ""))
        if found is None:
            raise http.client.HTTPException("a part of the file that the server does not describe")
        return int(found[1]), None if found[2] == "*" else int(found[2])
    length = answer.headers.get("Content-Length", "")
    return 0, int(length) if length.isdigit() else None


def _md5(path: Path) -> str:
    with open_plain(path) as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
