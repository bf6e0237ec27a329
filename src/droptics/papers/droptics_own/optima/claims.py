"""Claims on optima."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own.instruments import CHECKED, ENUMERATED, PROVED, SKETCHED, pair, room_claim
from droptics.papers.droptics_own.optima import (
    answer_checks,
    dropped_weight_checks,
    factor_checks,
    krylov_checks,
    leading_checks,
    left_out_checks,
    minimum_checks,
    silent_input_checks,
    solved_checks,
    solved_head_checks,
    weak_direction_checks,
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "droptics-benign-untied",
        "droptics, the question the thesis leaves open",
        "Two-layer linear networks with untied weights under squared loss, one positive rate for all hidden units: "
        "for all data and widths every local minimum of the criterion is global, and at every other critical point "
        "the criterion has a direction of negative curvature.",
        check=partial(factor_checks.untied, 1),
        control=partial(factor_checks.untied, 2),
        objects=(
            "optima.optimum",
            "landscapes.spurious_minimum",
            "landscapes.inspect",
        ),
        note=SKETCHED,
    ),
    Claim(
        "droptics-spurious",
        "droptics, the other side of thesis-thm7",
        "Deep linear networks do have local minima that are not global: with two hidden layers of widths (2, 2), "
        "white inputs, targets of the map I_2 and drop 1/3 in both layers (lam = 1/2) that of spurious_minimum has "
        "criterion 1.36, and the least is 10/9.",
        check=partial(minimum_checks.spurious, 10 / 9),
        control=partial(minimum_checks.spurious, 1.36),
        objects=(
            "landscapes.spurious_minimum",
            "landscapes.inspect",
            "optima.optimum",
        ),
        note=CHECKED + " Gradient zero, no negative curvature, flat directions are symmetries.",
    ),
    Claim(
        "droptics-optimal-factors",
        "droptics, converse of mianjy2018-thm3.4",
        "Two-layer linear networks, at one rate above zero, with inputs of full rank and one optimal map, not zero: "
        "the optimal factors are exactly one optimal pair, both rotated alike, equalized again, and rescaled by nodes, "
        "c before and 1/c behind; those of tied ones on white inputs the optimal one, rotated, equalized again, with "
        "any signs.",
        check=partial(factor_checks.all_factors, True),
        control=partial(factor_checks.all_factors, False),
        objects=(
            "optima.optimal_factors",
            "linalg.psd_root",
            "optima.optimum",
            "penalties.criterion",
        ),
        note=PROVED + " Checked: every such pair is optimal, also on singular inputs, where V is free off their range, "
        "and the pairs that descent finds are such.",
    ),
    Claim(
        "droptics-unequal-rates",
        "droptics",
        "Two-layer linear networks whose units have rates p_i, lam_i = p_i / (1 - p_i), s the singular values of E[y "
        "x^T] C^(-1/2), C = E[x x^T]: the least criterion is E|y|^2 - sum_j s_j^2 plus the least sum_j (s_j - x_j)^2 "
        "+ sum_i lam_i n_i^2 over x >= 0 with at most as many entries as there are units and n that x majorizes. "
        "shrink_unequal finds both by pooling, optimum has that criterion.",
        check=partial(factor_checks.unequal_rates, 1.0),
        control=partial(factor_checks.unequal_rates, 1.05),
        objects=(
            "linalg.shrink_unequal",
            "optima.optimum",
            "linalg.psd_root",
        ),
        note=SKETCHED,
    ),
    Claim(
        "droptics-dropblock-dropout",
        "droptics, on pal2020-fig4",
        "At equal positive rate and width DropBlock with blocks of r units has at least the envelope and the least "
        "penalty of dropout for every map A = U V^T C^(1/2), C the second moment of the inputs; their envelopes are "
        "equal iff ||A||_* >= r ||A||_2, their least penalties too where there are as many blocks as the tail of the "
        "r-support norm of A has singular values that are not zero.",
        check=partial(minimum_checks.dropblock_against_dropout, 1.0),
        control=partial(minimum_checks.dropblock_against_dropout, 0.9),
        objects=("norms.k_support", "envelopes.envelope", "envelopes.induced", "equalization.equalize"),
        note=PROVED,
    ),
    Claim(
        "droptics-connections",
        "droptics, replaces pal2020-thm4.1",
        "DropConnect at one rate on the first weights of a two-layer linear network: the infimum of the penalty over "
        "all factors U V^T = B with d columns, d at least the rank of B, is (gamma/d) ||B diag(sqrt E x_i^2)||_*^2, "
        "gamma = p / (1 - p); it is attained where all E x_i^2 > 0. induced has that value, and the factors of "
        "optimum attain it for their map.",
        check=partial(dropped_weight_checks.drop_connect_optimum, 1.0),
        control=partial(dropped_weight_checks.drop_connect_optimum, 1.1),
        objects=("optima.optimum", "envelopes.induced", "models.Connections", "penalties.penalty"),
        note=PROVED,
    ),
    Claim(
        "droptics-head",
        "droptics",
        "For fixed features h, squared loss and any mask law of mean one and covariance Cbar a best last layer is a "
        "generalized ridge regression, W = E[y h^T] (E[h h^T] + Cbar o E[h h^T])^+, the only one where that matrix "
        "has full rank; with a bias y and h are centered, but not behind Cbar, and b = E y - W E h. optimal_head has "
        "its criterion.",
        check=partial(minimum_checks.best_head, 1.0),
        control=partial(minimum_checks.best_head, 1.05),
        objects=("optima.optimal_head", "penalties.criterion"),
        note=PROVED,
    ),
    Claim(
        "droptics-loo",
        "droptics",
        "Linear regression under dropout on its inputs, one by one or by blocks, at rates above zero: loo_errors_ of "
        "DropoutRidgeCV are the mean squared errors at every example of the least-squares fit, of least norm where it "
        "is not unique, to the others, which forgets the example in the penalty, too; the whole path of rates takes "
        "one singular value decomposition, and drop_ is the rate of the least mean.",
        check=partial(left_out_checks.leave_one_out, True),
        control=partial(left_out_checks.leave_one_out, False),
        objects=("heads.ridge.DropoutRidgeCV",),
        note=PROVED + " Examples that hold nearly all energy of a block, or of whose error less than 1e-5 is left, are "
        "refitted; of fits that are not unique the one of least norm counts, inputs in units of a power of two next to "
        "their root mean squares.",
    ),
    Claim(
        "droptics-deep-optimum",
        "droptics, extends thesis-thm10",
        "Deep linear networks of hidden widths d_l with rates p_l, lam_l = p_l / (1 - p_l), s the singular values of "
        "E[y x^T] C^(-1/2), C = E[x x^T]: the least criterion is E|y|^2 minus the largest sum_{i in S} s_i^2 / prod_l "
        "(1 + lam_l / (d_l x_li)) over sets S of at most min d_l of them and shares x_li > 0 that sum to one over S "
        "in every layer. For M = I_2, widths (2, 2) and one lam its rank falls from 2 to 1 at lam = sqrt 2.",
        check=partial(minimum_checks.deep_optimum, 1.0),
        control=partial(minimum_checks.deep_optimum, 0.9),
        objects=("optima.optimum",),
        note=SKETCHED,
    ),
    room_claim(
        "weak-directions",
        "Examples in single precision with a column that repeats others but for 1e-8: optimum and certify of "
        "TwoLayerLinear leave out the directions whose singular values, columns in units of their own, are below 8 x "
        "2^-23. The bound is the least criterion of all ranks on the others less slack, slack at least the energy of "
        "the targets along those left out; the optimum is certified where slack is at most 1e-9 of the energy.",
        pair(weak_direction_checks.algebra_rooms),
        ("optima.optimum", "optima.certify"),
        "By a decomposition in double precision; all ranks. Also by parts: upper_values of a Krylov basis are at "
        "least the level above which they are sought.",
    ),
    room_claim(
        "side-optima",
        "optimum has criterion E|y|^2 and no weights where inputs have no energy, and the least criterion of all "
        "ranks at rate 0, on Entries read in product proportions and on orthogonal Measurements; other Entries are "
        "refused. certify of a ReLU network under one law for all layers is that of its last hidden layer, of a tied "
        "network on inputs that are not white that of untied ones. Bounds of Moments with a rounding lie below the "
        "criterion at moments that differ by it. optimal_factors of a tied optimum, turned and signed, keep its map.",
        pair(silent_input_checks.side_optima),
        ("optima.certify", "optima.optimal_factors", "optima.optimum"),
        "All ranks.",
    ),
    room_claim(
        "krylov-in-full",
        "optimum_of_map of dense, sparse and operator maps: objective is the criterion of its factors, not below the "
        "least of all ranks, bound not above that, and the gap at most twice the tolerance times the energy. What it "
        "is made of is that of dense algebra: bases that span (M M^T)^k M X for random X, their Ritz values, "
        "residuals and bounds on the rest of the spectrum, eigenvalues of graded moments, and shares of layers.",
        pair(krylov_checks.krylov_in_full),
        ("optima.optimum_of_map",),
        "Dense algebra, fractions, polynomials of the same random vectors.",
    ),
    room_claim(
        "answers-in-full",
        "certify of a deep network with masks on its inputs is that of inputs with the noise of these masks added, "
        "which optimum attains. An Optimum or Certificate has gap = objective - bound, and an Optimum is certified "
        "where |gap| is at most tolerance times the larger of scale and objective, else its reason says why not, by "
        "slack, search or width. escape at zero weights under white inputs has curvature -2 ||M||_2, M the map of the "
        "targets.",
        pair(answer_checks.answers_in_full),
        (
            "optima.optimum",
            "optima.certify",
            "optima.Optimum",
            "landscapes.escape",
        ),
        "Written out; every rank tried. Also by parts: criteria of wide factors, spectra shrunk under every law, and "
        "how far rounding may move envelopes and criteria.",
    ),
    room_claim(
        "equalized-in-full",
        "equalize keeps the map of tied networks on white inputs, and of untied ones on singular inputs where a "
        "network attains its least penalty, at that penalty. joint_equalizer, where it ends, is a rotation that makes "
        "all products of column norms equal. rescale keeps the outputs under every mask, of ReLU networks by positive "
        "factors, of deep linear ones by any but zero. balance keeps U V^T with one diagonal of U^T U and V^T C V, C "
        "the second moment of the inputs, of full rank, and leaves zeros for dead units.",
        pair(answer_checks.equalized_in_full),
        (
            "equalization.equalize",
            "equalization.joint_equalizer",
            "equalization.rescale",
            "equalization.balance",
        ),
    ),
    room_claim(
        "solved-in-full",
        "optimal_head under Bernoulli, Block, SlidingBlock, Product and Discrete laws is least squares over all "
        "masks; loo_errors_ of DropoutRidgeCV are those of refits, and predict of DropoutRidge has the deviations "
        "that masks give. shrink is the best of all supports, shrink_unequal with the shares of allocate that of a "
        "quadratic program, k_support_shrink least beside 20 points nearby. optimum of Connections has no slope, and "
        "with as many units as outputs at rates from .3 to .6 a gap of at most 1e-8; in certify unequal rates count "
        "like the least.",
        pair(solved_checks.solved_in_full),
        (
            "optima.optimal_head",
            "optima.optimum",
            "optima.certify",
            "heads.ridge.DropoutRidge",
            "heads.ridge.DropoutRidgeCV",
            "linalg.shrink",
            "linalg.shrink_unequal",
            "linalg.allocate",
            "linalg.k_support_shrink",
        ),
        f"{ENUMERATED} Refits, grids of shares, derivatives.",
    ),
    room_claim(
        "solved-heads",
        "optimal_head with and without a bias solves its ridge system on weighted examples. certify of a LastLayer is "
        "the least ||T - U V^T||^2 + sum_i lam_i |u_i|^2 |v_i|^2, T the weighted targets, centered where there is a "
        "bias, lam_i the odds of the units; of a ReLU network those of its last hidden layer. v = k_support_shrink(x, "
        "t, k) has <u, v> = ||v||_(k)^2 = the squared dual norm of u = (x - v) / t. A step of train on a tied network "
        "under Penalized is one along the slope of its criterion.",
        (partial(solved_head_checks.solved_heads, 1.0), partial(solved_head_checks.solved_heads, 1.1)),
        (
            "optima.certify",
            "optima.optimal_head",
            "linalg.k_support_shrink",
            "training.train",
        ),
        "By systems solved one by one and quadratic programs.",
    ),
    Claim(
        "droptics-krylov",
        "droptics, mianjy2018-thm2.4 for large maps",
        "optimum_of_map from a block Krylov basis, on maps of rank 40 with sides of 500 and 450, has the least "
        "criterion of all ranks and a bound within 1e-8 below it, the best rank, its map to 1e-5, and units of one "
        "size.",
        check=partial(leading_checks.leading_values, 1.0),
        control=partial(leading_checks.leading_values, 1.1),
        objects=("optima.optimum_of_map",),
        note="On maps of known singular values; their sides are beyond those that are decomposed directly.",
    ),
)
