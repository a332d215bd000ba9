"""The report page in a real browser: headless Chromium, driven by playwright; skipped where there is none."""

from __future__ import annotations

import shutil

import pytest

from metasym.report.page import write
from tests.report.page_runs import copy, make_run, train_into

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")

OVERFLOW = "[document.documentElement.scrollWidth, window.innerWidth]"
CONTRAST = """() => {
  const parse = c => c.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const back = e => {
    for (let at = e; at; at = at.parentElement) {
      const c = parse(getComputedStyle(at).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const worst = {ratio: 99, what: ""};
  for (const e of document.querySelectorAll("h1,h2,h3,h4,p,td,th,a,figcaption,caption,summary,span,svg text")) {
    if (!e.textContent.trim() || e.closest(".skip")) continue;
    const style = getComputedStyle(e);
    if (e.classList.contains("on-dark") || e.classList.contains("on-light")) continue;
    const a = light(parse(e instanceof SVGElement ? style.fill : style.color)), b = light(back(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst.ratio) { worst.ratio = ratio; worst.what = e.outerHTML.slice(0, 80); }
  }
  return worst;
}"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The page of one run and that of a folder, with an unfinished and a broken run in it."""
    root = tmp_path_factory.mktemp("pages")
    one = make_run(root / "one")
    many = root / "a_folder_with_a_rather_long_name_that_has_to_break_somewhere"
    conv = make_run(many / "first", "rotation/rot90/msr-conv", image_size=5)
    train_into(many / "second", "kronecker")
    (copy(conv, many / "third") / "config.json").write_text("{")
    make_run(many / "fourth" / "deeper/and/deeper/still", "translation/rank1/small/maml-fc", seed=3)
    write(one, root / "one.html")
    write(many, root / "many.html")
    return {name: (root / f"{name}.html").as_uri() for name in ("one", "many")}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def visit(browser, pages):
    """Open a page; at the end nothing may have been said on the console or asked of a network."""
    said, asked, contexts = [], [], []

    def opened(name: str, width: int = 1280, scheme: str = "light"):
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(pages[name])
        return page

    yield opened
    for context in contexts:
        context.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def test_figures_and_tables_are_drawn(visit):
    page = visit("one")
    assert page.title() == "translation/rank1/small/msr-fc · metasym report"
    page.evaluate(
        "document.querySelectorAll('details').forEach(d => { d.open = true })"
    )  # no symmetry: folded
    for title in (
        "Learning curves",
        "Step sizes",
        "Weight matrix",
        "Submatrices of U",
        "Singular values of U",
    ):
        figure = page.locator("figure", has=page.get_by_role("heading", name=title, exact=True))
        box = figure.locator("svg.chart, img.matrix").first.bounding_box()
        assert box is not None, title
        assert box["width"] > 15, title
        assert box["height"] > 15, title
    assert page.get_by_role("table").count() >= 3
    assert page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    lines = page.locator("svg.chart path.line.c0")
    assert lines.count() >= 3
    assert lines.first.bounding_box()["width"] > 100


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["one", "many"])
def test_a_phone_shows_it_without_sideways_scrolling(visit, name, scheme):
    page = visit(name, 360, scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    wide, screen = page.evaluate(OVERFLOW)
    assert wide <= screen == 360
    smallest = page.evaluate(
        "Math.min(...[...document.querySelectorAll('svg.chart text')].map(t => t.getBoundingClientRect().height))"
    )
    assert smallest >= 8
    worst = page.evaluate(CONTRAST)
    assert worst["ratio"] >= 4.5, worst


def test_light_and_dark_differ_figures_too(visit):
    looks = {}
    for scheme in ("light", "dark"):
        page = visit("one", scheme=scheme)
        looks[scheme] = page.evaluate(
            """() => [getComputedStyle(document.body).backgroundColor,
                      getComputedStyle(document.querySelector('svg.chart .line.c0')).stroke,
                      getComputedStyle(document.querySelector('svg.chart text.label')).fill]"""
        )
    assert all(a != b for a, b in zip(looks["light"], looks["dark"], strict=True))


def test_the_keyboard_reaches_everything(visit):
    page = visit("many")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "(e => e.tagName + ' ' + (e.getAttribute('aria-label') || ''))(document.activeElement)"
            )
        )
    assert {"A ", "SUMMARY ", "DIV Scores of all runs"} <= reached


def test_a_link_opens_its_run(visit):
    page = visit("many")
    run = page.locator("details#run-2")
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = false })")
    assert run.get_attribute("open") is None
    page.get_by_role("link", name="fourth").first.press("Enter")
    page.wait_for_function("document.querySelector('details#run-2').open")
    assert run.locator("figure").first.is_visible()


def test_what_is_printed_is_all(visit):
    page = visit("many", scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("[...document.querySelectorAll('details')].every(d => d.open)")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    worst = page.evaluate(CONTRAST)  # the reader's system is dark, paper is white
    assert worst["ratio"] >= 4.5, worst
