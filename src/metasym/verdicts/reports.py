"""What an inspection found: plain values, so that it can be printed, drawn, stored and compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from metasym.groups.signed_permutations import SignedPermutation
from metasym.verdicts.status_thresholds import NEARLY, PLAIN
from metasym.verdicts.verdict import Bound, Status, Verdict


@dataclass(frozen=True)
class SharingPattern:
    """Which entries of W ``[m, n]`` are tied, tied up to sign, or zero.

    The entries of W are points, the rows of U: their distances depend on U U^T alone.
    """

    classes: tuple[tuple[int, ...], ...]
    """``[m, n]``: 0 is zero; entries with equal numbers are tied, with opposite numbers tied up to sign."""
    count: int
    """The number of classes of tied entries, that of zeros not counted."""
    tied: int
    """How many of the m n entries share their class with another."""
    zeros: int
    """How many entries are zero."""
    signed: bool
    """Whether some entries are tied with opposite signs."""
    within: float
    """The largest distance inside a class, relative to the typical length of a row of U that is not zero."""
    between: float
    """The smallest distance between two classes (or from zero), on the same scale."""
    margin: float
    """``between / within``: how stable the pattern is. At about 1 any other cut would do as well."""
    residual: float
    """The part of U that the pattern does not explain: ``|U - U averaged over each class| / |U|``."""
    clear: bool
    """Whether margin, residual and number of ties support the pattern; no group is named otherwise."""
    dominant_residual: float = 0.0
    """The same residual inside the dominant eigenspace of U U^T, where the singular values show one."""

    def __repr__(self) -> str:
        rows, columns = len(self.classes), len(self.classes[0]) if self.classes else 0
        doubt = "" if self.clear else ", not clear"
        return (
            f"SharingPattern({rows} x {columns}: {self.count} classes, {self.tied} tied, {self.zeros} zero, margin "
            f"{self.margin:.3g}, residual {self.residual:.2g}{doubt})"
        )


def order_words(order: int) -> str:
    """The number of elements as people read it: S_64's has 90 digits, of which the first two are written."""
    digits = str(order)
    return f"{order:,}" if len(digits) <= 15 else f"about {digits[0]}.{digits[1]}e{len(digits) - 1}"


@dataclass(frozen=True)
class FoundGroup:
    """The largest group whose elements map every class of tied entries to itself."""

    name: str
    """Up to isomorphism: ``Z_12``, ``D_10`` (of order 20), ``S_3 x Z_2``; else such as ``a group of order 48``."""
    order: int
    """The number of elements, exact; for signed permutations modulo -1 on both sides."""
    generators: tuple[SignedPermutation, ...]
    transitive_outputs: bool
    transitive_inputs: bool
    signed: bool
    """Whether some element flips signs."""
    error: float
    """The largest ``|U - g U| / |U|`` of a generator g: 0 is exact, 1.4 unrelated."""
    defect_upper: float | None = None
    """A 95 % upper bound of ``|W - g W| / |W|``, from held-out tasks; None: not certified."""

    def __repr__(self) -> str:
        bound = "" if self.defect_upper is None else f", defect at most {self.defect_upper:.3g}"
        many = len(self.generators)
        return (
            f"FoundGroup({self.name}, order {self.order_in_words}, {many} generator{'s' * (many != 1)}, error "
            f"{self.error:.2g}{bound})"
        )

    @property
    def order_in_words(self) -> str:
        """The order as people read it."""
        return order_words(self.order)

    @property
    def approximate(self) -> bool:
        """Whether the tasks may have this symmetry only nearly.

        With a certificate: whether its bound is wide. Without: whether the strongest directions of U have the
        symmetry and the whole of it does not.
        """
        return self.error > NEARLY if self.defect_upper is None else self.defect_upper > PLAIN

    @property
    def transitive(self) -> bool:
        """Whether the group takes every output to every other, and every input."""
        return self.transitive_outputs and self.transitive_inputs


