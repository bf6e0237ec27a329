"""Claims that write out whole rooms beside loops, solvers and bytes: searches, audits, files, maps, ensembles."""

from __future__ import annotations

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own import (
    audit_input_checks,
    audit_total_checks,
    certified_line_checks,
    decision_checks,
    ensemble_checks,
    floor_word_checks,
    fourth_checks,
    kept_copy_checks,
    map_checks,
    off_default_checks,
    predicted_answer_checks,
    quick_way_checks,
    rare_line_checks,
    rating_answer_checks,
    reading_checks,
    rest_line_checks,
    seldom_checks,
    side_way_checks,
    spared_checks,
    stored_file_checks,
    stray_checks,
    swept_checks,
    whole_search_checks,
    worker_checks,
)
from droptics.papers.droptics_own.room_claims import pair, room_claim

CLAIMS: tuple[Claim, ...] = (
    room_claim(
        "searches-in-full",
        "Projected and adaptive ascents, aimed or not, asked after every step, at times or never, recorded or not, end "
        "where loops end in which nobody leaves: points, who is fooled at which step, who is stuck, gradients.",
        pair(whole_search_checks.whole_searches),
        ("attacks.Apgd", "attacks.Pgd", "attacks.Threat", "attacks.Dlr", "attacks.Margin", "attacks.Reflected"),
        "By autograd, all examples to the end.",
    ),
    room_claim(
        "audited-in-full",
        "Batches and outputs of every form, graphs, rules about the use of dropout and what stands around it, layers "
        "that are left out, heat maps and rules of one's own are by definition.",
        pair(audit_input_checks.audited_inputs),
        ("audits.findings.finding", "audits.batches.batches", "data.Sample"),
        "Written out, on traces that are given.",
    ),
    room_claim(
        "stored-in-full",
        "Headers and pages of Parquet columns, packed streams, lengths of ids, tables of every kind of id, downloads "
        "and tensors of programs are read as they were written; each of the lies tried is refused alone.",
        pair(stored_file_checks.stored_files),
        ("datasets.read_chunks", "datasets.movielens", "datasets.jester"),
        "Written byte by byte.",
    ),
    room_claim(
        "maps-in-full",
        "Least penalties and envelopes of maps, also of tied, single-precision, cancelled and silent networks, gap "
        "conditions, inspections, portraits, critical points and heads of repeated units are by definition.",
        pair(map_checks.maps_in_full),
        (
            "envelopes.induced",
            "envelopes.envelope",
            "equalization.equalize",
            "equalization.imbalance",
            "equalization.gap_condition",
            "equalization.order_gaps",
            "landscapes.inspect",
            "landscapes.portrait",
            "landscapes.critical_points",
        ),
        "By a solver, by automatic derivatives, group by group.",
    ),
    room_claim(
        "ensembles-in-full",
        "Least margins of affine models, means over masks, boundary searches, blocks of a batch, every stage of an "
        "ensemble with who is left to it, and its results in words are those of examples taken one by one.",
        pair(ensemble_checks.ensembles_in_full),
        (
            "attacks.Averaged",
            "attacks.Fab",
            "attacks.Robustness",
            "attacks.linear_attack",
            "attacks.robust_accuracy",
            "attacks.smallest_margins",
        ),
        "Corner by corner; all masks; all examples to the end of their walk.",
    ),
    room_claim(
        "rest-in-full",
        "Attacks in batches, accuracies of sub-networks by labels, rows and signs, worst half-spaces, complexities and "
        "their rounding, errors of examples left out, losses of audits and single calls are by definition.",
        pair(rest_line_checks.rest_in_full),
        (
            "attacks.attack",
            "bounds.measured_rademacher",
            "coadaptation.evaluate",
            "coadaptation.flows",
            "coadaptation.retentivity",
            "coadaptation.symmetrize",
            "heads.ridge.DropoutRidgeCV",
        ),
        "Refits; all signs; a grid of directions.",
    ),
    room_claim(
        "audit-totals",
        "Rests and shifts, totals, exact and drawn penalties of sites, their curves and shares, what is measured, "
        "bounds of heads and layers that are left out are what the sums of an audit say.",
        pair(audit_total_checks.audited_totals),
        ("audits.Report", "data.Sample", "losses.CrossEntropy"),
        "From sums that are given; heads by all masks.",
    ),
    room_claim(
        "modules-read",
        "Heads whose weights are computed or whose outputs are written to, sites of modules of every kind, places of "
        "examples, runs with given masks and code that may change are read as they are; modes, buffers, hooks, "
        "forwards, inputs and random numbers are put back.",
        pair(reading_checks.modules_read),
        ("predictions.predictive",),
        "All masks; modules that show one thing each. A buffer that a pass replaces by one of another shape stays.",
    ),
    room_claim(
        "ratings-answered",
        "Predictions, errors with and without times, recommendations, clipping, unknown ids, ids of every kind, "
        "parameters and means of days are by definition.",
        pair(rating_answer_checks.answered_ratings),
        ("datasets.Ratings", "recommenders.StackedCompletion"),
        "On a model whose ratings are a table.",
    ),
    room_claim(
        "predictions-answered",
        "Densities, tables and quantiles are mixtures of normal laws to their ends and far beyond; words, costs and "
        "coverage of every answer, its covariance, what is refused, draws of every seed and functions that drop are by "
        "definition.",
        pair(predicted_answer_checks.predicted_answers),
        ("predictions.predictive", "predictions.Density", "predictions.Closure"),
        "All masks; the same masks.",
    ),
    room_claim(
        "copies-kept",
        "Trainings that are broken off end in the numbers of whole ones; copies are kept under all that they depend "
        "on; looks, tails, rates in attributes and what a pass writes on a module are by definition.",
        pair(kept_copy_checks.kept_copies),
        ("rates.Fit", "losses.CrossEntropy"),
        "Beside trainings that nobody breaks off.",
    ),
    room_claim(
        "floor-in-words",
        "What is refused is named with what it must be, what came and what to do; answers that are not finite name the "
        "argument to blame; old keywords, bars of long loops and pictures are by definition.",
        pair(floor_word_checks.floor_in_words),
        ("data.Sample", "data.Entries", "norms.k_support", "norms.path_norm"),
        "Word by word.",
    ),
    room_claim(
        "rare-lines",
        "Sums over 2^23 outcomes, derivatives of roots, shrunk spectra, blocks of examples, checked approximations, "
        "shared runs, records of one's own, ratings that are added and paths that are drawn are by definition.",
        pair(rare_line_checks.rare_lines),
        (
            "linalg.k_support_shrink",
            "linalg.psd_root",
            "linalg.psd_inverse_root",
            "penalties.criterion",
            "predictions.predictive",
            "training.train",
            "recommenders.DropoutAutoencoder",
            "recommenders.DropoutCompletionCV",
        ),
        "Units that are always on; optimality; the same in one piece.",
    ),
    room_claim(
        "missed-before",
        "Passes are planned by the kurtosis of outputs, controls are taken off with their sign, masks left over go to "
        "the largest stratum, of many examples those that weigh are bounded closely, steps over all cells are "
        "conjugate gradients, and rates are set where they are held.",
        pair(fourth_checks.missed_before),
        ("predictions.strata.allocate", "penalties.penalty", "attacks.standard_attacks"),
        "Loops over outputs, rows and masks.",
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
        "decided-ways",
        "Stages of an ensemble attack those who are left, from where they should, and a run that breaks off goes on "
        "with the same numbers; curves stand where their numbers put them; parts of a cluster add up.",
        pair(decision_checks.decided_ways),
        ("attacks.robust_accuracy", "attacks.standard_attacks"),
        "Example by example, number by number.",
    ),
    room_claim(
        "certified-in-full",
        "Bounds by moments, ranks of classes, outcomes that are written out, margins, who is looked at again, which "
        "ends are kept and what the estimate says are sums over all masks, example by example.",
        pair(certified_line_checks.certified_in_full),
        ("penalties.penalty",),
        "By enumeration of all masks.",
    ),
    room_claim(
        "seldom-asked",
        "Draws that are shared out, least and largest curvatures, best points of a box to the last bit, bounded "
        "streams, refusals and durations, searches without centering, blocks of users and laws of one layer are by "
        "definition.",
        pair(seldom_checks.seldom_asked),
        (
            "recommenders.DropoutCompletionCV",
            "recommenders.DropoutAutoencoder",
            "landscapes.hessian",
            "optima.deep_optimum",
        ),
        "By the rule in words; one by one.",
    ),
    room_claim(
        "worked-elsewhere",
        "Half-sweeps on a device solve the normal equations of every row and reach the sums that they say; passes are "
        "counted where they are made; clusters are asked at their port; intervals count rounding.",
        pair(swept_checks.worked_elsewhere),
        ("penalties.penalty",),
        "By a solver, row by row; calls that somebody takes.",
    ),
    room_claim(
        "gone-astray",
        "Nobody who stands still is counted as fooled, other threads replay nothing, slopes of a search are those of "
        "its value, heads are believed where nothing was written, pairs of one unknown id do not spread.",
        pair(stray_checks.passed_by),
        ("predictions.predictive", "recommenders.DropoutCompletion", "rates.running.Runner"),
        "By differences; by name and by place.",
    ),
    room_claim(
        "offered-options",
        "Options off their defaults do what they say: seeds and orders of a search for sub-networks, tolerances and "
        "memories of searches, steps and starts of the worst half-space, levels, blocks of work, rates, precisions.",
        pair(off_default_checks.options_in_full),
        (
            "coadaptation.smallest",
            "coadaptation.evaluate",
            "coadaptation.retentivity",
            "landscapes.inspect",
            "landscapes.portrait",
            "landscapes.spurious_minimum",
            "linalg.hadamard_equalizer",
            "masks.Discrete",
        ),
        "One by one, by a solver on the definition.",
    ),
    room_claim(
        "quick-ways",
        "Optima of many maps at once, in all their fields, quadratic forms of the columns of many matrices, rotations "
        "in place and reductions to three diagonals are those of single maps, sums and products.",
        pair(quick_way_checks.quick_ways),
        ("optima.optimum_of_maps", "linalg.equalize_columns_"),
        "By every rank; by products.",
    ),
    room_claim(
        "side-ways",
        "Optima on tall samples of dependent features, sums on a device and of listed laws, draws of laws over several "
        "layers, bounds in parts with their slopes, spectra behind vmap, left-out rows of much energy, margins of many "
        "points and certificates are by definition.",
        pair(side_way_checks.side_ways),
        (
            "optima.optimum",
            "optima.certify",
            "bounds.linear_margin",
            "linalg.shrink_unequal",
            "linalg.psd_eigen",
            "penalties.penalty",
            "envelopes.induced",
        ),
        "By every rank, every mask, refits, grids of directions.",
    ),
    room_claim(
        "spared-inputs",
        "Members of batches are as alone whatever the sizes of the others, single precision is kept, atoms without "
        "mass and features that do not vary play no part, ranks are not those of rounding, sums are as long as said, "
        "and rotations reach every diagonal that is majorized.",
        pair(spared_checks.spared_inputs),
        ("linalg.schur_horn", "linalg.psd_eigen", "optima.optimal_factors", "masks.Discrete"),
        "One by one; in exact sums.",
    ),
)
