"""Looks at the built site: every link and anchor leads somewhere, nothing is fetched, every public name is there.

``python -m website.check site`` (part of ``make docs``) prints what is wrong and ends with status 1 if anything is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from website.public_names import public_names

_FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
_FETCHED_LINKS = {"stylesheet", "preload", "preconnect", "dns-prefetch", "icon", "modulepreload", "manifest"}
_CSS_FETCHES = re.compile(r"""(?:url\(\s*|@import\s+)["']?(?:https?:)?//""")


@dataclass
class Page(HTMLParser):
    """The anchors of one page, where its links lead, and what it has the browser fetch."""

    ids: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)
    fetched: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One element."""
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        if tag in _FETCHED and given.get(_FETCHED[tag]):
            self.fetched.add(given[_FETCHED[tag]])
        if tag == "link" and set(given.get("rel", "").split()) & _FETCHED_LINKS:
            self.fetched.add(given["href"])


def problems(site: Path) -> Iterator[str]:
    """What is wrong with the site in this folder, a line each."""
    pages = {path.resolve(): Page() for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site}: expected a built site, found no pages"
    for path, page in pages.items():
        page.feed(path.read_text(encoding="utf-8"))
    for path, page in pages.items():
        if path.name == "404.html":  # shown at any address: its links begin at the server's root
            continue
        here = path.relative_to(site.resolve())
        for link in sorted(page.links | page.fetched):
            wrong = _wrong(link, path, pages, fetched=link in page.fetched)
            if wrong:
                yield f"{here}: {wrong}: {link}"
    for style in sorted(site.rglob("*.css")):
        if _CSS_FETCHES.search(style.read_text(encoding="utf-8")):
            yield f"{style.relative_to(site)}: a style that fetches from elsewhere"
    anchors = set().union(*(page.ids for page in pages.values()))
    for name in sorted(public_names() - anchors):
        yield f"reference: no entry for {name}"


def _wrong(link: str, path: Path, pages: dict[Path, Page], *, fetched: bool) -> str | None:
    parts = urlsplit(link)
    if parts.scheme in ("http", "https") or parts.netloc:
        return "fetched from elsewhere" if fetched else None
    if parts.scheme:  # data:, mailto:
        return None
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return "leads to no file"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].ids:
        return "leads to no anchor"
    return None


def main() -> int:
    """Print every problem; 1 if there is one."""
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "site")
    found = list(problems(site))
    for line in found:
        print(line, file=sys.stderr)
    pages = len(list(site.rglob("*.html")))
    print(f"{site}: {pages} pages, {len(public_names())} public names, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
