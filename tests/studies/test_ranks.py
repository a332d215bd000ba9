"""The study of ranks: what it plants reaches the rank, and what it counts is what torchrun printed."""

from __future__ import annotations

import signal

import pytest
from studies.kills import learn
from studies.tampering import circular

from studies import ranks


@pytest.mark.slow
def test_a_rank_that_is_killed_is_counted_by_the_last_line(tmp_path):
    circular(tmp_path / "tasks.npz")
    long = [*learn(tmp_path, tmp_path / "run"), "--outer-steps", "100000"]
    done = ranks.launched(tmp_path, long, rank=1, after=2, number=signal.SIGKILL)
    assert ranks._ours(done)
    assert "--resume" in ranks.last_line(done)


@pytest.mark.slow
def test_other_data_are_counted_as_refused(tmp_path):
    told, faults = {}, []
    ranks._other_data(tmp_path, told, faults)
    assert not faults
    assert list(told.values()) == [{"tried": 1, "as it has to be": 1}]
