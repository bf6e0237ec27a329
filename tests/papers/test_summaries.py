"""The works in short hold every kind of verdict that a work has, with its number."""

from droptics.evidence.claims import select
from droptics.papers import claims
from droptics.papers.summaries import summary_page


def test_a_work_in_short():
    chosen = select(claims(), ["pal2020-eq7", "pal2020-eq3"])
    short = summary_page(chosen, {"pal2020": "Structured dropout", "thesis": "On dropout"})
    assert "## Structured dropout\n\n### Stands (1)\n\n- `pal2020-eq7`: " in short
    assert "### Slips of print or proof, constants, remarks about plots (1)" in short
    assert short.endswith("## On dropout\n")
