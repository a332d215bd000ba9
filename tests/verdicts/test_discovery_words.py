"""The verdict of ``discover`` in words and in JSON: the one place where its sentences are checked."""

from __future__ import annotations

import dataclasses
import json
from typing import get_args

import pytest

from metasym.groups.signed_permutations import SignedPermutation
from metasym.verdicts import discovery_reasons as values
from metasym.verdicts.claims import CandidateVerdict, Claim
from metasym.verdicts.defect_words import measured, percent
from metasym.verdicts.discovery_reasons import AnyDiscoveryReason
from metasym.verdicts.discovery_verdict import DiscoveryVerdict, candidate_json
from metasym.verdicts.discovery_words import claim_words, claims_words, refusal_words
from metasym.verdicts.outcomes import Outcome
from metasym.verdicts.verdict import Status, Verdict

REASONS: list[tuple[AnyDiscoveryReason, list[str], Outcome]] = [
    (values.EveryDirectionChanges("polynomial"), ["polynomial"], Outcome.REFUTED),
    (values.NoDirectionTold(), ["no direction"], Outcome.NOT_REFUTED),
    (values.NoClearGap(1.53, 3.0), ["1.5", "< 3"], Outcome.NOT_REFUTED),
    (values.BracketsLeave(4), ["4 quiet"], Outcome.NOT_REFUTED),
    (values.NumberOfInvariants(4, 0), ["4 quiet", "0 invariants"], Outcome.NOT_REFUTED),
    (values.SearchDidNotEnd(), ["did not end"], Outcome.NOT_REFUTED),
    (values.FewDirectionsTold(7), ["7 directions"], Outcome.NOT_REFUTED),
    (values.AffineFunction(), ["affine"], Outcome.NOT_REFUTED),
    (values.SizesOutOfReach(30, 9, 2), ["30 examples", "9 inputs", "2 outputs"], Outcome.NOT_EXAMINED),
    (values.DependentOutputs(), ["outputs follow"], Outcome.NOT_REFUTED),
    (values.TooManyInputs(40, 64), ["at most 40", "found 64"], Outcome.NOT_EXAMINED),
    (values.NotForFamilies(), ["families"], Outcome.NOT_EXAMINED),
    (values.RefutedByBeta("Z_2", 1.1, 0.29, 1.8), ["Z_2", "beta 1.1 (0.29 to 1.8", "held-out"], Outcome.REFUTED),
    (values.RefutedByBeta("Z_2", 1.1, 0.2, 1.8, on="tasks"), ["Z_2", "held-out tasks"], Outcome.REFUTED),
    (values.LikelierWithout("so(2)", 0.013), ["so(2)", "0.013", "held-out"], Outcome.NOT_REFUTED),
    (values.RefutedByCalls("Z_2", 0.31, 0.08), ["Z_2", "31 %", "8 %"], Outcome.REFUTED),
    (values.CallsAllow("Z_2", 0.05, 0.12, 0.08), ["Z_2", "12 %", "5 %"], Outcome.NOT_REFUTED),
    (values.NoneKept(41), ["41"], Outcome.REFUTED),
    (values.NoneSeemsKept(41, 0.012), ["41", "1.2 %"], Outcome.NOT_REFUTED),
    (values.NoisyFunction(), [], Outcome.NOT_EXAMINED),
    (values.NoPointsBeside(), [], Outcome.NOT_EXAMINED),
    (values.StepFunction(), [], Outcome.NOT_EXAMINED),
    (values.BetaUndetermined("Z_2", 10.4, 3.2, 17.5), ["Z_2", "more examples"], Outcome.NOT_REFUTED),
    (
        values.FewRowsDiffer("Z_2", (7, 3), 5, 0.04, 0.07, 0.003),
        ["Z_2", "5 examples (7, 3", "0.04", "0.07"],
        Outcome.NOT_REFUTED,
    ),
    (values.RefutedByPolynomial("D_4", 1e-5, 0.02), ["D_4", "1e-05", "0.02"], Outcome.REFUTED),
    (values.RefutedBySameTerms("so(3)", 12.34), ["so(3)", "F = 12.3"], Outcome.REFUTED),
    (values.ExplainedBetter("so(5)"), ["so(5)", "another symmetry"], Outcome.NOT_REFUTED),
    (values.NearSymmetry("D_4", 0.0037, 0.003, 0.002, 200), ["D_4", "0.0037", "0.002", "370"], Outcome.NOT_REFUTED),
    (values.NearSymmetry("so(5)", 0.00241, 0.003, 0.0024, 30), ["so(5)", "more than 30 "], Outcome.NOT_REFUTED),
    (values.NotShownToBeNoise("so(2)", 0.001, 0.05), ["so(2)", "0.001", "0.05"], Outcome.NOT_REFUTED),
    (values.NotAnAlgebra("so(2)"), ["so(2)", "brackets"], Outcome.NOT_REFUTED),
    (values.HardlyMatters("so(2)", 2e-4), ["so(2)", "0.0002"], Outcome.NOT_REFUTED),
    (values.HardlyMatters("so(2)"), ["so(2)", "does not depend"], Outcome.NOT_REFUTED),
    (values.InputsCarryTooLittle("so(2)"), ["so(2)", "too little"], Outcome.NOT_REFUTED),
    (values.FewValues("R", 5), ["R ", "5 values"], Outcome.NOT_REFUTED),
    (values.LeavesInputs("R"), ["R ", "equation"], Outcome.NOT_REFUTED),
    (values.NotRotations("R"), ["R ", "rotations"], Outcome.NOT_REFUTED),
    (values.NeverComesBack("R"), ["R ", "never"], Outcome.NOT_REFUTED),
    (values.NotClosedAtWholeFrequencies("R"), ["R ", "frequencies"], Outcome.NOT_REFUTED),
    (values.MovesNoOutput("so(2)"), ["so(2)", "no output"], Outcome.NOT_REFUTED),
    (values.EveryMoveRefuted(12, 3), ["12 signed", "3 that"], Outcome.REFUTED),
    (values.NoneLikely(12, 3), ["12 signed", "3 that"], Outcome.NOT_REFUTED),
    (values.GroupTooLarge(5, 1000), ["5 moves", "1000"], Outcome.NOT_EXAMINED),
    (values.RepeatedOutputs("Z_2"), ["Z_2", "repeated"], Outcome.REFUTED),
    (values.TooFewTasks(12, 9), ["at least 12", "found 9"], Outcome.NOT_EXAMINED),
    (values.TooFewExamples(10, 6, 4), ["at least 10", "6 inputs", "found 4"], Outcome.NOT_EXAMINED),
    (values.MapTooLarge(1500, 50, 60), ["1500", "50 x 60"], Outcome.NOT_EXAMINED),
    (values.ZerosUnclear(), ["zero"], Outcome.NOT_REFUTED),
    (values.NoLinearPart(), ["linear part"], Outcome.NOT_REFUTED),
    (values.NoGapInTies(), ["no gap"], Outcome.NOT_REFUTED),
    (values.TiesNotClasses(), ["classes"], Outcome.NOT_REFUTED),
    (values.NoPermutationOfTies(), ["no permutation"], Outcome.REFUTED),
    (values.TiesDiffer("Z_6", 0.004, 0.01, 0.001), ["Z_6", "0.004", "0.01", "0.001"], Outcome.NOT_REFUTED),
    (values.TiesDiffer("Z_6", 0.004, None, 0.001), ["Z_6", "not bounded"], Outcome.NOT_REFUTED),
    (values.RefutedByTasks("Z_6", 0.1, 0.12), ["Z_6", "10 %", "12 %"], Outcome.REFUTED),
    (values.RefutedByTasks("Z_6", 0.1, None), ["Z_6", "10 %"], Outcome.REFUTED),
    (values.MapsAllow("Z_6", 0.04, 0.1, 0.08), ["Z_6", "4 %", "10 %", "8 %"], Outcome.NOT_REFUTED),
    (values.MapsAllow("Z_6", 0.04, None, 0.08), ["Z_6", "any defect", "8 %"], Outcome.NOT_REFUTED),
    (values.JudgesDiffer("Z_6", 0.5, 0.2, 0.8, 0.03), ["Z_6", "0.5", "3 %"], Outcome.NOT_REFUTED),
    (values.InputsElsewhere("Z_6"), ["Z_6", "no data"], Outcome.NOT_REFUTED),
    (values.TasksAllow("Z_6", 0.1, -0.2, 0.3, 0.02, 0.01), ["Z_6", "0.1 (-0.2 to 0.3", "0.02"], Outcome.NOT_REFUTED),
    (values.CommonAllows("Z_6", 0.004, 0.002), ["Z_6", "0.004", "0.002"], Outcome.NOT_REFUTED),
]  # fmt: skip
SWAP = SignedPermutation((0,), (1, 0, 2), (-1,), (1, 1, 1))
GROUP = Claim.of_group("Z_2", 2, (SWAP,), violation_upper=1e-4, beta=0.1, beta_ci=(-0.2, 0.4), tested_on=40)
TURN = ((0.0, 1.0, 0.0), (-1.0, 0.0, 0.0))
ALGEBRA = Claim("continuous", "so(2)", 1, (TURN,), (0, 1), (0, 1), 1e-4, 0.1, (-0.2, 0.4), 40, (TURN,))


