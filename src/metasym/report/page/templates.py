"""The templates of all pages, in one environment: what is put into them is escaped."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from metasym.report.page.html_words import breakable

if TYPE_CHECKING:
    from jinja2 import Environment, Template


def template(name: str) -> Template:
    """The template ``name``, a file beside this one."""
    return _environment().get_template(name)


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("metasym.report.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = breakable
    return environment
