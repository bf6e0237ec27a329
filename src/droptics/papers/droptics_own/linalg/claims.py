"""Claims on linear algebra and where it is used."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own.instruments import ENUMERATED, WRITTEN, pair, room_claim
from droptics.papers.droptics_own.linalg import (
    corner_checks,
    line_checks,
    quick_way_checks,
    rare_line_checks,
    root_checks,
    side_way_checks,
    spared_checks,
)

CLAIMS: tuple[Claim, ...] = (
    room_claim(
        "algebra-in-full",
        "Actions of laws with their cutoffs, balanced blocks, their rate one number or listed, best mixtures of "
        "bounds, both routes of a decomposition, companions of rotations, leading eigenvectors, proximal maps, "
        "criteria of given weights, reasons, units and affine maps are those of plain sums.",
        pair(line_checks.algebra_in_full),
        (
            "linalg.equalize_columns",
            "linalg.k_support_shrink",
            "attacks.affine_map",
            "norms.k_support",
            "optima.Optimum",
            "penalties.criterion",
        ),
        "Written out; conditions of optimality, all supports, dense algebra.",
    ),
    room_claim(
        "proximal-batches",
        "Proximal maps of squared k-support norms are least nearby, in batches too, with the slopes of differences.",
        pair(corner_checks.proximal_batches),
        ("linalg.k_support_shrink", "norms.k_support"),
        "By differences.",
    ),
    room_claim(
        "products-and-maps",
        "Products in blocks are sums; maps given as arrays, sparse matrices and operators have one optimum; squared "
        "norms of single precision are added in double.",
        pair(corner_checks.products_and_maps),
        ("optima.optimum_of_map",),
        WRITTEN,
    ),
    room_claim(
        "stated-bounds",
        "Bounds of completed matrices from models and data are the formulas of the theorem, constants included.",
        pair(corner_checks.stated_bounds),
        ("bounds.completion", "bounds.completion_alpha", "bounds.completion_constant"),
        WRITTEN,
    ),
    room_claim(
        "stated-network-bounds",
        "Bounds of two-layer networks from models and data are the formulas of the theorems, constants included.",
        pair(corner_checks.stated_network_bounds),
        ("bounds.relu", "bounds.rademacher", "bounds.relu_alpha", "bounds.data_norm"),
        WRITTEN,
    ),
    room_claim(
        "transformed-answers",
        "Penalties, criteria and proximal maps under torch.func, in batches and with first derivatives, backward and "
        "forward, are those one by one.",
        pair(corner_checks.transformed_answers),
        ("penalties.criterion", "penalties.penalty", "linalg.k_support_shrink"),
        "One by one.",
    ),
    room_claim(
        "single-precision",
        "Envelopes in single precision lie within their error where nothing underflows, and certificates hold "
        "objective, bound and gap.",
        pair(corner_checks.single_precision),
        (
            "envelopes.envelope",
            "optima.certify",
            "optima.optimum",
            "penalties.criterion",
            "penalties.penalty",
            "penalties.risk",
        ),
        "Beside double precision.",
    ),
    room_claim(
        "small-layers",
        "Layers drop weights as torch's dropout does, once or for each example; variances by rates of features are "
        "those of all masks.",
        pair(corner_checks.small_layers),
        ("layers.DropConnect", "layers.VarianceHead"),
        ENUMERATED,
    ),
    room_claim(
        "explicit-layers",
        "Explicit penalties of tokens, over elements and in half precision are means over all masks, bounds have the "
        "mean inside the logarithm, second orders the curvature; inputs pass unchanged, and eval mode has no penalty.",
        pair(corner_checks.explicit_layers),
        ("layers.ExplicitDropout",),
        ENUMERATED,
    ),
    room_claim(
        "rare-lines",
        "k_support_shrink is least beside 12 points some 1e-3 off, also where its strength wants a gradient; psd_root "
        "and psd_inverse_root of a moment of full rank have the gradients that divided differences of its eigenvalues "
        "give. The criterion of a ReLU network whose units are on whatever falls, over 2^23 masks of its inputs, is "
        "that of the linear network, and is refused where it takes longer than ClosedForm(seconds); the penalty under "
        "one Bernoulli law of all rates is that under the product of one for each layer.",
        pair(rare_line_checks.rare_lines),
        (
            "linalg.k_support_shrink",
            "linalg.psd_root",
            "linalg.psd_inverse_root",
            "penalties.criterion",
            "penalties.penalty",
        ),
        "By moments of sums; by eigenvectors.",
    ),
    room_claim(
        "rare-fits",
        "The variances that predictive has of a last layer of 1,500 units are sum_j (W_kj x_j)^2 p_j / (1 - p_j), and "
        "a Closure that is checked by MonteCarlo keeps its values and takes the ends of the interval of those draws. "
        "train records functions of the model, given by name, at the steps asked for, and penalties under the masks of "
        "the Recording. DropoutAutoencoder.partial_fit on two parts of the interactions ends in the weights of one "
        "fit; best_points of DropoutCompletionCV have the least held-out error of their width.",
        pair(rare_line_checks.rare_fits),
        (
            "predictions.predictive",
            "training.train",
            "recommenders.DropoutAutoencoder",
            "recommenders.DropoutCompletionCV",
            "penalties.penalty",
        ),
        "Written out; the same in one piece.",
    ),
    room_claim(
        "quick-ways",
        "optimum_of_maps has for every matrix of a batch the map, least criterion and rank that the best rank of its "
        "own singular values gives, at one rate with units of equal norms, at several that of a quadratic program. "
        "equalize_columns_ overwrites a factor F by F Q, Q a rotation, with columns of one norm; equalize_columns "
        "leaves its arguments and turns companions by the same Q; factors beyond the range of float64 are refused and "
        "stay. equalizer of a square matrix M is a rotation Q with Q^T M Q of constant diagonal.",
        pair(quick_way_checks.quick_ways),
        ("optima.optimum_of_maps", "linalg.equalize_columns_", "linalg.equalize_columns", "linalg.equalizer"),
        "By every rank; by products.",
    ),
    room_claim(
        "side-ways",
        "optimum of TwoLayerLinear on 900 examples with features that depend on each other, exactly or but for 1e-7, "
        "has the least criterion of all ranks; certify has it for a bound. penalty of a ReLU network under one "
        "Discrete law over all its layers is the sum over the atoms, and Certified values have gradients that are "
        "their differences. shrink_unequal under torch.func.vmap is that outside, and solves its quadratic program. "
        "linear_margin of points in the plane is the largest over all directions of the least margin.",
        pair(side_way_checks.side_ways),
        (
            "optima.optimum",
            "optima.certify",
            "bounds.linear_margin",
            "linalg.shrink_unequal",
            "linalg.psd_eigen",
            "penalties.penalty",
            "envelopes.induced",
            "linalg.shrink",
        ),
        "By every rank, every mask, grids of directions. Also: psd_eigen of a moment of scales 1 to 1e-24 keeps the "
        "determinant; induced without energy is 0; shrink of nothing is nothing.",
    ),
    room_claim(
        "spared-inputs",
        "evenness, psd_eigen and k_support of batches whose members differ in size by 1e9 and more are those of each "
        "member; induced of a batch is so at unequal rates, and refused under blocks where one member needs more of "
        "them. schur_horn(values, diagonal) is a rotation to that diagonal, which the values must majorize. "
        "joint_equalizer makes products of column norms equal, by another rotation for another "
        "seed. Atoms of probability 0 do not count in the bound of a Discrete law. Signs in optimal_factors of a tied "
        "optimum change columns alone. relu_cost counts 2^4 masks of four inputs for each example.",
        pair(spared_checks.spared_inputs),
        (
            "linalg.schur_horn",
            "linalg.psd_eigen",
            "optima.optimal_factors",
            "masks.Discrete",
            "coadaptation.evenness",
            "optima.optimum",
            "penalties.relu_cost",
            "norms.k_support",
            "equalization.joint_equalizer",
            "envelopes.induced",
        ),
        "One by one; in exact sums. Also by parts: ranks and dependent columns are not those of rounding, features "
        "that do not vary have no weight in a head.",
    ),
    Claim(
        "droptics-root-slopes",
        "droptics, derivatives of E[x x^T]^(1/2)",
        "Derivatives of psd_root and psd_inverse_root at a second moment of full rank, forward and backward, are the "
        "limits of their differences; of a change that is not symmetric its symmetric part counts. At a moment S of "
        "any rank and the change A S - S A, A skew, the forward derivative of either root R is A R - R A.",
        check=partial(root_checks.root_slopes, 2.0),
        control=partial(root_checks.root_slopes, 1.5),
        objects=("linalg.psd_root", "linalg.psd_inverse_root"),
        note="Central differences with step 1e-5.",
    ),
)
