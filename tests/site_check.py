"""Check a built site: links lead somewhere, search finds, five pages pass axe on a desk and on a phone, none juts out.

`python tests/site_check.py docs/_build/html`; needs Chromium with its driver, selenium and axe-playwright-python (whose
axe.min.js is used; no playwright).
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from importlib.metadata import files
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlencode, urlsplit

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

PAGES = ("index.html", "quickstart.html", "audit.html", "generated/commands.html", "rooms/penalties.html")
WIDTHS = {"desk": 1280, "phone": 390}
JUTTING = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
AXE = """const done = arguments[0];
axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}).then(found => done(found.violations.map(
    rule => `${rule.id}: ${rule.help} (${rule.nodes.map(node => node.target.join(" ")).slice(0, 4).join("; ")})`)))"""

# names of formulas and letters as a reader of the papers knows them, and a page that is to be among the first ten
WANTED = {
    "Rademacher": "bounds.html",
    "k-support norm": "api/tools.html",
    "nuclear norm": "rooms/optima.html",
    "weighted trace norm": "api/tools.html",
    "path norm": "api/tools.html",
    "induced penalty": "api/answers.html",
    "induced regularizer": "notation.html",
    "convex envelope": "rooms/optima.html",
    "DropBlock": "rooms/layers.html",
    "equalization": "rooms/optima.html",
    "retentivity": "bounds.html",
    "effective strength": "notation.html",
    "λ": "notation.html",
    "theta": "notation.html",
}
FOUND = """const done = arguments[0], end = Date.now() + 200000;
(function look() {
    const said = document.querySelector("#search-results .search-summary")?.innerText ?? "";
    if (/matching|did not match/.test(said) || Date.now() > end)
        done([...document.querySelectorAll("#search-results ul.search li > a")].map(link => link.getAttribute("href")));
    else setTimeout(look, 50);
})()"""


class Page(HTMLParser):
    """What a page links to and what can be linked to on it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called by the parser."""
        for name, value in attrs:
            if value and name in ("href", "src") and tag != "link":
                self.links.append(value)
            elif value and name in ("id", "name"):
                self.names.add(value)


def broken_links(site: Path) -> Iterator[str]:
    """Links that lead to no file, or to no place on a page; addresses of other sites are left out."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{path.relative_to(site)} links to {link}, which is not there"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].names:
                yield f"{path.relative_to(site)} links to {link}: the page has no such place"


@contextmanager
def opened() -> Iterator[Chrome]:
    """A browser without a window."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    driver = shutil.which("chromedriver")  # without it, selenium looks for one on the network
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    browser.set_script_timeout(300)  # a slow machine is no barrier
    try:
        yield browser
    finally:
        browser.quit()


def barriers(browser: Chrome, site: Path, names: tuple[str, ...] = PAGES) -> Iterator[str]:
    """What axe and a look at the width find on some pages."""
    axe = next(str(file.locate()) for file in files("axe-playwright-python") or () if file.name == "axe.min.js")
    script = Path(axe).read_text(encoding="utf-8")
    for name in names:
        for kind, width in WIDTHS.items():
            metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": kind == "phone"}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            browser.get((site / name).resolve().as_uri())
            browser.execute_script(script)
            yield from (f"{name} on a {kind}: {found}" for found in browser.execute_async_script(AXE))
            if (beyond := browser.execute_script(JUTTING)) > 0:
                yield f"{name} on a {kind}: {beyond} pixels jut out"


def unfound(browser: Chrome, site: Path, wanted: dict[str, str] = WANTED) -> Iterator[str]:
    """Words for which the search of the site does not show the page that is about them."""
    for words, page in wanted.items():
        browser.get(f"{(site / 'search.html').resolve().as_uri()}?{urlencode({'q': words})}")
        first = browser.execute_async_script(FOUND)[:10]
        if not any(link.split("#")[0].split("?")[0] == page for link in first):
            yield f"a search for {words} shows {', '.join(first) or 'nothing'}, and not {page}"


def main() -> None:
    """Print what is wrong; the exit status says whether anything is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    site = parser.parse_args().site.resolve()
    with opened() as browser:
        faults = [*broken_links(site), *barriers(browser, site), *unfound(browser, site)]
    print("\n".join(faults) or "no broken link, no barrier, and search finds what it should")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
