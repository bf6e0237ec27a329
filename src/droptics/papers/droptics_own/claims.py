"""Results of our own, as claims; each note says how far the statement is proved."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers import runs
from droptics.papers.droptics_own import (
    benign_checks,
    checks,
    data_penalty_checks,
    dropped_weight_checks,
    factor_checks,
    left_out_checks,
    minimum_checks,
    recommender_checks,
)
from droptics.papers.droptics_own.action_claims import CLAIMS as ACTIONS
from droptics.papers.droptics_own.branch_claims import CLAIMS as BRANCHES
from droptics.papers.droptics_own.field_claims import CLAIMS as FIELDS
from droptics.papers.droptics_own.ground_claims import CLAIMS as GROUND
from droptics.papers.droptics_own.instrument_claims import CLAIMS as INSTRUMENTS
from droptics.papers.droptics_own.line_claims import CLAIMS as LINES
from droptics.papers.droptics_own.part_claims import CLAIMS as PARTS
from droptics.papers.droptics_own.pinned_claims import CLAIMS as PINNED
from droptics.papers.droptics_own.room_claims import CLAIMS as ROOMS
from droptics.papers.droptics_own.whole_claims import CLAIMS as WHOLES
from droptics.papers.helmbold2017 import negative_checks
from droptics.papers.pal2020 import connection_checks, optimum_checks
from droptics.papers.thesis import chapter4_relu_checks, chapter5_bound_checks, chapter6_checks

PROVED, SKETCHED, CHECKED = "Proved.", "Proof sketched, checked numerically.", "Checked numerically, not proved."
BENIGN = ("global minimum", "strict saddle", "local maximum")

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "droptics-benign-landscape",
        "droptics, sharpens mianjy2018-thm4.3",
        "Tied networks: at EVERY rate and width and for every symmetric map all local minima are global, all other "
        "critical points have a direction of negative curvature.",
        check=partial(benign_checks.benign, (0.0, 0.05, 1.0, 30.0), BENIGN),
        control=partial(benign_checks.benign, (0.0, 0.05, 1.0, 30.0), ("global minimum",)),
        objects=("landscapes.critical_points", "landscapes.inspect"),
        note=PROVED + " The printed threshold is the condition rho = r.",
    ),
    Claim(
        "droptics-benign-untied",
        "droptics, the question the thesis leaves open",
        "Untied two-layer networks: at every positive rate all local minima are global and all saddles are strict.",
        check=partial(factor_checks.untied, 1),
        control=partial(factor_checks.untied, 2),
        objects=("optima.optimum",),
        note=SKETCHED,
    ),
    Claim(
        "droptics-critical-points",
        "droptics, Section 4 of mianjy2018 continued",
        "All critical points of a tied network on isotropic inputs, lam > 0: groups of columns of equal norm on "
        "disjoint eigenvectors.",
        check=partial(checks.critical_groups, 3),
        control=partial(checks.critical_groups, 2),
        objects=("landscapes.critical_points",),
        note=PROVED,
    ),
    Claim(
        "droptics-hessian",
        "droptics",
        "Gradient and Hessian of the dropout criterion in closed form, tied, untied and deep.",
        check=partial(checks.second_derivative, 1.0),
        control=partial(checks.second_derivative, 1.1),
        objects=("landscapes.gradient", "landscapes.hessian_action", "landscapes.hessian"),
        note=PROVED,
    ),
    Claim(
        "droptics-spurious",
        "droptics, the other side of thesis-thm7",
        "Deep linear networks do have local minima that are not global: M = I_2, widths (2,2), lam = 1/2.",
        check=partial(minimum_checks.spurious, 10 / 9),
        control=partial(minimum_checks.spurious, 1.36),
        objects=("landscapes.spurious_minimum", "landscapes.inspect"),
        note=CHECKED + " Gradient zero, no negative curvature, flat directions are symmetries.",
    ),
    Claim(
        "droptics-optimal-factors",
        "droptics, converse of mianjy2018-thm3.4",
        "At one rate above zero, with inputs of full rank and one optimal map, the optimal factors are exactly one "
        "optimal pair, rotated, equalized again, and rescaled by nodes.",
        check=partial(factor_checks.all_factors, True),
        control=partial(factor_checks.all_factors, False),
        objects=("optima.optimal_factors",),
        note=PROVED + " Checked: every such pair is optimal, also on singular inputs, where V is free off their range, "
        "and the pairs that descent finds are such.",
    ),
    Claim(
        "droptics-unequal-rates",
        "droptics",
        "Units with different rates: the optimum is a quadratic program on sorted vectors, solved by pooling.",
        check=partial(factor_checks.unequal_rates, 1.0),
        control=partial(factor_checks.unequal_rates, 1.05),
        objects=("linalg.shrink_unequal", "optima.optimum"),
        note=SKETCHED,
    ),
    Claim(
        "droptics-mask-bounds",
        "droptics, generalizes pal2020-thm2.3",
        "For every mask law and A = U V^T C^(1/2), C the second moment of the inputs, the penalty is at least "
        "||A||_F^2 / (1^T Cbar^+ 1) if 1 is in the range of Cbar, likewise ||A||_*^2 / (1^T K^+ 1) with "
        "K = sum_I (alpha_I / |I|) 1_I 1_I^T if Cbar = sum_I alpha_I 1_I 1_I^T over intervals with alpha >= 0, and at "
        "least ||A||_*^2 / sum_i (1 / D_i) for every diagonal 0 < D <= Cbar.",
        check=partial(data_penalty_checks.mask_bounds, 1.0),
        control=partial(data_penalty_checks.mask_bounds, 1.1),
        objects=("penalties.penalty", "spectra.any_law.nuclear_strength", "spectra.any_law.frobenius_strength"),
        note=PROVED + " Attained: nuclear by the best factors under independent units, Frobenius by equal blocks.",
    ),
    Claim(
        "droptics-dropblock-dropout",
        "droptics, on pal2020-fig4",
        "At equal rate and width DropBlock regularizes a map A at least as much as dropout; their envelopes are equal "
        "iff ||A||_* >= r ||A||_2, their least penalties too where enough blocks share the spectrum.",
        check=partial(minimum_checks.dropblock_against_dropout, 1.0),
        control=partial(minimum_checks.dropblock_against_dropout, 0.9),
        objects=("norms.k_support", "envelopes.envelope", "envelopes.induced"),
        note=PROVED,
    ),
    Claim(
        "droptics-connections",
        "droptics, replaces pal2020-thm4.1",
        "DropConnect on the first weights, d hidden units, has the induced penalty (gamma/d) "
        "||B diag(sqrt E x_i^2)||_*^2, the infimum over all factors U V^T = B, gamma the odds of being dropped; "
        "attained where all E x_i^2 > 0.",
        check=partial(dropped_weight_checks.drop_connect_optimum, 1.0),
        control=partial(dropped_weight_checks.drop_connect_optimum, 1.1),
        objects=("optima.optimum", "envelopes.induced", "models.Connections"),
        note=PROVED,
    ),
    Claim(
        "droptics-dropconnect-last",
        "droptics, the true companion of pal2020-thm4.1",
        "With squared loss DropConnect on the LAST weights has the very penalty of dropout before them, at one rate.",
        check=partial(runs.last_weights, 1.0),
        control=partial(runs.last_weights, 1.02),
        objects=("layers.DropConnect", "penalties.penalty"),
        note=PROVED,
    ),
    Claim(
        "droptics-head",
        "droptics",
        "For fixed features the best last layer under any mask law is a generalized ridge regression.",
        check=partial(minimum_checks.best_head, 1.0),
        control=partial(minimum_checks.best_head, 1.05),
        objects=("optima.optimal_head",),
        note=PROVED,
    ),
    Claim(
        "droptics-loo",
        "droptics",
        "Linear regression under dropout on its inputs, one by one or by blocks: the exact leave-one-out errors of a "
        "whole path of rates, of refits that forget an example in the penalty too, follow from one singular value "
        "decomposition; the rate of the least mean is chosen.",
        check=partial(left_out_checks.leave_one_out, True),
        control=partial(left_out_checks.leave_one_out, False),
        objects=("heads.ridge.DropoutRidgeCV",),
        note=PROVED + " Examples that hold nearly all energy of a block are refitted.",
    ),
    Claim(
        "droptics-deep-induced",
        "droptics, answers the question after thesis-lem7",
        "The least penalty of a deep linear map is min over simplex shares x of sum_s s^2 (prod(1+lam/(d x)) - 1), "
        "s the singular values that are not zero of the map on the inputs, lam, d and x by layer.",
        check=partial(checks.deep_induced, 1.0),
        control=partial(checks.deep_induced, 1.1),
        objects=("envelopes.induced", "equalization.equalize"),
        note=PROVED,
    ),
    Claim(
        "droptics-rank-one",
        "droptics, answers the question after thesis-lem7",
        "With dropout in two or more hidden layers a network is equalized only if its map, taken on the inputs, has "
        "rank at most one: for these maps the least penalty is its convex envelope, above rank one it is larger.",
        check=lambda: [*checks.above_envelope(2, ">"), *checks.above_envelope(1, "==")],
        control=partial(checks.above_envelope, 2, "=="),
        objects=("envelopes.induced", "envelopes.envelope", "equalization.equalize"),
        note=PROVED,
    ),
    Claim(
        "droptics-deep-optimum",
        "droptics, extends thesis-thm10",
        "With one rate for each hidden layer the deep optimum is the least over supports; that of M = I_2 at widths "
        "(2,2) and one lam jumps from rank 2 to 1 at lam = sqrt 2.",
        check=partial(minimum_checks.deep_optimum, 1.0),
        control=partial(minimum_checks.deep_optimum, 0.9),
        objects=("optima.optimum",),
        note=SKETCHED,
    ),
    Claim(
        "droptics-als-wr",
        "droptics, on thesis-prop4",
        "A solution X != 0 of weighted-lambda ALS solves expected dropout in matrix completion at lam = mu d/||X||_*, "
        "a trace norm weighted by counts, and conversely where the rank of X is below the width d.",
        check=partial(runs.weighted_ridge, 1.0),
        control=partial(runs.weighted_ridge, 1.1),
        objects=("recommenders.DropoutCompletion", "recommenders.RidgeCompletion"),
        note=PROVED + " Both fits by alternating least squares on the same ratings, from the same start.",
    ),
    Claim(
        "droptics-autoencoder",
        "droptics",
        "Dropout on the inputs of a linear autoencoder, averaged over all masks, is a ridge of strength rho D_k + lam "
        "on row k; W = I - C diag(sigma) minimizes it with sigma = rho D + lam, and the loss counted on dropped inputs "
        "only with sigma = 1 / diag(C), which is the zero diagonal.",
        check=partial(recommender_checks.input_dropout, 1.0),
        control=partial(recommender_checks.input_dropout, 1.01),
        objects=("recommenders.DropoutAutoencoder",),
        note=PROVED + " On dropped inputs the diagonal never enters: (1 - z) z = 0.",
    ),
    Claim(
        "droptics-frequency-ridge",
        "droptics, on thesis-prop4",
        "Minimizers of expected dropout on the factors of implicit ALS, units rescaled so that both sides weigh alike, "
        "are critical points under the ridge scaled by frequency, lam (sum_u a_u |w_u|^2 + sum_i b_i |h_i|^2), at "
        "lam = rho ||diag(a)^1/2 W H^T diag(b)^1/2||_* / (d N).",
        check=partial(recommender_checks.frequency_ridge, 1.0),
        control=partial(recommender_checks.frequency_ridge, 1.05),
        objects=("recommenders.ImplicitDropoutCompletion",),
        note=PROVED
        + " Minimizers equalize the d products (sum_u a_u w_uk^2)(sum_i b_i h_ik^2); rescaled so that both factors of "
        "each are q, the row systems of the two penalties agree at lam = rho q / N, and d q is the norm.",
    ),
    Claim(
        "droptics-odd-widths",
        "droptics, on thesis-thm13",
        "The lower bound alpha ||X|| / (2n) holds for odd widths too: copies of the best unit stay in the class.",
        check=lambda: [*checks.odd_widths(0.5), *chapter4_relu_checks.copies_stay_inside(1.0)],
        control=partial(checks.odd_widths, 1.2),
        objects=("coadaptation.split", "bounds.measured_rademacher"),
        note=PROVED,
    ),
    Claim(
        "droptics-lazy-constant",
        "droptics, sharpens thesis-thm14",
        "The learning bound of lazy dropout training holds with (lam^2 + 2.45)/(eta T).",
        check=partial(chapter5_bound_checks.sharper, 1.0),
        control=partial(chapter5_bound_checks.sharper, 0.5),
        objects=("bounds.lazy", "bounds.martingale"),
        note=PROVED
        + " Compression: 4.93 (lam^2 + 1.45)/(eta T) + 7.10 ln(1/delta)/T. Checked: the lemmas put together "
        "again, the loss of the competitor as the proof of thesis-lem13 has it.",
    ),
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
    Claim(
        "droptics-nonnegative-infimum",
        "droptics, sharpens helmbold2017-lem16",
        "At drop 1/2 networks with non-negative weights have criterion at least 1/(2(K+2)) on P_(1,1), of any size.",
        check=lambda: [
            *negative_checks.nonnegative_bound(1.0, lambda K: 1 / (2 * (K + 2))),
            *negative_checks.best_positive(1.0),
        ],
        control=partial(negative_checks.nonnegative_bound, 1.01, lambda K: 1 / (2 * (K + 2))),
        objects=("penalties.criterion", "models.ReLUNet"),
        note=SKETCHED + " Biases are free. It is the exact infimum, approached as the width grows.",
    ),
    Claim(
        "droptics-nor-network",
        "droptics, sharpens helmbold2017-thm8",
        "n units that fire only when every input is gone beat all non-negative networks of the same width with one "
        "hidden layer: drop 1/2, K >= 3, every n.",
        check=lambda: [
            *negative_checks.nor_value(1.0),
            *negative_checks.best_positive(1.0),
            *checks.nor_beats(range(3, 65), range(1, 201), "<"),
        ],
        control=partial(checks.nor_beats, (2,), range(1, 5), "<"),
        objects=("penalties.criterion",),
        note="Both criteria are proved; the inequality is checked for all K <= 64 and n <= 200. A wider or deeper "
        "non-negative network may be better than few NOR units: its infimum is 1/(2(K+2)).",
    ),
    Claim(
        "droptics-negative-weights",
        "droptics, sharpens helmbold2017-thm17",
        "K = 2, drop 1/2, one hidden layer: negative weights win exactly from width 3 on; the global minima at widths "
        "1, 2, 3 are 1/5, 5/28, 111/670.",
        check=partial(checks.exact_negative_minima, (1 / 5, 5 / 28, 111 / 670), 3),
        control=partial(checks.exact_negative_minima, (1 / 5, 5 / 28, 1 / 6), 3),
        objects=("penalties.criterion",),
        note="Minima by enumerating all activation types of the units, each a least-squares problem; width 4 by a "
        "network of criterion 29/186, from width 5 on (to 39) by the NOR network.",
    ),
    Claim(
        "droptics-gadget-widths",
        "droptics, on helmbold2017-thm8 and helmbold2017-thm17",
        "Gadgets beat every non-negative network of their width from n = 27, 28, 72, 272, 4160 on for K = 3, 4, 8, 16, "
        "64, and with the best output bias from 12, 20, 64, 240, 4032 on; no narrower ones do.",
        check=partial(negative_checks.gadget_widths, 0),
        control=partial(negative_checks.gadget_widths, 1),
        objects=("penalties.criterion",),
        note="Depth 2, drop 1/2, n a multiple of K; both sides in rational numbers. The best non-negative network of a "
        "width has equal units (droptics-nonnegative-infimum).",
    ),
    Claim(
        "droptics-dropconnect-ratio",
        "droptics, on pal2020-thm4.1",
        "Per unit, at one rate above zero, the dropout penalty over the DropConnect penalty lies between the extreme "
        "eigenvalues of E[x_i x_j] / sqrt(E[x_i^2] E[x_j^2]), both attained: unless these correlations are all zero, "
        "neither dominates.",
        check=partial(connection_checks.per_unit_ratio, 1.0),
        control=partial(connection_checks.per_unit_ratio, 0.9),
        objects=("models.Connections", "penalties.penalty"),
        note="Proved: a Rayleigh quotient.",
    ),
    Claim(
        "droptics-balanced",
        "droptics, on pal2020-thm2.5",
        "In all instances tried, minimizers of the DropBlock objective at a FIXED width are balanced, too: blocks "
        "U_I V_I^T have equal norms.",
        check=partial(optimum_checks.balanced_at_fixed_width, True),
        control=partial(optimum_checks.balanced_at_fixed_width, False),
        objects=("models.TwoLayerLinear",),
        note="Observed, not proved, except for blocks of one unit.",
    ),
    *ACTIONS,
    *INSTRUMENTS,
    *ROOMS,
    *BRANCHES,
    *GROUND,
    *PINNED,
    *PARTS,
    *LINES,
    *WHOLES,
    *FIELDS,
)
