"""The numbers that decide what is read from a U: each with what it decides and what set it.

"Counted" means: fixed on some seeds, and what is named with it counted on fresh seeds by
``python -m studies.symmetries`` (results in ``results/inspect``, tables in ``docs/inspection.md``). "By hand" means
that no study compared it with other values. Sizes that only bound cost or memory are in the code.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PatternThresholds:
    """When the entries of a weight fall into clear classes."""

    margin: float = 2.0
    """Classes at least this many times farther apart than they are wide are clear. Counted."""
    evidence: float = 6.0
    """``ties * log(margin)`` of a clear pattern: one or two near pairs among many points happen by chance. Counted
    on U of noise."""
    residual: float = 0.5
    """A clear pattern leaves at most this part of U, or of its dominant directions, unexplained. For the dominant
    directions alone to count, one of the next two must hold as well. Counted."""
    unexplained: float = 0.8
    """Either at most this part of all of U is unexplained. By hand."""
    nearly_whole: float = 0.1
    """Or at most this part of the dominant directions: there may be any number of spare directions, never trained.
    By hand."""
    within: float = 0.45
    """A clear class is at most this wide, relative to the typical length of a nonzero row; less in few dimensions.
    Set after wide classes in few dimensions had been named; counted since."""
    no_gap_width: float = 0.5
    """Classes wider than this show no gap at all: decides between two reasons, not the status. By hand."""
    no_gap_margin: float = 1.2
    """So do classes less apart than this. By hand."""
    many_ties: int = 12
    """Ties and zeros from which wide classes, and not their number, are the reason against a pattern. By hand."""


@dataclass(frozen=True)
class SpatialThresholds:
    """When a rotation or flip maps the filters of a convolution to filters."""

    error: float = 0.4
    """A transform is accepted up to this error (less where U has few directions); 0 is exact, 1.4 unrelated. Set
    on the paper's rotation tasks; counted in ``docs/inspection.md``."""
    margin: float = 1.5
    """And only where every filter is this many times farther from all others than from its image. As ``error``."""
    alone: float = 0.1
    """The error up to which a transform of a single filter is accepted. By hand."""
    pixels: float = 0.05
    """Up to this error a quarter or half turn, exact on pixels, is accepted even if nearby angles fit as well:
    isotropic kernels fit all angles equally. By hand."""
    isotropic: float = 0.1
    """Kernels that keep less than this part of their squares in harmonics that turn tell no angle. By hand."""
    nearby: float = 0.4
    """Turns of ten degrees more or less must fit worse by at least this part of what they change in the kernels
    themselves. By hand."""
    dead: float = 1e-4
    """A filter with less than this part of the typical square is dead, and says nothing. By hand."""


@dataclass(frozen=True)
class TranslationThresholds:
    """When rows of a weight are shifted copies of each other, up to borders."""

    evidence: float = 20.0
    """How unlikely, as a logarithm, the agreeing ties must be if classes were spread at random. By hand."""
    share: float = 0.5
    """A shift holds on at least this part of all rows. By hand."""


@dataclass(frozen=True)
class SpectrumThresholds:
    """How many singular values of U matter."""

    drop: float = 2.0
    """A singular value that is this many times the next one may be the last that matters. Counted."""
    tail: float = 2.5
    """How many times larger a drop to one of the last two values must be. By hand."""
    weak: float = 0.1
    """Drops among values below this part of the largest are noise. By hand."""


PATTERN = PatternThresholds()
SPATIAL = SpatialThresholds()
TRANSLATIONS = TranslationThresholds()
SPECTRUM = SpectrumThresholds()
