"""The README as a stranger has it, on GitHub or on PyPI: badges, links that lead somewhere, extras that are there."""

import re
import tomllib
from pathlib import Path

from droptics.evidence.pages import said
from droptics.papers import claims

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OURS = re.compile(r"https://(?:github\.com|raw\.githubusercontent\.com)/droptics/droptics/(?:blob/|tree/)?main/([^#]+)")


def links(text: str) -> list[str]:
    """Targets of links and pictures, in place or at the end of the page."""
    return re.findall(r"\]\(([^)]+)\)", text) + re.findall(r"(?m)^\[[^\]]+\]: (\S+)$", text)


def faults(text: str) -> list[str]:
    """Links that PyPI could not follow, links to files of ours that are not there, names that no link stands for."""
    found = [link for link in links(text) if not link.startswith("https://")]
    found += [link for link in links(text) if (ours := OURS.match(link)) and not (ROOT / ours[1]).exists()]
    listed = re.findall(r"(?m)^\[([^\]]+)\]: ", text)
    prose = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    named = {" ".join(name.split()) for name in re.findall(r"(?<!!)\[([^\[\]!]+)\](?![(:])", prose)}
    return found + sorted(named ^ set(listed))


def test_links_lead_somewhere_wherever_the_page_is_shown():
    assert len([link for link in links(README) if OURS.match(link)]) > 15
    assert faults(README) == []


def test_planted_faults_are_found():
    missing = "https://github.com/droptics/droptics/blob/main/docs/nothing.md"
    page = f"[one](docs/need.md), [two]({missing}), [three].\n\n[four]: {missing}#place\n"
    assert faults(page) == ["docs/need.md", missing, f"{missing}#place", "four", "three"]


def test_badges_stand_at_the_head():
    head = README.split("\n\n")[1]
    assert re.findall(r"\[!\[(\w+)", head) == ["Tests", "Docs", "Coverage", "Python", "PyPI", "License"]
    assert f"at least {PROJECT['tool']['coverage']['report']['fail_under']} %" in head


def test_every_extra_is_named():
    (line,) = [line for line in README.splitlines() if "with extras:" in line]
    told = set(re.findall(r"\w+", line.split("extras:")[1])) - {"for", "developers"}
    assert told == set(PROJECT["project"]["optional-dependencies"])


def test_the_readme_counts_the_verdicts():
    counted = said([claim.verdict for claim in claims() if claim.paper != "droptics"])
    assert counted in " ".join(README.split())
