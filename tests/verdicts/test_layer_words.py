"""The one place where sentences are checked: every status and every reason has words, and they hold its numbers."""

from __future__ import annotations

import json
from typing import get_args

import msgspec
import pytest

from metasym.groups.signed_permutations import SignedPermutation
from metasym.verdicts import verdict as values
from metasym.verdicts.defect_words import percent
from metasym.verdicts.layer_words import (
    called,
    reason_words,
    sentence,
    shortest_reason,
    summary_words,
    verdict_words,
)
from metasym.verdicts.reports import (
    Breaking,
    DifferingTasks,
    FoundGroup,
    LadderRung,
    LayerReport,
    PartialSymmetry,
    SharingPattern,
)
from metasym.verdicts.symmetry_report import SymmetryReport
from metasym.verdicts.verdict import AnyReason, Bound, Status, Verdict
from tests.refusals import refused

TURN = SignedPermutation((1, 2, 0), (1, 2, 0))
PATTERN = SharingPattern(
    classes=((1, 2, 3), (3, 1, 2), (2, 3, 1)), count=3, tied=9, zeros=0, signed=False,
    within=0.01, between=0.9, margin=90.0, residual=0.01, clear=True,
)  # fmt: skip
REASONS: list[tuple[AnyReason, list[str]]] = [
    (values.NothingLearned(), ["zero"]),
    (values.WeightTooLarge(), ["too large"]),
    (values.NoTiesInFactors(), ["Kronecker"]),
    (values.NoGap(1.07), ["1.07"]),
    (values.TooFewTies(), ["too few"]),
    (values.SmallMargin(1.5, 2.0), ["1.50", "2"]),
    (values.Unexplained(0.85, 0.4), ["85%", "40%"]),
    (values.WideClasses(0.33), ["0.33"]),
    (values.NoPermutation(), ["9 weights in 3 classes"]),
    (values.NoPermutation(2), ["2 blocks"]),
    (values.NoTransform("a flip", 0.7, 1.1, 0.3, 1.5), ["a flip", "0.7", "1.10", "0.3", "1.5"]),
    (values.TransformsAlone(("a flip",)), ["a flip"]),
    (values.TransformsByChance(("a flip", "a turn")), ["a flip, a turn"]),
    (values.LearnedBySteps(True, "a linear layer"), ["SGD", "--model fc"]),
    (values.LearnedBySteps(False, "one-hot targets"), ["outer steps", "one-hot"]),
    (values.LearnedBySteps(False, "more data"), ["more tasks"]),
    (values.NotLinear(0.12, Bound("Z_3", 3, 0.01, 0.05, (("S_3", 6, 0.1),))), ["12 %", "Z_3, order 3", "S_3"]),
    (values.NotLinear(0.12, None, ("D_4", 8)), ["12 %", "D_4, order 8"]),
    (values.NotLinear(0.12), ["12 %"]),
    (values.InputsNeverVary(), ["never vary"]),
    (values.NotContradicted("Z_3", 3, 0.4, 0.2, 10), ["Z_3, order 3", "40 %", "20 %"]),
    (values.NotContradicted("Z_3", 3, None, 0.2, 4), ["Z_3, order 3", "4 examples"]),
    (values.WeightsOpen(2), ["2 examples"]),
    (values.NoiseHides(0.35), ["35 %"]),
    (values.NearestRefuted("a group of order 48", 48, 0.072), ["a group of order 48", "7.2 %"]),
    (values.NothingNear(), ["no permutation"]),
    (values.NothingNear(5), ["no permutation", "5 blocks"]),
    (values.TasksDiffer("Z_3", 3, 0.25, 0.2), ["Z_3, order 3", "25 %", "20 %"]),
    (values.NoiseUnlikeModel("Z_3", 3, -8.4), ["Z_3, order 3", "8.4"]),
    (values.ExamplesDependent(0.9), ["0.9"]),
]  # fmt: skip


def layer(verdict: Verdict, **changes: object) -> LayerReport:
    usual = {
        "name": "", "weight_shape": (3, 3), "kind": "dense", "filter_size": 9, "effective_filter_size": 3,
        "singular_values": (1.0, 1.0, 1.0, 0.01), "pattern": PATTERN, "group": None, "partial": (), "spatial": (),
        "errors": None,
    }  # fmt: skip
    return LayerReport(**{**usual, "verdict": verdict, **changes})  # type: ignore[arg-type]


