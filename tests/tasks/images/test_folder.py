"""A user's own images, and what is in the file they are converted into."""

from __future__ import annotations

import errno
import io
import os
import pwd
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from metasym.cli import main
from metasym.tasks import FewShotTasks, from_folder, sample
from metasym.tasks.images import folder as folder_module
from metasym.tasks.images.cache import data_folder, open_images, read_index
from tests.refusals import refused, within


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("METASYM_DATA", raising=False)


def picture(name: str, number: int, size: tuple[int, int] = (8, 8)) -> np.ndarray:
    return np.random.default_rng([*name.encode(), number]).integers(0, 256, (*size, 3)).astype(np.uint8)


def own_images(root: Path, classes: int = 6, images: int = 4) -> Path:
    for name in ["zebra", "apple", "mango", "cat", "dog", "emu"][:classes]:
        (root / name).mkdir(parents=True)
        for number in range(images):
            Image.fromarray(picture(name, number)).save(root / name / f"{number}.png")
    return root


def the_file(data: Path) -> Path:
    (found,) = data.glob("*.images")
    return found


def test_one_folder_a_class(tmp_path):
    root = own_images(tmp_path / "own")
    (root / ".git").mkdir()
    (root / "cat" / "notes.txt").write_text("no image")
    classes = from_folder(root, size=8)
    assert classes.names == ["apple", "cat", "dog", "emu", "mango", "zebra"]
    assert classes.counts.tolist() == [4] * 6
    for number, name in enumerate(classes.names):
        found = classes.pick(torch.tensor(number), torch.arange(4))
        wanted = np.stack([picture(name, i).transpose(2, 0, 1) for i in range(4)])
        assert np.array_equal((found * 255).round().numpy(), wanted)
    train, test = classes.split(4, 2)
    assert sample(FewShotTasks(train, ways=3, shots=1, queries=2), torch.arange(5), 0).query.x.shape == (
        *(5, 6),
        *(3, 8, 8),
    )
    with refused("class apple", 4):
        FewShotTasks(test, ways=2, shots=1, queries=4)


def test_grey_inverted_resized_and_turned_upright(tmp_path):
    (tmp_path / "own" / "a").mkdir(parents=True)
    pixels = picture("a", 0, (20, 30))
    image = Image.fromarray(pixels)
    exif = image.getexif()
    exif[0x0112] = 6  # to be turned by 90 degrees when shown
    image.save(tmp_path / "own" / "a" / "turned.jpg", exif=exif, quality=95)
    found = from_folder(tmp_path / "own", size=10, channels=1, invert=True).pick(
        torch.tensor(0), torch.tensor(0)
    )
    file = io.BytesIO()
    image.save(file, "JPEG", quality=95)
    upright = Image.open(file).rotate(-90, expand=True).convert("L")
    wanted = Image.fromarray(255 - np.asarray(upright)).resize((10, 10), Image.Resampling.BILINEAR)
    assert found.shape == (1, 10, 10)
    assert np.abs((found[0] * 255).numpy() - np.asarray(wanted, dtype=float)).max() < 1.5


def test_a_changed_folder_is_converted_again_and_only_then(tmp_path):
    root, data = own_images(tmp_path / "own"), tmp_path / "data"
    from_folder(root, size=8, data=data)
    first = the_file(data)
    from_folder(root, size=8, data=data)
    assert the_file(data) == first
    Image.fromarray(picture("new", 0)).save(root / "cat" / "new.png")
    assert from_folder(root, size=8, data=data).counts.tolist() == [4, 5, 4, 4, 4, 4]
    assert the_file(data) != first, "the old file is still there"
    from_folder(root, size=4, data=data)
    assert len(list(data.glob("*.images"))) == 2


@pytest.mark.parametrize(
    ("spoil", "part", "found"),
    [
        (lambda d: d[:-1], "", "a damaged file"),
        (lambda d: d[:1000], "", "a damaged file"),
        (lambda d: b"", "", "a damaged file"),
        (lambda d: d[:50] + b"#" + d[51:], "apple", "other images"),
        (lambda d: d[:-100] + b"#" + d[-99:], "", "a damaged file"),
        (lambda d: d[: 8 * 8 * 3] + d, "", "a damaged file"),
    ],
)
def test_a_damaged_file_is_noticed(tmp_path, spoil, part, found):
    root, data = own_images(tmp_path / "own"), tmp_path / "data"
    from_folder(root, size=8, data=data)
    path = the_file(data)
    path.write_bytes(spoil(path.read_bytes()))
    with refused(within(path, part), found):
        from_folder(root, size=8, data=data)
    path.unlink()
    assert len(from_folder(root, size=8, data=data)) == 6


@pytest.mark.parametrize(
    ("spoil", "place", "found"),
    [
        (lambda r: (r / "cat" / "2.png").write_bytes(b"text"), "cat/2.png", "no image"),
        (lambda r: [p.unlink() for p in (r / "dog").iterdir()], "dog", None),
    ],
)
def test_faults_of_the_images_leave_no_file(tmp_path, spoil, place, found):
    root, data = own_images(tmp_path / "own"), tmp_path / "data"
    spoil(root)
    with refused(str(root / place), found):
        from_folder(root, size=8, data=data)
    assert not list(tmp_path.rglob("*.images"))
    assert not list(tmp_path.rglob("*.tmp"))


