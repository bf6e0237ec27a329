"""Chapter 3 of the thesis: dropout in deep linear networks, as claims."""

from __future__ import annotations

from functools import partial

import torch

from droptics.evidence.claims import Claim
from droptics.papers.thesis import chapter3_checks as checks
from droptics.papers.thesis import chapter3_optimum_checks as optimum_checks
from droptics.papers.thesis.errata import ERRATA

SOURCE = "Mianjy thesis (Johns Hopkins), chapter 3"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "thesis-sec3.1",
        f"{SOURCE}, after eq. (3.1)",
        "E ||y - Wbar x||^2 of a deep linear network, Wbar = theta^-k W_{k+1} B_k ... B_1 W_1, the B_l diagonal with "
        "independent coins of chance theta > 0, is the loss E ||y - Wx||^2, W = W_{k+1} ... W_1, plus R = E ||Wbar - "
        "W||_C^2, ||A||_C^2 = tr A C A^T and C = E x x^T, whatever the law of (x, y).",
        check=partial(checks.split, True),
        control=partial(checks.split, False),
        objects=("models.DeepLinear", "penalties.criterion", "penalties.penalty"),
    ),
    Claim(
        "thesis-eq3.1",
        f"{SOURCE}, eq. (3.1)",
        "theta^-k W_i B_{i-1} ... B_j W_j, k hidden layers, is unbiased for W_{i->j} = W_i ... W_j, for all i >= j.",
        "slip",
        check=partial(checks.mean_of_masked_product, lambda last, first, hidden: hidden),
        control=partial(checks.mean_of_masked_product, lambda last, first, hidden: last - first),
        erratum=ERRATA["eq3.1"],
    ),
    Claim(
        "thesis-eq3.1-corrected",
        f"{SOURCE}, eq. (3.1), corrected",
        "theta^-(i-j) W_i B_{i-1} ... B_j W_j, the B_l diagonal with independent coins of chance theta > 0, is "
        "unbiased for W_{i->j} = W_i ... W_j, for all i >= j.",
        check=partial(checks.mean_of_masked_product, lambda last, first, hidden: last - first),
        control=partial(checks.mean_of_masked_product, lambda last, first, hidden: hidden),
    ),
    Claim(
        "thesis-prop8",
        f"{SOURCE}, Proposition 8",
        "What dropout adds to the risk is sum_l lam^l R_l, lam = (1-theta)/theta, where R_l sums alpha^2 beta_1^2 ... "
        "beta_{l-1}^2 gamma^2 over all choices of l hidden layers, the pivots, and of a node in each: alpha the "
        "C-norm of the first node's row of the map up to it, beta_p the entry of the map from one pivot to the next "
        "at their nodes, gamma the norm of the last node's column of the map after it.",
        check=partial(checks.sub_regularizers, lambda lam, level: lam**level),
        control=partial(checks.sub_regularizers, lambda lam, level: lam),
        objects=("penalties.sub_penalties", "training.train", "training.Penalized"),
        note="`sub_penalties` returns the lam^l R_l. In the proof of Lemma 7 and in Figure 3-1 the letters differ: R_l "
        "here is without lam^l.",
    ),
    Claim(
        "thesis-rem6",
        f"{SOURCE}, Remark 6",
        "For k = 1 and C = I the penalty is lam sum_{i<=d_1} ||W_1(:,i)||^2 ||W_2(i,:)||^2.",
        "slip",
        check=partial(checks.shallow_case, False),
        control=partial(checks.shallow_case, True),
        objects=("penalties.sub_penalties", "penalties.penalty"),
        erratum=ERRATA["rem6"],
    ),
    Claim(
        "thesis-rem6-corrected",
        f"{SOURCE}, Remark 6, corrected",
        "For k = 1 the penalty is lam sum_i ||W_1(i,:)||_C^2 ||W_2(:,i)||^2, ||a||_C^2 = a C a^T, which for C = I is "
        "Lemma 2.",
        check=partial(checks.shallow_case, True),
        control=partial(checks.shallow_case, False),
        objects=("penalties.sub_penalties", "penalties.penalty"),
    ),
    Claim(
        "thesis-rem7",
        f"{SOURCE}, Remark 7",
        "Every R_l of Proposition 8, and with them the regularizer, stays when what comes into a hidden node is "
        "multiplied by a number other than 0 and what goes out is divided by it, and when layers are multiplied by "
        "numbers of product one; R_k, without lam^k, is the squared l2 path norm of the weights with W_1 C^1/2 for "
        "W_1.",
        check=partial(checks.invariances, "nodes"),
        control=partial(checks.invariances, "one layer"),
        objects=(
            "penalties.sub_penalties",
            "penalties.penalty",
            "equalization.rescale",
            "norms.path_norm",
            "linalg.psd_root",
        ),
        note="Printed is the scaling of layers, and C = I, which the page before assumes.",
    ),
    Claim(
        "thesis-lem6",
        f"{SOURCE}, Lemma 6",
        "All sub-regularizers R_l stay when layers are multiplied by numbers of product one; the infimum Theta(M) of "
        "the penalty over the networks of given widths that compute M is attained, C nonsingular; for C = I it "
        "depends only on the singular values of M.",
        check=lambda: [
            *checks.scaled_layers(),
            *checks.compactness(),
            *checks.unattained(),
            *optimum_checks.spectral_function(True),
        ],
        control=partial(optimum_checks.spectral_function, False),
        objects=("linalg.psd_root", "penalties.penalty", "penalties.sub_penalties"),
        note="C is nonsingular, as the chapter assumes; otherwise it need not be attained (C = diag(1,0), M = I_2, "
        "two units). The printed compactness argument is infeasible. With what comes into every hidden node rescaled "
        "to norm one, C-norm in the first layer, and nodes that nothing comes into left out, the last layer has "
        "squared norm R_k: at a rate above zero such networks of bounded penalty are a compact set.",
    ),
    Claim(
        "thesis-eq3.2",
        f"{SOURCE}, eq. (3.2)",
        "The induced regularizer Theta(M) is the infimum of the penalty over all networks of given widths that compute "
        "M; for one hidden layer of d >= rank M units it is (lam/d) ||M C^1/2||_*^2, C = E x x^T.",
        check=partial(optimum_checks.shallow_induced, 1.0),
        control=partial(optimum_checks.shallow_induced, 1.1),
        objects=("envelopes.induced", "equalization.equalize", "penalties.penalty"),
    ),
    Claim(
        "thesis-def4",
        f"{SOURCE}, Definition 4",
        "For k hidden layers of widths d_1, ..., d_k, all of rate p, and lam = p/(1-p): nu = sum_l lam^l e_l(1/d_1, "
        "..., 1/d_k), e_l summing the products of l of the k numbers, is prod(1 + lam/d_i) - 1. It grows with p; for "
        "p > 0 it grows with every layer that is added, too, and falls where one layer gets wider.",
        check=partial(checks.strength, 0.0),
        control=partial(checks.strength, 0.1),
        objects=("penalties.effective_strength",),
    ),
    Claim(
        "thesis-lem7",
        f"{SOURCE}, Lemma 7",
        "The penalty R = sum_l lam^l R_l (Proposition 8) of a network of map W = W_{k+1} ... W_1 is at least nu ||W "
        "C^1/2||_*^2, with equality if and only if the network is equalized (Definition 5); by its proof R_l >= "
        "e_l(1/d) ||W C^1/2||_*^2. nu, lam and e_l are those of Definition 4, C = E x x^T.",
        check=lambda: [*checks.layer_bounds(1.0), *optimum_checks.bound_attained(1.0)],
        control=partial(optimum_checks.bound_attained, 1.1),
        objects=(
            "penalties.sub_penalties",
            "penalties.effective_strength",
            "penalties.penalty",
            "equalization.equalize",
            "equalization.rank_one_network",
            "linalg.psd_root",
        ),
        note="At a rate above zero: without dropout both sides are zero. The excess is at least sum_l lam^l sum (t - "
        "level)^2 over the products t of Definition 5 with l pivots, level the value that they should have. (3.14) "
        "and (3.15) print the bound without C^1/2.",
    ),
    Claim(
        "thesis-def5",
        f"{SOURCE}, Definition 5",
        "A network of map W is equalized when every |alpha beta_1 ... beta_{l-1} gamma| of Proposition 8, l = 1, ..., "
        "k, is ||W C^1/2||_* over the product of the widths of its l pivot layers; the rank-one network of "
        "Proposition 1 is.",
        check=lambda: [*checks.rank_one(1.0), *optimum_checks.equalized_maps_of_any_rank()],
        control=partial(checks.rank_one, 1.0, 0.1),
        objects=(
            "penalties.effective_strength",
            "equalization.rank_one_network",
            "equalization.imbalance",
            "equalization.order_gaps",
            "equalization.equalize",
            "penalties.penalty",
        ),
        note="The control weighs the units of a layer by .9 to 1.1, which keeps the map.",
    ),
    Claim(
        "thesis-prop1",
        f"{SOURCE}, Proposition 1",
        "Every map u v^T of rank one has an equalized network in every architecture, for every C: that of the proof, "
        "in which the units of a layer are alike.",
        check=partial(checks.rank_one, 1.0),
        control=partial(checks.rank_one, 1.0, 0.1),
        objects=(
            "penalties.penalty",
            "equalization.rank_one_network",
            "penalties.effective_strength",
            "equalization.imbalance",
        ),
        note="The control weighs the units of a layer by .9 to 1.1, which keeps the map.",
    ),
    Claim(
        "thesis-lem8",
        f"{SOURCE}, Lemma 8",
        "The convex envelope of Theta(M), the infimum of the penalty over the networks of a map M, is at most nu ||M "
        "C^1/2||_*^2, nu of Definition 4.",
        check=partial(optimum_checks.envelope_bound, 1.0),
        control=partial(optimum_checks.envelope_bound, 0.9),
        objects=(
            "linalg.psd_root",
            "norms.nuclear",
            "penalties.effective_strength",
            "equalization.rank_one_network",
            "penalties.penalty",
            "penalties.sub_penalties",
        ),
        note="Checked by writing M as a mean of rank-one maps, whose networks of equal weights cost that much on "
        "average, for singular C in the limit; the printed proof is by conjugates. Theta is infinite where no network "
        "has the map M.",
    ),
    Claim(
        "thesis-thm9",
        f"{SOURCE}, Theorem 9",
        "Theta(M), the infimum of the penalty over the networks of a map M, has the convex envelope nu ||M "
        "C^1/2||_*^2, nu the product of 1 + lam/d_l over the hidden layers, less one.",
        check=partial(optimum_checks.envelope_bound, 1.0),
        control=partial(optimum_checks.envelope_bound, 0.9),
        objects=(
            "linalg.psd_root",
            "norms.nuclear",
            "penalties.effective_strength",
            "equalization.rank_one_network",
            "penalties.penalty",
            "penalties.sub_penalties",
        ),
    ),
    Claim(
        "thesis-thm9-equality",
        f"{SOURCE}, Theorem 9, last sentence",
        "At a rate above zero and for nonsingular C the least penalty Theta(M) of the networks of a map M equals its "
        "envelope if and only if some of them is equalized; then the networks of M of least penalty are those that "
        "are.",
        check=lambda: [
            *optimum_checks.equalizable(),
            *optimum_checks.bound_attained(1.0),
            *checks.rank_one(1.0),
        ],
        control=partial(optimum_checks.bound_attained, 1.1),
        objects=(
            "norms.nuclear",
            "penalties.effective_strength",
            "penalties.penalty",
            "equalization.rank_one_network",
            "linalg.psd_root",
            "equalization.equalize",
            "equalization.imbalance",
        ),
        note="Printed is 'the network': not every network of a map is equalized, where one is. Without dropout both "
        "are zero for every network; for singular C the least penalty need not be reached, see thesis-lem6. Which maps "
        "have an equalized one the text leaves open: for k >= 2 those of rank at most one. Theta(I_2) is 6 "
        "at widths (2,2), lam = 1 and C = I, its envelope 5.",
    ),
    Claim(
        "thesis-lem9",
        f"{SOURCE}, Lemma 9",
        "E ||y-Wx||^2 + nu ||WC^1/2||_*^2 is least, among maps of rank at most r = min(d_1, ..., d_{k+1}), at "
        "S_alpha(Mbar) C^-1/2: all singular values s of Mbar = Cyx C^-1/2 lowered by alpha = nu (s_1+...+s_rho)/(1 + "
        "rho nu) and cut at zero, rho the largest integer up to r with s_rho > alpha.",
        "false",
        check=partial(optimum_checks.envelope_problem, optimum_checks.untruncated),
        control=partial(optimum_checks.envelope_problem, optimum_checks.truncated),
        objects=(
            "linalg.shrink",
            "linalg.psd_root",
        ),
        erratum=ERRATA["lem9"],
    ),
    Claim(
        "thesis-lem9-corrected",
        f"{SOURCE}, Lemma 9, corrected",
        "For nonsingular C, Mbar = Cyx C^-1/2 of singular values s_1 >= s_2 >= ... and nu of Definition 4, E "
        "||y-Wx||^2 + nu ||WC^1/2||_*^2 is least, among maps W of rank at most r = min(d_1, ..., d_{k+1}), where W "
        "C^1/2 is the sum of the top rho singular triples of Mbar, each value lowered by nu/(1 + rho nu) (s_1 + ... + "
        "s_rho); rho is the largest j <= r with s_j > nu/(1 + j nu) (s_1 + ... + s_j), or 0 if there is none.",
        check=partial(optimum_checks.envelope_problem, optimum_checks.truncated),
        control=partial(optimum_checks.envelope_problem, optimum_checks.untruncated),
        objects=(
            "linalg.shrink",
            "linalg.psd_root",
        ),
    ),
    Claim(
        "thesis-thm10",
        f"{SOURCE}, Theorem 10",
        "At a rate above zero, for nonsingular C, if s_1 - s_2 >= s_2/nu for the singular values of Mbar = Cyx C^-1/2, "
        "nu of Theorem 9, the optimal map is S(Mbar) C^-1/2, S lowering all singular values by nu s_1/(1+nu) and "
        "cutting at zero, and an equalized network of it is a global optimum.",
        check=lambda: [
            *optimum_checks.gap_condition((2.0, 1.1), (2, 2), 0.5),
            *optimum_checks.correlated_optimum(0.8),
            *optimum_checks.gap_condition((1.0, 0.8), (1, 2), 0.2),
        ],
        control=partial(optimum_checks.gap_condition, (1.0, 0.4), (2, 2), 0.2),
        objects=(
            "penalties.effective_strength",
            "penalties.penalty",
            "equalization.gap_condition",
            "equalization.rank_one_network",
            "linalg.psd_root",
        ),
        note="C = E x x^T, Cyx = E y x^T, Cyy = E y y^T. The least value is tr Cyy - s_1^2/(1+nu). Without the gap the "
        "stated map has rank two or more; the optimum can still have rank one, as it always has where a layer has one "
        "unit.",
    ),
    Claim(
        "thesis-cor1",
        f"{SOURCE}, Corollary 1 (2)",
        "With one output the map of every optimal network is W* = Cyx / (1 + nu).",
        "slip",
        check=partial(optimum_checks.single_output, lambda data, nu: data.yx / (1 + nu)),
        control=partial(
            optimum_checks.single_output, lambda data, nu: torch.linalg.solve(data.xx, data.yx.mT).mT / (1 + nu)
        ),
        objects=(
            "penalties.effective_strength",
            "equalization.rank_one_network",
            "linalg.psd_root",
            "penalties.penalty",
        ),
        erratum=ERRATA["cor1"],
    ),
    Claim(
        "thesis-cor1-corrected",
        f"{SOURCE}, Corollary 1, corrected",
        "With one output, nonsingular C and one rate for all hidden layers, Theta(w) = nu w C w^T for every map w, a "
        "row, the map of every optimal network is W* = Cyx C^-1 / (1 + nu), and at a rate above zero every optimal "
        "network is equalized.",
        check=partial(
            optimum_checks.single_output, lambda data, nu: torch.linalg.solve(data.xx, data.yx.mT).mT / (1 + nu)
        ),
        control=partial(optimum_checks.single_output, lambda data, nu: data.yx / (1 + nu)),
        objects=(
            "penalties.effective_strength",
            "equalization.rank_one_network",
            "linalg.psd_root",
            "penalties.penalty",
        ),
        note="W* is the least-squares solution times 1/(1 + nu); the text speaks of ridge regression, whose solution "
        "it is for C = c I, with penalty nu c ||w||^2.",
    ),
    Claim(
        "thesis-fig3-1",
        f"{SOURCE}, Figure 3-1",
        "In R_l the head alpha^2 sums the products of weights over pairs of paths from an input to the first pivot, "
        "each beta_p^2 over pairs from one pivot to the next, the tail gamma^2 over pairs from the last to an output.",
        check=partial(checks.walks, 0),
        control=partial(checks.walks, 1),
        objects=("penalties.sub_penalties",),
        note="Path by path; two paths from inputs a and b count C_ab, so that for C = I they begin at one input. The "
        "caption starts the middle paths in layer j_p + 1, as the control does; meant is j_p. The text prints alpha "
        "and beta for these sums: see thesis-sec3.2-walks.",
    ),
)
