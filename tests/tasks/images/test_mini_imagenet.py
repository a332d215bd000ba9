from __future__ import annotations

import io
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from metasym.tasks import mini_imagenet
from tests.refusals import refused
from tests.tasks.images.builders import (
    ANY,
    SHARED,
    accepted,
    left_over,
    mini_module,
    needs_shared,
    refused_data,
    write_tree,
    write_zip,
)

CLASSES = {"train": ["n02", "n01"], "val": ["n03"], "test": ["n04"]}
IMAGES = 3


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A MiniImagenet of four classes is taken for the whole one; the folder to work in."""
    monkeypatch.setattr(mini_module, "SIZES", {"train": 2, "val": 1, "test": 1})
    monkeypatch.setattr(mini_module, "IMAGES", IMAGES)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("METASYM_DATA", raising=False)
    return tmp_path


def pixels(name: str, number: int, size: int = 84) -> np.ndarray:
    rng = np.random.default_rng([*name.encode(), number])
    return rng.integers(0, 256, (size, size, 3)).astype(np.uint8)


def encoded(name: str, number: int, kind: str = "PNG", size: int = 84) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels(name, number, size)).save(
        file, kind, **({"lossless": True} if kind == "WEBP" else {})
    )
    return file.getvalue()


def lists() -> list[tuple[str, bytes]]:
    rows = {
        split: "".join(f"{name}{i:08d}.png,{name}\n" for name in names for i in range(IMAGES))
        for split, names in CLASSES.items()
    }
    return [(f"{split}.csv", f"filename,label\n{text}".encode()) for split, text in rows.items()]


def images(layout: str = "images/{name}{i:08d}.png", size: int = 84) -> list[tuple[str, bytes]]:
    return [
        (layout.format(split=split, name=name, i=i), encoded(name, i, size=size))
        for split, names in CLASSES.items()
        for name in names
        for i in range(IMAGES)
    ]


def in_lists(folder: Path) -> Path:
    return write_tree(folder, [*images(), *lists()])


def in_npz(path: Path, **changes: np.ndarray) -> Path:
    names = [name for split in CLASSES.values() for name in split]
    arrays = {"wnid": np.array(names), "class_split": np.array([s for s, n in CLASSES.items() for _ in n])}
    for split, part in CLASSES.items():
        files = [encoded(name, i, "WEBP") for name in part for i in range(IMAGES)]
        arrays[f"{split}_bytes"] = np.frombuffer(b"".join(files), np.uint8)
        arrays[f"{split}_offsets"] = np.cumsum([0, *map(len, files)])
        arrays[f"{split}_label"] = np.array([names.index(n) for n in part for _ in range(IMAGES)], np.int16)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **{**arrays, **changes})
    return path


LAYOUTS = {
    "flat with lists": in_lists,
    "class folders with lists": lambda f: write_tree(f, [*images("{name}/{name}{i:08d}.png"), *lists()]),
    "lists in a zip": lambda f: (
        write_zip(write_tree(f, images()) / "mini_imagenet_splits.zip", lists()).parent
    ),
    "in a folder of its name": lambda f: in_lists(f / "mini-imagenet").parent,
    "split folders": lambda f: write_tree(f, images("{split}/{name}/{i}.png")),
    "npz": lambda f: in_npz(f / "mini.npz"),
    "folder with npz": lambda f: in_npz(f / "mini_imagenet.npz").parent,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_images(small, layout, capsys):
    source = LAYOUTS[layout](small / "have")
    said = accepted(capsys, "data", "miniimagenet", "--from", source, "--data", small / "data")
    assert "12 images of 84 x 84, 4 classes" in said
    for split, names in CLASSES.items():
        classes = mini_imagenet(split, data=small / "data")
        assert classes.names == sorted(names)
        assert classes.shape == (3, 84, 84)
        for number, name in enumerate(classes.names):
            for i in range(IMAGES):
                found = classes.pick(torch.tensor(number), torch.tensor(i))
                wanted = pixels(name, i).transpose(2, 0, 1)
                assert np.array_equal((found * 255).round().numpy(), wanted)


def test_lists_elsewhere_and_images_of_another_size(small, capsys):
    write_tree(small / "have", images(size=120))
    write_tree(small / "lists", lists())
    arguments = ("data", "miniimagenet", "--from", small / "have", "--data", small / "data")
    refused_data(arguments, str(small / "have"))
    accepted(capsys, *arguments, "--splits", small / "lists")
    found = mini_imagenet("val", data=small / "data").pick(torch.tensor(0), torch.tensor(1))
    wanted = Image.fromarray(pixels("n03", 1, 120)).resize((84, 84), Image.Resampling.BILINEAR)
    assert np.array_equal((found * 255).round().numpy(), np.asarray(wanted).transpose(2, 0, 1))


def listed_but_missing(folder: Path) -> None:
    in_lists(folder)
    (folder / "images" / "n0300000001.png").unlink()


def changed_list(text: str):
    def make(folder: Path) -> None:
        in_lists(folder)
        (folder / "val.csv").write_text(text)

    return make


def leaking_list(folder: Path) -> None:
    """A class for training is a class for testing, too."""
    in_lists(folder)
    rows = "".join(f"n01{i:08d}.png,n01\n" for i in range(IMAGES))
    (folder / "test.csv").write_text(f"filename,label\n{rows}")


def leaking_folders(folder: Path) -> None:
    write_tree(folder, images("{split}/{name}/{i}.png"))
    (folder / "test" / "n04").rename(folder / "test" / "n01")


def half_a_jpeg(folder: Path) -> None:
    """As real lists have them: names that end in .jpg."""
    write_tree(folder, [(name, data.replace(b".png", b".jpg")) for name, data in lists()])
    for split, names in CLASSES.items():
        for name in names:
            for i in range(IMAGES):
                data = encoded(name, i, "JPEG")
                place = folder / "images" / f"{name}{i:08d}.jpg"
                write_tree(place.parent, [(place.name, data[:600] if (split, i) == ("test", 1) else data)])


def undecodable(folder: Path) -> None:
    in_lists(folder)
    (folder / "images" / "n0400000002.png").write_bytes(b"\xff\xd8\xff\xe0 no JPEG")


def twice(folder: Path) -> None:
    in_lists(folder)
    shutil.copytree(folder / "images", folder / "copy")


FAULTS = {
    "a list names a missing file": (
        listed_but_missing,
        "val.csv line 3: n0300000001.png",
        None,
    ),
    "no val list": (
        lambda f: (in_lists(f) / "val.csv").unlink(),
        "val.csv",
        None,
    ),
    "other columns": (
        changed_list("a,b\n1,2\n"),
        "val.csv",
        [["a", "b"]],
    ),
    "a torn line": (
        changed_list("filename,label\nx.png\n"),
        "val.csv line 2",
        ["x.png"],
    ),
    "too few images": (
        changed_list("filename,label\nn0300000000.png,n03\n"),
        "class n03",
        1,
    ),
    "too few classes": (changed_list("filename,label\n"), "val classes", 0),
    "no image": (undecodable, "n0400000002.png", ANY),
    "half a JPEG": (half_a_jpeg, "n0400000001.jpg", ANY),
    "a class in two lists": (
        leaking_list,
        "test.csv line 2: class n01",
        "train.csv line 5",
    ),
    "an image listed twice": (
        changed_list("filename,label\n" + "n0300000000.png,n03\n" * 2 + "n0300000001.png,n03\n"),
        "val.csv line 3: n0300000000.png",
        "val.csv line 2",
    ),
    "an image in two lists": (
        changed_list("filename,label\nn0100000000.png,n03\nn0300000001.png,n03\nn0300000002.png,n03\n"),
        "val.csv line 2: n0100000000.png",
        "train.csv line 5",
    ),
    "a class in two split folders": (
        leaking_folders,
        "n01",
        ANY,
    ),
    "an open quote": (
        changed_list('filename,label\nn0300000000.png,n03\n"n0300000001.png,n03\n'),
        "val.csv line 3",
        ANY,
    ),
    "a field without end": (
        changed_list(f"filename,label\n{'x' * 200_000},n03\n"),
        "val.csv line 2",
        ANY,
    ),
    "every image twice": (twice, ".png", ANY),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_one_line_and_leave_a_usable_state(small, fault, capsys):
    make, about, found = FAULTS[fault]
    have, data = small / "have", small / "data"
    make(have)
    arguments = ("data", "miniimagenet", "--from", have, "--data", data)
    refused_data(arguments, about, found)
    assert left_over(small) == []
    shutil.rmtree(have)
    in_lists(have)
    accepted(capsys, *arguments)
    assert not list(small.rglob("*.lock"))
    assert len(mini_imagenet("train", data=data)) == 2


def test_lists_as_editors_leave_them(small, capsys):
    in_lists(small / "have")
    for name, data in lists():
        (small / "have" / name).write_bytes(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"))
    accepted(capsys, "data", "miniimagenet", "--from", small / "have", "--data", small / "data")
    assert mini_imagenet("train", data=small / "data").names == ["n01", "n02"]


@pytest.mark.parametrize("place", ["m.npz", "."])
def test_split_lists_are_not_for_an_npz(small, place, capsys):
    in_npz(small / "m.npz")
    in_npz(small / "mini_imagenet.npz")
    write_tree(small / "lists", lists())
    source = ("--from", small / place, "--splits", small / "lists")
    refused_data(("data", "miniimagenet", *source, "--data", small / "d"), "--splits")


def test_split_lists_are_heeded_though_something_is_there(small, capsys):
    in_lists(small / "have")
    command = ("data", "miniimagenet", "--data", small / "have")
    accepted(capsys, *command)
    other = [(n, d.replace(b"n0300000001", b"n0300000009")) for n, d in lists()]
    write_tree(small / "lists", other)
    refused_data((*command, "--splits", small / "lists"), "n0300000009.png", None)


def test_without_data_the_error_says_exactly_what_to_provide(small, capsys):
    with refused(str(small / "nothing"), "no such file or folder") as caught:
        mini_imagenet(data=small / "nothing")
    said = str(caught.value)
    for part in ("60,000 images", "train.csv, val.csv, test.csv", "filename,label", "64, 16 and 20", "npz"):
        assert part in said
    (small / "mini.pkl").write_bytes(b"")
    refused_data(("data", "miniimagenet", "--from", small / "mini.pkl"), "mini.pkl", ".pkl")


def in_real_lists(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    """The images of ``arrays`` as files under their real names, with the real lists' lines for them in a zip."""
    members = []
    with zipfile.ZipFile(SHARED / "mini_imagenet_splits.zip") as archive:
        for split in ("train", "val", "test"):
            label, ends = str(arrays["wnid"][arrays[f"{split}_label"][0]]), arrays[f"{split}_offsets"]
            header, *rows = archive.read(f"{split}.csv").decode().splitlines(keepends=True)
            chosen = [row for row in rows if row.strip().endswith(f",{label}")][:2]
            members.append((f"{split}.csv", "".join([header, *chosen]).encode()))
            for i, row in enumerate(chosen):
                data = arrays[f"{split}_bytes"][ends[i] : ends[i + 1]].tobytes()
                write_tree(folder / "images", [(row.split(",")[0], data)])
    write_zip(folder / "mini_imagenet_splits.zip", members)
    return folder


