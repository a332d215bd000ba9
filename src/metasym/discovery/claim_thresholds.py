"""The numbers that decide what ``discover`` claims: a record for each room, each number with what set it.

"Counted" means: fixed on seeds below 50, and what is claimed with it counted on fresh seeds by ``python -m
studies.discover`` (results under ``results/discover``, tables in ``docs/discover-studies.md``). "By hand" means that
no study compared it with other values. Sizes that only bound the cost of a search are in its code.
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
    """The length of functions that are rough along one input, which the search also covers: short compared with the
    spread of the inputs, long compared with the distances of examples. By hand, after seven false claims of a user's
    93 functions."""
    worth: float = 2.0
    """By how much another kernel has to make the logarithm of the likelihood larger to be taken. By hand."""


@dataclass(frozen=True)
class SplitThresholds:
    """Which examples take part in what; for all rooms."""

    held_out: float = 0.2
    """The part of the examples that is held out from the search. By hand; ``--test`` changes it."""
    fewest: int = 10
    """Different examples below which there is nothing to split. By hand."""


@dataclass(frozen=True)
class UnitThresholds:
    """Which inputs are measured in one unit, and where their zero is."""

    same: float = 1.3
    """How many times larger the next spread may be for inputs to share a unit. By hand."""
    centred: float = 0.25
    """A mean nearer to 0 than this part of the unit is 0. By hand."""


@dataclass(frozen=True)
class PolynomialThresholds:
    """Which terms a fitted polynomial has."""

    real_term: float = 4.0
    """Errors that a coefficient is from 0 where its term is real. By hand."""
    negligible: float = 1e-7
    """A part of the variance too small for a term. By hand: far above rounding."""
    exact: float = 1e-9
    """The unexplained part of the variance at which a polynomial is exact. By hand: far above rounding."""
    only_rounding: float = 1e-16
    """The unexplained part of the variance at which nothing is left but rounding: that of float64."""


@dataclass(frozen=True)
class LocalThresholds:
    """Violations in few places; for all rooms."""

    far: float = 5.0
    """Residuals larger than so many usual ones are not the noise of the others. Set on seeds 0 and 1 of
    ``studies.function_attacks``; counted on fresh ones."""
    level: float = 0.95
    """Of the limit of the share of further rows that may differ. By hand: what users expect."""
    held_level: float = 0.99
    """Of the limit of what such rows hold. A symmetry is claimed where few of them happen to be seen, so that 0.95
    would be too low too often. By hand; counted on local violations, seeds 1000 to 1059 and 2000 to 2019."""
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
    """Logarithms of evidence that count as none: for a part that breaks the symmetry, and between two models. By
    hand; the rule came of two wrong claims (seeds 1000 and 1010)."""
    surely: float = 0.1
    """Fraction of the tolerance allowed as unexplained residual of the symmetric model. From the
    same two claims, whose models left one to three thousandths of the variance."""
    floor: float = 3.0
    """A model that knows nothing leaves at most this many times what the symmetric one leaves, where that is noise.
    From the same two claims."""
    left_level: float = 0.99
    """How sure it is that a symmetric model leaves no more than the bound of what it leaves. Squares are skewed, so
    that 0.95 would be too low too often. By hand."""
    hardly: float = 1e-3
    """A part of the variance too little to speak of: fields that move nothing else are no near symmetry. By hand."""
    most_quiet: int = 200
    """Quiet directions of pairs that are closed to an algebra. Set on the inertia tensor with outputs of other
    examples, where all brackets of 456 took hours."""
    moves: float = 0.1
    """The least part of a translation, of length 1, along an input that it counts as moving. By hand."""
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
    part_closed: float = 0.3
    """The largest closure defect, in units of the root of the dimension, of fields that may be a part of an algebra;
    proposes only. By hand."""
    part_gap: float = 5.0
    """How many times larger the defect of the next field must be for the fields before it to be that part; proposes
    only. By hand."""
    zero_coefficient: float = 5.5
    """Errors that a coefficient has to be from 0: the largest of 5,000 that are only noise stays below."""
    same_size: float = 3.0
    """Errors that a coefficient may be from the mean of those of its size, and that from a multiple of the unit. By
    hand."""
    most_units: int = 4
    """The smallest size of a coefficient is at most so many units. By hand."""
    positive_form: float = 0.05
    """The least eigenvalue of an invariant quadratic form, of the one nearest to 1, for an algebra to be compact. By
    hand."""
    still_frequency: float = 0.05
    """Frequencies below this part of the largest are 0; proposes only. By hand."""
    closed_turns: float = 1e-6
    """The closure defect of turns at whole frequencies that is rounding. By hand."""
    dependent_output: float = 1e-4
    """An output of which less than this is left by the others, as a part of its size, follows from them. By hand."""
    null: float = 1e-7
    """Fields that move a polynomial by less than this part of the largest keep it. By hand: far above rounding."""
    closed_exactly: float = 1e-8
    """The closure defect below which fields of an exact polynomial are an algebra as they are. By hand."""
    dependent_fields: float = 1e-4
    """The size, as a part of the largest, below which a combination of the fields' actions on inputs is none. By
    hand."""
    same_space: float = 1e-4
    """Degrees between a space and the one at round numbers that are rounding. By hand."""
    own_zero: float = 6.0
    """Standard deviations that a mean may be from the data's own zero for that zero to be kept. By hand."""


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
    nearly: float = 0.2
    """The largest defect of a group that a user asks about that is called near: that of tasks. By hand."""
    crossed_level: float = 0.999
    """Of the interval of beta where all rows are judged by functions fitted to others. Sums over pairs of rows are
    skewed; set on S_4 of the largest of four sizes with 240 rows, where the error of 1.3 times that of independent
    rows had refuted true groups at 0.99."""
    certain: float = 9.0
    """How many times what a polynomial leaves its broken part must be to refute: ``(1 + 2)^2``, by the triangle
    inequality."""
    same_mean: float = 4.5
    """Standard errors between means, or variances, of inputs that may change places. By hand."""
    same_variance: float = 0.4
    """Variances that differ by less than this part are those of one kind. By hand."""
    hardly_varies: float = 0.05
    """Inputs that vary less than this part of what others do are of one kind with constant ones. By hand."""
    same_term: float = 0.03
    """Sizes of a polynomial's terms that differ by less than this part may be one size; proposes only. By hand."""
    same_term_errors: float = 4.0
    """The same in errors of the difference; proposes only. By hand."""
    other_term_errors: float = 30.0
    """Sizes that differ by so many errors are different, however little they differ: there is no part that
    polynomials cannot show. Proposes only. By hand."""


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
    """The largest difference of tied entries that all tasks share, as a part of their power, where tasks are not
    linear. Counted again after a wrong claim (8 points, gains of 5 %, seed 2003): 50 such families are refused, of
    100 true ones none."""
    faint: float = 0.02
    """Classes of entries with less than this part of the largest power are not examined for such differences. By
    hand."""
    chance: float = 3e-4
    """Differences of tied entries that are less likely than this by chance refute. By hand, counted with it."""
    violation: float = 0.01
    """The largest violation along what fitted functions add, as a part of the variance, at the default tolerance: it
    grows with it. What the tasks' linear maps allow is compared with the tolerance itself. Counted."""
    common: float = 0.002
    """The same where a polynomial that all tasks share shows it. Set on seeds below 50, where a curvature by position
    of 0.023 of the variance had been named; counted on seeds 2100 to 2109."""
    same_law: float = 1e-3
    """Means that differ by less likely a chance than this are those of inputs with different laws. By hand."""
    held_out: float = 0.35
    """The part of the tasks that is held out from the search. By hand."""
    least_tasks: int = 12
    """Tasks below which none can be left out of the search. By hand."""


