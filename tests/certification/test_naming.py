"""What is decided from a ladder: when a group is named, and which reason is given where none is."""

from __future__ import annotations

import dataclasses
import math

import pytest

from metasym.certification.certificate import Certificate
from metasym.certification.ladder import Ladder, Rung
from metasym.certification.naming import Circumstances, with_answer, with_ladder
from metasym.certification.resolution import Resolution
from metasym.groups.signed_permutations import SignedPermutation
from metasym.verdicts.answer_words import answer_words
from metasym.verdicts.layer_words import NOT_TESTED, verdict_words
from metasym.verdicts.reports import AskedGroup, FoundGroup, LayerReport, PartialSymmetry
from metasym.verdicts.verdict import (
    ExamplesDependent,
    NearestRefuted,
    NoiseUnlikeModel,
    NotContradicted,
    NothingNear,
    NotLinear,
    Status,
    TasksDiffer,
    Verdict,
)

TURN = SignedPermutation((1, 2, 0), (1, 2, 0))
LAYER = LayerReport(
    "", (3, 3), "dense", 9, 3, (1.0,), None, None, (), (), None, Verdict(Status.UNDECIDED)
)  # fmt: skip
SEEN = Circumstances(Resolution(0.01, False, False), tasks=50, examples=12, directions=3)
EXACT = Certificate(0.0, 0.01, 0.0, 0.012, False, 50)


def rung(certificate: Certificate, name: str = "Z_3", order: int = 3) -> Rung:
    return Rung(FoundGroup(name, order, (TURN,), True, True, False, 0.0), certificate)


def decided(*rungs: Rung, tolerance: float = 0.2, seen: Circumstances = SEEN) -> LayerReport:
    certified = next((one for one in rungs if one.certificate.within(tolerance)), None)
    return with_ladder(LAYER, Ladder(rungs, certified, tolerance), seen)


def test_a_group_within_the_tolerance_is_named_with_its_bound() -> None:
    found = decided(rung(EXACT))
    assert found.verdict.status is Status.CERTIFIED
    assert found.group is not None
    assert found.group.defect_upper == 0.01


def test_noise_larger_where_inputs_are_small_is_refused_by_its_name() -> None:
    """The square without its noise is far below zero: the bound rests on an assumption that is broken."""
    found = decided(rung(dataclasses.replace(EXACT, defect_upper=0.2, negative=-8.4)))
    assert found.group is None
    assert found.verdict.reasons == (NoiseUnlikeModel("Z_3", 3, -8.4),)


def test_dependent_examples_refute_nothing_and_certify_nothing() -> None:
    broken = rung(dataclasses.replace(EXACT, refuted=True, defect=0.3))
    for one in (rung(EXACT), broken):
        found = decided(one, seen=dataclasses.replace(SEEN, dependent=0.9))
        assert found.verdict == Verdict(Status.UNDECIDED, (ExamplesDependent(0.9),), 50, 3)
        assert not any(step.refuted for step in found.ladder)


@pytest.mark.parametrize("share", [0.001, 0.02])
def test_what_is_not_linear_widens_every_bound(share: float) -> None:
    found = decided(rung(EXACT), seen=dataclasses.replace(SEEN, unlinear=share))
    upper = math.sqrt(0.01**2 + 4 * share)
    assert found.ladder[0].defect_upper == pytest.approx(upper)
    assert (found.group is not None) == (upper <= 0.2)
    if found.group is None:
        (reason,) = found.verdict.reasons
        assert isinstance(reason, NotLinear)
        assert reason.linear_part is not None


def test_the_reason_for_undecided_is_the_bound_that_is_too_large() -> None:
    """Not the other one, which is within the tolerance."""
    found = decided(rung(dataclasses.replace(EXACT, defect_upper=0.013, class_defect_upper=0.5)))
    (reason,) = found.verdict.reasons
    assert isinstance(reason, NotContradicted)
    assert reason.bound == 0.5
    assert reason.bound > reason.tolerance


def test_no_bound_beyond_the_largest_defect_is_given() -> None:
    found = decided(rung(dataclasses.replace(EXACT, class_defect_upper=2.4)))
    (reason,) = found.verdict.reasons
    assert isinstance(reason, NotContradicted)
    assert reason.bound is None


def test_of_near_groups_the_largest_is_the_headline() -> None:
    small = rung(Certificate(0.072, 0.08, 0.07, 0.08, True, 50), "Z_2", 2)
    large = rung(Certificate(0.079, 0.09, 0.08, 0.09, True, 50), "D_6", 12)
    far = rung(Certificate(0.4, 0.45, 0.4, 0.45, True, 50), "S_6", 720)
    (reason,) = decided(far, large, small).verdict.reasons
    assert isinstance(reason, NearestRefuted)
    assert (reason.name, reason.order) == ("D_6", 12)


