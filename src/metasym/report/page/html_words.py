"""Numbers, shapes and names as the page writes them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from markupsafe import Markup

MINUS = "−"


def number(value: float | None, digits: int = 3) -> str:
    """About ``digits`` significant digits, in short form; NaN and infinity in words."""
    try:
        value = math.nan if value is None else float(value)
    except OverflowError:  # a whole number of hundreds of digits
        return "∞"
    if math.isnan(value):
        return "not finite"
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e5:
        places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        return f"{value:,.{min(places, 6)}f}".replace("-", MINUS)
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa}e{int(exponent)}".replace("-", MINUS)


def tick(value: float) -> str:
    """A label of an axis."""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e4:
        return f"{value:.10g}".replace("-", MINUS)
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{float(mantissa):g}e{int(exponent)}".replace("-", MINUS)


def shape(sizes: Sequence[int]) -> str:
    """``68 × 70``."""
    return " × ".join(f"{size:,}" for size in sizes) if sizes else "one number"


def plural(count: int, one: str, many: str | None = None) -> str:
    """``1 run``, ``2 runs``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def layer_name(name: str) -> str:
    """A layer's name; the model itself has none."""
    return name or "the layer"


def breakable(text: str) -> Markup:
    """The text, escaped, with places where a narrow screen may break a long name: after ``/``, ``_``, ``.``."""
    return Markup("<wbr>").join(re.split(r"(?<=[/_.])(?=\w)", text))
