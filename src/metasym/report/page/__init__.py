"""One self-contained HTML page about a run, or a folder of runs: no network, opens from disk.

``read`` finds the runs and reads their files, ``learned_layers`` gets the layers out of their checkpoints,
``svg`` and ``matrix_pictures`` draw, ``scores``, ``training`` and ``symmetry`` make the parts of the page,
``page`` puts them into the template.
"""

from metasym.report.page.page import DETAIL, NAME, Page, render, write

__all__ = ["DETAIL", "NAME", "Page", "render", "write"]
