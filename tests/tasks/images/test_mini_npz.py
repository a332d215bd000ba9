"""MiniImagenet in one ``.npz``: checked before it is believed, read split by split."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from metasym.tasks.images.archives import Archive
from tests.tasks.images.builders import ANY, left_over, mini_module, refused_data, write_zip
from tests.tasks.images.test_mini_imagenet import IMAGES, in_npz
from tests.tasks.images.test_mini_imagenet import small as small


@pytest.mark.parametrize(
    ("changes", "about", "found"),
    [
        ({"val_offsets": np.array([0, 10, 5, 20])}, "val", ANY),
        ({"val_bytes": np.zeros(4, np.uint8)}, "val", ANY),
        ({"val_label": np.full(3, 99, np.int16)}, "val", ANY),
        ({"val_label": np.full(3, 0, np.int16)}, "class n02", "val"),
        ({"wnid": np.array([1, 2, 3, 4])}, "wnid", ("int64", (4,))),
        ({"wnid": np.array(["n01", "n01", "n03", "n04"])}, "class n01", 2),
    ],
)
def test_an_npz_is_checked_before_it_is_believed(small, changes, about, found):
    path = in_npz(small / "m.npz", **changes)
    refused_data(("data", "miniimagenet", "--from", path, "--data", small / "data"), about, found)
    assert left_over(small) == []


def bomb(path: Path, size: int) -> Path:
    """The bytes for testing are zeros, which shrink to a thousandth."""
    in_npz(
        path, test_bytes=np.zeros(4, np.uint8), test_offsets=np.linspace(0, size, IMAGES + 1).astype(np.int64)
    )
    with zipfile.ZipFile(path) as old:
        members = [(name, old.read(name)) for name in old.namelist() if name != "test_bytes.npy"]
    write_zip(path, members)
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("test_bytes.npy", "w") as file,
    ):
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (size,)})
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
    return path


def test_bytes_that_grow_too_much_are_refused_before_they_are_read(small, monkeypatch):
    path, read = bomb(small / "m.npz", 64 << 20), []
    monkeypatch.setattr(Archive, "read", noted(Archive.read, read))
    refused_data(("data", "miniimagenet", "--from", path, "--data", small / "data"), "test_bytes")
    assert "wnid.npy" in read
    assert not any(name.endswith("_bytes.npy") for name in read)


def noted(call, names: list[str]):
    def noting(archive, name, most=1 << 26):
        names.append(name)
        return call(archive, name, most)

    return noting


def test_one_split_is_in_memory_at_a_time(small, monkeypatch):
    read: list[str] = []
    monkeypatch.setattr(Archive, "read", noted(Archive.read, read))
    source = mini_module.EncodedNpz(in_npz(small / "m.npz"), 84)
    for number in range(4):
        source.read(number)
        assert source._loaded[0] == source.listing[number].split
    assert [name for name in read if "bytes" in name] == [
        "train_bytes.npy",
        "val_bytes.npy",
        "test_bytes.npy",
    ]
