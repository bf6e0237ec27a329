"""Claims on the mechanism of evidence: verdicts, figures, engines."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own.evidence import figure_checks, mechanism_checks, worker_checks
from droptics.papers.droptics_own.instruments import PROVED, TOY, pair, room_claim
from droptics.papers.thesis import chapter6_checks

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "droptics-effective-attacks",
        "droptics, on thesis-thm16",
        "For slope below 1/2 (printed beta) or 3/4 (corrected beta) an effective attack exists only at points that are "
        "misclassified without attack.",
        check=lambda: [
            *chapter6_checks.effective_means_misclassified(2.0, 0.4),
            *chapter6_checks.effective_means_misclassified(4.0, 0.7),
        ],
        control=partial(chapter6_checks.effective_means_misclassified, 2.0, 0.55),
        objects=("papers.thesis.leaky.LeakyNet", "papers.thesis.leaky.smallest_score"),
        note=PROVED,
    ),
    room_claim(
        "workers-and-loops",
        "Leave-one-out errors are those of refits, also of isolated examples; workers that die are replaced and a "
        "second death is told; loops are compiled once; what became of a figure, and pages, say what they are made of.",
        pair(worker_checks.workers_and_loops),
        ("evidence.engines.Processes",),
        "Refit by refit; threads in place of processes.",
    ),
    room_claim(
        "decided-verdicts",
        "Comparisons hold by one rule of tolerance, and verdicts follow from check, control and what stands beside; "
        "results in plain values say all of it.",
        pair(mechanism_checks.decided_verdicts),
        ("evidence.compare", "evidence.decide", "evidence.Comparison"),
        TOY,
    ),
    room_claim(
        "reproduced-figures",
        "Cells run once and resume, failures and skips are told; tables, manifests, the standing page and the gallery "
        "hold their numbers, each work on its own page, also one of figures or of statements alone.",
        pair(figure_checks.reproduced_figures),
        ("evidence.figures.reproduce", "evidence.standing.standings", "evidence.gallery.build_gallery"),
        TOY,
    ),
    room_claim(
        "written-pages",
        "Tables of rows and pages of claims hold what they are made of; the local engine gives what the function "
        "gives, cells run on one thread, and engines are found by their names.",
        pair(mechanism_checks.written_pages),
        ("evidence.pages.claims_page", "evidence.pages.errata_page", "evidence.Local", "evidence.engine"),
        TOY,
    ),
)
