"""The paper says what the records say: its numbers are written from them, its references are listed."""

import re
import runpy
from pathlib import Path

PAPER = Path(__file__).parents[2] / "paper"


def test_the_paper_is_what_its_template_gives():
    paper = runpy.run_path(str(PAPER / "write.py"))["paper"]()
    assert (PAPER / "paper.md").read_text() == paper, "run make paper"


def test_the_template_holds_no_number_of_its_own():
    text = (PAPER / "paper.md.j2").read_text()
    text = re.sub(r"@\w+", "", text)  # keys of references
    assert re.findall(r"\d+", text) == []


def test_every_reference_is_listed_and_every_listed_one_is_used():
    used = set(re.findall(r"@(\w+)", (PAPER / "paper.md").read_text()))
    listed = set(re.findall(r"^@\w+\{(\w+),", (PAPER / "paper.bib").read_text(), re.MULTILINE))
    assert used == listed
