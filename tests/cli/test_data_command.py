"""``metasym data``: what it converts from, and what it says about it."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from metasym.cli import main
from metasym.tasks.images.cache import open_images, read_index
from tests.refusals import refused_command
from tests.tasks.images.builders import (
    accepted,
    characters,
    omniglot_module,
    write_npz,
    write_tree,
    write_zips,
)
from tests.tasks.images.builders import small_omniglot as small_omniglot
from tests.tasks.images.test_mini_imagenet import images, lists
from tests.tasks.images.test_mini_imagenet import small as small

BACKGROUND, EVALUATION = omniglot_module.PARTS


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A download puts the zips in their place; the folders that were asked for."""
    asked: list[Path] = []

    def fetch(folder: Path, **_: object) -> None:
        asked.append(folder)
        write_zips(folder)

    monkeypatch.setattr("metasym.cli.data.fetch", fetch)
    return asked


def mixed(folder: Path, unpacked: str) -> Path:
    write_zips(folder)
    (folder / f"{unpacked}.zip").unlink()
    write_tree(folder / unpacked, characters(unpacked))
    return folder


@pytest.mark.parametrize("unpacked", [BACKGROUND, EVALUATION])
@pytest.mark.parametrize("named", [".", BACKGROUND, EVALUATION])
def test_one_part_may_be_a_folder_and_the_other_a_zip(small_omniglot, unpacked, named, capsys):
    have = mixed(small_omniglot / "have", unpacked)
    source = next(p for p in (have / named, have / f"{named}.zip") if p.exists())
    said = accepted(capsys, "data", "omniglot", "--from", source, "--data", small_omniglot / "data")
    assert "18 images of 28 x 28, 6 classes" in said
    accepted(
        capsys, "data", "omniglot", "--from", write_zips(small_omniglot / "z"), "--data", small_omniglot / "o"
    )
    name = "omniglot-28.images"
    mine, other = (open_images(small_omniglot / folder / name) for folder in ("data", "o"))
    assert mine.names == other.names
    assert (mine.images == other.images).all()


def test_a_part_that_is_there_twice_is_used_once(small_omniglot, capsys):
    have = write_zips(small_omniglot / "have")
    write_tree(have / BACKGROUND, characters(BACKGROUND))
    said = accepted(capsys, "data", "omniglot", "--from", have, "--data", small_omniglot / "data")
    assert f"converted from {have / BACKGROUND}.zip, {have / EVALUATION}.zip" in said


def test_again_converts_from_where_it_was_converted_before(small_omniglot, no_network, monkeypatch, capsys):
    write_npz(small_omniglot / "bits.npz")
    data = small_omniglot / "data"
    monkeypatch.chdir(small_omniglot)
    accepted(capsys, "data", "omniglot", "--from", "bits.npz", "--data", data)
    assert read_index(data / "omniglot-28.images").origin == (str(small_omniglot / "bits.npz"),)
    monkeypatch.chdir("/")
    command = ("data", "omniglot", "--data", data)
    before = (data / "omniglot-28.images").stat().st_ino
    assert f"converted from {small_omniglot / 'bits.npz'} in" in accepted(capsys, *command, "--again")
    assert (data / "omniglot-28.images").stat().st_ino != before
    pixels = bytearray((data / "omniglot-28.images").read_bytes())
    pixels[3] ^= 1
    (data / "omniglot-28.images").write_bytes(pixels)  # damaged: made again from there, too
    assert f"converted from {small_omniglot / 'bits.npz'} in" in accepted(capsys, *command)
    (small_omniglot / "bits.npz").write_bytes(b"PK")
    refused_command([*command, "--again"], str(small_omniglot / "bits.npz"))
    assert no_network == []
    (small_omniglot / "bits.npz").unlink()
    assert f"converted from {data / BACKGROUND}.zip" in accepted(capsys, *command, "--again")
    assert no_network == [data]
    assert f"converted from {data / BACKGROUND}.zip" in accepted(capsys, *command, "--again")
    assert no_network == [data], "the zips are there now"
    for part in omniglot_module.PARTS:
        (data / f"{part}.zip").unlink()
    accepted(capsys, *command, "--again")
    assert no_network == [data, data]