@needs_shared
def test_the_real_lists_fit_the_real_images(tmp_path, monkeypatch):
    """A slice of the real file: the first two images of one class of each split."""
    monkeypatch.setattr(mini_module, "SIZES", {"train": 1, "val": 1, "test": 1})
    monkeypatch.setattr(mini_module, "IMAGES", 2)
    arrays = {}
    with np.load(SHARED / "mini_imagenet.npz") as npz:
        arrays["wnid"], arrays["class_split"] = npz["wnid"], npz["class_split"]
        for split in ("val", "test", "train"):
            ends = npz[f"{split}_offsets"][:3]
            arrays[f"{split}_offsets"], arrays[f"{split}_label"] = ends, npz[f"{split}_label"][:2]
            arrays[f"{split}_bytes"] = npz[f"{split}_bytes"][: ends[-1]]
        wnid = str(npz["wnid"][npz["train_label"][0]])
        number = int(npz["train_image_id"][1])
    np.savez(tmp_path / "mini_imagenet.npz", **arrays)
    classes = mini_imagenet("train", data=tmp_path)
    assert classes.names == [wnid]
    first, last = arrays["train_offsets"][1:3]
    with Image.open(io.BytesIO(arrays["train_bytes"][first:last].tobytes())) as image:
        wanted = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    found = classes.pick(torch.tensor(0), torch.tensor(1))
    assert np.array_equal((found * 255).round().numpy(), wanted)
    found_lists = in_real_lists(tmp_path / "lists", arrays)
    same = mini_imagenet("train", data=found_lists)
    assert same.names == classes.names
    assert np.array_equal(same.images, classes.images)
    with zipfile.ZipFile(SHARED / "mini_imagenet_splits.zip") as archive:
        rows = archive.read("train.csv").decode().splitlines()
    assert rows[2] == f"{wnid}{number:08d}.jpg,{wnid}"
    for name, count in {"train": 64, "val": 16, "test": 20}.items():
        found_rows = mini_module._read_list(SHARED / "mini_imagenet_splits.zip", f"{name}.csv")
        assert len({label for _, _, label in found_rows}) == count
        assert len(found_rows) == 600 * count
