"""Why ``discover`` does not claim a symmetry of a function that is called."""

from __future__ import annotations

from metasym.verdicts.reason_outcomes import About, DiscoveryReason, Outcome


class RefutedByCalls(About, frozen=True, tag="refuted_by_calls"):
    """Calls at fresh points show a defect that is too large for the symmetry to be named."""

    outcome = Outcome.REFUTED
    defect: float
    """Relative root mean square."""
    most: float


class CallsAllow(About, frozen=True, tag="calls_allow"):
    """Calls at fresh points allow a defect that is too large."""

    defect: float
    upper: float
    most: float


class NoneKept(DiscoveryReason, frozen=True, tag="none_kept"):
    """No signed permutation that was tried keeps the function."""

    outcome = Outcome.REFUTED
    tried: int


class NoisyFunction(DiscoveryReason, frozen=True, tag="noisy_function"):
    """Derivatives of a function whose repeated calls differ were not taken."""

    outcome = Outcome.NOT_EXAMINED
