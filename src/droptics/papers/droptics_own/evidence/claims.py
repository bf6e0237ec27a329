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
        "Leaky ReLU networks of m units, ||W||_F = 1 and |a_r| = kappa > 0, attacks within a radius nu > 0: one that "
        "brings y f(x') to -beta or below, beta = 2 nu (1-alpha) kappa sqrt(m) as printed and alpha < 1/2, or 4 nu "
        "(1-alpha) kappa sqrt(m) as corrected and alpha < 3/4, exists only at points x with y f(x) < 0.",
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
        "leave_one_out errors, of three examples or more and lambda > 0 far above rounding, are those of refits "
        "without each, also where a unit is active on one alone. evidence.engines.Processes gives every task one "
        "outcome: a worker that dies is replaced and its task tried once more, a second death and exceptions are told, "
        "one GPU task runs at a time. compiling.njit compiles a loop when it is first called, and "
        "again for other types alone. A figure's outcome follows from what was skipped, failed, compared and missing; "
        "write_pages writes claims_page and errata_page.",
        pair(worker_checks.workers_and_loops),
        ("evidence.engines.Processes",),
        "Refit by refit; threads in place of processes. Tasks have keys of their own, and they and their rows pickle.",
    ),
    room_claim(
        "decided-verdicts",
        "In a Comparison ==, <= and >= may miss by precision max(scale, |left|, |right|), while <, > and != must be "
        "clear by more; of tables the worst entry counts, and NaN never holds. decide tells 'holds' where the check "
        "holds and the control fails, 'false' or the recorded kind of failure the other way round, 'undecided' where "
        "they agree, 'holds only if' and 'vacuous' by what stands beside, 'error' of exceptions. Result.as_dict has "
        "all of these.",
        pair(mechanism_checks.decided_verdicts),
        ("evidence.compare", "evidence.decide", "evidence.Comparison"),
        TOY,
    ),
    room_claim(
        "reproduced-figures",
        "figures.reproduce runs every cell once and resumes from its file, a torn one anew, and tells failures and "
        "skips with their reasons. Tables have the cells' rows, manifests and standings their outcomes, comparisons, "
        "commits and machines. build_gallery writes one page for each work that has figures or statements, with its "
        "own on it, and one of all claims where there are any.",
        pair(figure_checks.reproduced_figures),
        ("evidence.figures.reproduce", "evidence.standing.standings", "evidence.gallery.build_gallery"),
        TOY,
    ),
    room_claim(
        "written-pages",
        "claims_page has of every claim id, source, verdict, statement, note, place of the check and objects, "
        "errata_page the print, what is wrong and what is right, and both count them by verdict. evidence.Local "
        "returns rows and errors of tasks in their order, each cell on one thread; evidence.engine finds engines by "
        "name and refuses other words. Rows as CSV, columns and means are those of the rows.",
        pair(mechanism_checks.written_pages),
        ("evidence.pages.claims_page", "evidence.pages.errata_page", "evidence.Local", "evidence.engine"),
        TOY,
    ),
)
