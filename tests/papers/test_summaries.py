"""The works in short hold every kind of verdict that a work has, with its number, and are short."""

import re

import pytest

from droptics.evidence.claims import select
from droptics.papers import claims
from droptics.papers.summaries import summary_pages

TITLES = {
    "mianjy2018": "Implicit bias",
    "thesis": "On dropout",
    "pal2020": "Structured dropout",
    "helmbold2017": "Deep",
}


def test_a_work_in_short():
    chosen = select(claims(), ["pal2020-eq7", "pal2020-thm2.5", "pal2020-eq3", "pal2020-eq3-corrected"])
    pages = summary_pages(chosen, {"pal2020": "Structured dropout", "thesis": "On dropout"})
    short = pages["pal2020"]
    stands = '<a href="claims.html#pal2020-thm2.5">Theorem 2.5</a>: '
    named = '<a href="claims.html#pal2020-eq7">eq. (7)-(8)</a>'
    assert short.startswith("# Structured dropout\n")
    assert f"\n\n## Stands (2)\n\n- {stands}" in short
    assert f"\n\n{named}\n" in short
    assert "## Slips of print or proof, constants, remarks about plots (1)\n\n<a" in short
    assert "##" not in pages["thesis"]


def test_what_an_earlier_work_prints_too_is_named_alone():
    pages = summary_pages(select(claims(), ["mianjy2018-thm2.2", "thesis-thm1"]), TITLES)
    assert "Every weight matrix has an orthogonal equalizer" in pages["mianjy2018"]
    named = 'Chapter 2: <a href="claims.html#thesis-thm1">Theorem 1</a>\n'
    assert pages["thesis"].endswith(f"## Printed in an earlier work, too (1)\n\n{named}")


def test_names_stand_by_chapter_the_appendix_last():
    names = ["thesis-lem22", "thesis-thm17", "thesis-lem12", "thesis-eq1.2", "thesis-lem13"]
    lines = summary_pages(select(claims(), names), TITLES)["thesis"].split("\n\n")[-1].splitlines()
    assert [line.partition(":")[0] for line in lines[:-1]] == ["Chapter 5", "Appendix"]
    assert [line.count("</a>") for line in lines] == [2, 2, 1]


def test_conditions_are_said_and_what_shows_them_is_not():
    page = summary_pages(select(claims(), ["thesis-thm16"]), TITLES)["thesis"]
    assert page.endswith("And only if eta_tr equals 1/(m kappa^2 (R+nu)^2).*\n")
    assert "*Only if |a_r| = kappa" in page
    assert "by certificate" not in page
    assert "T_tr is generous" not in page


@pytest.mark.parametrize("paper", TITLES)
def test_every_claim_of_a_work_stands_on_its_page_once(paper):
    page = summary_pages(claims(), {paper: ""})[paper]
    mine = [claim for claim in claims() if claim.paper == paper and not claim.id.endswith("-corrected")]
    for claim in mine:
        assert page.count(f'#{claim.id}"') == 1, claim.id


def test_the_pages_are_short():
    words = {paper: len(re.sub("<[^>]*>", "", page).split()) for paper, page in summary_pages(claims(), TITLES).items()}
    assert words.pop("thesis") <= 1500
    assert max(words.values()) <= 1100
