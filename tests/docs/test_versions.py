"""The site of every version stands beside those of earlier ones."""

import importlib.util
import re
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "versions.py"


@pytest.fixture(scope="module")
def versions():
    specification = importlib.util.spec_from_file_location("site_versions", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def built(folder: Path, text: str) -> Path:
    (folder / "rooms").mkdir(parents=True)
    (folder / "index.html").write_text(f"<article>{text}</article>", encoding="utf-8")
    (folder / "rooms" / "masks.html").write_text(f"<article>{text}</article>", encoding="utf-8")
    return folder


def test_versions_stand_side_by_side_and_the_newest_comes_first(versions, tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    for version, text in (("0.9.0", "old"), ("0.10.0", "new"), ("0.9.1", "mended")):
        versions.add(built(tmp_path / version, text), site, version)
    links = re.findall(r'href="([^"]+)"', (site / "versions.html").read_text(encoding="utf-8"))
    assert links == ["0.10/index.html", "0.9/index.html"]
    assert all((site / link).is_file() for link in links)
    assert "url=0.10/index.html" in (site / "index.html").read_text(encoding="utf-8")
    for page, list_of_all in (("index.html", "../versions.html"), ("rooms/masks.html", "../../versions.html")):
        text = (site / "0.9" / page).read_text(encoding="utf-8")
        assert "mended" in text
        assert "documentation of version 0.9.1" in text
        assert f'<a href="{list_of_all}">' in text
