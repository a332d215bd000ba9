"""Matrices as small pictures: PNG with a palette, embedded, drawn without smoothing.

A value's sign gives the colour and its size the opacity, so that 0 is the page's own background, light or
dark: one picture serves both, and prints on white paper.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

POSITIVE, NEGATIVE = (214, 107, 0), (46, 115, 209)
"""Orange and blue: colour-blind people can distinguish them, and both show on white and on near-black."""
SIZE = (0, 143, 120)
MOST_CELLS = 600 * 600
"""Matrices of up to this many entries are drawn."""
_BAD = (200, 0, 90)
_LEVELS = 100


def matrix_image(
    values: NDArray[np.float64], about: str, *, limit: float | None = None, signed: bool = True
) -> Markup:
    """A matrix ``[rows, columns]``; opaque at ``limit`` (its largest absolute value), NaN in magenta."""
    finite = np.isfinite(values)
    sizes = np.abs(np.where(finite, values, 0.0))
    top = float(sizes.max(initial=0.0)) if limit is None else limit
    levels = np.rint(np.clip(sizes / top if top > 0 else sizes, 0, 1) * _LEVELS).astype(np.uint8)
    index = np.where(signed & (values < 0), levels + _LEVELS + 1, levels).astype(np.uint8)
    index[~finite] = 255
    positive = POSITIVE if signed else SIZE
    palette = [positive] * (_LEVELS + 1) + [NEGATIVE] * (_LEVELS + 1)
    palette += [_BAD] * (256 - len(palette))
    opacity = [round(255 * level / _LEVELS) for level in range(_LEVELS + 1)] * 2
    opacity += [255] * (256 - len(opacity))
    return image(index, palette, opacity, about)


def image(
    index: NDArray[np.uint8], palette: Sequence[tuple[int, int, int]], opacity: Sequence[int], about: str
) -> Markup:
    """A picture ``[rows, columns]`` of entries of a palette, each with an opacity from 0 to 255."""
    from PIL import Image

    rows, columns = index.shape
    used, places = np.unique(index, return_inverse=True)  # a small picture needs no palette of 256 colours
    picture = Image.frombytes("P", (columns, rows), places.reshape(index.shape).astype(np.uint8).tobytes())
    picture.putpalette([part for entry in used for part in palette[entry]])
    data = io.BytesIO()
    picture.save(data, format="PNG", transparency=bytes(opacity[entry] for entry in used), optimize=True)
    source = "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()
    return Markup('<img class="matrix" src="{}" width="{}" height="{}" alt="{}">').format(
        source, columns, rows, about
    )


def colour_bar(limit: str, signed: bool = True) -> Markup:
    """What the colours mean, as a line of text with samples."""
    if signed:
        return Markup(
            '<p class="key"><span class="swatch negative"></span>−{0} '
            '<span class="swatch zero"></span>0 <span class="swatch positive"></span>+{0}</p>'
        ).format(limit)
    return Markup(
        '<p class="key"><span class="swatch zero"></span>0 <span class="swatch size"></span>{}</p>'
    ).format(limit)
