"""Claims that restate a part of the library from the same data and draws: what it computes on the way, to rounding."""

from __future__ import annotations

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own import (
    algebra_line_checks,
    answer_checks,
    attack_line_checks,
    audit_run_checks,
    class_checks,
    control_checks,
    interval_checks,
    krylov_checks,
    module_line_checks,
    rate_line_checks,
    read_rating_checks,
    route_line_checks,
    training_line_checks,
    white_checks,
)
from droptics.papers.droptics_own.room_claims import ENUMERATED, pair, room_claim

CLAIMS: tuple[Claim, ...] = (
    room_claim(
        "krylov-in-full",
        "Products with every kind of map, Krylov spaces with their residuals, bounds on the rest of a spectrum, optima "
        "of maps, graded eigenvalues and shares of layers are those of dense algebra.",
        pair(krylov_checks.krylov_in_full),
        ("optima.optimum_of_map",),
        "Dense algebra, fractions, polynomials of the same random vectors.",
    ),
    room_claim(
        "white-in-full",
        "White coordinates of moments, samples, entries and measurements give the risks of the examples, their slack "
        "is its formula, and symmetries are counted.",
        pair(white_checks.white_in_full),
        ("data.Sample", "data.Moments", "data.Entries", "data.Measurements"),
        "Sums over the examples.",
    ),
    room_claim(
        "intervals-in-full",
        "Ranges of losses, limits by two moments, guaranteed intervals and scales of rounding are their formulas, for "
        "every family of models.",
        pair(interval_checks.intervals_in_full),
        ("penalties.penalty", "penalties.MonteCarlo", "penalties.risk"),
    ),
    room_claim(
        "controls-in-full",
        "Sampled predictions: plans, listed masks, main effects, slopes, fitted weights, moments, degrees of freedom "
        "and both intervals follow from the drawn masks.",
        pair(control_checks.controls_in_full),
        ("penalties.MonteCarlo", "models.ReLUNet"),
        "From the same draws, group by group.",
    ),
    room_claim(
        "answers-in-full",
        "Wide factors, tall targets, laws without a closed form, tied and singular networks, rounding of envelopes and "
        "criteria, and the words of answers are those of their plain forms.",
        pair(answer_checks.answers_in_full),
        (
            "optima.optimum",
            "optima.certify",
            "optima.Optimum",
            "equalization.equalize",
            "equalization.joint_equalizer",
            "equalization.rescale",
            "equalization.balance",
            "landscapes.escape",
        ),
        "Written out; every rank tried.",
    ),
    room_claim(
        "attacks-in-full",
        "Losses that attacks climb, aimed or not, sizes of steps, whole random searches by squares, judged searches "
        "and the reasons to doubt them are those of examples taken one by one.",
        pair(attack_line_checks.attacks_in_full),
        ("attacks.attack", "attacks.robustness_curve", "attacks.Square", "attacks.Margin", "attacks.Reflected"),
        "From the same uniform numbers, example by example.",
    ),
    room_claim(
        "rates-in-full",
        "Losses example by example, orders of batches, two-level designs, paths of rates and whole divisions, best "
        "constants, what training draws and the weights it reaches with batches, decay, schedules, limits of norms, "
        "frozen tensors and another optimizer are those written out.",
        pair(rate_line_checks.rates_in_full),
        ("training.train", "training.Dropout", "training.MaxNorm", "rates.Fit", "losses.CrossEntropy"),
        "By autograd and torch.optim on the same draws.",
    ),
    room_claim(
        "ratings-in-full",
        "Ratings from arrays, tables, entries, sparse matrices, chunks and files, on disk or not, ids that are numbers "
        "or text, Gram matrices that grow, lists, held-out users, diagnoses and paths of rates are by definition.",
        pair(read_rating_checks.ratings_in_full),
        (
            "recommenders.DropoutCompletion",
            "recommenders.DropoutCompletionCV",
            "recommenders.diagnose",
            "recommenders.hold_out_users",
            "recommenders.ranking",
        ),
    ),
    room_claim(
        "audits-in-full",
        "Under the same masks an audit has the slopes, changes beyond first order, first looks, lists of outcomes "
        "alone and together, shared draws, and means with their degrees of freedom that are written out from the loss.",
        pair(audit_run_checks.audits_in_full),
        ("losses.CrossEntropy", "losses.Squared"),
        "By autograd under the same masks.",
    ),
    room_claim(
        "classes-in-full",
        "Class probabilities, entropies and mutual information of listed, drawn and normal logits, the trial that "
        "decides between them, and scores of observations are sums over their points.",
        pair(class_checks.classes_in_full),
        ("predictions.predictive", "predictions.calibration", "predictions.fit_noise"),
        "From the same points.",
    ),
    room_claim(
        "training-in-full",
        "Exact gradients of every linear family, alone and in batches, and steps along them, attacks that training "
        "doubts, runs that leave, entries of every run, modules with their penalty and the lines of checkpoints are "
        "those of their plain forms.",
        pair(training_line_checks.training_in_full),
        ("training.train", "training.Penalized", "training.Adversarial", "training.Free", "training.Plain"),
        f"{ENUMERATED} By autograd on the same points.",
    ),
    room_claim(
        "algebra-in-full",
        "Actions of laws with their cutoffs, balanced blocks, best mixtures of bounds, both routes of a decomposition, "
        "companions of rotations, leading eigenvectors, proximal maps, criteria of given weights, reasons, units and "
        "affine maps are those of plain sums.",
        pair(algebra_line_checks.algebra_in_full),
        (
            "linalg.equalize_columns",
            "linalg.k_support_shrink",
            "attacks.affine_map",
            "norms.k_support",
            "optima.Optimum",
        ),
        "Written out; conditions of optimality, all supports, dense algebra.",
    ),
    room_claim(
        "modules-in-full",
        "Attention and recurrent layers under given masks are torch's layers with multipliers between; replayed runs, "
        "names of places, sites, chains of three layers, left-out losses, joined examples and answers on rates, "
        "written, read and drawn, are by definition.",
        pair(module_line_checks.modules_in_full),
        ("models.Site", "rates.Rates", "heads.ridge.DropoutRidge"),
        f"{ENUMERATED} Torch's own layers; refits.",
    ),
    room_claim(
        "routes-in-full",
        "Orthonormal columns of tall matrices, ranks by bits, sums in blocks, maps of factors, masks on weights, "
        "bypassed parts, rectified normal numbers, blocks of outcomes and systems of ratings are, by every route, what "
        "they are written out.",
        pair(route_line_checks.routes_in_full),
        ("models.Connections", "penalties.penalty", "penalties.MonteCarlo", "penalties.Enumerate", "models.ReLUNet"),
        "Dense algebra, integrals over a grid, sums in extended precision.",
    ),
)
