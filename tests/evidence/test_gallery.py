"""The gallery in a real browser: no errors, images that load, filters that filter, phone width, no JavaScript."""

from __future__ import annotations

import shutil
from pathlib import Path

import evidence_toys as toys
import pytest

from droptics.evidence.figures import reproduce
from droptics.evidence.gallery import Work, build_gallery
from droptics.papers import verify
from droptics.papers.registry import unavailable

CLAIMS = [
    *("pal2020-eq3", "pal2020-eq3-corrected", "pal2020-eq7", "mianjy2018-misprints"),
    *("pal2020-lem2.2", "thesis-def4"),
]
WORKS = [
    Work("toy", "Toy paper", "A. Toy: On toys."),
    Work("pal2020", "Structured dropout", "Pal et al. 2020"),
    Work("thesis", "Thesis", "Mianjy"),
    Work("mianjy2018", "Implicit bias", "Mianjy et al. 2018"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("gallery")
    pictures = [toys.figure(), unavailable("toy-fig2", "Toy, Figure 2", "A <b>photo</b>", "It is pretty.", "a photo")]
    artifacts = reproduce(pictures, "smoke", folder / "out")
    return build_gallery(artifacts, verify(CLAIMS), WORKS, folder / "site")


@pytest.mark.parametrize("told", [True, False])
def test_a_work_has_a_page_for_its_figures_or_its_statements_alone(tmp_path, told):
    artifacts = reproduce([toys.figure()], "smoke", tmp_path / "out")
    results = verify(["pal2020-eq7"]) if told else []
    build_gallery(artifacts, results, WORKS, tmp_path / "site")
    texts = {page.name: page.read_text() for page in (tmp_path / "site").glob("*.html")}
    assert sorted(texts) == sorted(
        ["index.html", "toy.html"] + (["claims.html", "errata.html", "pal2020.html"] if told else [])
    )
    assert sorted(name for name, text in texts.items() if 'id="toy-fig1"' in text) == ["index.html", "toy.html"]
    stated = sorted(name for name, text in texts.items() if 'id="pal2020-eq7"' in text)
    assert stated == (["claims.html", "pal2020.html"] if told else [])
    links = [f'href="{name}"' in texts["index.html"] for name in texts]
    assert all(links)


def test_the_site_is_self_contained(site):
    pages = sorted(path.name for path in site.parent.glob("*.html"))
    assert pages == [
        "claims.html",
        "errata.html",
        "index.html",
        "mianjy2018.html",
        "pal2020.html",
        "thesis.html",
        "toy.html",
    ]
    for page in site.parent.glob("*.html"):
        text = page.read_text()
        assert "http://" not in text
        assert "https://" not in text
        assert "<b>photo</b>" not in text  # text is escaped
    assert (site.parent / "images" / "toy-fig1.png").exists()
    index = site.read_text()
    assert "Skipped:" in index
    assert "not reproduced, as recorded" in index
    assert "droptics reproduce toy-fig1 --scale smoke" in index
    assert "25 in all" in index  # what is printed, where a figure says it
    assert '<td data-name="Printed">1</td>' in index  # else the number compared with
    assert "1 of 2 comparisons hold" in index
    errata = (site.parent / "errata.html").read_text()
    assert "kron I_r" in errata


@pytest.fixture(scope="module")
def browse(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not browser or not driver:
        pytest.skip("no Chromium with its driver is installed")
    opened = []

    def start(width: int, height: int, scripts: bool = True):
        options = webdriver.ChromeOptions()
        options.binary_location = browser
        profile = tmp_path_factory.mktemp("profile")
        for argument in (
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-dev-shm-usage",
            "--force-device-scale-factor=1",
            f"--user-data-dir={profile}",
        ):
            options.add_argument(argument)
        if not scripts:
            options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = webdriver.ChromeService(executable_path=driver)
        session = webdriver.Chrome(options=options, service=service)
        opened.append(session)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        session.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        return session

    yield start
    for session in opened:
        session.quit()


@pytest.mark.slow
def test_pages_load_without_errors_and_filters_work(site, browse, tmp_path):
    page = browse(1200, 900)
    for path in sorted(site.parent.glob("*.html")):
        page.get(path.as_uri())
        assert page.get_log("browser") == [], path.name
        broken = page.execute_script("return [...document.images].filter(i => !i.naturalWidth).length")
        assert broken == 0
    page.get(site.as_uri())
    assert len(page.find_elements("css selector", ".card img")) == 1
    page.get((site.parent / "claims.html").as_uri())

    def shown():
        rows = page.find_elements("css selector", "#claims tbody tr")
        return [row.get_attribute("id") for row in rows if row.is_displayed()]

    assert shown() == CLAIMS
    choice = pytest.importorskip("selenium.webdriver.support.ui").Select(page.find_element("id", "filter-verdict"))
    choice.select_by_visible_text("holds")
    assert set(shown()) == {"pal2020-eq3-corrected", "pal2020-eq7", "thesis-def4"}
    page.find_element("css selector", "#filter-text").send_keys("width-adaptive")
    assert shown() == ["pal2020-eq7"]
    assert page.find_element("id", "filter-count").text == "1 of 6 statements"
    assert page.get_screenshot_as_file(str(tmp_path / "claims.png"))


@pytest.mark.slow
def test_it_fits_a_phone(site, browse):
    page = browse(390, 800)
    for name in ("index.html", "claims.html", "errata.html", "pal2020.html"):
        page.get((site.parent / name).as_uri())
        width = page.execute_script("return document.documentElement.scrollWidth")
        assert width <= 391, name


@pytest.mark.slow
def test_it_reads_without_scripts(site, browse):
    page = browse(1200, 900, scripts=False)
    page.get((site.parent / "claims.html").as_uri())
    assert len([row for row in page.find_elements("css selector", "#claims tbody tr") if row.is_displayed()]) == 6
    assert not page.find_element("css selector", ".filters").is_displayed()
