"""The numbers that decide what ``discover`` claims: a record for each room, each number with what set it.

"Counted" means: fixed on seeds below 50, and what is claimed with it counted on fresh seeds by ``python -m
studies.discover`` (results under ``results/discover``, tables in ``docs/discover.md``). "By hand" means that no study
compared it with other values. Sizes that only bound the cost of a search stand beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

TOLERANCE = 0.003
"""The largest violation, as a part of the variance that the moved inputs carry, with which a symmetry is named.

Counted; ``--tolerance`` changes it.
"""

ERRS_MORE = 0.995
"""How sure it is that a model errs more than another on held-out examples. By hand."""


@dataclass(frozen=True)
class LikelihoodThresholds:
    """Bounds by the likelihood of a part that the symmetry does not keep; for all rooms."""

    level: float = 3.3
    """Logarithms of likelihood below the best that still count: about 99 %, to one side. From the chi-square law."""
    rough: float = 0.2
    """The length of functions that are rough along one input, which are looked for too: short beside the spread of
    the inputs, long beside the distances of examples. By hand, after seven false claims of a user's 93 functions."""


@dataclass(frozen=True)
class LocalThresholds:
    """Violations in few places; for all rooms."""

    far: float = 5.0
    """Residuals larger than so many usual ones are not the noise of the others. Set on seeds 0 and 1 of
    ``studies.function_attacks``; counted on fresh ones."""
    median: float = 0.6745
    """The median of the size of a Gaussian number of variance 1."""


@dataclass(frozen=True)
class ContinuousThresholds:
    """Algebras of one function."""

    quiet: float = 3.0
    """Signals, in units of noise, that count as none. Counted."""
    gap: float = 3.0
    """How many times larger the first signal that counts must be than the last that does not (both with 2 added).
    Counted: of O(5) at N = 300 some gaps are 2.8 and 2.9, and refused."""
    gap_inside: float = 2.0
    """The same inside an algebra of rotations, which may be a little off its place at first. Set on O(5) in turned
    coordinates, seeds 0 to 4; counted on seeds 2300 on."""
    farthest: float = 25.0
    """Degrees that a space may be moved to become an algebra. By hand."""
    closed: float = 1e-5
    """The mean closure defect below which a space counts as an algebra. By hand: far above rounding."""
    evidence: float = 3.0
    """Logarithms of evidence that count as none: for a part beside the symmetry, and between two models. By hand; the
    rule came of two wrong claims (seeds 1000 and 1010)."""
    surely: float = 0.1
    """What the symmetric model leaves, as a part of the tolerance, that may be a violation without any harm. From the
    same two claims, whose models left one to three thousandths of the variance."""
    floor: float = 3.0
    """A model that knows nothing leaves at most this many times what the symmetric one leaves, where that is noise.
    From the same two claims."""
    hardly: float = 1e-3
    """A part of the variance too little to speak of: fields that move nothing else are no near symmetry. By hand."""
    most_quiet: int = 200
    """Quiet directions of pairs that are closed to an algebra. Set on the inertia tensor with outputs of other
    examples, where all brackets of 456 took hours."""
    round_entry: float = 0.12
    """How far an entry of a generator may be from a multiple of a half to be taken for it; proposes only. By hand."""
    round_degrees: float = 8.0
    """Degrees that a space may be moved to be at round numbers; proposes only. By hand."""
    whole_frequency: float = 0.08
    """How far a frequency may be from a whole multiple for the turns to come back. By hand."""
    fulfilled: float = 1e-6
    """The size, as a part of the largest, of a polynomial that is 0 on all inputs. By hand."""
    leads_away: float = 1e-2
    """The part of a field that may point away from an equation by rounding. By hand; the rule came of a user's 93
    functions (inputs on a sphere, inputs with three values)."""
    polynomial_level: float = 0.99
    """Of the F test and of the bound of a polynomial's symmetry. Set on Lorentz and the inertia tensor, seeds 0, 1
    and 5; counted on seeds 2000 to 2009."""
    polynomial_share: float = 1e-6
    """A part of the polynomial's variance that is none. By hand."""


@dataclass(frozen=True)
class FiniteThresholds:
    """Groups of signed permutations of one function."""

    likely: float = -1.0
    """The least gain in the logarithm of the likelihood with which a move is worth a test. By hand."""
    carried: float = 0.02
    """The least part of the variance that each moved input carries; those of a shape carry it together. By hand."""
    unseen: float = 3.0
    """Labels that break a symmetry in this many of all examples may be absent by chance: 5 % by Poisson's law."""
    labels: float = 10 / 3
    """How many times larger a violation may be where outputs are labels: a hundredth of the variance by default.
    Counted on boards and flipped digits."""
    small_output: float = 0.1
    """Outputs that vary less than this part of what the largest does are judged by themselves, too. By hand: a
    violation of all of such an output is a hundredth of the variance of y."""
    polynomial_level: float = 0.995
    """How sure it is that the polynomial's mean squared error is not larger than its bound. By hand."""
    certain: float = 9.0
    """How many times what a polynomial leaves its broken part must be to refute: ``(1 + 2)^2``, by the triangle
    inequality."""
    same_mean: float = 4.5
    """Standard errors between means, or variances, of inputs that may change places. By hand."""
    same_variance: float = 0.4
    """Variances that differ by less than this part are those of one kind. By hand."""
    hardly_varies: float = 0.05
    """Inputs that vary less than this part of what others do are of one kind with constant ones. By hand."""


@dataclass(frozen=True)
class FamilyThresholds:
    """Groups that all tasks of a family share."""

    tied: float = 6.0
    """Mean squares of differences between entries of linear maps, in units of their noise, that may be none: 1 but
    for chance and for what a linear map leaves. Counted."""
    zero: float = 3.0
    """Entries below this are zero; between this and ``tied`` it is unclear. Counted."""
    gap: float = 3.0
    """How many times larger the smallest difference that is none must be than the largest that is. Counted."""
    ties_differ: float = 0.001
    """The largest difference of tied entries that all tasks share, as a part of their power. Counted again after a
    wrong claim (8 points, gains of 5 %, seed 2003): 50 such families are refused, of 100 true ones none."""
    chance: float = 3e-4
    """Differences of tied entries that are less likely than this by chance refute. By hand, counted with it."""
    violation: float = 0.01
    """The largest violation along what fitted functions add, as a part of the variance. Counted."""
    common: float = 0.002
    """The same where a polynomial that all tasks share shows it. Set on seeds below 50, where a curvature by position
    of 0.023 of the variance had been named; counted on seeds 2100 to 2109."""
    same_law: float = 1e-3
    """Means that differ by less likely a chance than this are those of inputs with different laws. By hand."""


LIKELIHOOD = LikelihoodThresholds()
LOCAL = LocalThresholds()
CONTINUOUS = ContinuousThresholds()
FINITE = FiniteThresholds()
FAMILIES = FamilyThresholds()
