"""Image files of every kind, to 8 bits of grey or colour."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from metasym.tasks.images.decode import MOST_PIXELS, SUFFIXES, decode
from tests.refusals import refused

SIZE = 20
RAMP = (np.arange(SIZE * SIZE).reshape(SIZE, SIZE) * 163).astype(np.uint16)
STROKE = np.zeros((SIZE, SIZE), np.uint8)
STROKE[5:15, 8:12] = 255


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def grey(data: bytes) -> np.ndarray:
    return decode(data, "x", channels=1, size=SIZE)[0]


@pytest.mark.parametrize(
    ("kind", "dtype"), [("PNG", "<u2"), ("PPM", "<u2"), ("TIFF", "<u2"), ("TIFF", ">u2")]
)
def test_of_16_bits_the_upper_8_are_kept(kind, dtype):
    data = saved(Image.fromarray(RAMP.astype(dtype)), kind)
    assert np.array_equal(grey(data), RAMP // 256)
    colour = decode(data, "x", channels=3, size=SIZE)
    assert np.array_equal(colour, np.stack([RAMP // 256] * 3))


def test_other_ranges_of_grey():
    white_is_0 = saved(Image.fromarray(RAMP), "TIFF", tiffinfo={262: 0})
    assert np.array_equal(grey(white_is_0), (65535 - RAMP) // 256)
    pgm = b"P5 2 1 1023\n" + (0).to_bytes(2, "big") + (1023).to_bytes(2, "big")
    assert decode(pgm, "x", channels=1, size=2)[0, 0].tolist() == [0, 255]


@pytest.mark.parametrize(
    ("image", "mode"),
    [
        (Image.fromarray(RAMP.astype(np.float32)), "F"),
        (Image.fromarray(RAMP.astype(np.int32)), "I"),
    ],
)
def test_numbers_of_an_unknown_range_are_refused(image, mode):
    with refused("x", mode):
        grey(saved(image, "TIFF"))


def in_alpha(mode: str) -> Image.Image:
    """Black everywhere; the stroke is in what covers the paper alone."""
    pixels = np.zeros((SIZE, SIZE, 4), np.uint8)
    pixels[..., 3] = STROKE
    return Image.fromarray(pixels).convert(mode)


ALPHA = {
    "RGBA": saved(in_alpha("RGBA"), "PNG"),
    "LA": saved(in_alpha("LA"), "PNG"),
    "palette": saved(in_alpha("RGBA").quantize(4), "PNG"),
    "GIF": saved(in_alpha("RGBA"), "GIF"),
    "WebP": saved(in_alpha("RGBA"), "WEBP", lossless=True, exact=True),
    "TIFF": saved(in_alpha("RGBA"), "TIFF"),
    "one transparent grey": saved(
        Image.fromarray(np.where(STROKE, 0, 7).astype(np.uint8)), "PNG", transparency=7
    ),
    "one transparent colour": saved(
        Image.fromarray(np.stack([np.where(STROKE, 0, 7).astype(np.uint8)] * 3, -1)),
        "PNG",
        transparency=(7, 7, 7),
    ),
    "one transparent grey of 16 bits": saved(
        Image.fromarray(np.where(STROKE, 0, 1799).astype(np.uint16)), "PNG", transparency=1799
    ),
}


@pytest.mark.parametrize("kind", ALPHA)
def test_what_is_transparent_is_laid_on_white(kind):
    assert np.array_equal(grey(ALPHA[kind]), 255 - STROKE)
    inverted = decode(ALPHA[kind], "x", channels=1, size=SIZE, invert=True)[0]
    assert np.array_equal(inverted, STROKE)


def test_half_transparent_pixels_mix_with_white_and_opaque_ones_keep_their_colour():
    pixels = np.random.default_rng(0).integers(0, 256, (SIZE, SIZE, 4)).astype(np.uint8)
    found = decode(saved(Image.fromarray(pixels), "PNG"), "x", channels=3, size=SIZE).transpose(1, 2, 0)
    share = pixels[..., 3:].astype(float) / 255
    assert np.abs(found - (share * pixels[..., :3] + (1 - share) * 255)).max() <= 1
    pixels[..., 3] = 255
    found = decode(saved(Image.fromarray(pixels), "PNG"), "x", channels=3, size=SIZE).transpose(1, 2, 0)
    assert np.array_equal(found, pixels[..., :3])


@pytest.mark.parametrize("kind", ["raw", "tiff_lzw", "tiff_deflate"])
def test_tiff(kind):
    pixels = np.random.default_rng(0).integers(0, 256, (SIZE, SIZE, 3)).astype(np.uint8)
    data = saved(Image.fromarray(pixels), "TIFF", compression=kind)
    assert np.array_equal(decode(data, "x", channels=3, size=SIZE).transpose(1, 2, 0), pixels)
    assert {".tif", ".tiff"} <= set(SUFFIXES)


def tiled(side: int) -> bytes:
    """A TIFF of 16 x 16 pixels in one deflated tile of ``side`` x ``side``."""
    body = zlib.compress(bytes([7]) * (16 * 16))
    tags = {256: 16, 257: 16, 258: 8, 259: 8, 262: 1, 277: 1, 322: side, 323: side, 324: 8, 325: len(body)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    return (
        struct.pack("<2sHI", b"II", 42, 8 + len(body))
        + body
        + struct.pack("<H", len(tags))
        + entries
        + bytes(4)
    )


def test_a_tile_of_tiff_is_bounded_too():
    assert (decode(tiled(16), "x", channels=1, size=16) == 7).all()
    side = 16 * (int(MOST_PIXELS**0.5) // 16 + 1)
    with refused("x", (side, side)):
        grey(tiled(side))
