"""What reaches the terminal: control characters in names are shown as their numbers, colours of ours stay colours."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import types
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from metasym.cli import main
from metasym.cli.safe_console import SafeConsole
from metasym.cli.terminal import escaped, safe_output
from tests.cli.test_cli import ENVIRONMENT

NASTY = "a\x1b[31mred\x07\u202eb\u2066"


def test_every_control_character_is_escaped_and_no_letter():
    """Python's own table of characters says which are controls; marks of direction are those that isolate or turn."""
    for code in range(0x3000):
        text = chr(code)
        control = unicodedata.category(text) == "Cc" and text not in "\t\n"
        turns = unicodedata.bidirectional(text) in (
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
            "LRI",
            "RLI",
            "FSI",
            "PDI",
        )
        marks = text in "\u200e\u200f\u061c" or unicodedata.category(text) in ("Zl", "Zp")
        assert (escaped(text) != text) == (control or turns or marks), hex(code)
    assert json.loads(f'"{escaped(NASTY)}"') == NASTY


def test_escaping_twice_is_escaping_once():
    assert escaped(escaped(NASTY)) == escaped(NASTY)


@pytest.mark.parametrize(
    "arguments",
    [
        ["learn", f"{NASTY}.csv", "--task", "nope", "--inputs", "*", "--outputs", "y", "--out", "OUT"],
        ["learn", "no\x1b.npz", "--out", "OUT"],
        ["report", NASTY],
        ["inspect", NASTY],
        ["run", f"{NASTY}/x", "--out", "OUT"],
        [NASTY],
        ["list", NASTY],
        ["discover", f"{NASTY}.csv", "--outputs", "nope", "--out", "OUT"],
    ],
)
def test_errors_hold_no_control_characters(tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.chdir(tmp_path)
    Path(f"{NASTY}.csv").write_text(f"task,{NASTY},y\n1,2,3\n")
    Path(NASTY).mkdir()
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert "\x1b" not in said.err + said.out
    assert "\u202e" not in said.err + said.out
    assert said.err.count("\n") == 1


def test_a_table_of_rich_keeps_its_colours_and_escapes_its_cells():
    from rich.table import Table
    from rich.text import Text

    file = io.StringIO()
    table = Table()
    table.add_column("[bold]name[/bold]")
    table.add_row(NASTY)
    table.add_row(Text(NASTY, style="red"))
    SafeConsole(file=file, force_terminal=True, color_system="standard", width=100).print(table)
    shown = file.getvalue()
    assert shown.count("\\u001b[31mred") == 2
    assert shown.count("\\u202e") == 2
    assert "\x1b[1m" in shown, "our own bold"
    assert "\x07" not in shown
    widths = {len(line) for line in _shown(table).splitlines()}
    assert len(widths) == 1, "the frame fits the escaped text"


def _shown(table) -> str:
    file = io.StringIO()
    SafeConsole(file=file, color_system=None, width=100).print(table)
    return file.getvalue().rstrip("\n")


def test_the_streams_are_as_before_afterwards(capsys):
    before = sys.stdout, sys.stderr
    with safe_output():
        print(NASTY)
        assert sys.stdout is not before[0]
        assert sys.stdout.isatty() is False
    assert (sys.stdout, sys.stderr) == before
    assert capsys.readouterr().out == escaped(NASTY) + "\n"


def test_a_folder_whose_name_is_no_text_is_in_the_overview(tmp_path, capsys):
    """Bytes that are not UTF-8, in the name of a run: its page and that of all runs are whole."""
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "tasks.npz", x=draw.normal(size=(20, 6, 3)), y=draw.normal(size=(20, 6, 3)))
    runs = tmp_path / "runs"
    odd = os.fsdecode(os.fsencode(str(runs)) + b"/bad\xff")
    quick = ["--find-steps", "2", "--outer-steps", "2", "--no-baseline", "--progress", "silent"]
    assert main(["learn", str(tmp_path / "tasks.npz"), "--out", odd, *quick]) == 0
    for folder in (odd, str(runs)):
        assert main(["report", folder]) == 0
        assert "bad\\udcff" in Path(folder, "report.html").read_bytes().decode()
    capsys.readouterr()


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(tmp_path, closed):
    """As under cron or a service: what is printed is lost, and goes into no file of ours."""
    command = f'"{sys.executable}" -m metasym list {closed}'
    ran = subprocess.run(command, shell=True, env=ENVIRONMENT, capture_output=True, cwd=tmp_path)
    assert ran.returncode == 0
    assert ran.stderr == b""


@pytest.mark.parametrize("megabytes", [60, 300, 400, 600])
def test_too_little_address_space_is_one_line(megabytes):
    command = f'ulimit -v {megabytes * 1024}; "{sys.executable}" -m metasym list'
    ran = subprocess.run(command, shell=True, env=ENVIRONMENT, capture_output=True, text=True)
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert f"found {megabytes} MB" in ran.stderr


def test_the_door_of_the_program_loads_no_large_library():
    """Else a lack of memory is a traceback before anything of ours can say so."""
    code = "import sys, metasym.cli; assert not {'torch', 'numpy', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, check=True)


def test_a_library_that_does_not_fit_is_one_line(monkeypatch, capsys):
    def unloadable(_name: str) -> None:
        raise ImportError("libtorch_cpu.so: failed to map segment from shared object")

    door = sys.modules["metasym.cli.main"]  # the attribute of the package is the function
    monkeypatch.setattr(door, "importlib", types.SimpleNamespace(import_module=unloadable))
    assert main(["list"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setattr(door, "importlib", types.SimpleNamespace(import_module=_missing))
    with pytest.raises(ImportError):
        main(["list"])


def _missing(_name: str) -> None:
    raise ImportError("No module named 'x'")