@dataclass(frozen=True)
class Breaking:
    """The output, input or weight that carries the defect of a symmetry, or most of it."""

    part: str
    """``"output"``, ``"input"`` or ``"weight"``."""
    index: int
    """Its number; that of the output for a weight."""
    share: float
    """Of the squared defect: what is gone if this one may be anything."""
    factor: float | None = None
    """By which its weights differ from what the symmetry requires; None where it is not by a factor."""
    alone: bool = True
    """Whether it carries nearly all of the defect; otherwise the defect is spread, and this has the largest part."""
    column: int | None = None
    """The input of a weight."""


@dataclass(frozen=True)
class DifferingTasks:
    """Which tasks differ from the others, and how many of those to come may."""

    tasks: tuple[int, ...]
    """Their numbers in the file."""
    names: tuple[str, ...]
    """What the file calls them."""
    of: int
    """Tasks of the file."""
    visible: float
    """The defect of a single task from which it would be among them, relative to a typical task's weights."""
    share_upper: float
    """The largest share of further tasks with a larger defect than ``visible``, at 95 %."""
    common: Breaking | None = None
    """What they have in common."""
    blocks: int | None = None
    """The user's blocks, where there are some: ``share_upper`` is then a share of further blocks."""


@dataclass(frozen=True)
class LadderRung:
    """A group that was tested; defects are root mean squares over all tasks of the file."""

    name: str
    order: int
    defect: float
    """The largest ``|W - g W| / |W|`` of a generator g, with the noise subtracted."""
    defect_upper: float | None
    """A 95 % upper bound of the defect; None where the tasks allow any defect."""
    class_defect: float
    """The same with every class of tied weights counted by its own size, so that weak ones count as much."""
    class_defect_upper: float | None
    refuted: bool
    """Whether the tasks rule the symmetry out."""
    certified: bool
    """Whether it is the group that is named: not refuted, both defects at most the tolerance."""
    generators: tuple[SignedPermutation, ...] = ()
    breaking: Breaking | None = None
    """What carries its defect, where one output or input does."""
    faint_weights: int = 0
    """Weights whose classes are too faint to be known by their own size; they count in ``defect`` alone."""
    differing: tuple[int, ...] = ()
    """Tasks of the file that contradict the group where the others do not."""
    faint: tuple[tuple[int, int], ...] = ()
    """Those faint weights, each by its output and input."""

    def __repr__(self) -> str:
        said = "certified" if self.certified else "refuted" if self.refuted else "not certified"
        upper = "any" if self.defect_upper is None else f"at most {self.defect_upper:.3g}"
        return f"LadderRung({self.name}, order {order_words(self.order)}, {said}: defect {self.defect:.3g}, {upper})"

    def bound(self, above: Sequence[LadderRung] = ()) -> Bound:
        """How large the defect of a certified group may be; ``above`` are larger groups that were refuted."""
        assert self.defect_upper is not None  # both were within the tolerance
        assert self.class_defect_upper is not None
        nearly = tuple((rung.name, rung.order, rung.defect) for rung in above)
        return Bound(
            self.name, self.order, self.defect_upper, self.class_defect_upper, nearly, self.faint_weights
        )


@dataclass(frozen=True)
class AskedGroup:
    """A group that a user asks about, on the outputs and inputs of their tasks."""

    text: str
    """What the user calls it."""
    generators: tuple[SignedPermutation, ...]
    invariance: bool = False
    """Whether it moves the inputs alone because it cannot act on so many outputs."""

    def __repr__(self) -> str:
        return f"AskedGroup({self.text!r})"


@dataclass(frozen=True)
class GroupAnswer:
    """What the tasks say about a group that a user asked about."""

    asked: AskedGroup
    rung: LadderRung
    """Its defect and bound over all tasks, and what breaks it. The group was not chosen by these tasks."""
    verdict: Verdict
    """Certified: yes. Certified approximately: how nearly, even if it is refuted as an exact symmetry. None: no."""
    differing: DifferingTasks | None = None


