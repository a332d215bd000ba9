"""The numbers that decide what a measured defect is called: each with what it decides and what set it."""

from __future__ import annotations

NEARLY = 0.1
"""A group read from U with a larger error of its generators is one that U has only nearly. By hand."""
PLAIN = 0.02
"""Up to this bound a symmetry of tasks is certified without qualification; above it the status is "certified
approximately", and the words say how nearly it holds. By hand."""
TRANSFORM_TOLERANCE = 0.1
"""The default with which a transform of images or of a function's inputs holds: the largest defect, with its bound.
By hand."""
EXACT_FUNCTION = 1e-8
"""Violations of adapted networks up to this part of the outputs' variance are exact: from what rounding in float32
leaves."""
NEARLY_FUNCTION = 0.2
"""A defect of theirs up to this is called nearly none: chosen as the tolerance for a symmetry of tasks."""
NEAR_FUNCTION = 0.5**0.5
"""Half the defect of unrelated answers, the square root of 2: a defect below it is near, and is given as a number.
By hand."""
EXACT_CLAIM = 1e-5
"""Defects of a symmetry of a function that is called, below this, are rounding: from differences in float32."""
WIDE_BETA = 10.0
"""beta is 0 for a true symmetry and about 1 for a false one: a wider interval decides nothing. By hand."""
