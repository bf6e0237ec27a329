"""Statements of Mianjy, Arora and Vidal 2018, as claims."""

from __future__ import annotations

from functools import partial

import torch

from droptics.equalization import joint_equalizer
from droptics.evidence.claims import Claim
from droptics.linalg import equalizer, shrink
from droptics.papers import runs
from droptics.papers.mianjy2018 import checks, factor_checks, landscape_checks, proof_checks
from droptics.papers.mianjy2018.errata import ERRATA
from droptics.papers.mianjy2018.landscape_claims import CLAIMS as LANDSCAPE
from droptics.papers.mianjy2018.proof_claims import CLAIMS as PROOFS

SOURCE = "Mianjy, Arora, Vidal 2018 (ICML, with appendix)"


def _shrink(values: torch.Tensor, lam: float, width: int) -> torch.Tensor:
    return shrink(values, lam, width)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "mianjy2018-alg1",
        f"{SOURCE}, Algorithm 1",
        "Dropout SGD, one example and one mask of independent coins a step, with the printed step eta is stochastic "
        "gradient descent with step eta theta/2 on f = E ||y - (1/theta) U diag(b) V^T x||^2, theta the chance that a "
        "unit stays.",
        check=lambda: [
            *checks.algorithm_1(lambda theta: theta / 2),
            *checks.algorithm_1(lambda theta: theta / 2, True),
            *runs.dropout_steps(lambda eta: eta),
        ],
        control=partial(runs.dropout_steps, lambda eta: 1.01 * eta),
        objects=("training.train", "training.Dropout", "training.masked_step", "penalties.penalty", "penalties.risk"),
        note="The printed update leaves out the factor 2/theta, so a larger rate means a smaller step at equal eta.",
    ),
    Claim(
        "mianjy2018-eq2",
        f"{SOURCE}, eq. (1)-(2)",
        "f(U,V) = l(U,V) + lam sum_i ||u_i||^2 ||v_i||^2 for E x x^T = I and lam = (1-theta)/theta: f is E ||y - "
        "(1/theta) U diag(b) V^T x||^2 over x and independent coins b_i, each 1 with chance theta > 0, else 0, and l "
        "is E ||y - UV^T x||^2.",
        check=lambda: [
            *checks.penalty_identity(checks.isotropic, True),
            *checks.penalty_identity(checks.library, True),
            *checks.factorization(lambda drop: drop / (1 - drop)),
        ],
        control=partial(checks.penalty_identity, checks.isotropic, False),
        objects=("data.Moments", "penalties.penalty", "penalties.criterion", "penalties.risk"),
    ),
    Claim(
        "mianjy2018-lemA.1",
        f"{SOURCE}, Lemma A.1",
        "For E x x^T = I and y = Mx: f(U,V) = E ||y - (1/theta) U diag(b) V^T x||^2, independent coins b_i of chance "
        "theta, is l(U,V) + lam sum_i ||u_i||^2 ||v_i||^2, and l(U,V) = E ||y - UV^T x||^2 is ||M - UV^T||_F^2.",
        check=lambda: [*checks.penalty_identity(checks.library), *checks.factorization(lambda drop: drop / (1 - drop))],
        control=partial(checks.penalty_identity, checks.isotropic),
        objects=("penalties.penalty", "penalties.criterion", "penalties.risk"),
        note="Checked for any second moment C, too: there the last factor is v_i^T C v_i, whatever the labels.",
    ),
    Claim(
        "mianjy2018-eq3",
        f"{SOURCE}, eq. (3)",
        "For E x x^T = I the penalty of dropout at one rate, what it adds to the risk, is lam = (1-theta)/theta times "
        "the squared l2 path norm, the root of the sum over paths of the squared products of their weights.",
        check=partial(checks.paths, 2.0),
        control=partial(checks.paths, 1.9),
        objects=("norms.path_norm", "penalties.penalty"),
    ),
    Claim(
        "mianjy2018-def2.1",
        f"{SOURCE}, Definition 2.1 and Section 2",
        "U is equalized when all its r columns have equal norm: exactly then, for lam > 0, lam sum_i ||u_i||^4 >= "
        "(lam/r) ||U||_F^4 is an equality. An orthogonal Q with UQ equalized is an equalizer.",
        check=partial(checks.tied_lower_bound, 1.0),
        control=partial(checks.tied_lower_bound, 0.8),
        objects=("linalg.equalizer", "penalties.penalty", "models.Autoencoder"),
    ),
    Claim(
        "mianjy2018-def3.2",
        f"{SOURCE}, Definition 3.2 and Section 3",
        "(U, V), r columns each, is jointly equalized when all ||u_i|| ||v_i|| agree: exactly then, for lam > 0, "
        "lam sum_i ||u_i||^2 ||v_i||^2 >= (lam/r) (sum_i ||u_i|| ||v_i||)^2 is an equality. An orthogonal Q with (UQ, "
        "VQ) jointly equalized is an equalizer.",
        check=lambda: [*checks.lower_bounds(1.0), *factor_checks.idle_units(1.0)],
        control=partial(checks.lower_bounds, 1.01),
        objects=("penalties.penalty", "equalization.joint_equalizer"),
    ),
    Claim(
        "mianjy2018-rem3.1",
        f"{SOURCE}, Remark 3.1",
        "f(UD, VD^-1) = f(U,V), f the risk with dropout, for every diagonal D with positive entries; signs do not "
        "matter either.",
        check=partial(checks.rescaling, 0.0),
        control=partial(checks.rescaling, 0.05),
        objects=("equalization.rescale", "penalties.penalty", "penalties.risk", "penalties.criterion"),
        note="Nor does the order of the units matter. With other invertible A, UA and VA^-T have the same map and in "
        "general another penalty.",
    ),
    Claim(
        "mianjy2018-thm2.2",
        f"{SOURCE}, Theorem 2.2",
        "Every weight matrix has an orthogonal equalizer, which Algorithm 2 finds in polynomial time.",
        check=lambda: [
            *checks.equalization(lambda U: equalizer(U.mT @ U)),
            *checks.equalization(checks.printed_eqz),
            *proof_checks.eigendecomposition_cost(4),
        ],
        control=partial(checks.equalization, checks.equalizer_of_another),
        objects=("linalg.equalizer",),
        note="Of this matrix: the equalizer of one whose first column is 1 % longer need not be one. The library's "
        "needs at most r - 1 plane rotations.",
    ),
    Claim(
        "mianjy2018-alg2",
        f"{SOURCE}, Algorithm 2",
        "In each of r steps, from G = U^T U and Q = I on: w, the sum of the m orthonormal eigenvectors of G over "
        "m^(1/2), is completed to an orthogonal Q_i, Q is multiplied by diag(I, Q_i), and G becomes Q_i^T G Q_i "
        "without its first row and column. Then Q is orthogonal, and all columns of UQ have equal norm.",
        check=partial(checks.equalization, checks.printed_eqz),
        control=partial(checks.equalization, partial(checks.printed_eqz, leading=True)),
        note="One of its comments is wrong: the first diagonal entry becomes the mean, not zero. Another calls the "
        "block that is kept the first; it is the trailing one, and the control keeps the leading one.",
    ),
    Claim(
        "mianjy2018-rem5.2",
        f"{SOURCE}, Remark 5.2",
        "Z_1 = 1, Z_k = 2^((1-k)/2) [[Z,Z],[-Z,Z]] with Z = Z_{k-1} is a universal equalizer: orthogonal, and U V Z_k "
        "has columns of equal norm for every U = W Sigma V^T, a full SVD, that has as many columns as Z_k.",
        "slip",
        check=partial(factor_checks.universal_equalizer, factor_checks.printed_universal),
        control=partial(factor_checks.universal_equalizer, partial(factor_checks.printed_universal, once=True)),
        erratum=ERRATA["rem5.2"],
    ),
    Claim(
        "mianjy2018-rem5.2-corrected",
        f"{SOURCE}, Remark 5.2, corrected",
        "Z(1) = 1, Z(2m) = 2^(-1/2) [[Z,Z],[-Z,Z]] with Z = Z(m) is orthogonal and Z^T D Z has a constant diagonal for "
        "every diagonal D: U V Z has columns of equal norm for every U = W Sigma V^T, a full SVD, that has as many "
        "columns as Z.",
        check=factor_checks.library_equalizer,
        control=partial(factor_checks.universal_equalizer, factor_checks.printed_universal),
        objects=("linalg.hadamard_equalizer",),
    ),
    Claim(
        "mianjy2018-thm2.3",
        f"{SOURCE}, Theorem 2.3",
        "For lam > 0 every U of r columns that minimizes ||M-UU^T||_F^2 + R, R = lam sum_i ||u_i||^4, is equalized, "
        "its columns have equal norm, and R = (lam/r) ||U||_F^4.",
        check=partial(factor_checks.optimal_factors, True),
        control=partial(factor_checks.optimal_factors, True, idle=1),
        objects=("optima.optimum", "penalties.penalty"),
        note="With dropout: at lam = 0, the left panel of Figure 1, optima need not be. Critical points need not "
        "either: the optimum of width r - 1 beside a unit of weight zero is one.",
    ),
    Claim(
        "mianjy2018-thm3.4",
        f"{SOURCE}, Theorem 3.4",
        "For lam > 0 every (U, V), r columns each, that minimizes ||M-UV^T||_F^2 + R, R = lam sum_i ||u_i||^2 "
        "||v_i||^2, is jointly equalized, all ||u_i|| ||v_i|| agree, and R = (lam/r) (sum_i ||u_i|| ||v_i||)^2 = "
        "(lam/r) ||UV^T||_*^2.",
        check=partial(factor_checks.optimal_factors, False),
        control=partial(factor_checks.optimal_factors, False, idle=1),
        objects=("norms.nuclear", "optima.optimum", "penalties.penalty"),
        note="With dropout; at lam = 0 any factors of M are optimal. Every product is ||UV^T||_*/r, the stronger "
        "definition of the thesis. Of optima, not of all critical points: the optimum of width r - 1 beside a unit of "
        "weight zero has r/(r-1) times that R.",
    ),
    Claim(
        "mianjy2018-thm3.3",
        f"{SOURCE}, Theorem 3.3",
        "For every pair (U, V) of r columns each there are another one (A, B) of the same sizes, AB^T = UV^T, and an "
        "orthogonal Q such that every column of AQ and of BQ has the squared norm ||UV^T||_*/r.",
        check=partial(factor_checks.joint_construction, 0.5),
        control=partial(factor_checks.joint_construction, 0.55),
        objects=("linalg.equalizer", "equalization.equalize"),
        note="The other pair has the square roots of the singular values of UV^T on both sides: powers .55 and .45 "
        "have the same product and in general no such rotation.",
    ),
    Claim(
        "mianjy2018-sec3",
        f"{SOURCE}, Section 3, before Theorem 3.3",
        "Some pairs (U, V) cannot be jointly equalized by a rotation: for no orthogonal Q are all ||U q_i|| ||V q_i|| "
        "equal.",
        "false",
        check=partial(landscape_checks.some_pair_resists, joint_equalizer),
        control=partial(landscape_checks.some_pair_resists, lambda U, V: torch.eye(U.shape[1], dtype=torch.float64)),
        objects=("equalization.joint_equalizer",),
        erratum=ERRATA["sec3"],
    ),
    Claim(
        "mianjy2018-sec3-corrected",
        f"{SOURCE}, Section 3, corrected",
        "Every pair (U, V) has a rotation Q after which all ||U q_i|| ||V q_i|| are equal; there need be none after "
        "which they are ||UV^T||_*/r, the stronger definition of the thesis.",
        check=partial(landscape_checks.weak_equalization, False),
        control=partial(landscape_checks.weak_equalization, True),
        objects=("equalization.joint_equalizer",),
        note="A theorem on continuous functions on spheres (Kakutani; Yamabe and Yujobo); checked in widths 2 to 5 and "
        "8, for factors of ranks and sizes far apart, too.",
    ),
    Claim(
        "mianjy2018-thm2.4",
        f"{SOURCE}, Theorem 2.4",
        "For M symmetric, M >= 0, every width r: the UU^T of least ||M-UU^T||_F^2 + lam sum_i ||u_i||^4 is S_alpha(M), "
        "every eigenvalue above alpha lowered by it and the others 0, alpha = lam (sum of the top rho)/(r + lam rho), "
        "rho the largest j <= r with lambda_j > lam (sum of the top j)/(r + lam j).",
        "false",
        check=partial(checks.tied_optimum, checks.printed_threshold, checks.PSD_CASES),
        control=partial(checks.tied_optimum, _shrink, checks.PSD_CASES),
        objects=("linalg.shrink", "optima.optimum"),
        erratum=ERRATA["thm2.4"],
    ),
    Claim(
        "mianjy2018-thm2.4-corrected",
        f"{SOURCE}, Theorem 2.4, corrected",
        "For lam >= 0, every UU^T, U of r columns, that minimizes ||M-UU^T||_F^2 + lam sum_i ||u_i||^4 keeps the top "
        "rho pairs of an eigendecomposition of (M+M^T)/2, lambda_1 >= lambda_2 >= .., each value lowered by alpha, "
        "lam/(r + lam rho) times their sum; rho is the largest j <= r with lambda_j > lam/(r + lam j) times the sum "
        "of the top j, else 0.",
        check=lambda: [*checks.tied_optimum(_shrink), *factor_checks.ties_at_the_cut(tied=True)],
        control=partial(checks.tied_optimum, checks.printed_threshold, checks.PSD_CASES),
        objects=("linalg.shrink", "optima.optimum"),
    ),
    Claim(
        "mianjy2018-rem2.5",
        f"{SOURCE}, Remark 2.5",
        "For lam >= 0 and U of r columns ||M-UU^T||_F^2 + (lam/r) ||U||_F^4 is never above ||M-UU^T||_F^2 + lam sum_i "
        "||u_i||^4; their minima over U are equal.",
        check=lambda: [
            *checks.tied_optimum(_shrink),
            *factor_checks.ties_at_the_cut(tied=True),
            *factor_checks.squared_norm_minimum(1.0),
        ],
        control=partial(factor_checks.squared_norm_minimum, 1.05),
        objects=(
            "linalg.shrink",
            "optima.optimum",
            "penalties.criterion",
            "linalg.equalizer",
        ),
    ),
    Claim(
        "mianjy2018-thm3.6",
        f"{SOURCE}, Theorem 3.6",
        "For every width r the UV^T of least ||M-UV^T||_F^2 + lam sum_i ||u_i||^2 ||v_i||^2 is S_alpha(M), every "
        "singular value above alpha lowered by it and the others 0, alpha = lam (sum of the top rho)/(r + lam rho), "
        "rho the largest j <= r with s_j > lam (sum of the top j)/(r + lam j).",
        "false",
        check=partial(checks.untied_optimum, checks.printed_threshold, checks.UNTIED_CASES[:2]),
        control=partial(checks.untied_optimum, _shrink),
        objects=("linalg.shrink", "optima.optimum"),
        erratum=ERRATA["thm3.6"],
    ),
    Claim(
        "mianjy2018-thm3.6-corrected",
        f"{SOURCE}, Theorem 3.6, corrected",
        "For lam >= 0, every UV^T of r columns each that minimizes ||M-UV^T||_F^2 + lam sum_i ||u_i||^2 ||v_i||^2 "
        "keeps the top rho triples of an SVD of M, each value lowered by alpha, lam/(r + lam rho) times their sum; rho "
        "is the largest j <= r with s_j > lam/(r + lam j) times the sum of the top j, else 0, s_1 >= s_2 >= .. the "
        "singular values of M.",
        check=lambda: [*checks.untied_optimum(_shrink), *factor_checks.ties_at_the_cut(tied=False)],
        control=partial(checks.untied_optimum, checks.printed_threshold, checks.UNTIED_CASES[:1]),
        objects=("linalg.shrink", "optima.optimum"),
    ),
    Claim(
        "mianjy2018-alg3",
        f"{SOURCE}, Algorithm 3",
        "For every M and r the factors of S_alpha(M), all singular values s of M lowered by alpha and cut at zero, "
        "that the printed steps return minimize ||M-UV^T||_F^2 + lam sum_i ||u_i||^2 ||v_i||^2: alpha = lam "
        "(s_1+...+s_rho)/(r + lam rho), rho the largest j <= r with s_j > lam (s_1+...+s_j)/(r + lam j).",
        "slip",
        check=partial(checks.untied_optimum, checks.printed_threshold, checks.UNTIED_CASES[:1]),
        control=partial(checks.untied_optimum, _shrink, checks.UNTIED_CASES[:1]),
        objects=(
            "optima.optimum",
            "linalg.shrink",
        ),
        erratum=ERRATA["alg3"],
    ),
    Claim(
        "mianjy2018-rem3.5",
        f"{SOURCE}, Remark 3.5",
        "Dropout favors low rank. The UV^T of least ||M-UV^T||_F^2 + lam sum_i ||u_i||^2 ||v_i||^2, width r >= rank M, "
        "has the singular values of M lowered by one alpha, and those up to alpha are gone; alpha <= (lam/r) ||M||_*.",
        check=partial(factor_checks.low_rank, 1.0),
        control=partial(factor_checks.low_rank, 0.8),
        objects=("linalg.shrink", "optima.optimum"),
        note="Printed is the first sentence. A statement about lam/r: at a fixed rate the shrinkage vanishes as the "
        "width grows.",
    ),
    Claim(
        "mianjy2018-eq7",
        f"{SOURCE}, eq. (7)",
        "Columns of the factors of a given M are dropped, b_i = 0 with chance drop < 1, else 1/(1 - drop), "
        "independently: the mean of ||M - U diag(b) V^T||_F^2 is ||M - UV^T||_F^2 + lam sum_i ||u_i||^2 ||v_i||^2, lam "
        "= drop/(1 - drop), which is also the risk with dropout for y = Mx and E x x^T = I.",
        check=partial(checks.factorization, lambda drop: drop / (1 - drop)),
        control=partial(checks.factorization, lambda drop: drop),
        objects=("data.Moments.of_map", "penalties.criterion", "penalties.risk"),
    ),
    Claim(
        "mianjy2018-sec1",
        f"{SOURCE}, Section 1",
        "With dropout, lam > 0, and E x x^T = I global minima (U, V) have the least l2 path norm, (sum_i ||u_i||^2 "
        "||v_i||^2)^(1/2), among all factorizations of their UV^T in the same width; with tied weights, U = V, all "
        "local minima have.",
        check=partial(factor_checks.minimal_path_norm, 2.0),
        control=partial(factor_checks.minimal_path_norm, 1.8),
        objects=("norms.path_norm",),
    ),
    Claim(
        "mianjy2018-lemA.2",
        f"{SOURCE}, Lemma A.2",
        "(I + (lam/r) 11^T)^-1 = I - lam/(r + lam rho) 11^T, rho x rho, for rho, r >= 1 and lam >= 0.",
        check=partial(proof_checks.woodbury, lambda lam, r, rho: r + lam * rho),
        control=partial(proof_checks.woodbury, lambda lam, r, rho: r + lam * (rho - 1)),
    ),
    Claim(
        "mianjy2018-lemA.3",
        f"{SOURCE}, Lemma A.3",
        "g(rho) = sum_{i<=rho} (lam h/(r+lam rho))^2 + sum_{i>rho} a_i^2 + (lam/r)(sum_{i<=rho} (a_i - lam h/(r+lam "
        "rho)))^2 with h = a_1+...+a_rho, lam >= 0 and r > 0 never increases: g(rho) - g(rho+1) = "
        "(lam h - (r+lam rho) a_{rho+1})^2 / ((r+lam rho)(r+lam rho+lam)).",
        check=partial(proof_checks.decreasing_value, 1),
        control=partial(proof_checks.decreasing_value, 2),
        note="The last line of the printed proof has a_{rho+1}^2; neither order nor sign of a is needed.",
    ),
    *LANDSCAPE,
    *PROOFS,
)
