"""The file that images are converted into: shared, killed half-way, in a folder that cannot be written to."""

from __future__ import annotations

import ctypes
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from metasym.tasks import from_folder
from tests.refusals import refused
from tests.tasks.images.test_folder import own_cache as own_cache
from tests.tasks.images.test_folder import own_images, picture


def forked(root: Path, data: Path, out: Path, *, wait: bool = False) -> int:
    """A process that converts ``root`` and writes what it got to ``out``; returns its number.

    With ``wait`` it stops half-way, says so by the file ``half``, and goes on when there is a file ``go``.
    """
    parent = os.getpid()
    process = os.fork()
    if process:
        return process
    calls = 0

    def progress(done: int, total: int) -> None:
        nonlocal calls
        calls += 1
        if wait and done >= total // 2 and not (data / "half").exists():
            (data / "half").touch()
            while not (data / "go").exists():
                if os.getppid() != parent:  # the test has failed and ended
                    os._exit(1)
                time.sleep(0.01)

    try:
        out.with_suffix(".started").touch()
        classes = from_folder(root, size=8, data=data, progress=progress)
        digest = hashlib.sha256(classes.images.tobytes()).hexdigest()
        out.write_text(f"{digest} {'converted' if calls else 'found'}")
    finally:
        os._exit(0)


def wait_for(path: Path, process: int) -> None:
    while not path.exists():
        assert os.waitpid(process, os.WNOHANG) == (0, 0), "the process has ended"
        time.sleep(0.01)


def killed_half_way(root: Path, data: Path, out: Path) -> None:
    data.mkdir()
    process = forked(root, data, out, wait=True)
    wait_for(data / "half", process)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def plant(place: Path, kind: str) -> None:
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(place.with_name("elsewhere"))


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_what_is_no_file_is_not_replaced_by_converted_images(tmp_path, kind):
    root, data = own_images(tmp_path / "own"), tmp_path / "data"
    from_folder(root, size=8, data=data)
    (converted,) = data.glob("*.images")
    converted.unlink()
    plant(converted, kind)
    before = converted.lstat()
    with refused(str(converted)):
        from_folder(root, size=8, data=data)
    assert converted.lstat() == before
    assert [p.name for p in data.iterdir()] == [converted.name]


# Newer Pythons warn of forks beside threads; these children only read, convert and end.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_of_two_processes_one_converts_and_the_other_waits(tmp_path):
    root, data = own_images(tmp_path / "own"), tmp_path / "data"
    data.mkdir()
    first = forked(root, data, tmp_path / "first", wait=True)
    wait_for(data / "half", first)
    second = forked(root, data, tmp_path / "second")
    wait_for(tmp_path / "second.started", second)
    assert not list(data.glob("*.images"))
    (data / "go").touch()
    for process in (first, second):
        os.waitpid(process, 0)
    one, other = (tmp_path / "first").read_text().split(), (tmp_path / "second").read_text().split()
    assert one[0] == other[0]
    assert (one[1], other[1]) == ("converted", "found")
    assert not list(data.glob("*.tmp"))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_conversion_that_is_killed_leaves_nothing_that_hurts(tmp_path):
    root, data = own_images(tmp_path / "own"), tmp_path / "data"
    killed_half_way(root, data, tmp_path / "out")
    assert len(list(data.glob("*.tmp"))) == 1, "it was not killed half-way"
    assert not list(data.glob("*.images"))
    assert len(from_folder(root, size=8, data=data)) == 6
    assert not list(data.glob("*.tmp")), "what was left has not been removed"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_what_killed_conversions_left_is_removed_though_the_folder_has_changed(tmp_path):
    root, data = own_images(tmp_path / "own"), tmp_path / "data"
    killed_half_way(root, data, tmp_path / "out")
    assert sorted(p.suffix for p in data.iterdir() if p.name != "half") == [".lock", ".tmp"]
    Image.fromarray(picture("new", 0)).save(root / "cat" / "new.png")  # the conversion has another name now
    from_folder(root, size=8, data=data)
    assert sorted(p.suffix for p in data.iterdir() if p.name != "half") == [".images"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_what_belongs_to_a_conversion_that_goes_on_is_left_alone(tmp_path):
    root, other, data = own_images(tmp_path / "own"), own_images(tmp_path / "other"), tmp_path / "data"
    data.mkdir()
    process = forked(root, data, tmp_path / "out", wait=True)
    wait_for(data / "half", process)
    from_folder(other, size=8, data=data)
    assert sorted(p.suffix for p in data.iterdir() if p.name != "half") == [".images", ".lock", ".tmp"]
    (data / "go").touch()
    os.waitpid(process, 0)
    assert (tmp_path / "out").read_text().endswith("converted")
    assert sorted(p.suffix for p in data.iterdir() if p.suffix) == [".images", ".images"]


READ_ONLY = """
import sys
from pathlib import Path
from metasym.cli import main
from metasym.tasks import from_folder
root, data, cache = map(Path, sys.argv[1:])
for mode in (0o555, 0o755, 0o755):
    cache.chmod(mode)
    try:
        calls = []
        from_folder(root, size=8, data=data, progress=lambda done, total: calls.append(done))
        print("converted" if calls else "found")
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
print(main(["data", "omniglot", "--data", str(data), "--url", "http://127.0.0.1:1/"]))
"""


def obey_permissions() -> None:
    """In a new process: the superuser too may only write where the permissions say so."""
    ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE


def test_a_folder_that_cannot_be_written_to(tmp_path):
    root, data, cache = own_images(tmp_path / "own"), tmp_path / "data", tmp_path / "cache" / "metasym"
    data.mkdir()
    cache.mkdir(parents=True)
    data.chmod(0o555)
    try:
        command = [sys.executable, "-c", READ_ONLY, str(root), str(data), str(cache)]
        ran = subprocess.run(command, capture_output=True, text=True, preexec_fn=obey_permissions, check=True)
        refused, *then = ran.stdout.splitlines()
        assert refused == (
            f"MetasymError: {cache}: expected a folder to write converted images to, found Permission denied; "
            "choose another with --data DIR or METASYM_DATA"
        )
        assert then == ["converted", "found", "2"]
        assert ran.stderr == (
            f"metasym: error: {data}: expected a folder to download to, found Permission denied; "
            "choose another with --data DIR or METASYM_DATA\n"
        )
        # The superuser could write there, and does not.
        assert len(from_folder(root, size=8, data=data)) == 6
        assert not list(data.iterdir())
    finally:
        data.chmod(0o755)
