"""Who else could have written a file that we are about to execute."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from metasym.storage.system import has_other_members


class UntrustedError(Exception):
    """Somebody else could have written there; the message says who or how."""


def check_trusted(path: Path) -> Path:
    """``path`` with its links resolved, if only this user and root could have written it; else ``UntrustedError``.

    It and every folder above it belong to this user or to root, and no other user may write to them. A folder above
    that everybody may write to is accepted if it is sticky, as /tmp is: there no user can rename files of others.
    """
    real = path.resolve(strict=True)
    for place in (real, *real.parents):
        found = place.lstat()
        if found.st_uid not in (os.geteuid(), 0):
            raise UntrustedError(f"{place} belongs to another user")
        shared = bool(found.st_mode & stat.S_IWOTH) or (
            bool(found.st_mode & stat.S_IWGRP) and has_other_members(found.st_gid)
        )
        if shared and (place == real or not found.st_mode & stat.S_ISVTX):
            raise UntrustedError(f"others may write to {place} (mode {stat.S_IMODE(found.st_mode):o})")
    return real