def test_a_larger_group_within_the_tolerance_says_more_than_a_part_of_it() -> None:
    small = rung(Certificate(0.003, 0.005, 0.003, 0.005, True, 50), "Z_2", 2)
    large = rung(Certificate(0.04, 0.044, 0.04, 0.044, True, 50), "D_8", 16)
    far = rung(Certificate(0.25, 0.3, 0.25, 0.3, True, 50), "S_8", 40320)
    (reason,) = decided(far, large, small).verdict.reasons
    assert reason == NearestRefuted("D_8", 16, 0.04, 0.044, within=True)
    (reason,) = decided(far, large, small, tolerance=0.004).verdict.reasons
    assert reason == NearestRefuted("Z_2", 2, 0.003, 0.005)


def test_one_group_has_one_bound() -> None:
    """What all tasks say about a group that the user gave stands in the ladder too."""
    wide, given = dataclasses.replace(EXACT, defect_upper=0.25), dataclasses.replace(EXACT, defect_upper=0.1)
    ladder = Ladder((rung(wide),), None, 0.2).asked(rung(given))
    assert [one.certificate for one in ladder.rungs] == [given]
    assert ladder.certified is ladder.rungs[0]
    assert Ladder((rung(EXACT),), rung(EXACT), 0.2).asked(rung(wide)).certified is None
    other = Ladder((rung(wide, "D_3", 6),), None, 0.2)
    assert other.asked(rung(given)) is other


def test_tasks_that_differ_are_the_reason_where_they_carry_the_defect() -> None:
    odd = dataclasses.replace(
        EXACT, defect=0.19, defect_upper=0.26, differing=(3, 7), visible=0.3, share_upper=0.1
    )
    found = decided(rung(odd))
    assert isinstance(found.verdict.reasons[0], TasksDiffer)
    assert NOT_TESTED in verdict_words(found)
    assert found.differing is not None
    assert found.differing.tasks == (3, 7)


@pytest.mark.parametrize("rungs", [(), (rung(Certificate(0.3, 0.4, 0.3, 0.4, True, 50)),)])
def test_where_nothing_holds_it_is_said_that_groups_that_mix_inputs_were_not_looked_for(
    rungs: tuple[Rung, ...],
) -> None:
    found = decided(*rungs)
    assert isinstance(found.verdict.reasons[0], NothingNear | NearestRefuted)
    assert NOT_TESTED in verdict_words(found)


@pytest.mark.parametrize(
    ("certificate", "status"),
    [
        (EXACT, Status.CERTIFIED),
        (dataclasses.replace(EXACT, defect_upper=0.15), Status.APPROXIMATE),
        (Certificate(0.08, 0.09, 0.08, 0.1, True, 50), Status.APPROXIMATE),
        (Certificate(0.18, 0.21, 0.18, 0.2, True, 50), Status.NONE),
        (dataclasses.replace(EXACT, defect_upper=0.3), Status.UNDECIDED),
    ],
)
def test_a_group_that_was_asked_about_is_answered(certificate: Certificate, status: Status) -> None:
    found = with_answer(LAYER, AskedGroup("mine", (TURN,)), rung(certificate), SEEN, 0.2)
    assert found.answer is not None
    assert found.answer.verdict.status is status
    refuted = any(isinstance(reason, NearestRefuted) for reason in found.answer.verdict.reasons)
    assert refuted == certificate.refuted
    assert found.verdict == LAYER.verdict


def test_a_group_that_nearly_holds_comes_before_a_shift_that_most_rows_share() -> None:
    """One sensor of a ring reads low in all tasks: U shows a shift on some rows, and the tasks a near ring."""
    shift = PartialSymmetry(1, 1, 2, 3, 6, "shift by 1 on 2 of 3 rows")
    layer = dataclasses.replace(LAYER, partial=(shift,))
    for upper, near in ((0.17, True), (0.5, False)):
        one = rung(Certificate(0.155, upper, 0.15, upper, True, 50))
        found = with_ladder(layer, Ladder((one,), None, 0.2), SEEN)
        assert found.partial == (shift,)
        assert shift.description in verdict_words(found)
        if near:
            (reason,) = found.verdict.reasons
            assert isinstance(reason, NearestRefuted)
            assert (found.verdict.status, reason.name) == (Status.NONE, "Z_3")
        else:
            assert found.verdict.status is Status.READ


@pytest.mark.parametrize("blocks", [None, 12])
def test_the_share_is_of_blocks_where_the_user_has_given_some(blocks: int | None) -> None:
    one = rung(dataclasses.replace(EXACT, differing=(3,), visible=0.3, share_upper=0.1))
    found = decided(one, seen=dataclasses.replace(SEEN, blocks=blocks)).differing
    assert found is not None
    assert found.blocks == blocks


def test_an_answer_says_once_which_tasks_differ() -> None:
    odd = dataclasses.replace(
        EXACT, defect=0.19, defect_upper=0.26, differing=(3, 7), visible=0.3, share_upper=0.1
    )
    found = with_answer(LAYER, AskedGroup("mine", (TURN,)), rung(odd), SEEN, 0.2)
    assert found.answer is not None
    (reason,) = found.answer.verdict.reasons
    assert isinstance(reason, TasksDiffer)
    words = answer_words(found)
    assert words.count("2 of 50 tasks differ (3, 7") == 1
    assert NOT_TESTED not in words
