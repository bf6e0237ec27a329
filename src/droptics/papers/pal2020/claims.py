"""Statements of Pal, Lane, Vidal and Haeffele 2020 on structured dropout, as claims."""

from __future__ import annotations

from functools import partial

import torch

from droptics.evidence.claims import Claim
from droptics.masks import Bernoulli, Block
from droptics.norms import k_support
from droptics.papers.pal2020 import checks, connection_checks, norm_checks
from droptics.papers.pal2020.errata import ERRATA
from droptics.papers.pal2020.optimum_claims import CLAIMS as OPTIMA

SOURCE = "Pal, Lane, Vidal, Haeffele 2020 (CVPR, with supplement)"


_KEPT = checks.library(Block)
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "pal2020-eq2",
        f"{SOURCE}, eq. (1)-(2)",
        "With z_i i.i.d. Ber(theta) and gamma = (1-theta)/theta, E ||Y - (1/theta) U diag(z) V^T X||_F^2 = "
        "||Y - U V^T X||_F^2 + gamma sum_i ||u_i||^2 ||X^T v_i||^2 for all U and V, so the minima over them are equal.",
        check=lambda: [
            *checks.objective(1.0),
            *checks.penalty_identity(checks.library(lambda drop, size, block: Bernoulli(drop, size)), (1,)),
            *checks.penalty_identity(checks.unitwise, (1,)),
        ],
        control=partial(checks.objective, 1.05),
        objects=("penalties.criterion", "penalties.penalty", "penalties.risk", "masks.Bernoulli"),
    ),
    Claim(
        "pal2020-eq3",
        f"{SOURCE}, eq. (3)",
        "A DropBlock mask with blocks of size r is diag(w) kron I_{d/r}, w the coins of the blocks.",
        "slip",
        check=partial(checks.order_of_blocks, True),
        control=partial(checks.order_of_blocks, False),
        objects=("masks.Block", "penalties.penalty"),
        erratum=ERRATA["eq3"],
    ),
    Claim(
        "pal2020-eq3-corrected",
        f"{SOURCE}, eq. (3), corrected",
        "A DropBlock mask with blocks of size r is diag(w) kron I_r with w in {0,1}^(d/r) i.i.d. Ber(theta); r divides "
        "d.",
        check=lambda: [
            *checks.kronecker_masks(lambda width, block: block),
            *checks.penalty_identity(_KEPT, (1, 2, 3, 6)),
        ],
        control=partial(checks.kronecker_masks, lambda width, block: width // block),
        objects=("masks.Block", "penalties.penalty"),
    ),
    Claim(
        "pal2020-alg1",
        f"{SOURCE}, Algorithm 1",
        "On average over masks a step of Algorithm 1 on an example (x, y) moves U and V by -eta/2 times the gradient "
        "of ||y - U V^T x||^2 + (1-theta)/theta sum_I ||U_I V_I^T x||^2 over the blocks I of r units.",
        check=partial(checks.algorithm_1, 0.5),
        control=partial(checks.algorithm_1, 0.55),
        objects=("masks.Block", "training.masked_step", "penalties.penalty", "penalties.risk"),
        note="The factor 1/2 is a convention of the step size, training.masked_step moves by -eta times the gradient; "
        "the update of V uses the old U. For several examples too, with means over them.",
    ),
    Claim(
        "pal2020-lem2.1",
        f"{SOURCE}, Lemma 2.1",
        "E_w ||Y - (1/theta) U diag(z) V^T X||_F^2 = ||Y - U V^T X||_F^2 + (1-theta)/theta sum_I ||U_I V_I^T X||_F^2, "
        "z the DropBlock mask with blocks I of size r.",
        check=lambda: [
            *checks.penalty_identity(_KEPT, (1, 2, 3, 6)),
            *checks.penalty_identity(checks.blockwise, (1, 2, 3, 6)),
        ],
        control=partial(checks.penalty_identity, checks.dropout, (2, 3)),
        objects=("penalties.penalty", "masks.Block"),
    ),
    Claim(
        "pal2020-lem2.2",
        f"{SOURCE}, Lemma 2.2",
        "At a fixed theta the infimum of the DropBlock penalty over all widths d and all factorizations A = U V^T X is "
        "zero: [U U]/sqrt 2 and [V V]/sqrt 2 have the same product and half of the penalty.",
        "holds only if",
        check=partial(checks.doubling, 0.5),
        control=partial(checks.doubling, 1.0),
        outside=checks.unreachable,
        objects=("penalties.penalty",),
        note="Only if the rows of A lie in the row space of X; otherwise no factorization exists.",
    ),
    Claim(
        "pal2020-eq7",
        f"{SOURCE}, eq. (7)-(8)",
        "The width-adaptive theta(d) = thetabar r/(thetabar r + (1-thetabar) d), thetabar that of one block, makes "
        "(1-theta(d))/theta(d) = (d/r) beta, beta = (1-thetabar)/thetabar; with it the expected objective is f(U, V, "
        "d) = ||Y - U V^T X||_F^2 + (d/r) beta sum over blocks of ||U_I V_I^T X||_F^2.",
        check=partial(checks.width_adaptive, lambda width, block: width / block),
        control=partial(checks.width_adaptive, lambda width, block: float(width)),
        objects=("masks.drop_for_width", "penalties.criterion", "masks.Block"),
    ),
    Claim(
        "pal2020-sec2.2",
        f"{SOURCE}, Section 2.2",
        "For theta < 1 the DropBlock penalty is positive for all non-zero weights (U, V).",
        "slip",
        check=partial(checks.positive, 0.0),
        control=partial(checks.positive, 0.01),
        objects=("penalties.penalty",),
        erratum=ERRATA["sec2.2"],
    ),
    Claim(
        "pal2020-sec2.2-corrected",
        f"{SOURCE}, Section 2.2, corrected",
        "For 0 < theta < 1 the DropBlock penalty is zero if and only if every block product U_I V_I^T X is.",
        check=partial(checks.zero_iff, True),
        control=partial(checks.zero_iff, False),
        objects=("penalties.penalty",),
    ),
    Claim(
        "pal2020-thm2.3",
        f"{SOURCE}, Theorem 2.3",
        "If X has full column rank, the convex envelope of Lambda of (9) is (11), beta (a_1^2 + ... + a_{rho-1}^2 + "
        "T_rho^2/(r-rho+1)) with the index rho of 1, ..., r that maximizes it; a_1 >= a_2 >= ... are the singular "
        "values of A, T_rho is their sum from rho on, and beta = (1-thetabar)/thetabar.",
        "false",
        check=partial(norm_checks.support_norm, norm_checks.printed_norm),
        control=partial(norm_checks.support_norm, lambda a, k: k_support(a, k) ** 2),
        objects=("norms.k_support",),
        erratum=ERRATA["thm2.3"],
    ),
    Claim(
        "pal2020-thm2.3-corrected",
        f"{SOURCE}, Theorem 2.3, corrected",
        "If X has full column rank, the envelope of Lambda, beta times the squared r-support norm of the singular "
        "values a_1 >= a_2 >= ... of A, is (11), beta (a_1^2 + ... + a_{rho-1}^2 + T_rho^2/(r-rho+1)), T_rho = a_rho + "
        "a_{rho+1} + ..., with the LARGEST rho of 1, ..., r for which rho = 1 or a_{rho-1} >= T_rho/(r-rho+1).",
        check=lambda: [
            *norm_checks.support_norm(norm_checks.largest_index_norm),
            *norm_checks.support_norm(lambda a, k: k_support(a, k) ** 2),
        ],
        control=partial(norm_checks.support_norm, lambda a, k: a.abs().sum() ** 2 / k),
        objects=("norms.k_support",),
    ),
    Claim(
        "pal2020-thm2.3-conjugate",
        f"{SOURCE}, proof of Theorem 2.3",
        "For X of full column rank the convex conjugate at Q of Lambda/beta, the infimum over multiples d of r and U "
        "and V with U V^T X = A of (d/r) sum_i ||U_i V_i^T X||_F^2 over blocks of r columns, is (sigma_1(Q)^2 + ... + "
        "sigma_r(Q)^2)/4, and so is that of the squared r-support norm of the singular values of A.",
        check=partial(norm_checks.conjugate, 0.25),
        control=partial(norm_checks.conjugate, 0.26),
        objects=("norms.k_support",),
    ),
    Claim(
        "pal2020-thm2.7",
        f"{SOURCE}, Theorem 2.7",
        "For X of full column rank the singular values of the minimizer of F(A) = ||Y - A||_F^2 + Lambda**(A) are the "
        "best of the printed candidates a_{rho,lambda}, judged by F, with rho in {1, ..., r-1} and lambda in {1, ..., "
        "d}; Lambda** is the envelope of Theorem 2.3, m holds the singular values of Y.",
        "slip",
        check=partial(norm_checks.shrinkage, lambda m, r, beta: norm_checks.printed_values(m, r, beta, max(1, r - 1))),
        control=partial(norm_checks.shrinkage, lambda m, r, beta: norm_checks.printed_values(m, r, beta, r)),
        objects=("norms.k_support",),
        erratum=ERRATA["thm2.7"],
    ),
    Claim(
        "pal2020-lem3.1",
        f"{SOURCE}, Lemma 3.1",
        "For masks z of any law of mean mu and covariance C, E ||Y - U diag(mu)^-1 diag(z) H||_F^2 - ||Y - U H||_F^2 = "
        "<Cbar, (U^T U) o (H H^T)>, H = g(X), o entry by entry and Cbar_ij = c_ij/(mu_i mu_j): laws of one mean and "
        "covariance have one penalty.",
        check=partial(checks.general_law, lambda mean, covariance: covariance / torch.outer(mean, mean)),
        control=partial(checks.general_law, lambda mean, covariance: covariance / mean.square()),
        objects=("penalties.penalty", "masks.Discrete"),
        note="Every unit needs a non-zero mean, without which diag(mu)^-1 does not exist; printed is a non-zero "
        "vector.",
    ),
    Claim(
        "pal2020-eq16",
        f"{SOURCE}, eq. (15)-(16)",
        "Cbar_ij = c_ij/(mu_i mu_j), mu and c mean and covariance of the mask, is for dropout (1-theta)/theta on the "
        "diagonal and zero elsewhere, for DropBlock (1-theta)/theta where i and j are of one block and zero elsewhere.",
        check=partial(checks.overlapping_blocks, 1.0),
        control=partial(checks.overlapping_blocks, 1.3),
        objects=("masks.Bernoulli", "masks.Discrete", "masks.Block"),
        note="Not printed, and checked: where blocks s, kept independently with theta_s, overlap and a unit stays if "
        "all that hold it do, Cbar_ij is the product of 1/theta_s over the blocks s that hold both i and j, minus 1.",
    ),
    Claim(
        "pal2020-cor3.2",
        f"{SOURCE}, Corollary 3.2, (17), (48)",
        "E ||Y - U diag(z)/theta H||_F^2 = ||Y - U H||_F^2 + sum_i ||u_i||^2 ||h_i||^2, letters as in the corrected "
        "claim.",
        "slip",
        check=partial(checks.last_layer, lambda drop: 1.0),
        control=partial(checks.last_layer, lambda drop: drop / (1 - drop)),
        objects=("models.LastLayer", "penalties.penalty"),
        erratum=ERRATA["cor3.2"],
    ),
    Claim(
        "pal2020-cor3.2-corrected",
        f"{SOURCE}, Corollary 3.2, corrected",
        "E ||Y - U diag(z)/theta H||_F^2 = ||Y - U H||_F^2 + (1-theta)/theta sum_i ||u_i||^2 ||h_i||^2 for independent "
        "z_i that are 1 with probability theta, else 0; h_i, row i of H, holds the outputs of unit i for all examples.",
        check=partial(checks.last_layer, lambda drop: drop / (1 - drop)),
        control=partial(checks.last_layer, lambda drop: 1.0),
        objects=("models.LastLayer", "penalties.penalty"),
    ),
    Claim(
        "pal2020-prop3.3",
        f"{SOURCE}, Proposition 3.3, (18), (49), (50)",
        "At a fixed rate, for Y of size a x N, where g(X) can be any d x N matrix and d >= min(a, N), the least E ||Y "
        "- U diag(z)/theta g(X)||_F^2 over U and g(X) is min_A ||Y-A||_F^2 + (1-theta)/theta ||A||_*^2.",
        "false",
        check=partial(checks.fixed_rate_minimum, lambda drop, width: drop / (1 - drop)),
        control=partial(checks.fixed_rate_minimum, lambda drop, width: drop / (1 - drop) / width),
        objects=("linalg.shrink",),
        erratum=ERRATA["prop3.3"],
    ),
    Claim(
        "pal2020-prop3.3-corrected",
        f"{SOURCE}, Proposition 3.3, corrected",
        "At a fixed rate, where g(X) can be any d x N matrix and d >= rank Y, the least E ||Y - U diag(z)/theta "
        "g(X)||_F^2 over U and g(X), z of d units i.i.d. Ber(theta), is min_A ||Y-A||_F^2 + (1-theta)/(theta d) "
        "||A||_*^2.",
        check=partial(checks.fixed_rate_minimum, lambda drop, width: drop / (1 - drop) / width),
        control=partial(checks.fixed_rate_minimum, lambda drop, width: drop / (1 - drop)),
        objects=("linalg.shrink",),
    ),
    Claim(
        "pal2020-thm4.1",
        f"{SOURCE}, Theorem 4.1, (55)",
        "For all U, V and g(X) DropConnect on V in U V^T g(X) has dropout's penalty, (1-theta)/theta sum_i ||u_i||^2 "
        "||g(X)^T v_i||^2.",
        "false",
        check=partial(connection_checks.drop_connect, connection_checks.as_dropout),
        control=partial(connection_checks.drop_connect, connection_checks.of_connections),
        objects=("models.Connections", "penalties.penalty"),
        erratum=ERRATA["thm4.1"],
    ),
    Claim(
        "pal2020-thm4.1-corrected",
        f"{SOURCE}, Theorem 4.1, corrected",
        "With the entries of Z i.i.d. Ber(theta) and M = g(X), E ||Y - (1/theta) U (Z o V)^T M||_F^2 = ||Y - U V^T "
        "M||_F^2 + (1-theta)/theta sum_k ||u_k||^2 sum_i v_ik^2 ||M_i||^2 for all U, V and M, M_i the rows of M.",
        check=lambda: [
            *connection_checks.drop_connect(connection_checks.of_connections),
            *connection_checks.drop_connect(connection_checks.by_connections),
        ],
        control=partial(connection_checks.drop_connect, connection_checks.as_dropout),
        objects=("models.Connections", "penalties.penalty"),
    ),
    Claim(
        "pal2020-cor4.2",
        f"{SOURCE}, Corollary 4.2, (20)",
        "For every linear network U V^T X DropConnect on V has dropout's deterministic objective, ||Y - U V^T X||_F^2 "
        "+ (1-theta)/theta sum_i ||u_i||^2 ||X^T v_i||^2.",
        "false",
        check=partial(connection_checks.uncorrelated_inputs, 0.05),
        # the library's penalties are those of all masks for every X: only the printed sum fails
        control=lambda: [
            *connection_checks.uncorrelated_inputs(0.0),
            *connection_checks.drop_connect(connection_checks.of_connections),
        ],
        objects=("models.Connections", "penalties.penalty"),
        erratum=ERRATA["cor4.2"],
    ),
    Claim(
        "pal2020-cor4.2-corrected",
        f"{SOURCE}, Corollary 4.2, corrected",
        "For inputs X with orthogonal rows E ||Y - (1/theta) U (Z o V)^T X||_F^2, the entries of Z i.i.d. Ber(theta), "
        "is dropout's deterministic objective, ||Y - U V^T X||_F^2 + (1-theta)/theta sum_i ||u_i||^2 ||X^T v_i||^2.",
        check=lambda: [
            *connection_checks.uncorrelated_inputs(0.0),
            *connection_checks.drop_connect(connection_checks.of_connections),
        ],
        control=partial(connection_checks.uncorrelated_inputs, 0.05),
        objects=("models.Connections", "penalties.penalty"),
    ),
    Claim(
        "pal2020-sec5.3",
        f"{SOURCE}, Section 5.3",
        "A unit under 2k-1 blocks that is dropped with any of them is kept with probability theta if each block is "
        "kept, independently, with probability 1-(1-theta)^(1/(2k-1)).",
        "false",
        check=partial(checks.sliding, checks.printed_matching),
        control=partial(checks.sliding, lambda drop, block: (1 - drop) ** (1 / block)),
        objects=("masks.SlidingBlock",),
        erratum=ERRATA["sec5.3"],
    ),
    Claim(
        "pal2020-sec5.3-corrected",
        f"{SOURCE}, Section 5.3, corrected",
        "A block of r units starts at each of -(r-1), ..., d-1, cut at the ends of 0, ..., d-1, and is kept "
        "independently with probability theta^(1/r); a unit is kept when all r blocks over it are. Then every unit is "
        "kept with probability theta, and Cbar_ij = theta^(-(1-|i-j|/r)_+) - 1, a taper in the distance.",
        check=lambda: [
            *checks.sliding(lambda drop, block: (1 - drop) ** (1 / block)),
            *checks.sliding_moments(lambda distance, block: (1 - distance / block).clamp_min(0)),
        ],
        control=partial(checks.sliding_moments, lambda distance, block: (distance < block).double()),
        objects=("masks.SlidingBlock",),
    ),
    *OPTIMA,
)