@pytest.mark.parametrize(("reason", "held", "outcome"), REASONS, ids=lambda one: type(one).__name__)
def test_a_reason_is_said_with_its_numbers(
    reason: AnyDiscoveryReason, held: list[str], outcome: Outcome
) -> None:
    said = refusal_words(reason)
    for part in held:
        assert part in said
    candidate = CandidateVerdict("finite", "signed permutations", (reason,))
    assert candidate.outcome is outcome
    stored = json.loads(json.dumps(candidate_json(candidate)))
    assert stored["words"] == said
    assert CandidateVerdict.from_json(stored) == candidate


def test_every_reason_is_in_the_list_above() -> None:
    assert {type(reason) for reason, _, _ in REASONS} == set(get_args(AnyDiscoveryReason))


@pytest.mark.parametrize("claim", [GROUP, ALGEBRA])
def test_a_claim_comes_back_from_json_as_it_was(claim: Claim) -> None:
    stored = json.loads(json.dumps(claim.to_json()))
    assert Claim.from_json(stored) == claim
    always = {
        "kind",
        "name",
        "inputs",
        "generators",
        "violation_upper",
        "defect_upper",
        "beta",
        "beta_ci",
        "outputs",
        "tested_on",
    }
    own = {"order"} if claim is GROUP else {"dimension", "output_generators"}
    assert set(stored) == always | own