def a_pipe(root: Path) -> None:
    os.mkfifo(root / "cat" / "z.png")


def a_link_to_nothing(root: Path) -> None:
    (root / "cat" / "z.png").symlink_to(root / "nowhere.png")


@pytest.mark.parametrize(("spoil", "found"), [(a_pipe, "a pipe"), (a_link_to_nothing, "a link to nothing")])
def test_what_only_has_the_name_of_an_image_is_refused(tmp_path, spoil, found):
    root = own_images(tmp_path / "own")
    spoil(root)
    with refused(str(root / "cat" / "z.png"), found):
        from_folder(root, size=8)
    assert not list(tmp_path.rglob("*.images"))


def test_links_to_images_are_images(tmp_path):
    root = own_images(tmp_path / "own")
    (root / "cat" / "z.png").symlink_to(root / "dog" / "0.png")
    assert from_folder(root, size=8).counts.tolist() == [4, 5, 4, 4, 4, 4]


def test_names_need_not_be_unicode(tmp_path):
    root = own_images(tmp_path / "own", classes=2)
    file, folder = os.fsdecode(b"\xff\xfe.png"), os.fsdecode(b"caf\xe9")
    Image.fromarray(picture("new", 0)).save(root / "zebra" / "new.png")
    try:
        (root / "zebra" / "new.png").rename(root / "zebra" / file)
        (root / "zebra").rename(root / folder)
    except OSError:
        pytest.skip("this file system wants Unicode")
    for _ in range(2):
        classes = from_folder(root, size=8, data=tmp_path / "data")
        assert classes.names == ["apple", folder]
        assert classes.counts.tolist() == [4, 5]


@pytest.mark.parametrize("suffix", [".tif", ".TIFF", ".webp", ".bmp", ".gif", ".pgm"])
def test_every_suffix_of_an_image_is_read(tmp_path, suffix):
    root = own_images(tmp_path / "own", classes=1)
    grey = Image.fromarray(picture("more", 0)[..., 0])
    grey.save(root / "zebra" / f"z{suffix}")
    assert from_folder(root, size=8).counts.tolist() == [5]


def test_images_are_converted_again_when_another_version_would_read_them_otherwise(tmp_path, monkeypatch):
    root, data = own_images(tmp_path / "own"), tmp_path / "data"
    from_folder(root, size=8, data=data)
    first = the_file(data)
    monkeypatch.setattr(folder_module, "_READING", b"another way")
    from_folder(root, size=8, data=data)
    assert the_file(data) != first


def no_such_user(number: int) -> None:
    raise KeyError(number)


def test_without_a_home_folder(tmp_path, monkeypatch, capsys):
    root, data = own_images(tmp_path / "own"), tmp_path / "data"
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", no_such_user)
    with refused("home folder"):
        from_folder(root, size=8)
    with refused("~/own"):
        from_folder("~/own", size=8, data=data)
    assert len(from_folder(root, size=8, data=data)) == 6
    assert main(["data", "miniimagenet", "--data", str(data)]) == 2
    assert "expected MiniImagenet, found none; " in capsys.readouterr().err
    assert main(["data", "omniglot"]) == 2
    assert "choose a folder with --data DIR or METASYM_DATA" in capsys.readouterr().err
    monkeypatch.setenv("METASYM_DATA", str(data))
    assert len(from_folder(root, size=8)) == 6


def test_which_folder_the_data_is_in(tmp_path, monkeypatch):
    assert data_folder(None) == tmp_path / "cache" / "metasym"
    monkeypatch.setenv("METASYM_DATA", str(tmp_path / "environment"))
    assert data_folder(None) == tmp_path / "environment"
    assert data_folder(tmp_path / "flag") == tmp_path / "flag"
    monkeypatch.delenv("METASYM_DATA")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_folder(None) == Path.home() / ".cache" / "metasym"


def test_the_file_tells_what_it_holds(tmp_path):
    root, data = own_images(tmp_path / "own"), tmp_path / "data"
    from_folder(root, size=8, data=data)
    index = read_index(the_file(data))
    assert index.shape == (3, 8, 8)
    assert index.images == 24
    assert index.source == str(root)
    mapped = open_images(the_file(data))
    assert isinstance(mapped.images, np.memmap)
    assert not mapped.images.flags.writeable


@pytest.mark.parametrize(
    ("call", "about", "found"),
    [
        (lambda p: from_folder(p / "none", size=8), "{tmp_path}/none", os.strerror(errno.ENOENT)),
        (lambda p: from_folder(p, size=8), "{tmp_path}", None),
        (lambda p: from_folder(p, size=0), "size", 0),
        (lambda p: from_folder(p, size=8, channels=4), "channels", 4),
        (lambda p: open_images(p / "none"), "{tmp_path}/none", os.strerror(errno.ENOENT)),
    ],
)
def test_bad_input(tmp_path, call, about, found):
    with refused(about.format(tmp_path=tmp_path), found):
        call(tmp_path)