def test_again_finds_the_split_lists_too(small, capsys):
    write_tree(small / "have", images())
    write_tree(small / "lists", lists())
    command = ("data", "miniimagenet", "--data", small / "data")
    accepted(capsys, *command, "--from", small / "have", "--splits", small / "lists")
    assert f"converted from {small / 'have'} ({small / 'lists'}) in" in accepted(capsys, *command, "--again")
    shutil.rmtree(small / "have")
    refused_command([*command, "--again"], str(small / "data"))
    assert "are sound" in accepted(capsys, *command), "what is there has been left alone"


def test_two_at_once_with_different_sources_tell_the_truth(small_omniglot, monkeypatch, capsys):
    """The second waits while the first converts something else, then converts what it was asked for."""
    zips, npz = write_zips(small_omniglot / "zips"), write_npz(small_omniglot / "bits.npz")
    data = small_omniglot / "data"
    ended = []
    first = threading.Thread(
        target=lambda: ended.append(
            main(["data", "omniglot", "--from", str(zips), "--data", str(data), "--progress", "silent"])
        )
    )
    in_the_way(monkeypatch, first)
    said = accepted(capsys, "data", "omniglot", "--from", npz, "--data", data)
    assert ended == [0]
    (first_said, second_said) = (line for line in said.splitlines() if line.startswith("Omniglot"))
    assert f"converted from {zips}" in first_said
    assert f"converted from {npz} in" in second_said
    assert read_index(data / "omniglot-28.images").source == str(npz)


def test_the_second_of_two_says_what_it_found(small_omniglot, monkeypatch, capsys):
    data, npz = write_zips(small_omniglot / "data"), write_npz(small_omniglot / "bits.npz")
    first = threading.Thread(
        target=main,
        args=(["data", "omniglot", "--from", str(npz), "--data", str(data), "--progress", "silent"],),
    )
    in_the_way(monkeypatch, first)
    said = accepted(capsys, "data", "omniglot", "--data", data)
    first_said, second_said = (line for line in said.splitlines() if line.startswith("Omniglot"))
    assert f"converted from {npz} in" in first_said
    assert f"converted from {npz} by another process meanwhile" in second_said


def in_the_way(monkeypatch: pytest.MonkeyPatch, first: threading.Thread) -> None:
    """Let ``first`` run to its end just when the command has seen that nothing is there and will convert."""
    prepare = omniglot_module.prepared.__globals__["prepare"]

    def late(*arguments: object, **options: object) -> object:
        if first.ident is None:
            first.start()
            first.join()
        return prepare(*arguments, **options)

    monkeypatch.setattr("metasym.cli.data.prepare", late)


def test_what_is_there_is_named(small_omniglot, capsys):
    npz = write_npz(small_omniglot / "bits.npz")
    command = ("data", "omniglot", "--data", small_omniglot / "data")
    accepted(capsys, *command, "--from", npz)
    assert f"there already, and are sound (converted from {npz})" in accepted(capsys, *command)


def test_a_file_in_the_place_of_the_folder(small_omniglot):
    file, npz = small_omniglot / "file", write_npz(small_omniglot / "bits.npz")
    file.touch()
    for source in (["--from", npz], []):
        refused_command(["data", "omniglot", *source, "--data", file], str(file), "a file")


def test_an_address_is_not_for_what_one_has(small_omniglot):
    npz = write_npz(small_omniglot / "bits.npz")
    command = ["data", "omniglot", "--from", npz, "--url", "http://127.0.0.1:1/"]
    refused_command(command, "--from, --url", "both")


def test_names_that_are_not_unicode_are_printed(small_omniglot, capsys):
    odd = small_omniglot / os.fsdecode(b"caf\xe9")
    try:
        odd.mkdir()
    except OSError:
        pytest.skip("this file system wants Unicode")
    write_npz(odd / "omniglot.npz")
    said = accepted(capsys, "data", "omniglot", "--from", odd, "--data", small_omniglot / "data")
    assert r"caf\udce9/omniglot.npz in" in said


@pytest.mark.parametrize(
    ("place", "arguments", "hint"),
    [
        (
            "data._omniglot",
            "data omniglot",
            "; run the same command again: downloads continue, conversions start over",
        ),
        (
            "experiments._reproduce",
            "reproduce table3 --out runs",
            "; run the same command again to continue",
        ),
        ("experiments._run", "run NAME --out runs", "; use --resume to continue an interrupted run"),
        ("experiments._list", "list", ""),
    ],
)
def test_an_interrupt_says_how_to_go_on(monkeypatch, place, arguments, hint, capsys):
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"metasym.cli.{place}", interrupted)
    assert main(arguments.split()) == 130
    assert capsys.readouterr().err == f"metasym: interrupted{hint}\n"
