"""The fields of an error, and the helper that other tests assert them with."""

from __future__ import annotations

import copy
import pickle

import pytest

from metasym import LostRankError, MetasymError
from metasym.groups.generators import TooLargeError
from metasym.storage.serialization import CheckpointError
from metasym.training.guard import NonFiniteError
from tests.refusals import refused


@pytest.mark.parametrize("kind", [MetasymError, CheckpointError, LostRankError, TooLargeError])
def test_an_error_keeps_its_fields_on_the_way_to_another_process(kind: type[MetasymError]) -> None:
    error = kind("expected 1, found 2", about="x", found=2)
    sent = pickle.loads(pickle.dumps(error))  # noqa: S301 (its own bytes)
    for other in (error, sent, copy.copy(error)):
        assert (type(other), str(other), other.about, other.found) == (kind, "expected 1, found 2", "x", 2)
    bare = kind("expected 1, found none")
    assert (bare.about, bare.found) == (None, None)


def test_a_nonfinite_step_has_them_beside_its_own() -> None:
    error = NonFiniteError(
        "expected a finite loss, found NaN", step=3, task_ids=[1], about="loss", found="nan"
    )
    assert (error.step, error.task_ids, error.about, error.found) == (3, (1,), "loss", "nan")


@pytest.mark.parametrize(
    "error",
    [
        MetasymError("expected 1,\nfound 2", about="x", found=2),
        MetasymError("expected 1, found 2", about="y", found=2),
        MetasymError("expected 1, found 2", about="x", found=3),
        MetasymError("expected 1, found 2"),
    ],
    ids=["two lines", "another name", "another value", "no fields"],
)
def test_another_refusal_is_not_taken_for_the_one_that_is_meant(error: MetasymError) -> None:
    with pytest.raises(AssertionError), refused("x", 2):
        raise error


def test_what_was_meant_is_taken_and_nothing_raised_is_not() -> None:
    with refused("x", 2) as caught:
        raise MetasymError("expected 1, found 2", about="x", found=2)
    assert caught.value.found == 2
    with refused("x", pytest.approx(1 / 3, rel=1e-2)):
        raise MetasymError("expected 1, found 0.333", about="x", found=0.333)
    with pytest.raises(pytest.fail.Exception), refused("x", 2):
        pass
    with pytest.raises(MetasymError), refused("x", 2, kind=CheckpointError):
        raise MetasymError("expected 1, found 2", about="x", found=2)
