"""Claims on penalties."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers import runs
from droptics.papers.droptics_own.instruments import ENUMERATED, PROVED, SKETCHED, pair, room_claim
from droptics.papers.droptics_own.landscapes import derivative_checks
from droptics.papers.droptics_own.penalties import (
    certified_checks,
    control_checks,
    data_checks,
    drawn_mask_checks,
    entropy_checks,
    interval_data_checks,
    many_unit_checks,
    outside_checks,
    piece_checks,
    refused_checks,
    route_checks,
    sampled_checks,
    side_path_checks,
    sum_checks,
)
from droptics.papers.helmbold2017 import negative_checks
from droptics.papers.pal2020 import connection_checks, optimum_checks

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "droptics-mask-bounds",
        "droptics, generalizes pal2020-thm2.3",
        "For every mask law and A = U V^T C^(1/2), C the second moment of the inputs, the penalty is at least "
        "||A||_F^2 / (1^T Cbar^+ 1) if 1 is in the range of Cbar, likewise ||A||_*^2 / (1^T K^+ 1) with "
        "K = sum_I (alpha_I / |I|) 1_I 1_I^T if Cbar = sum_I alpha_I 1_I 1_I^T over intervals with alpha >= 0, and at "
        "least ||A||_*^2 / sum_i (1 / D_i) for every diagonal 0 < D <= Cbar.",
        check=partial(data_checks.mask_bounds, 1.0),
        control=partial(data_checks.mask_bounds, 1.1),
        objects=(
            "penalties.penalty",
            "spectra.any_law.nuclear_strength",
            "spectra.any_law.frobenius_strength",
            "linalg.psd_root",
        ),
        note=PROVED + " Attained: nuclear by the best factors under independent units, Frobenius by equal blocks.",
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
        "On P_(1,1), n units that fire only when every input is gone beat all non-negative networks of the same width "
        "with one hidden layer: drop 1/2, K >= 3, every n.",
        check=lambda: [
            *negative_checks.nor_value(1.0),
            *negative_checks.best_positive(1.0),
            *derivative_checks.nor_beats(range(3, 65), range(1, 201), "<"),
        ],
        control=partial(derivative_checks.nor_beats, (2,), range(1, 5), "<"),
        objects=("penalties.criterion",),
        note="Both criteria are proved; the inequality is checked for all K <= 64 and n <= 200. A wider or deeper "
        "non-negative network may be better than few NOR units: its infimum is 1/(2(K+2)).",
    ),
    Claim(
        "droptics-gadget-widths",
        "droptics, on helmbold2017-thm8 and helmbold2017-thm17",
        "On P_(1,1), gadgets beat every non-negative network of their width from n = 27, 28, 72, 272, 4160 on for "
        "K = 3, 4, 8, 16, 64, and with the best output bias from 12, 20, 64, 240, 4032 on; no narrower ones do.",
        check=partial(negative_checks.gadget_widths, 0),
        control=partial(negative_checks.gadget_widths, 1),
        objects=("penalties.criterion",),
        note="Depth 2, drop 1/2, n a multiple of K; both sides in rational numbers. That the best non-negative network "
        "of a width has equal units rests on the sketch of droptics-nonnegative-infimum.",
    ),
    Claim(
        "droptics-dropconnect-ratio",
        "droptics, on pal2020-thm4.1",
        "Per unit, at one rate above zero, where all E[x_i^2] > 0 and the unit has an effect, the dropout penalty over "
        "the DropConnect penalty lies between the extreme eigenvalues of E[x_i x_j] / sqrt(E[x_i^2] E[x_j^2]), both "
        "attained: unless those of different inputs are all zero, neither dominates.",
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
    Claim(
        "droptics-any-law",
        "droptics, generalizes pal2020-lem3.1 and thesis-prop8",
        "The penalty of two-layer, DropConnect and deep linear networks under any law, correlated ones included, on "
        "weighted examples: the mean over all masks minus the weighted risk.",
        check=partial(runs.any_law, 1.0),
        control=partial(runs.any_law, 1.1),
        objects=("penalties.penalty", "penalties.risk", "models.Connections", "models.DeepLinear"),
        note=PROVED,
    ),
    room_claim(
        "drawn-in-full",
        "What given, listed and drawn masks add to the loss of every family on every kind of data, batches included, "
        "with interval, rounding, cost and words, is what loops over the masks give; so is half the curvature. "
        "Unasked, lists have 65,536 masks at most, draws are 1,000 at 99 %, 400 beside a curvature, and sums of "
        "outcomes take two minutes.",
        pair(drawn_mask_checks.drawn_masks_in_full),
        ("penalties.penalty", "penalties.criterion", "penalties.risk", "models.Connections", "penalties.SecondOrder"),
        "Maps of single networks under single masks.",
    ),
    room_claim(
        "side-paths",
        "Penalties with masked inputs, heads that differ by example, blocks on weights, losses and laws without any "
        "bound, how far rounding may move them, and which method is the most exact, are by definition; what cannot be "
        "answered is refused in words.",
        pair(side_path_checks.side_paths),
        (
            "penalties.best_method",
            "penalties.has_closed_form",
            "penalties.penalty",
            "penalties.sub_penalties",
        ),
        "All masks.",
    ),
    room_claim(
        "from-outside",
        "Penalties, least penalties and envelopes of derived families are those of their bases, those of families "
        "from outside follow from the Gram matrix that they state; ReLU networks have a sum where the laws before "
        "the last have lists, within its time, of one derivative. Tiny rates keep their digits, errors asked for after "
        "weights or data were changed in place, as torch counts it, are infinite, factors of entries in unequal "
        "proportions and of isotropic matrices are balanced, equalized and enveloped by their roots, maps that nearly "
        "cancel are out of balance by what is left of them, and through one unit they have one singular value.",
        pair(outside_checks.from_outside),
        (
            "penalties.penalty",
            "penalties.criterion",
            "penalties.relu_criterion",
            "penalties.best_method",
            "penalties.has_closed_form",
            "penalties.is_linear_in_masks",
            "penalties.effective_strength",
            "penalties.unit_gram",
            "penalties.unit_energies",
            "envelopes.induced",
            "envelopes.envelope",
            "equalization.balance",
            "equalization.equalize",
            "equalization.imbalance",
        ),
        "Written out, by enumeration; tiny penalties to first order in the rate.",
    ),
    room_claim(
        "refused-penalties",
        "Models, data, laws and options that do not belong together are refused in words, and answered beside; so are "
        "least penalties, envelopes and equalized networks that nobody knows. Blocks of one rate have the least "
        "penalty of their norm where they are as many as its tail asks for, and balanced factors at multiples of the "
        "next power of two; unequal ones shrink by their harmonic mean over their number. Laws without noise, "
        "inference mode, slopes of draws, one mask at a time, what is linear, gaps of nothing, rows that do not meet, "
        "units alike but for their rates, certified bounds under normal noise and what a lattice adds to integrals of "
        "margins are by definition.",
        pair(refused_checks.refused_penalties),
        (
            "penalties.penalty",
            "penalties.criterion",
            "penalties.has_closed_form",
            "penalties.effective_strength",
            "envelopes.induced",
            "envelopes.envelope",
            "equalization.equalize",
            "equalization.gap_condition",
            "equalization.joint_equalizer",
            "equalization.order_gaps",
            "equalization.rank_one_network",
            "equalization.rescale",
            "optima.certify",
        ),
        "By the words of refusals; conditions of optimality; quadrature and enumeration.",
    ),
    room_claim(
        "intervals-in-full",
        "Ranges of losses, limits by two moments, guaranteed intervals and scales of rounding are their formulas, for "
        "every family of models and kind of data.",
        pair(interval_data_checks.other_intervals),
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
        "routes-in-full",
        "Orthonormal columns of tall matrices, ranks by bits, sums in blocks, maps of factors, masks on weights, "
        "bypassed parts, rectified normal numbers, blocks of outcomes and systems of ratings are, by every route, what "
        "they are written out.",
        pair(route_checks.routes_in_full),
        ("models.Connections", "penalties.penalty", "penalties.MonteCarlo", "penalties.Enumerate", "models.ReLUNet"),
        "Dense algebra, integrals over a grid, sums in extended precision.",
    ),
    room_claim(
        "long-sums",
        "Criteria of ReLU networks are those of all masks, where outcomes are sorted, listed, blocked, repeated or "
        "batched; so are penalties and gradients, and errors are at most the rounding told, where outcomes are sorted, "
        "listed or blocked.",
        pair(sum_checks.long_sums),
        ("penalties.criterion", "penalties.penalty"),
        ENUMERATED,
    ),
    room_claim(
        "many-units",
        "Penalties of hundreds of units that are correlated with near ones alone, of every family, and half the "
        "curvature of last layers are sums over all pairs; criteria of ReLU networks whose inputs and units come in "
        "several numbers of copies, and their slopes, are those of all masks, visited, sorted, in a tree or in parts; "
        "so are those of units that agree in all but one weight, or in all but their rates. Rounding is told by the "
        "number of outcomes.",
        pair(many_unit_checks.many_units),
        (
            "penalties.penalty",
            "penalties.criterion",
            "penalties.has_closed_form",
            "penalties.SecondOrder",
            "models.ReLUNet",
            "models.Connections",
        ),
        ENUMERATED,
    ),
    room_claim(
        "counted-sums",
        "Sums over sorted lists and their slopes are those over all pairs, and moments of a layer by halves those of "
        "all outcomes.",
        pair(sum_checks.counted_sums),
        ("penalties.relu.moments.Dominance", "penalties.relu.device.dominance_sum"),
        ENUMERATED,
    ),
    room_claim(
        "costs-of-sums",
        "Costs of exact criteria are numbers of outcomes, estimated beyond two layers; the method that is chosen is "
        "the first that applies of closed form, enumeration, certified interval and draws.",
        pair(sum_checks.costs_of_sums),
        ("penalties.relu_cost", "penalties.best_method", "penalties.has_closed_form"),
        ENUMERATED,
    ),
    room_claim(
        "inner-sites",
        "Penalties of dropout inside a module, by entries and by channels, are those over all masks, which intervals "
        "from draws hold, and to second order those of the Hessian.",
        pair(sum_checks.inner_sites),
        ("penalties.penalty", "models.Site"),
        ENUMERATED,
    ),
    room_claim(
        "rounding-errors",
        "What single precision leaves in penalties and criteria lies within the errors told where nothing underflows, "
        "for linear, tied, deep, factored, connected and ReLU networks and laws of coins, blocks, lists and products.",
        pair(sum_checks.rounding_errors),
        (
            "penalties.penalty",
            "penalties.criterion",
            "penalties.unit_gram",
            "penalties.unit_energies",
            "penalties.risk",
        ),
        "Beside double precision.",
    ),
    room_claim(
        "many-examples",
        "Certified bounds hold the penalty of many weighed examples, under coins, products and blocks, and under "
        "normal noise; where tried, with a plain random head of three classes, their width is at most 8 % of it for "
        "four units of rates .1 to .5, and 1 % for variances .25 and .1.",
        pair(entropy_checks.many_examples),
        ("penalties.penalty", "penalties.Certified"),
        f"{ENUMERATED} Normal noise by quadrature.",
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
        ("penalties.penalty", "penalties.MonteCarlo", "penalties.risk"),
        "Beside the same draws, summed one by one.",
    ),
    room_claim(
        "data-penalties",
        "Penalties of factorizations on entries and measurements and of two layers on moments are means over all masks "
        "minus the risk, under coins, blocks, sliding blocks and lists, drawn ones near them; moments of batches are "
        "those of all examples.",
        pair(data_checks.penalties_of_data),
        ("penalties.penalty", "penalties.risk", "data.Entries", "data.Measurements", "data.Moments"),
        f"{ENUMERATED} Draws within five standard errors, at fixed seeds.",
    ),
    room_claim(
        "certified-in-full",
        "Bounds by moments, ranks of classes, outcomes that are written out, margins, who is looked at again, which "
        "ends are kept and what the estimate says are sums over all masks, example by example.",
        pair(certified_checks.certified_in_full),
        ("penalties.penalty",),
        "By enumeration of all masks.",
    ),
    Claim(
        "droptics-certified",
        "droptics",
        "Outputs linear in the mask, pi the softmax of their mean, d the moves, X = sum_k pi_k exp(d_k - pi . d): the "
        "cross-entropy penalty is E log X with X >= 1, and (M1^2 / M2) log(1 + M2 / M1) <= E log X <= log(1 + M1) for "
        "M1 = E X - 1 > 0, M2 = E (X - 1)^2; averaged over the outcomes of some units both hold again. Certified "
        "intervals hold it within these, in all instances closer with three of six units written out, and meet with "
        "all.",
        check=partial(entropy_checks.certified, 1.0),
        control=partial(entropy_checks.certified, 0.5),
        objects=("penalties.Certified", "penalties.penalty"),
        note=PROVED + " Above by Jensen; below because log(1 + x) / x is convex, under the law reweighted by X - 1.",
    ),
    Claim(
        "droptics-logistic",
        "droptics",
        "The logistic penalty of a margin with mean c and characteristic function phi of its moves is "
        "int_0^inf Re[e^(ict) (1 - phi(t))] / (t sinh(pi t)) dt; the midpoint rule of step 2 pi / L errs by at most "
        "(E e^m + E e^-m) e^-L / (1 - e^-L).",
        check=partial(entropy_checks.logistic, 1.0),
        control=partial(entropy_checks.logistic, 1.01),
        objects=("penalties.ClosedForm", "penalties.penalty", "penalties.second_order"),
        note=PROVED + " From the Fourier integral of log cosh and Poisson summation.",
    ),
    Claim(
        "droptics-consistency",
        "droptics",
        "To second order in the noise the mean divergence between two independent masks of a head (R-Drop) is twice "
        "its cross-entropy penalty; between two of the K masks that a layer of rate p draws together, which balance "
        "each other, (K - f (1 - f) / (K p (1 - p))) / (K - 1) times that, with f the fractional part of K p.",
        check=partial(entropy_checks.consistency, 2.0),
        control=partial(entropy_checks.consistency, 1.0),
        objects=("layers.ExplicitDropout", "penalties.second_order"),
        note=PROVED + " Both are quadratic forms of the softmax Hessian.",
    ),
    Claim(
        "droptics-sampled",
        "droptics, estimates by draws",
        "The interval of a criterion is that of its penalty moved by the risk; draws of the sampled layer have the "
        "penalty for a mean.",
        check=partial(sampled_checks.sampled_intervals, 1.0),
        control=partial(sampled_checks.sampled_intervals, 1.2),
        objects=("penalties.criterion", "layers.ExplicitDropout", "penalties.penalty", "penalties.risk"),
        note="By 20,000 draws with a fixed seed, within five standard errors.",
    ),
)
