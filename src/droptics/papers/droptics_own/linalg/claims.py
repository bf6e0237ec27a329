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
            "penalties.penalty",
        ),
        "Units that are always on; optimality; the same in one piece.",
    ),
    room_claim(
        "quick-ways",
        "Optima of many maps at once, in all their fields, quadratic forms of the columns of many matrices, rotations "
        "in place, of copies and to a constant diagonal, and reductions to three diagonals are those of single maps, "
        "sums and products.",
        pair(quick_way_checks.quick_ways),
        ("optima.optimum_of_maps", "linalg.equalize_columns_", "linalg.equalize_columns", "linalg.equalizer"),
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
            "linalg.shrink",
        ),
        "By every rank, every mask, refits, grids of directions.",
    ),
    room_claim(
        "spared-inputs",
        "Members of batches are as alone whatever the sizes of the others, single precision is kept, atoms without "
        "mass and features that do not vary play no part, ranks are not those of rounding, columns that others give "
        "are proved or lost by rounding, sums are as long as said, rotations reach every diagonal that is majorized, "
        "and equalize products of norms, from the start of their seed.",
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
        "One by one; in exact sums.",
    ),
    Claim(
        "droptics-root-slopes",
        "droptics, derivatives of E[x x^T]^(1/2)",
        "Derivatives of the root and of the inverse root of a second moment of full rank, forward and backward, are "
        "the limits of their differences; of a change that is not symmetric its symmetric part counts, and where a "
        "singular one turns as a whole both turn with it.",
        check=partial(root_checks.root_slopes, 2.0),
        control=partial(root_checks.root_slopes, 1.5),
        objects=("linalg.psd_root", "linalg.psd_inverse_root"),
        note="Central differences with step 1e-5.",
    ),
)
