"""Numbers as the paper prints them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Printed:
    """A number as the paper prints it, ``"3.4"``, with its 95 % interval where it has one."""

    text: str
    interval_text: str | None = None

    @property
    def mean(self) -> float:
        """The number."""
        return float(self.text)

    @property
    def interval(self) -> float | None:
        """The half-width of its interval."""
        return None if self.interval_text is None else float(self.interval_text)

    @property
    def rounding(self) -> float:
        """Half of the last printed digit: ``.00`` may be anything below .005."""
        digits = len(self.text.partition(".")[2])
        return 0.5 * 10.0**-digits

    def __str__(self) -> str:
        return self.text if self.interval_text is None else f"{self.text} ± {self.interval_text}"
