"""The scripts that shells complete with know every command and flag."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from metasym.cli import main
from metasym.cli.completion import SHELLS


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_knows_commands_and_flags(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    said = capsys.readouterr().out
    for word in ("learn", "doctor", "reproduce", "find-steps"):
        assert word in said


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["metasym", "rep"], {"report", "reproduce"}),
        (["metasym", "reproduce", "--bud"], {"--budget"}),
        (["metasym", "run", "translation/rank1/small/msr-f"], {"translation/rank1/small/msr-fc"}),
    ],
)
def test_bash_completes_by_it(
    typed: list[str], offered: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["completion", "bash"])
    script = tmp_path / "metasym.bash"
    script.write_text(capsys.readouterr().out)
    words = " ".join(f"'{word}'" for word in typed)
    program = (
        f"source {script}; COMP_WORDS=({words}); COMP_CWORD={len(typed) - 1}; "
        f"COMP_LINE='{' '.join(typed)}'; COMP_POINT=${{#COMP_LINE}}; "
        'f=$(complete -p metasym | sed "s/.*-F \\([^ ]*\\).*/\\1/"); $f; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    found = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)
    assert set(found.stdout.split()) == offered, found.stderr


def test_another_shell_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "fish"]) == 2
    assert capsys.readouterr().err.startswith("metasym: error: ")
