"""From image files that others made to pixels: bounded in size; errors are one line."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from metasym.errors import in_one_line
from metasym.storage.plain_files import open_plain
from metasym.tasks.images.classes import Images
from metasym.types import MetasymError

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "PPM", "TIFF")
SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif"),
    *(".ppm", ".pgm", ".pbm", ".pnm", ".tif", ".tiff"),
)
"""A file with one of these endings, in either case, is treated as an image; its contents decide how it is read."""
MOST_PIXELS = 50_000_000
MOST_BYTES = 1 << 26
"""The largest image file that is read."""
_MODES = {1: "L", 3: "RGB"}
_WITH_ALPHA = ("RGBA", "RGBa", "LA", "La", "PA")
_BITS_PER_SAMPLE, _PHOTOMETRIC, _TILE_WIDTH, _TILE_LENGTH = 258, 262, 322, 323
"""Tags of TIFF."""


def check_size(size: int) -> None:
    """Refuse sizes that no image is converted to."""
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= 4096:
        raise MetasymError(f"expected an image size from 1 to 4096, found {size!r}", about="size", found=size)


def decode(data: bytes, name: str, *, channels: int, size: int, invert: bool = False) -> Images:
    """An image file to ``[channels, size, size]``, uint8; resized with antialiasing, whatever its aspect ratio.

    Transparent pixels are laid on white. Of 16 bits the upper 8 are kept. Of several frames or pages the first
    is read.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd metadata, for example: only the pixels count
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image: Image.Image = Image.open(io.BytesIO(data), formats=FORMATS)
            _check_pixels(image, name)
            if image.format == "JPEG":
                image = ImageOps.exif_transpose(image)
            image = _opaque(image, name).convert(_MODES[channels])
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise MetasymError(
            f"{name}: expected an image of at most {MOST_PIXELS:,} pixels, found more",
            about=str(name),
            found="more pixels",
        ) from None
    except UnidentifiedImageError:
        raise MetasymError(
            f"{name}: expected an image ({', '.join(FORMATS)}), found something else",
            about=name,
            found="no image",
        ) from None
    except MetasymError:
        raise
    except Exception as error:  # decoders raise whatever they stumble over
        raise MetasymError(
            f"{name}: expected an image that decodes, found {in_one_line(error)}",
            about=str(name),
            found=in_one_line(error),
        ) from None
    pixels = np.asarray(image)
    return resize(255 - pixels if invert else pixels, size)


def _check_pixels(image: Image.Image, name: str) -> None:
    """Refuse too many pixels, known from the header, before any is decoded."""
    width, height = image.size
    if image.format == "TIFF":  # one tile is decoded whole, however little of it the image needs
        tags: Any = image.tag_v2  # type: ignore[attr-defined]
        width, height = max(width, tags.get(_TILE_WIDTH, 0)), max(height, tags.get(_TILE_LENGTH, 0))
    if width * height > MOST_PIXELS:
        raise MetasymError(
            f"{name}: expected an image of at most {MOST_PIXELS:,} pixels, found {width} x {height}",
            about=name,
            found=(width, height),
        )


def _opaque(image: Image.Image, name: str) -> Image.Image:
    """The image on white if it is transparent anywhere, with 8 bits a channel."""
    if image.mode == "F" or image.mode.startswith("I"):
        return Image.fromarray(_upper_bits(image, name))
    if image.mode not in _WITH_ALPHA and "transparency" not in image.info:
        return image
    paper = Image.new("RGBA", image.size, "white")
    paper.alpha_composite(image.convert("RGBA"))
    return paper


def _upper_bits(image: Image.Image, name: str) -> Images:
    """The upper 8 bits of grey values of up to 16, ``[H, W]``, uint8."""
    # 16 bits of PNG and PPM come as 32 from some versions of Pillow; elsewhere 32 bits may mean anything.
    if image.mode == "F" or (image.mode == "I" and image.format not in ("PNG", "PPM")):
        raise MetasymError(
            f"{name}: expected whole numbers of at most 16 bits for pixels, found "
            f"{'fractions' if image.mode == 'F' else '32 bits, or numbers with a sign'}",
            about=name,
            found=image.mode,
        )
    values, bits = np.asarray(image).astype(np.int32), 16
    if image.format == "TIFF":
        tags: Any = image.tag_v2  # type: ignore[attr-defined]
        bits = tags[_BITS_PER_SAMPLE][0]
        if tags.get(_PHOTOMETRIC) == 0:  # white is 0
            values = (1 << bits) - 1 - values
    grey = (values >> (bits - 8)).clip(0, 255).astype(np.uint8)
    if "transparency" in image.info:
        grey[values == image.info["transparency"]] = 255
    return grey


def resize(pixels: Images, size: int) -> Images:
    """``[H, W]`` or ``[H, W, 3]``, uint8, to ``[channels, size, size]``: bilinear, antialiased where it shrinks."""
    if pixels.shape[:2] != (size, size):
        pixels = np.asarray(Image.fromarray(pixels).resize((size, size), Image.Resampling.BILINEAR))
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def read_file(path: Path) -> bytes:
    """The bytes of an image file, of at most ``MOST_BYTES``."""
    try:
        with open_plain(path) as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise MetasymError(
            f"{path}: expected an image, found {error.strerror}", about=str(path), found=error.strerror
        ) from None
    if len(data) > MOST_BYTES:
        raise MetasymError(
            f"{path}: expected an image of at most {MOST_BYTES:,} bytes, found more",
            about=str(path),
            found="more bytes",
        )
    return data
