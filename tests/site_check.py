"""Check a built site: links lead somewhere, five pages pass axe on a desk and on a phone, nothing juts out.

`python tests/site_check.py docs/_build/html`; needs Chromium with its driver, selenium and axe-playwright-python (whose
axe.min.js is used; no playwright).
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.metadata import files
from pathlib import Path
from urllib.parse import unquote, urlsplit

PAGES = ("index.html", "quickstart.html", "audit.html", "generated/commands.html", "rooms/penalties.html")
WIDTHS = {"desk": 1280, "phone": 390}
JUTTING = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
AXE = """const done = arguments[0];
axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}).then(found => done(found.violations.map(
    rule => `${rule.id}: ${rule.help} (${rule.nodes.map(node => node.target.join(" ")).slice(0, 4).join("; ")})`)))"""


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


def barriers(site: Path, names: tuple[str, ...] = PAGES) -> Iterator[str]:
    """What axe and a look at the width find on some pages."""
    from selenium import webdriver

    axe = next(str(file.locate()) for file in files("axe-playwright-python") or () if file.name == "axe.min.js")
    script = Path(axe).read_text(encoding="utf-8")
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    driver = shutil.which("chromedriver")  # without it, selenium looks for one on the network
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    browser.set_script_timeout(300)  # a slow machine is no barrier
    try:
        for name in names:
            for kind, width in WIDTHS.items():
                metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": kind == "phone"}
                browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
                browser.get((site / name).resolve().as_uri())
                browser.execute_script(script)
                yield from (f"{name} on a {kind}: {found}" for found in browser.execute_async_script(AXE))
                if (beyond := browser.execute_script(JUTTING)) > 0:
                    yield f"{name} on a {kind}: {beyond} pixels jut out"
    finally:
        browser.quit()


def main() -> None:
    """Print what is wrong; the exit status says whether anything is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    site = parser.parse_args().site.resolve()
    faults = [*broken_links(site), *barriers(site)]
    print("\n".join(faults) or "no broken link, no barrier")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