@dataclass(frozen=True)
class CallThresholds:
    """Functions that are called. Exact symmetries are decided by the function's own rounding, not here."""

    level: float = 0.98
    """Of Student's t: squares are skewed, so that 0.95 would be too low too often. Counted by
    ``studies.callables``."""
    small_output: float = 1e-3
    """An output of which the moved inputs carry less than this part is compared on the scale of this part. By
    hand."""
    nearly: float = 0.15
    """The part of an input's effect that candidates for near symmetries may be off; proposes only. By hand."""
    exact: float = 0.01
    """Limits of defects above this are those of near symmetries. By hand."""
    still: float = 1e-12
    """Inputs whose spread is below this part of their size do not vary: rounding."""
    few_points: float = 1.5
    """How many times the limit a candidate's defect may be at the few points where it is examined first; proposes
    only. By hand."""
    other_kind: float = 4.0
    """How many times larger the next spread is where another kind of inputs begins; proposes only. By hand."""
    round_worse: float = 10.0
    """How many times larger the bound may be at round numbers for these to be taken. By hand."""
    affine: float = 1e-5
    """A Jacobian that changes by less than this part is constant, but for differences. By hand: far above
    rounding."""
    mostly_noise: float = 0.5
    """The part of the variance beyond which noise leaves nothing to look at. By hand."""
    averaged: float = 16.0
    """Calls at one point are averaged until noise adds less to the square of a defect than the tolerance's square
    divided by this: a quarter of the tolerance. By hand, after set functions with 1 % noise had been missed."""
    mixes: float = 1e-3
    """Relative differences between batches that are more than rounding: the function mixes points. By hand."""
    steps: float = 1e-3
    """The part of its change by which an output with constant derivatives may miss an affine function. By hand."""
    far: float = 10.0
    """A point at which f differs by so many times the bound of a defect violates the symmetry much more. By hand."""
    away: float = 0.5
    """Standard deviations, or parts of one, by which means and spreads of inputs may change before the result says
    so. By hand."""
    least_points: int = 16
    """Points below which a sample says nothing about the law of the inputs. By hand."""


LIKELIHOOD = LikelihoodThresholds()
SPLIT = SplitThresholds()
UNITS = UnitThresholds()
POLYNOMIAL = PolynomialThresholds()
LOCAL = LocalThresholds()
CONTINUOUS = ContinuousThresholds()
FINITE = FiniteThresholds()
FAMILIES = FamilyThresholds()
CALLS = CallThresholds()
