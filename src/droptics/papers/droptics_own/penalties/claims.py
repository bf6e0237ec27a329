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
        "For every two-layer linear network, every mask law of mean one and covariance Cbar and A = U V^T C^(1/2), C "
        "the second moment of the inputs, the penalty is at least ||A||_F^2 / (1^T Cbar^+ 1) if 1 is in the range of "
        "Cbar; at least ||A||_*^2 / (1^T K^+ 1), K = sum_I (alpha_I / |I|) 1_I 1_I^T, if 1 is in the range of K and "
        "Cbar = sum_I alpha_I 1_I 1_I^T over intervals of units with alpha >= 0; and at least ||A||_*^2 / sum_i (1 / "
        "D_i) for every diagonal 0 < D <= Cbar.",
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
        "At drop 1/2 on inputs and hidden units ReLU networks with non-negative weights, of any width and depth, have "
        "criterion at least 1/(2(K+2)) on P_(1,1): K ones with target 1 and K zeros with target 0, each with "
        "probability 1/2.",
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
        "On P_(1,1), K ones with target 1 and K zeros with target 0, n units that fire only when every input is gone, "
        "with their best output layer, have a smaller criterion than all non-negative networks of the same width with "
        "one hidden layer: drop 1/2 on inputs and units, K >= 3, every n.",
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
        "On P_(1,1), K ones with target 1 and K zeros with target 0, n units of first-one gadgets (helmbold2017-lem9) "
        "beat every non-negative network of their width from n = 27, 28, 72, 272, 4160 on for K = 3, 4, 8, 16, 64, "
        "and with the best output bias from 12, 20, 64, 240, 4032 on; no narrower ones do.",
        check=partial(negative_checks.gadget_widths, 0),
        control=partial(negative_checks.gadget_widths, 1),
        objects=("penalties.criterion",),
        note="Depth 2, drop 1/2, n a multiple of K; both sides in rational numbers. That the best non-negative network "
        "of a width has equal units rests on the sketch of droptics-nonnegative-infimum.",
    ),
    Claim(
        "droptics-dropconnect-ratio",
        "droptics, on pal2020-thm4.1",
        "At one rate above zero, where all E[x_i^2] > 0, the penalty of one unit that has an effect under dropout "
        "over that under DropConnect lies between the extreme eigenvalues of the matrix E[x_i x_j] / sqrt(E[x_i^2] "
        "E[x_j^2]), both attained; so neither is always the larger, unless E[x_i x_j] = 0 for all i != j, where they "
        "are equal.",
        check=partial(connection_checks.per_unit_ratio, 1.0),
        control=partial(connection_checks.per_unit_ratio, 0.9),
        objects=("models.Connections", "penalties.penalty"),
        note="Proved: a Rayleigh quotient.",
    ),
    Claim(
        "droptics-balanced",
        "droptics, on pal2020-thm2.5",
        "In the four instances tried, of blocks of two and three units, the minimizers of the DropBlock objective at "
        "a FIXED width that descent finds are balanced, too: blocks U_I V_I^T have equal norms.",
        check=partial(optimum_checks.balanced_at_fixed_width, True),
        control=partial(optimum_checks.balanced_at_fixed_width, False),
        objects=("models.TwoLayerLinear",),
        note="Observed, not proved, except for blocks of one unit.",
    ),
    Claim(
        "droptics-any-law",
        "droptics, generalizes pal2020-lem3.1 and thesis-prop8",
        "The penalty of two-layer, DropConnect and deep linear networks on weighted examples under any law, "
        "correlated ones included, is the mean over all masks minus the weighted risk; for deep networks laws that "
        "are not independent from layer to layer take Enumerate.",
        check=partial(runs.any_law, 1.0),
        control=partial(runs.any_law, 1.1),
        objects=("penalties.penalty", "penalties.risk", "models.Connections", "models.DeepLinear"),
        note=PROVED,
    ),
    room_claim(
        "drawn-in-full",
        "For every linear family, penalty by Enumerate is the mean over all masks of what they add to the loss, by "
        "MonteCarlo of one network that over draws less a first-order control, with Student's interval widened for "
        "skewness, or, where draws show too little, the plain mean in the guaranteed interval; of ReLU networks the "
        "last mask is integrated, the others fitted by least squares if draws suffice. SecondOrder is half the sum of "
        "Cbar_ij times second derivatives in the multipliers.",
        pair(drawn_mask_checks.drawn_masks_in_full),
        ("penalties.penalty", "penalties.criterion", "penalties.risk", "models.Connections", "penalties.SecondOrder"),
        "On Sample, Moments, Entries or Measurements, as the family takes; loops over the same masks, one network and "
        "one mask at a time. By default Enumerate lists up to 65,536 masks, MonteCarlo draws 1,000 at 99 %, "
        "SecondOrder 400 for its check, ClosedForm sums for two minutes at most.",
    ),
    room_claim(
        "side-paths",
        "penalty of deep networks with masked inputs, and its gradient, are those of all masks, and sub_penalties, "
        "its terms by the number of pivot layers (thesis-prop8), those of inclusion and exclusion over the layers "
        "that are masked. penalty of DropConnect under blocks is a sum over blocks; error is 2^-53 times a count of "
        "roundings times energies of absolute weights. best_method is Enumerate for three classes and few coins, "
        "Certified for many, MonteCarlo for sliding blocks. By MonteCarlo a loss without a known bound has an "
        "infinite interval where outcomes are rare. Numbers beyond float32 and methods that do not apply are refused.",
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
        "A class derived from TwoLayerLinear has its penalty, induced, envelope, unit_gram and best_method. A family "
        "that registers unit_gram alone has the penalty sum_ij Cbar_ij G_ij of that G and its diagonal for "
        "unit_energies; of one that registers nothing penalty, induced, envelope and equalize raise NoClosedForm, and "
        "best_method enumerates. is_linear_in_masks is true of two-layer, tied, DropConnect and factored networks, "
        "false of deep and ReLU ones. A ReLU network has_closed_form where all laws before the last list their masks, "
        "under cross-entropy the last, too; relu_criterion is its criterion example by example, refused beyond "
        "ClosedForm(seconds), and second derivatives are refused.",
        pair(outside_checks.from_outside),
        (
            "penalties.penalty",
            "penalties.criterion",
            "penalties.relu_criterion",
            "penalties.best_method",
            "penalties.has_closed_form",
            "penalties.is_linear_in_masks",
            "penalties.unit_gram",
            "penalties.unit_energies",
            "envelopes.induced",
            "envelopes.envelope",
            "equalization.equalize",
        ),
        "Written out, by enumeration.",
    ),
    room_claim(
        "edges-of-penalties",
        "effective_strength keeps its digits at rates of 1e-17, and penalty by Certified and SecondOrder at 1e-11 is "
        "the first order in the rate within 3 %. The errors of penalty, criterion, induced and envelope are infinite, "
        "and their ends, too, once weights, inputs, targets, weights of examples or moments were changed in place by "
        "operations that torch counts; their values stay.",
        pair(outside_checks.edges_of_penalties),
        (
            "penalties.penalty",
            "penalties.criterion",
            "penalties.effective_strength",
            "envelopes.induced",
            "envelopes.envelope",
        ),
        "Written out.",
    ),
    room_claim(
        "observed-factors",
        "Factors of Entries read in product proportions p_i q_j > 0 and of isotropic Measurements: balance and "
        "equalize keep their map, equalize attains induced, and envelope is ||A||_*^2 / sum_i (1 / lam_i), lam_i the "
        "odds of the units, A_ij = (p_i q_j)^(1/2) (U V^T)_ij. imbalance of a map that two nodes cancel but for 2^-27 "
        "is exact, of one that they cancel infinite. Of deep networks with one layer of one unit induced and envelope "
        "are (prod_l (1 + lam_l / d_l) - 1) ||A||_2^2.",
        pair(outside_checks.observed_factors),
        (
            "penalties.penalty",
            "envelopes.induced",
            "envelopes.envelope",
            "equalization.balance",
            "equalization.equalize",
            "equalization.imbalance",
        ),
        "Written out.",
    ),
    room_claim(
        "refused-penalties",
        "penalty, induced, order_gaps, rescale, rank_one_network and effective_strength refuse models, data, laws and "
        "options that do not belong together with an error that names what does not fit, and answer each beside one "
        "that does; Enumerate of normal noise raises NoFiniteSupport. NoClosedForm is raised by induced and envelope "
        "under Discrete laws and of deep networks with several rates in a layer, by induced of tied networks on "
        "anisotropic inputs or under blocks and of DropConnect under blocks, and by envelope and equalize of deep "
        "networks with masked inputs; equalize refuses batches, but for tied networks at one rate.",
        pair(refused_checks.refused_penalties),
        (
            "penalties.penalty",
            "penalties.has_closed_form",
            "penalties.effective_strength",
            "envelopes.induced",
            "envelopes.envelope",
            "equalization.equalize",
            "equalization.order_gaps",
            "equalization.rank_one_network",
            "equalization.rescale",
        ),
        "By the words of refusals.",
    ),
    room_claim(
        "blocks-of-a-spectrum",
        "On a spectrum of one leading value and a tail of three b blocks of two units have the envelope "
        "(gamma / b) ||A||_(2)^2, gamma = p / (1 - p), and from b = 3 on the same least penalty, induced, which "
        "factors of equalize attain where 4 divides b; with fewer blocks induced is refused, at other b equalize. "
        "certify counts blocks of several rates like the strength 1 / sum_i (1 / lam_i).",
        pair(refused_checks.blocks_of_a_spectrum),
        (
            "penalties.penalty",
            "envelopes.induced",
            "envelopes.envelope",
            "equalization.equalize",
            "optima.certify",
        ),
        "Written out; conditions of optimality.",
    ),
    room_claim(
        "noise-at-the-edges",
        "penalty by SecondOrder is 0 without noise, and is the same in inference mode and with one mask at a time. "
        "gap_condition holds where E[y x^T] = 0. joint_equalizer makes all products of column norms 0 where the row "
        "spaces are orthogonal. criterion of ReLU networks with units and inputs that are alike but for their rates, "
        "and its gradient, are those of all masks. Certified intervals hold the penalty under normal noise on two "
        "units, of 3 and of 14 classes.",
        pair(refused_checks.noise_at_the_edges),
        (
            "penalties.penalty",
            "penalties.criterion",
            "equalization.gap_condition",
            "equalization.joint_equalizer",
        ),
        "Quadrature and enumeration. Also by parts: what a lattice adds to integrals of several margins, and how much "
        "at most.",
    ),
    room_claim(
        "intervals-in-full",
        "The guaranteed interval of MonteCarlo is the empirical Bernstein bound of Maurer and Pontil for a loss of "
        "range sum_n w_n (|f|_max + |y|)^2, of cross-entropy and margins likewise, cut at what mean and variance of "
        "the multipliers allow and where the loss would fall below 0; all masks move the loss within that range and "
        "its mean within that limit, for every family and kind of data. With fewer than ten expected drops or signals "
        "among the draws penalty has it for an interval, and says so.",
        pair(interval_data_checks.other_intervals),
        ("penalties.penalty", "penalties.MonteCarlo", "penalties.risk"),
    ),
    room_claim(
        "controls-in-full",
        "Mean and variance that MonteCarlo has of the outputs of a ReLU network are those of the drawn masks, weighed "
        "by stratum, less controls of mean zero - outputs under the listed masks of one site, main effects of single "
        "units, slopes at one - with weights by least squares, plus the variance of the controls; both intervals are "
        "Student's, with degrees of freedom by fourth moments, and withheld below six of them.",
        pair(control_checks.controls_in_full),
        ("penalties.MonteCarlo", "models.ReLUNet"),
        "From the same draws, group by group.",
    ),
    room_claim(
        "routes-in-full",
        "Outputs of Connections under masks are sum_k u_ok sum_i z_ik v_ik x_i, for one mask, one for each example, "
        "and lists of either; penalty with a rate for each weight is the mean over all masks, and of a ReLU network "
        "of three layers by Enumerate, too, which intervals of MonteCarlo hold. By every route these parts are what "
        "they are written out: orthonormal columns of tall matrices, ranks, sums in blocks, maps of factors, layers "
        "left out, moments of rectified normal numbers, blocks of outcomes, and systems of ratings.",
        pair(route_checks.routes_in_full),
        ("models.Connections", "penalties.penalty", "penalties.MonteCarlo", "penalties.Enumerate", "models.ReLUNet"),
        "Dense algebra, integrals over a grid, sums in extended precision.",
    ),
    room_claim(
        "long-sums",
        "criterion and penalty of ReLU networks by ClosedForm are sums over all masks, and so are their gradients: of "
        "two and three layers, under squared loss and cross-entropy, coins and blocks, with little memory and equal "
        "units; criteria of batches are those of their members. A criterion is off by at most its error, in single "
        "precision, too.",
        pair(sum_checks.long_sums),
        ("penalties.criterion", "penalties.penalty"),
        ENUMERATED,
    ),
    room_claim(
        "many-units",
        "penalty of 300 units under SlidingBlock is sum_ij Cbar_ij G_ij, G the Gram matrix of what units add to the "
        "outputs, of two-layer, tied, factored and DropConnect networks and last layers, and SecondOrder of last "
        "layers that with the second derivatives of the loss; deep and ReLU networks have it by second moments. "
        "criterion of ReLU networks and its gradient are those of all masks where inputs and units come in several "
        "numbers of copies, or agree in all but one weight or their rates.",
        pair(many_unit_checks.many_units),
        (
            "penalties.penalty",
            "penalties.criterion",
            "penalties.has_closed_form",
            "penalties.SecondOrder",
            "models.ReLUNet",
            "models.Connections",
        ),
        "By enumeration of all masks. Also: error by the number of outcomes, written out.",
    ),
    room_claim(
        "counted-sums",
        "dominance_sum of lists a, falling, and b with weights w is sum_ij max(w_i, 0) max(-w_j, 0) max(a_i - a_j, 0) "
        "max(b_i - b_j, 0). Dominance.moments are E h and E h h^T of a layer h = max(W z + b, 0) over all outcomes of "
        "coins z that come in several copies, and Dominance.slopes the derivatives of linear combinations of these.",
        pair(sum_checks.counted_sums),
        ("penalties.relu.moments.Dominance", "penalties.relu.device.dominance_sum"),
        ENUMERATED,
    ),
    room_claim(
        "costs-of-sums",
        "relu_cost counts 2^inputs outcomes for every example and network of two layers whose inputs differ, and "
        "estimates those of three layers within a factor of two where tried. best_method is the first that applies of "
        "ClosedForm, for ReLU networks where the sum is short enough, Enumerate of 65,536 masks at most, Certified "
        "(cross-entropy and logistic loss on a Sample, outputs linear in the mask, laws that fall apart) and "
        "MonteCarlo.",
        pair(sum_checks.costs_of_sums),
        ("penalties.relu_cost", "penalties.best_method", "penalties.has_closed_form"),
        ENUMERATED,
    ),
    room_claim(
        "inner-sites",
        "penalty of a Site, dropout by entries or by channels inside a module, by Enumerate is the mean over all "
        "masks minus the loss without, under squared loss and cross-entropy; intervals of 400 draws at 99.9999 % hold "
        "it, and SecondOrder is half the sum of Cbar_ij times the Hessian in the multipliers.",
        pair(sum_checks.inner_sites),
        ("penalties.penalty", "models.Site"),
        ENUMERATED,
    ),
    room_claim(
        "rounding-errors",
        "penalty and criterion in float32, by ClosedForm and Enumerate, are off by at most their error from those of "
        "the same numbers in float64, where nothing underflows, for linear, tied, deep, factored, DropConnect and "
        "ReLU networks and laws of coins, blocks, lists and products. Of two-layer networks unit_gram is (U^T U) o "
        "(V^T C V), of tied ones with V = U, unit_energies its diagonal, and the penalty the sum of Cbar o unit_gram.",
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
        "Certified intervals hold the cross-entropy penalty of a linear head on 70 and more weighted examples under "
        "Bernoulli, Product and Block laws, and on few under Gaussian ones; where tried, with a random head of three "
        "classes, their width is at most 8 % of it for four units of rates .1 to .5, and 1 % for two of variances .25 "
        "and .1.",
        pair(entropy_checks.many_examples),
        ("penalties.penalty", "penalties.Certified"),
        f"{ENUMERATED} Normal noise by quadrature.",
    ),
    room_claim(
        "factors-and-integrals",
        "Certified intervals of heads of 4, 12 and 14 classes hold the sum over all masks, no wider with two units "
        "written out and within 1e-9 of it with all; those of 14 classes lie within sums over single margins. They "
        "are made of what all outcomes give: exponential moments of coins, lists and normal noise, integrals of "
        "margins within their error, rules of two nodes (exact for two values, bounds for three) and bounds by "
        "leading classes (exact where one class is left).",
        pair(piece_checks.factors_and_integrals),
        ("penalties.penalty", "penalties.Certified"),
        f"{ENUMERATED} Normal noise by its formulas.",
    ),
    room_claim(
        "drawn-numbers",
        "penalty by MonteCarlo is the mean of n draws less a multiple of their first-order control, by least squares, "
        "or their plain mean where two rarest outcomes are hardly drawn together; the half width is t s / n^(1/2) + "
        "t^2 |m3| / (2 s^2 n), t Student's quantile, s^2 and m3 the second and third central moments of what is left. "
        "Where the rarest outcome, or a signal through all layers, is expected in fewer than ten draws, or fewer "
        "carry the variance, the plain mean has the guaranteed interval, and method says why.",
        pair(piece_checks.drawn_numbers),
        ("penalties.penalty", "penalties.MonteCarlo", "penalties.risk"),
        "Beside the same draws, summed one by one.",
    ),
    room_claim(
        "data-penalties",
        "penalty of Factorization on Entries and Measurements and of TwoLayerLinear on Moments is the mean over all "
        "masks minus the risk, under coins, blocks, sliding blocks and lists; that of 800 draws is off by at most the "
        "width of its 99 % interval. Moments.of_batches has the moments of all examples, and as_sample examples with "
        "these.",
        pair(data_checks.penalties_of_data),
        ("penalties.penalty", "penalties.risk", "data.Entries", "data.Measurements", "data.Moments"),
        "By enumeration of all masks. Draws at fixed seeds.",
    ),
    room_claim(
        "certified-in-full",
        "Value, ends and error of penalty by Certified are weighted means of bounds of the examples, with what "
        "rounding adds; of two classes and of margins those of integrals. The bounds are made of sums over all masks, "
        "example by example: E X and E X^2 (droptics-certified), chances that another class overtakes the first, "
        "outcomes of the units that matter most, penalties of single margins. Examples are looked at again until the "
        "others leave a twentieth open; of two bounds the better ends are kept.",
        pair(certified_checks.certified_in_full),
        ("penalties.penalty",),
        "By enumeration of all masks.",
    ),
    Claim(
        "droptics-certified",
        "droptics",
        "Outputs linear in the mask, pi the softmax of their mean, d the moves, X = sum_k pi_k exp(d_k - pi . d): the "
        "cross-entropy penalty is E log X with X >= 1, and (M1^2 / M2) log(1 + M2 / M1) <= E log X <= log(1 + M1) for "
        "M1 = E X - 1 > 0, M2 = E (X - 1)^2; averaged over the outcomes of some units both hold again. Where tried, "
        "at rates from .1 to .8, Certified intervals hold it within these, are narrower with three of six units "
        "written out, and meet with all.",
        check=partial(entropy_checks.certified, 1.0),
        control=partial(entropy_checks.certified, 0.5),
        objects=("penalties.Certified", "penalties.penalty"),
        note=PROVED + " Above by Jensen; below because log(1 + x) / x is convex, under the law reweighted by X - 1.",
    ),
    Claim(
        "droptics-logistic",
        "droptics",
        "The logistic penalty of a margin m with mean c, its moves m - c of characteristic function phi, is int_0^inf "
        "Re[e^(ict) (1 - phi(t))] / (t sinh(pi t)) dt; the midpoint rule of step 2 pi / L, L > 0, errs by at most (E "
        "e^m + E e^-m) e^-L / (1 - e^-L).",
        check=partial(entropy_checks.logistic, 1.0),
        control=partial(entropy_checks.logistic, 1.01),
        objects=("penalties.ClosedForm", "penalties.penalty", "penalties.second_order"),
        note=PROVED + " From the Fourier integral of log cosh and Poisson summation.",
    ),
    Claim(
        "droptics-consistency",
        "droptics",
        "To second order in the noise the mean divergence between two independent masks of a head (R-Drop) is twice "
        "its cross-entropy penalty; between two of the K > 1 masks that ExplicitDropout of a rate 0 < p < 1 draws "
        "together, which balance each other, (K - f (1 - f) / (K p (1 - p))) / (K - 1) times that, with f the "
        "fractional part of K p.",
        check=partial(entropy_checks.consistency, 2.0),
        control=partial(entropy_checks.consistency, 1.0),
        objects=("layers.ExplicitDropout", "penalties.second_order"),
        note=PROVED + " Both are quadratic forms of the softmax Hessian.",
    ),
    Claim(
        "droptics-sampled",
        "droptics, estimates by draws",
        "Value and ends of criterion are those of penalty plus the risk, the ends up to the rounding that both allow "
        "for, by MonteCarlo, Enumerate, Certified and ClosedForm wherever these take squared loss, cross-entropy or "
        "logistic loss; the penalties that ExplicitDropout for cross-entropy or logistic loss draws in its sampled "
        "mode have the penalty for a mean.",
        check=partial(sampled_checks.sampled_intervals, 1.0),
        control=partial(sampled_checks.sampled_intervals, 1.2),
        objects=("penalties.criterion", "layers.ExplicitDropout", "penalties.penalty", "penalties.risk"),
        note="By 20,000 draws of each loss with a fixed seed, within five standard errors. Uniform numbers in float32 "
        "resolve a rate to 2^-24.",
    ),
)
