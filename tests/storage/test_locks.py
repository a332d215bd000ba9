"""Locks and temporary files whose processes come and go."""

from __future__ import annotations

import contextvars
import os
import shutil
import threading
from pathlib import Path

import pytest

from metasym.storage import locks, system
from metasym.storage.atomic import make_folder, make_inside
from metasym.storage.json_files import write_json
from metasym.storage.locks import FolderLock, is_held, locked, remove_abandoned, temporary
from tests.refusals import refused


def test_one_at_a_time_and_nothing_left(tmp_path):
    path, inside, most = tmp_path / "a.images", 0, 0
    guard = threading.Lock()

    def work() -> None:
        nonlocal inside, most
        for _ in range(20):
            with locked(path):
                with guard:
                    inside += 1
                    most = max(most, inside)
                os.sched_yield()
                with guard:
                    inside -= 1
            remove_abandoned(tmp_path, ".images")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert not list(tmp_path.iterdir())


def test_a_lock_that_was_removed_while_we_waited_is_not_held(tmp_path, monkeypatch):
    path, lock = tmp_path / "a.images", tmp_path / "a.images.lock"
    hold, held = locks._hold, []

    def removed_first(file) -> bool:
        if not held:
            lock.unlink()  # as its holder does when it has finished
        held.append(file)
        return hold(file)

    monkeypatch.setattr(locks, "_hold", removed_first)
    with locked(path):
        assert len(held) == 2
        assert lock.exists()
    assert not list(tmp_path.iterdir())


def test_a_temporary_file_that_was_removed_before_we_held_it_is_made_again(tmp_path, monkeypatch):
    hold, held = locks._hold, []

    def removed_first(file) -> bool:
        if not held:
            remove_abandoned(tmp_path, ".images")
            assert not list(tmp_path.iterdir())
        held.append(file)
        return hold(file)

    monkeypatch.setattr(locks, "_hold", removed_first)
    with temporary(tmp_path / "a.images") as (file, name):
        assert len(held) == 2
        file.write(b"x")
        remove_abandoned(tmp_path, ".images")
        name.replace(tmp_path / "a.images")
    assert [p.name for p in tmp_path.iterdir()] == ["a.images"]


def test_only_what_nobody_holds_and_what_is_ours_is_removed(tmp_path):
    left = ["a.images.x1.tmp", "b.images.lock", "12-c.images.y.tmp"]
    others = ["a.images", "notes.tmp", "x.zip.part", "x.zip.lock"]
    for name in (*left, *others):
        (tmp_path / name).touch()
    with locked(tmp_path / "held.images"), temporary(tmp_path / "held.images") as (_, name):
        remove_abandoned(tmp_path, ".images")
        kept = {p.name for p in tmp_path.iterdir()}
        assert kept == {*others, "held.images.lock", name.name}
    remove_abandoned(tmp_path / "nowhere", ".images")


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    def none(*_: object) -> None:
        raise OSError(locks.errno.ENOLCK, "No locks available")

    monkeypatch.setattr(system.fcntl, "flock", none)
    (tmp_path / "a.images.x.tmp").touch()
    with locked(tmp_path / "a.images"), temporary(tmp_path / "a.images") as (_, name):
        remove_abandoned(tmp_path, ".images")
        assert name.exists(), "nobody can tell that it is not in use"
    assert (tmp_path / "a.images.x.tmp").exists()


def test_errors_remove_what_was_begun(tmp_path: Path):
    with pytest.raises(ValueError, match="no"), locked(tmp_path / "a"), temporary(tmp_path / "a"):
        raise ValueError("no")
    assert not list(tmp_path.iterdir())


def test_whether_a_folder_is_held_can_be_asked_without_disturbing(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    assert not is_held(folder)
    assert not folder.exists()
    lock = FolderLock(folder)
    assert is_held(folder)
    with refused(str(tmp_path / "run"), "a run that trains there"):
        FolderLock(folder)
    lock.release()
    assert not is_held(folder)

    asking = os.open(folder, os.O_RDONLY)  # somebody asks at the very moment when a run begins
    system.lock(asking, wait=False)
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        os.close(asking)

    monkeypatch.setattr(locks.time, "sleep", pause)
    FolderLock(folder).release()
    assert len(pauses) == 1


def test_a_whole_run_holds_its_folder_and_a_training_inside_shares_the_hold(tmp_path):
    folder = tmp_path / "run"
    with locks.holding(folder):
        assert is_held(folder)
        FolderLock(folder).release()
        assert is_held(folder), "the part has ended, not the run"
        with refused(str(folder), "a run that trains there"):
            contextvars.Context().run(FolderLock, folder)  # as another run would
    assert not is_held(folder)


@pytest.mark.parametrize("how", ["deleted", "moved", "exchanged"])
def test_a_folder_that_is_gone_is_not_made_anew(tmp_path, how):
    folder = tmp_path / "run"
    with locks.holding(folder):
        write_json(folder / "config.json", {"a": 1})
        if how == "deleted":
            shutil.rmtree(folder)
        else:
            folder.rename(tmp_path / "elsewhere")
        if how == "exchanged":
            folder.mkdir()
        for write in (
            lambda: write_json(folder / "result.json", {"a": 2}),
            lambda: make_inside(folder, "maml"),
            lambda: FolderLock(folder / "find"),
        ):
            with refused(str(folder), "moved or deleted"):
                write()
        assert folder.exists() is (how == "exchanged")
        assert not folder.exists() or not list(folder.iterdir())
    make_folder(folder)  # nobody holds it any more
    assert folder.is_dir()