@dataclass(frozen=True)
class PartialSymmetry:
    """A translation that borders break: row ``i + outputs`` of W is row i moved by ``inputs``."""

    outputs: int
    """How far the outputs move."""
    inputs: int
    """How far the inputs move."""
    rows: int
    """For how many rows this holds."""
    of: int
    """How many rows W has."""
    ties: int
    """How many pairs of entries that are not zero it explains."""
    description: str
    """In words: ``"shift by 1 on 67 of 68 rows"``."""


@dataclass(frozen=True)
class SpatialTransform:
    """A rotation or flip of a convolution's kernels, and the permutation of output channels nearest to it."""

    name: str
    """``"rotation by 45 degrees"``, ``"left-right flip"``."""
    outputs: tuple[int, ...]
    """Filter o, transformed, is filter ``outputs[o]``."""
    inputs: tuple[int, ...]
    """How the input channels are permuted with them."""
    error: float
    """``|transformed and permuted U - U| / |U|``; 1.4 is unrelated."""
    margin: float
    """How much nearer each filter is to its image than to any other filter: the smallest over the channels."""
    accepted: bool


@dataclass(frozen=True)
class GroupErrors:
    """How far a layer, or a network, is from equivariance to a group that was asked about."""

    group: str
    elements: tuple[str, ...]
    errors: tuple[float, ...]
    """``|U - g U| / |U|`` for each element (end to end: of outputs); 0 is exact, 1.4 unrelated."""
    angles: tuple[float, ...] | None
    """Principal angles, in degrees, between the dominant eigenspace of U U^T and the equivariant maps."""
    dimension: int | None
    """The dimension of the space of equivariant maps."""
    note: str = ""

    def __repr__(self) -> str:
        return f"GroupErrors({self.group}, {len(self.elements)} elements, at most {max(self.errors, default=0):.2g})"


@dataclass(frozen=True)
class LayerReport:
    """What the symmetry of one layer has learned."""

    name: str
    weight_shape: tuple[int, ...]
    kind: str
    """``"dense"`` or ``"kronecker"``."""
    filter_size: int
    """k, the entries of v."""
    effective_filter_size: int
    """How many of them are used."""
    singular_values: tuple[float, ...]
    """The singular values of U, largest first (at most 512 of them)."""
    pattern: SharingPattern | None
    """None where the weight is too large to be read."""
    group: FoundGroup | None
    partial: tuple[PartialSymmetry, ...]
    spatial: tuple[SpatialTransform, ...]
    errors: GroupErrors | None
    """Only where a group was asked about."""
    verdict: Verdict
    notes: tuple[str, ...] = ()
    ladder: tuple[LadderRung, ...] = ()
    """Groups that were tested on fresh tasks, largest first; empty where none could be."""
    input_names: tuple[str, ...] = ()
    """The user's names of the inputs; empty where none were given."""
    output_names: tuple[str, ...] = ()
    differing: DifferingTasks | None = None
    """Which tasks differ from the others, as to the group that the verdict is about; None where tasks do not tell."""
    answer: GroupAnswer | None = None
    """About the group that a user asked about; None where none was."""

    def __repr__(self) -> str:
        found = "no group" if self.group is None else f"{self.group.name}, order {self.group.order_in_words}"
        return (
            f"LayerReport({self.name or 'the layer'!r:.80}, weight {list(self.weight_shape)}, {self.kind} U, uses "
            f"{self.effective_filter_size} of {self.filter_size} filter entries: {self.verdict.status}, {found})"
        )

    def _repr_html_(self) -> str:
        from metasym.verdicts import notebooks  # only they ask

        return notebooks.cards(self)

    def plot(self) -> Any:
        """Draw the sharing pattern and the singular values of U, and return the matplotlib figure."""
        from metasym.verdicts import notebooks

        return notebooks.figure(self)

    @property
    def undecided(self) -> bool:
        """Whether the data could not decide: there may be a symmetry that was not found."""
        return self.verdict.status is Status.UNDECIDED

    @property
    def residual(self) -> float | None:
        """The pattern's residual."""
        return None if self.pattern is None else self.pattern.residual

    @property
    def margin(self) -> float | None:
        """The pattern's margin."""
        return None if self.pattern is None else self.pattern.margin
