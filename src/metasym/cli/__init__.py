"""The command line, ``metasym`` and ``python -m metasym``: the only place that prints.

Each group of commands has a file with an ``add(commands)``. Heavy packages (matplotlib, rich) are imported by the
commands that need them.
"""

from metasym.cli.main import main

__all__ = ["main"]
