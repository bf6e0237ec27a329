"""Claims that pin down formulas line by line: every kind, branch and coefficient, against what is written out."""

from __future__ import annotations

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own import (
    bound_checks,
    data_checks,
    floor_checks,
    flow_checks,
    law_checks,
    piece_checks,
    solved_checks,
    third_checks,
    training_bound_checks,
)
from droptics.papers.droptics_own.room_claims import ENUMERATED, pair, room_claim

WRITTEN = "Written out."
CLAIMS: tuple[Claim, ...] = (
    room_claim(
        "kinds-of-arguments",
        "Every kind of argument takes what it says, its ends included or not, and nothing beside; what is refused is "
        "named.",
        pair(floor_checks.kinds_of_arguments),
        ("data.Sample", "data.Moments", "data.Entries", "masks.Discrete", "norms.k_support"),
        "Ends of ranges by bisection over all numbers, which a control moves; values beside them.",
    ),
    room_claim(
        "laws-in-full",
        "All that a law of masks says of itself and does to vectors and matrices is what its outcomes give.",
        pair(law_checks.laws_in_full),
        ("masks.Bernoulli", "masks.Block", "masks.SlidingBlock", "masks.Discrete", "masks.Product", "masks.Gaussian"),
        ENUMERATED,
    ),
    room_claim(
        "data-in-full",
        "Moments of samples, batches and parts are sums in fractions, shifted estimates shift both ends, and norms are "
        "those of their definitions.",
        pair(data_checks.data_in_full),
        ("data.Moments", "data.Sample", "estimates.Estimate", "norms.path_norm", "norms.k_support"),
        "In fractions; k-support norms by bisection.",
    ),
    room_claim(
        "deviations",
        "Bounds of deviations, completed matrices and two-layer networks, measured complexities and published "
        "expressions are their formulas, every constant and every way to say that nothing is known included.",
        pair(bound_checks.deviations),
        (
            "bounds.uniform",
            "bounds.squared",
            "bounds.hoeffding",
            "bounds.martingale",
            "bounds.completion",
            "bounds.relu",
            "bounds.rademacher",
            "bounds.measured_rademacher",
            "bounds.surveyed",
        ),
        "Written out; complexities by all signs and a grid of directions.",
    ),
    room_claim(
        "trained-bounds",
        "Iterations of adversarial and lazy training with all their constants, and the margins that they assume.",
        pair(training_bound_checks.trained_bounds),
        ("bounds.adversarial", "bounds.lazy", "bounds.lazy_setting", "bounds.linear_margin", "bounds.gate_margin"),
        "Written out; least widths by bisection, margins by convex programs.",
    ),
    room_claim(
        "factors-and-integrals",
        "Exponential moments of coins, lists and normal noise, integrals of margins, rules of two nodes and bounds by "
        "leading classes are those of all outcomes.",
        pair(piece_checks.factors_and_integrals),
        ("penalties.penalty", "penalties.Certified"),
        f"{ENUMERATED} Normal noise by its formulas.",
    ),
    room_claim(
        "drawn-numbers",
        "A penalty from draws is their mean without its control variate, with Student's interval and its skewness; "
        "where draws are too few, their plain mean with the guaranteed interval, and why is told.",
        pair(piece_checks.drawn_numbers),
        ("penalties.penalty", "penalties.MonteCarlo"),
        "Beside the same draws, summed one by one.",
    ),
    room_claim(
        "flows-in-full",
        "Flows, their split, the worst half-space (beyond rank two, one that no direction of a grid betters) and every "
        "sub-network of every family are those of single units.",
        pair(flow_checks.flows_in_full),
        (
            "coadaptation.flows",
            "coadaptation.split",
            "coadaptation.retentivity",
            "coadaptation.evaluate",
            "coadaptation.smallest",
        ),
        "Unit by unit; half-spaces by a grid of directions.",
    ),
    room_claim(
        "solved-in-full",
        "Heads under every law are least squares over all masks, left-out errors those of refits, shares and shrunk "
        "spectra the best of all supports, DropConnect's optimum stationary, and certified from as many units as "
        "outputs on.",
        pair(solved_checks.solved_in_full),
        (
            "optima.optimal_head",
            "optima.optimum",
            "optima.certify",
            "heads.ridge.DropoutRidge",
            "heads.ridge.DropoutRidgeCV",
            "linalg.shrink",
            "linalg.shrink_unequal",
        ),
        f"{ENUMERATED} Refits, grids of shares, derivatives.",
    ),
    room_claim(
        "seen-again",
        "Triangles of many rows, equal columns of factors that stay as they are, modes, units, deep covariances, calls "
        "of attention, clipped ratings, heads without a bias and tallies are by definition.",
        pair(third_checks.seen_again),
        (
            "optima.certify",
            "penalties.criterion",
            "recommenders.DropoutCompletion",
            "rates.tune_rates",
            "linalg.equalize_columns",
        ),
        f"{ENUMERATED} Two runs tell whether a call drops.",
    ),
)