def group(**changes: object) -> FoundGroup:
    usual = {
        "name": "Z_3", "order": 3, "generators": (TURN,), "transitive_outputs": True, "transitive_inputs": True,
        "signed": False, "error": 0.01,
    }  # fmt: skip
    return FoundGroup(**{**usual, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(("reason", "held"), REASONS, ids=lambda one: type(one).__name__)
def test_a_reason_is_said_with_its_numbers(reason: AnyReason, held: list[str]) -> None:
    said = reason_words(reason, layer(Verdict(Status.UNDECIDED, (reason,), tasks=40)))
    for part in held:
        assert part in said
    assert "{" not in said


def test_every_reason_is_in_the_list_above() -> None:
    assert {type(reason) for reason, _ in REASONS} == set(get_args(AnyReason))


@pytest.mark.parametrize("reason", [reason for reason, _ in REASONS], ids=lambda one: type(one).__name__)
def test_a_verdict_comes_back_from_json_as_it_was(reason: AnyReason) -> None:
    report = SymmetryReport((layer(Verdict(Status.UNDECIDED, (reason,), 40, 7)),))
    stored = json.loads(json.dumps(report.to_json()))
    assert SymmetryReport.from_json(stored) == report
    assert stored["layers"][0]["verdict"]["words"] == verdict_words(report[0])
    assert stored["layers"][0]["verdict"]["reasons"][0]["kind"] == msgspec.to_builtins(reason)["kind"]


def test_what_no_verdict_holds_is_one_line() -> None:
    report = SymmetryReport((layer(Verdict(Status.NONE, (values.NoGap(1.0),))),))
    for place, wrong, about in (
        ("status", "perhaps", "status"),
        ("reasons", [{"kind": "bad luck"}], "reasons[0].kind"),
        ("reasons", [{"kind": "no_gap"}], "reasons[0].margin"),
    ):
        stored = report.to_json()
        stored["layers"][0]["verdict"][place] = wrong
        with refused(f"file: layers[0].verdict.{about}"):
            SymmetryReport.from_json(stored, "file")


def test_a_certified_group_is_said_with_its_bound_and_what_holds_nearly() -> None:
    named = LadderRung("Z_3", 3, 0.001, 0.004, 0.001, 0.05, False, True, (TURN,))
    larger = LadderRung("S_3", 6, 0.1, 0.2, 0.1, 0.3, True, False, (TURN,))
    found = layer(
        Verdict(Status.APPROXIMATE, (), 40, 3), group=group(defect_upper=0.004), ladder=(larger, named)
    )
    said = verdict_words(found)
    for part in (
        "within 0.4 %",
        "Z_3, order 3",
        "all 40 tasks",
        "below 5 %",
        "S_3, order 6",
        "10 %",
        "3 of 9",
    ):
        assert part in said
    assert sentence(found) == f"{said[0].upper()}{said[1:]}."
    assert summary_words(found) == "Z_3"


def test_tasks_that_differ_are_said_with_what_they_have_in_common_and_stored() -> None:
    named = LadderRung(
        "Z_3", 3, 0.05, 0.06, 0.05, 0.06, False, True, (TURN,), faint_weights=2, faint=((0, 1), (2, 0))
    )
    differ = DifferingTasks((12, 57), ("12", "57"), 160, 0.1, 0.05, Breaking("input", 1, 0.97, 0.5))
    found = layer(
        Verdict(Status.APPROXIMATE, (), 160, 3),
        group=group(defect_upper=0.06),
        ladder=(named,),
        differing=differ,
        input_names=("a", "b", "c"),
    )
    said = verdict_words(found)
    for part in (
        "2 of 160 tasks differ (12, 57: input b at 0.5",
        "at most 5 % of further tasks",
        "2 weights are",
        "input b in output 0, input a in output 2",
    ):
        assert part in said
    report = SymmetryReport((found,))
    assert SymmetryReport.from_json(json.loads(json.dumps(report.to_json()))) == report


def test_what_was_read_is_said_without_a_certificate() -> None:
    plain = layer(Verdict(Status.READ), group=group())
    assert verdict_words(plain).startswith("equivariant to Z_3, of order 3")
    nearly = layer(Verdict(Status.READ), group=group(error=0.3, name="a group of order 3"))
    assert verdict_words(nearly).startswith("approximately equivariant to a group of order 3:")
    assert summary_words(nearly) == "nearly a group of order 3"
    shift = PartialSymmetry(1, 1, 2, 3, 4, "shift by 1 on 2 of 3 rows")
    assert "shift by 1 on 2 of 3 rows" in verdict_words(layer(Verdict(Status.READ), partial=(shift,)))
    assert "held-out" not in verdict_words(plain)


def test_tables_and_plans_have_short_words() -> None:
    undecided = layer(
        Verdict(Status.UNDECIDED, (values.LearnedBySteps(True, "more data"), values.NoGap(1.0)))
    )
    assert summary_words(undecided) == "undecided"
    assert shortest_reason(undecided) == reason_words(values.NoGap(1.0), undecided)
    assert summary_words(layer(Verdict(Status.NONE, (values.NothingNear(),)))) == "none found"
    assert shortest_reason(layer(Verdict(Status.READ), group=group())) == "Z_3"


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.0, "0.0001 %"), (0.0715, "7.2 %"), (0.2, "20 %"), (1.504, "160 %"), (0.00101, "0.11 %")],
)
def test_percentages_are_rounded_up(share: float, said: str) -> None:
    assert percent(share) == said


def test_groups_without_a_name_are_called_by_their_order_once() -> None:
    assert called("Z_8", 8) == "Z_8, order 8"
    assert called("a group of order 48", 48) == "a group of order 48"
