from __future__ import annotations

import io
import shutil
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from metasym.cli import main
from metasym.tasks import omniglot
from metasym.tasks.images.cache import open_images
from tests.refusals import refused, refused_command
from tests.tasks.images.builders import (
    ANY,
    SHARED,
    accepted,
    characters,
    left_over,
    needs_shared,
    omniglot_module,
    refused_data,
    strokes,
    write_npz,
    write_tree,
    write_zip,
    write_zips,
)
from tests.tasks.images.builders import small_omniglot as small_omniglot

PARTS = omniglot_module.PARTS
NAMES = [
    "Avesta/character01",
    "Greek/character01",
    "Greek/character02",
    "Latin/character01",
    "Latin/character02",
]


def trees(folder: Path) -> Path:
    for part in PARTS:
        write_tree(folder / part, characters(part))
    return folder


def together(folder: Path) -> Path:
    for part in PARTS:
        write_tree(folder, characters(part))
    return folder


LAYOUTS = {
    "zips": lambda f: write_zips(f),
    "one of the zips": lambda f: write_zips(f) / "images_evaluation.zip",
    "folders": trees,
    "one of the folders": lambda f: trees(f) / "images_background",
    "torchvision": lambda f: trees(f / "omniglot-py").parent,
    "torchvision zips": lambda f: write_zips(f / "omniglot-py").parent,
    "repository": lambda f: write_zips(f / "omniglot" / "python").parent.parent,
    "all alphabets": together,
    "npz": lambda f: write_npz(f / "bits.npz"),
    "folder with npz": lambda f: write_npz(f / "omniglot.npz").parent,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_images(small_omniglot, layout, capsys):
    source = LAYOUTS[layout](small_omniglot / "have")
    said = accepted(capsys, "data", "omniglot", "--from", source, "--data", small_omniglot / "data")
    assert "18 images of 28 x 28, 6 classes" in said
    classes = open_images(small_omniglot / "data" / "omniglot-28.images")
    assert classes.names == [*NAMES, "Tengwar/character01"]
    for number, name in enumerate(classes.names):
        alphabet, character = name.split("/")
        for drawer in range(3):
            ink = strokes(alphabet, int(character[-2:]), drawer + 1).astype(np.uint8) * 255
            wanted = np.asarray(Image.fromarray(ink).resize((28, 28), Image.Resampling.BILINEAR))
            found = classes.pick(torch.tensor(number), torch.tensor(drawer))[0]
            assert np.array_equal((found * 255).round().numpy(), wanted)


def test_data_in_the_folder_is_converted_at_the_first_use(small_omniglot, monkeypatch):
    write_zips(small_omniglot)
    train = omniglot("train", data=small_omniglot)
    assert len(train) == 3
    assert (small_omniglot / "omniglot-28.images").is_file()
    for part in PARTS:  # not needed any more
        (small_omniglot / f"{part}.zip").unlink()
    monkeypatch.setenv("METASYM_DATA", str(small_omniglot))
    others = [omniglot(split) for split in ("val", "test")]
    assert sorted(train.names + others[0].names + others[1].names) == sorted([*NAMES, "Tengwar/character01"])
    assert len(omniglot("test", rotated_classes=True)) == 8
    assert omniglot("train", seed=3).names != train.names or omniglot("train", seed=4).names != train.names
    with refused("split", "valid"):
        omniglot("valid")


def test_what_is_there_is_not_converted_again_unless_damaged_or_told_so(small_omniglot, capsys):
    write_zips(small_omniglot)
    file = small_omniglot / "omniglot-28.images"
    command = ("data", "omniglot", "--data", small_omniglot)
    assert "converted from" in accepted(capsys, *command)
    before = file.stat().st_ino
    assert "there already, and are sound" in accepted(capsys, *command)
    assert file.stat().st_ino == before
    assert "converted from" in accepted(capsys, *command, "--again")
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    with refused(f"{file}: Avesta/character01", "other images"):
        omniglot(data=small_omniglot)
    assert "converted from" in accepted(capsys, *command)
    assert len(omniglot(data=small_omniglot)) == 3


def broken_zip(folder: Path, change) -> Path:
    """The evaluation zip is sound, the background one has been through ``change(members)``."""
    write_zips(folder)
    members = [(f"images_background/{name}", data) for name, data in characters("images_background")]
    write_zip(folder / "images_background.zip", change(members))
    return folder


def truncated(folder: Path) -> None:
    path = write_zips(folder) / "images_background.zip"
    path.write_bytes(path.read_bytes()[:-300])


def flipped(folder: Path) -> None:
    path = write_zips(folder) / "images_background.zip"
    with zipfile.ZipFile(path) as archive:
        info = archive.infolist()[2]
    data = bytearray(path.read_bytes())
    data[info.header_offset + 30 + len(info.filename) + info.compress_size // 2] ^= 0xFF
    path.write_bytes(data)


def giant_png() -> bytes:
    header = struct.pack(">IIBBBBB", 60000, 60000, 1, 0, 0, 0, 0)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


def replaced(data: bytes):
    return lambda folder: broken_zip(folder, lambda members: [*members[:-1], (members[-1][0], data)])


FAULTS = {
    "truncated zip": (truncated, "images_background.zip", "a truncated or damaged one"),
    "damaged zip": (flipped, ".png", ANY),
    "names that lead out": (
        lambda f: broken_zip(f, lambda m: [*m, ("../../outside.png", b"x")]),
        "images_background.zip",
        "../../outside.png",
    ),
    "absolute names": (
        lambda f: broken_zip(f, lambda m: [*m, ("/etc/outside.png", b"x")]),
        "images_background.zip",
        "/etc/outside.png",
    ),
    "no image": (replaced(b"not an image"), "0004_03.png", ANY),
    "half an image": (
        replaced(b"".join(data for name, data in characters(PARTS[0]) if name.endswith("0004_03.png"))[:-40]),
        "0004_03.png",
        ANY,
    ),
    "giant image": (replaced(giant_png()), "0004_03.png", "more pixels"),
    "bomb": (replaced(bytes((1 << 26) + 1)), "0004_03.png", (1 << 26) + 1),
    "too few images": (
        lambda f: broken_zip(f, lambda m: m[:-1]),
        "character Greek/character02",
        2,
    ),
    "the same image twice": (
        lambda f: broken_zip(f, lambda m: [*m, (m[0][0].replace("images_background", "copy"), m[0][1])]),
        ".png",
        ANY,
    ),
    "one zip only": (
        lambda f: (write_zips(f) / "images_evaluation.zip").unlink(),
        "characters",
        4,
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_one_line_and_leave_a_usable_state(small_omniglot, fault, capsys):
    make, about, found = FAULTS[fault]
    have, data = small_omniglot / "have", small_omniglot / "data"
    make(have)
    refused_data(("data", "omniglot", "--from", have, "--data", data), about, found)
    assert left_over(small_omniglot) == []
    assert not (small_omniglot.parent / "outside.png").exists()
    shutil.rmtree(have)
    write_zips(have)
    accepted(capsys, "data", "omniglot", "--from", have, "--data", data)
    assert len(omniglot(data=data)) == 3


def resaved(path: Path, **arrays: np.ndarray) -> Path:
    with np.load(write_npz(path)) as found:
        kept = {key: found[key] for key in found.files}
    np.savez(path, **{**kept, **arrays})
    return path


def without(path: Path, key: str) -> Path:
    with np.load(write_npz(path)) as found:
        np.savez(path, **{k: found[k] for k in found.files if k != key})
    return path


def huge(path: Path) -> Path:
    """An array whose header promises far more than there is."""
    write_npz(path)
    body = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        body, {"descr": "|u1", "fortran_order": False, "shape": (1 << 40, 1379)}
    )
    with zipfile.ZipFile(path) as old:
        members = [(n, old.read(n)) for n in old.namelist() if n != "images_packed.npy"]
    return write_zip(path, [*members, ("images_packed.npy", body.getvalue())])


NPZ_FAULTS = {
    "objects": (
        lambda p: resaved(p, alphabet_name=np.array([{"a": 1}] * 4, dtype=object)),
        "alphabet_name",
        ("object", (4,)),
    ),
    "a missing array": (lambda p: without(p, "drawer"), "drawer", None),
    "promises": (huge, "images_packed", "a truncated one"),
    "wrong labels": (
        lambda p: resaved(p, character=np.full(18, 9, np.int16)),
        "o.npz",
        "arrays that do not fit together",
    ),
    "too few": (
        lambda p: resaved(p, character=np.array([0] * 4 + [1] * 2 + sorted([2, 3, 4, 5] * 3), np.int16)),
        "character Latin/character01",
        4,
    ),
    "a character twice": (
        lambda p: resaved(p, character_name=np.array(["character01"] * 6)),
        "character Latin/character01",
        2,
    ),
    "a drawer twice": (
        lambda p: resaved(p, drawer=np.array([1, 2, 3, 3, 1, 3, *[1, 2, 3] * 4], np.uint8)),
        "character Latin/character02",
        "two from one drawer",
    ),
    "no npz": (lambda p: p.write_bytes(b"text"), "o.npz", "a truncated or damaged one"),
}


@pytest.mark.parametrize("fault", NPZ_FAULTS)
def test_an_npz_is_checked_before_it_is_believed(small_omniglot, fault, capsys):
    make, about, found = NPZ_FAULTS[fault]
    make(small_omniglot / "o.npz")
    command = ("data", "omniglot", "--from", small_omniglot / "o.npz", "--data", small_omniglot / "d")
    refused_data(command, about, found)
    assert left_over(small_omniglot) == []


def test_without_data_the_error_says_what_to_do(small_omniglot, capsys):
    with refused(str(small_omniglot / "nothing"), "no such file or folder"):
        omniglot(data=small_omniglot / "nothing")
    command = ("data", "omniglot", "--from")
    refused_data((*command, small_omniglot / "nowhere"), "nowhere", "no such file or folder")
    (small_omniglot / "o.hdf5").write_bytes(b"")
    refused_data((*command, small_omniglot / "o.hdf5"), "o.hdf5", ".hdf5")


@needs_shared
def test_the_real_omniglot_has_its_splits_and_pixels(tmp_path):
    (tmp_path / "omniglot.npz").symlink_to(SHARED / "omniglot.npz")
    parts = [omniglot(split, data=tmp_path) for split in ("train", "val", "test")]
    assert [len(part) for part in parts] == [1028, 172, 423]
    names = [name for part in parts for name in part.names]
    assert len(set(names)) == 1623
    assert parts[0].names[:2] == ["Alphabet_of_the_Magi/character02", "Alphabet_of_the_Magi/character05"]
    with np.load(SHARED / "omniglot.npz") as npz:
        packed, label, drawer = npz["images_packed"], npz["character"], npz["drawer"]
        of = {
            f"{npz['alphabet_name'][a]}/{n}": i
            for i, (a, n) in enumerate(zip(npz["character_alphabet"], npz["character_name"], strict=True))
        }
    rng = np.random.default_rng(0)
    for part in parts:
        assert part.counts.unique().tolist() == [20]
        for number in rng.integers(0, len(part), 20).tolist():
            place = int(rng.integers(20))
            row = np.flatnonzero((label == of[part.names[number]]) & (drawer == place + 1))
            ink = np.unpackbits(packed[row[0]], count=105 * 105).reshape(105, 105) * np.uint8(255)
            wanted = np.asarray(Image.fromarray(ink).resize((28, 28), Image.Resampling.BILINEAR))
            found = part.pick(torch.tensor(number), torch.tensor(place))[0]
            assert np.array_equal((found * 255).round().numpy(), wanted)
    mean = float(parts[0].pick(torch.arange(1028), torch.tensor(0)).mean())
    assert 0.05 < mean < 0.12, "ink is 1, paper is 0"


def test_progress_and_help(small_omniglot, capsys):
    write_zips(small_omniglot)
    assert main(["data", "omniglot", "--data", str(small_omniglot), "--progress", "plain"]) == 0
    said = capsys.readouterr()
    lines = said.err.splitlines()
    assert lines[0].endswith(": 0 of 18 images (0 %)")
    assert lines[-1].endswith(": 18 of 18 images (100 %)")
    first, second = said.out.splitlines()
    assert first.startswith("Omniglot: 18 images of 28 x 28, 6 classes (")
    assert second.startswith(f"{small_omniglot / 'omniglot-28.images'}: ")
    for name in ("omniglot", "miniimagenet"):
        with pytest.raises(SystemExit) as ended:
            main(["data", name, "--help"])
        assert ended.value.code == 0
        assert "--from PATH" in capsys.readouterr().out
    refused_command(["data", "cifar"])
    refused_data(("data", "omniglot", "--size", 0), "size", 0)
