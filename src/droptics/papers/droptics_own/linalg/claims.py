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
        "linalg.equalize_columns turns companions by the rotation of its factor; k_support_shrink meets the conditions "
        "of optimality; Optimum.reason says why nothing is certified; affine_map gives W and b and refuses what bends "
        "by 1e-12. spectra.action has the rates, cutoffs and norms of its law, spreads spectra over balanced blocks, "
        "and of any law takes the best of 21 mixtures of two bounds; both routes of a shrunk decomposition, leading "
        "eigenvectors, criteria of weighted examples and criteria in other units are those of dense algebra.",
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
        "linalg.k_support_shrink(v, s, k) is the w of least ||v - w||^2 + s ||w||^2, the second norm norms.k_support "
        "with k, row by row in batches too; its derivatives in v and s are those of differences, where it has them.",
        pair(corner_checks.proximal_batches),
        ("linalg.k_support_shrink", "norms.k_support"),
        "Against weights of the entries by bisection, points nearby, and differences.",
    ),
    room_claim(
        "products-and-maps",
        "optima.optimum_of_map gives a map as tensor, array, sparse matrix or operator one objective, the least of "
        "sum_(i>r) s_i^2 + lam S^2/(d + lam r), S = s_1 + .. + s_r, s its singular values, over ranks r <= d with s_r "
        "> lam S/(d + lam r), d the width; its factors attain it, and its bound is not above. linalg.sums.products "
        "sums over rows in blocks what einsum does at once; krylov.Operator.energy adds float32 squares in float64.",
        pair(corner_checks.products_and_maps),
        ("optima.optimum_of_map",),
        WRITTEN,
    ),
    room_claim(
        "stated-bounds",
        "With a model and entries, bounds.completion is the risk plus 8 K sqrt(a d ln d / n) plus 4 "
        "sqrt(ln(2/f)/(2n)): a is completion_alpha, d1 sum_k (p.u_k^2)(q.v_k^2), rounded up to 2^(i/4), f = "
        "delta/((pi^2/3 - 1)(1 + |i|)^2), p and q the marginals, mixed with uniform ones by `smoothing`, half by "
        "default; d is the longer side and K completion_constant. With numbers alone a is `alpha` and f delta; "
        "printed=True is thesis-thm11 as printed.",
        pair(corner_checks.stated_bounds),
        ("bounds.completion", "bounds.completion_alpha", "bounds.completion_constant"),
        WRITTEN,
    ),
    room_claim(
        "stated-network-bounds",
        "With a network and data, relu_alpha is sum_k |u_k| sqrt(E relu(v_k.x)^2); rademacher 2 alpha ||X|| / (n "
        "sqrt(beta)), beta 1/2 where symmetrized, from below alpha ||X|| / (2n), ||X|| = data_norm; relu the risk of "
        "outputs cut to [-1, 1] plus 8 times that upper bound plus 12 sqrt(ln(2/f)/(2n)), alpha rounded up and f as in "
        "droptics-stated-bounds, and twice all of it where symmetrized.",
        pair(corner_checks.stated_network_bounds),
        ("bounds.relu", "bounds.rademacher", "bounds.relu_alpha", "bounds.data_norm"),
        WRITTEN,
    ),
    room_claim(
        "transformed-answers",
        "Under torch.func.vmap, grad and jvp, criterion, penalty and k_support_shrink of a batch are those of its "
        "members one by one: values, every field of estimates by drawn masks, first derivatives, and derivatives along "
        "directions.",
        pair(corner_checks.transformed_answers),
        ("penalties.criterion", "penalties.penalty", "linalg.k_support_shrink"),
        "One by one.",
    ),
    room_claim(
        "single-precision",
        "envelopes.envelope of a float32 network lies within its `error` of that of the same numbers in float64, where "
        "nothing underflows. Of such networks certify's objective is risk plus penalty, its bound not above the least "
        "criterion of all networks, gap their difference, relative_gap gap/bound, and `reason` says why a gap is open.",
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
        "DropConnect in training multiplies inputs by torch's dropout of its weights, drawn once or, with per_example, "
        "for each example, and adds its offset as it is; in evaluation mode it is the linear layer. VarianceHead's "
        "mean, variances and covariances, features dropped at their own rates, are those over all masks.",
        pair(corner_checks.small_layers),
        ("layers.DropConnect", "layers.VarianceHead"),
        ENUMERATED,
    ),
    room_claim(
        "explicit-layers",
        "ExplicitDropout returns its inputs unchanged. Its penalties, token by token, in float16 too, are with squared "
        "loss the mean of ||W (z*x - x)||^2 over all masks z, divided by the outputs with over='elements'; as 'bound' "
        "ln E_z sum_c p_c exp(m_c), m the logits' moves less their mean under p, not below the rise of cross-entropy "
        "or logistic loss; as 'second-order' half the mean of the moves under the loss's Hessian. In evaluation mode "
        "they are 0.",
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
        "linear_margin of separable points in the plane is the largest, over all unit v, of the least y v^T x / "
        "||x||.",
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
        "joint_equalizer makes products of column norms equal, at three seeds by three rotations. Atoms of "
        "probability 0 do not count in the bound of a Discrete law. Signs in optimal_factors of a tied optimum change "
        "columns alone. relu_cost counts 2^4 masks of four inputs for each example.",
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