def test_what_a_claim_moves_follows_from_its_generators() -> None:
    assert (GROUP.inputs, GROUP.outputs, GROUP.moves) == ((0, 1), (0,), (SWAP,))
    named = dataclasses.replace(GROUP, input_names=("left", "right"), output_names=("lift",))
    assert "left and right may be swapped" in claim_words(named)
    assert Claim.from_json(json.loads(json.dumps(named.to_json()))) == named
    turned = dataclasses.replace(ALGEBRA, input_names=("px", "py", "pz"))
    assert all(turned.input_names[i] in claim_words(turned) for i in turned.inputs)
    assert "outputs" not in Claim("continuous", "R", 1, (TURN,), (0,), (), 0.0, 0.0, (0.0, 0.0), 9).to_json()


@pytest.mark.parametrize(
    ("claims", "reasons", "status"),
    [
        ((GROUP,), (values.NoGapInTies(),), Status.CERTIFIED),
        ((), (values.NearSymmetry("Z_2", 0.1, 0.003, 0.003, 100),), Status.UNDECIDED),
        ((), (values.EveryDirectionChanges(),), Status.NONE),
        ((), (values.TooManyInputs(40, 64),), Status.NOT_READ),
        ((), (values.EveryDirectionChanges(), values.NoDirectionTold()), Status.UNDECIDED),
    ],
)
def test_the_status_follows_from_claims_and_candidates(
    claims: tuple[Claim, ...], reasons: tuple[AnyDiscoveryReason, ...], status: Status
) -> None:
    candidates = tuple(CandidateVerdict("continuous", "rotations", (one,)) for one in reasons)
    verdict = DiscoveryVerdict.of(claims, candidates)
    assert isinstance(verdict, Verdict)
    assert (verdict.status, verdict.reasons) == (status, reasons)
    stored = verdict.to_json()
    assert stored["verdict"]["status"] == status
    assert stored["verdict"]["words"] == str(verdict) == claims_words(claims)
    assert [one["kind"] for one in stored["verdict"]["reasons"]] == [
        one["reasons"][0]["kind"] for one in stored["refused"]
    ]


@pytest.mark.parametrize(
    ("share", "up", "near"),
    [
        (1.1075, "120 %", "110 %"),
        (0.0421, "4.3 %", "4.2 %"),
        (0.05, "5 %", "5 %"),
        (0.0, "0.0001 %", "less than 0.0001 %"),
    ],
)
def test_bounds_are_rounded_up_and_what_was_measured_to_the_nearest(share: float, up: str, near: str) -> None:
    assert (percent(share), measured(share)) == (up, near)
