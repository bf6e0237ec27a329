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
        "Untied two-layer linear networks, one rate for all hidden units: where it is positive all local minima are "
        "global and all saddles are strict.",
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
        "Deep linear networks do have local minima that are not global: M = I_2, widths (2,2), lam = 1/2.",
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
        "Two-layer linear networks whose units have different rates: the optimum is a quadratic program on sorted "
        "vectors, solved by pooling.",
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
        "At equal positive rate and width DropBlock with blocks of r units regularizes a map A at least as much as "
        "dropout; their envelopes are equal iff ||A||_* >= r ||A||_2, their least penalties too where there are as "
        "many blocks as the tail of the r-support norm of A has singular values that are not zero.",
        check=partial(minimum_checks.dropblock_against_dropout, 1.0),
        control=partial(minimum_checks.dropblock_against_dropout, 0.9),
        objects=("norms.k_support", "envelopes.envelope", "envelopes.induced", "equalization.equalize"),
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
        objects=("optima.optimum", "envelopes.induced", "models.Connections", "penalties.penalty"),
        note=PROVED,
    ),
    Claim(
        "droptics-head",
        "droptics",
        "For fixed features h, squared loss and any mask law of mean one and covariance Cbar the best last layer is a "
        "generalized ridge regression, W = E[y h^T] (E[h h^T] + Cbar o E[h h^T])^+; with a bias y and h are centered, "
        "but not behind Cbar.",
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
        "refitted.",
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
    room_claim(
        "weak-directions",
        "Examples in single precision whose columns nearly depend on each other have the coordinates, optima and "
        "certificates of the directions above rounding; upper bounds of a spectrum never lie below their level.",
        pair(weak_direction_checks.algebra_rooms),
        ("optima.optimum", "optima.certify"),
        "By a decomposition in double precision; all ranks.",
    ),
    room_claim(
        "side-optima",
        "Optima of inputs without energy, of layers without masks, of entries that are read again and of noisy "
        "measurements, tied optima that are turned, bounds of tied and of ReLU networks under laws of all layers, and "
        "reasons of certificates are by definition; bounds of moments that are known roughly hold for all that they "
        "may stand for.",
        pair(silent_input_checks.side_optima),
        ("optima.certify", "optima.optimal_factors", "optima.optimum"),
        "All ranks.",
    ),
    room_claim(
        "krylov-in-full",
        "Products with every kind of map, Krylov spaces with their residuals, bounds on the rest of a spectrum, optima "
        "of maps, graded eigenvalues and shares of layers are those of dense algebra.",
        pair(krylov_checks.krylov_in_full),
        ("optima.optimum_of_map",),
        "Dense algebra, fractions, polynomials of the same random vectors.",
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
        "solved-in-full",
        "Heads under every law of finitely many masks are least squares over them, left-out errors those of refits, "
        "shares and shrunk spectra the best of all supports, DropConnect's optimum stationary, and certified from as "
        "many units as outputs on.",
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
        "Heads solve their system, certificates are the least that any features reach, proximal maps of the squared "
        "k-support norm are least; leading eigenpairs and a step of a tied network are what they are by definition.",
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
        "The optimum from a block Krylov basis is that of the whole spectrum.",
        check=partial(leading_checks.leading_values, 1.0),
        control=partial(leading_checks.leading_values, 1.1),
        objects=("optima.optimum_of_map",),
        note="On a map of known singular values with sides beyond those that are decomposed directly.",
    ),
)
