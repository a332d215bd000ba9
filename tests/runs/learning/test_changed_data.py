"""Data that are not what they were: other data on another rank, a mapped file that somebody changes during a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from metasym.runs.files.learn_options import Options
from metasym.runs.learning.learn import learn_tasks
from metasym.tasks.reading import read_tasks
from tests import forked
from tests.cli.test_cli import ENVIRONMENT
from tests.refusals import refused

FEW = Options(find_steps=2, outer_steps=2, tasks_per_step=4, baseline=False)


def write(path: Path, seed: int = 0) -> Path:
    draw = np.random.default_rng(seed)
    x, maps = draw.normal(size=(20, 6, 3)), draw.normal(size=(20, 3, 3))
    np.savez(path, x=x, y=np.einsum("tei,tij->tej", x, maps))
    return path


@pytest.mark.parametrize("how", ["rewritten", "replaced", "gone"])
def test_a_mapped_file_that_changes_during_a_run_is_noticed(tmp_path, how):
    path = write(tmp_path / "t.npz")
    file = read_tasks(path, memory=1000)
    assert file.mapped

    def change(*_: object) -> None:
        if how == "rewritten":
            data = write(tmp_path / "other.npz", 1).read_bytes()
            with path.open("r+b") as stream:
                stream.write(data)
        elif how == "replaced":
            write(tmp_path / "other.npz", 1).replace(path)
        else:
            path.unlink()

    with refused(str(path), "changed"):
        learn_tasks(file, tmp_path / "run", FEW, progress="silent", explain=change)


def test_a_mapped_file_that_stays_and_one_in_memory_are_learned_from(tmp_path):
    path = write(tmp_path / "t.npz")
    learn_tasks(read_tasks(path, memory=1000), tmp_path / "mapped", FEW, progress="silent")
    file = read_tasks(path)
    assert not file.mapped
    path.unlink()
    learn_tasks(file, tmp_path / "read", FEW, progress="silent")


@pytest.mark.slow
def test_other_data_on_another_rank_are_refused_on_every_rank(tmp_path):
    write(tmp_path / "0.npz"), write(tmp_path / "1.npz", 1)
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys\n"
        "from metasym.cli import main\n"
        f"data = {str(tmp_path)!r} + '/' + os.environ['RANK'] + '.npz'\n"
        f"sys.exit(main(['learn', data, '--out', {str(tmp_path / 'run')!r}, '--outer-steps', '2']))\n"
    )
    done = forked.run([str(program)], env=ENVIRONMENT, ranks=2)
    assert done.returncode != 0
    assert "other data on rank 1 than on rank 0" in done.stderr
    assert not (tmp_path / "run").exists()
