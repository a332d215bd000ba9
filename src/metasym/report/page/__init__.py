"""One self-contained HTML page about a run, or a folder of runs: no network, opens from disk.

``run_folders`` finds the runs and reads their files, ``learned_layers`` gets the layers out of their models,
``svg`` and ``matrix_pictures`` draw, ``score_section``, ``training_section`` and ``layer_section`` make the
parts of the page, ``page`` puts them into the template; all templates are in ``templates``.
"""

from metasym.report.page.page import DETAIL, NAME, Page, render, write

__all__ = ["DETAIL", "NAME", "Page", "render", "write"]
