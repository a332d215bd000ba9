"""``metasym completion``: what a shell needs to complete commands, flags and names by the Tab key."""

from __future__ import annotations

import argparse
from functools import partial

from metasym.cli.common import Commands

SHELLS = ("bash", "zsh", "tcsh")
_HOW = """\
bash:  metasym completion bash > ~/.local/share/bash-completion/completions/metasym
zsh:   metasym completion zsh > ~/.zfunc/_metasym, where ~/.zshrc has fpath+=~/.zfunc before compinit
tcsh:  metasym completion tcsh > ~/.metasym.tcsh, and source it in ~/.tcshrc
"""
_FILES = {"tasks": "FILE", "runs": "DIRECTORY", "run": "DIRECTORY", "folder": "DIRECTORY"}
"""Arguments that are files or folders, by their names in the parser; those of type Path are recognised by type."""


def add(commands: Commands, whole: argparse.ArgumentParser) -> None:
    """The command's flags; ``whole`` is the parser of all commands."""
    parser = commands.add_parser(
        "completion",
        help="completion by the Tab key for bash, zsh or tcsh",
        description="Print a script that has the shell complete metasym's commands, flags and their values.",
        epilog=_HOW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    parser.set_defaults(command=partial(_completion, whole))


def _completion(whole: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    import shtab

    _mark_paths(whole)
    print(shtab.complete(whole, shell=options.shell))


def _mark_paths(parser: argparse.ArgumentParser) -> None:
    """Tell the completion which arguments are names of files and folders, and which of experiments."""
    import shtab

    from metasym.paper.catalogue import names

    kinds = {"FILE": shtab.FILE, "DIRECTORY": shtab.DIRECTORY}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                _mark_paths(child)
        elif action.dest in _FILES:
            action.complete = kinds[_FILES[action.dest]]  # type: ignore[attr-defined]
        elif action.type is not None and getattr(action.type, "__name__", "") == "Path":
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.dest == "name" and not action.option_strings:
            action.choices = names(None)
