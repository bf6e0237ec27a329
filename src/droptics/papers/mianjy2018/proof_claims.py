"""Steps of proofs and sentences of the text of Mianjy, Arora and Vidal 2018, as claims."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.mianjy2018 import landscape_checks, proof_checks
from droptics.papers.mianjy2018.errata import ERRATA

SOURCE = "Mianjy, Arora, Vidal 2018 (ICML, with appendix)"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "mianjy2018-thm3.4-proof",
        f"{SOURCE}, proof of Theorem 3.4",
        "If U and V, r columns each, are jointly equalized, as where ||M-UV^T||_F^2 + lam sum_i ||u_i||^2 ||v_i||^2 is "
        "least, ||u_i||^2 = ||v_i||^2 = ||UV^T||_*/r for every i.",
        "slip",
        check=partial(proof_checks.column_norms, 1.05),
        control=partial(proof_checks.column_norms, 1.0),
        objects=("optima.optimum", "norms.nuclear"),
        erratum=ERRATA["thm3.4-proof"],
    ),
    Claim(
        "mianjy2018-lemA.3-proof",
        f"{SOURCE}, proof of Lemma A.3, last line",
        "g(rho) - g(rho+1) = (lam h - (r + lam rho) lambda_{rho+1}^2)^2 / ((r + lam rho)(r + lam rho + lam)), "
        "h the sum of the rho largest eigenvalues.",
        "slip",
        check=partial(proof_checks.decreasing_value, 2, True),
        control=partial(proof_checks.decreasing_value, 1, True),
        erratum=ERRATA["lemA.3-proof"],
    ),
    Claim(
        "mianjy2018-lemD.2-proof",
        f"{SOURCE}, proof of Lemma D.2",
        "At a critical point of f = ||M-UU^T||_F^2 + lam sum_i ||u_i||^4, lam > 0, turning two columns of different "
        "norm by a step of delta = -c sgn(u_1^T u_2) lowers f, and g, f along the turn, has g''(0) = -4 (n_1-n_2)^2, "
        "n_i = ||u_i||^2.",
        "slip",
        check=partial(landscape_checks.rotation_curvature, lambda lam: 1.0),
        control=partial(landscape_checks.rotation_curvature, lambda lam: lam),
        erratum=ERRATA["lemD.2-proof"],
    ),
    Claim(
        "mianjy2018-lemD.3-proof",
        f"{SOURCE}, proof of Lemma D.3, case 3",
        "An equalized critical point of f = ||M-UU^T||_F^2 + lam sum_i ||u_i||^4, M symmetric: turning its "
        "eigenvector w_j to w_j(t) = sqrt(1-t^2) w_j + t w', w' a leading one that is missing, changes f by -2 "
        "sigma_j^2 t^2 (w_j(t)^T M w_j(t) - w_j^T M w_j), and g, f along the turn, has g''(0) = -4 sigma_j^2 "
        "(w_j(t)^T M w_j(t) - w_j^T M w_j).",
        "slip",
        check=partial(proof_checks.swap_curvature, False),
        control=partial(proof_checks.swap_curvature, True),
        objects=("linalg.equalizer",),
        erratum=ERRATA["lemD.3-proof"],
    ),
    Claim(
        "mianjy2018-eq17",
        f"{SOURCE}, eq. (17)",
        "At an equalized critical point U of ||M-UU^T||_F^2 + lam sum_i ||u_i||^4, M symmetric, r columns, rank r', "
        "sigma^2 = (I - lam/(r + lam r')) lambda, sigma^2 the eigenvalues of UU^T that are not zero and lambda those "
        "of M on the same eigenvectors.",
        "slip",
        check=partial(proof_checks.inverse_of_ones, False),
        control=partial(proof_checks.inverse_of_ones, True),
        objects=("linalg.equalizer",),
        erratum=ERRATA["eq17"],
    ),
    Claim(
        "mianjy2018-eq17-corrected",
        f"{SOURCE}, eq. (17), corrected",
        "At an equalized critical point U of ||M-UU^T||_F^2 + lam sum_i ||u_i||^4, M symmetric, lam >= 0, r columns, "
        "rank r', sigma^2 = (I - lam/(r + lam r') 1 1^T) lambda, sigma^2 the eigenvalues of UU^T that are not zero "
        "and lambda those of M on the same eigenvectors.",
        check=partial(proof_checks.inverse_of_ones, True),
        control=partial(proof_checks.inverse_of_ones, False),
        objects=("linalg.equalizer",),
    ),
    Claim(
        "mianjy2018-sec5",
        f"{SOURCE}, Section 5, comparison with Cavazza et al. 2018",
        "Earlier work finds low-rank solutions only with a rate that adapts to the width: with lam proportional to r "
        "the UV^T of least ||M-UV^T||_F^2 + lam sum_i ||u_i||^2 ||v_i||^2 is the same at every width r that is large "
        "enough; at a fixed lam > 0 it is another one at every width, M not zero.",
        check=partial(proof_checks.adaptive_rate, True),
        control=partial(proof_checks.adaptive_rate, False),
        objects=("linalg.shrink",),
        note="Printed is what stands before the colon, as a remark on other work; the rest says what is true of it.",
    ),
    Claim(
        "mianjy2018-rem5.1",
        f"{SOURCE}, Remark 5.1",
        "Algorithm 3 costs O(d^2 r + d r^2 + r^4), d = max(d_1, d_2), where an SVD of rank r costs O(d^2 r).",
        check=partial(proof_checks.eigendecomposition_cost, 4),
        control=partial(proof_checks.eigendecomposition_cost, 3),
        note="Counted are products, d r^2 for the Gram matrix and for each factor times Q, and the cubes of the sizes "
        "of eigendecompositions and of bases, the r^4. Plane rotations bring it to O(d^2 r).",
    ),
    Claim(
        "mianjy2018-sec6",
        f"{SOURCE}, Section 6",
        "The variance of the importance scores ||u_i|| ||v_i|| over the units decreases monotonically during training "
        "by dropout.",
        "remark",
        check=partial(proof_checks.never_rises, (2.0, 1.0), (0.1, 0.1)),
        control=partial(proof_checks.never_rises, (1.0, 1.0), (1.2, 0.6)),
        erratum=ERRATA["sec6"],
    ),
    Claim(
        "mianjy2018-sec6-corrected",
        f"{SOURCE}, Section 6, corrected",
        "Along gradient descent by small enough steps on ||M-UV^T||_F^2 + lam sum_i ||u_i||^2 ||v_i||^2, lam > 0, from "
        "weights in general position the variance of the importance scores ||u_i|| ||v_i|| over the units may rise at "
        "first and goes to zero at the end.",
        check=partial(proof_checks.rises_and_vanishes, proof_checks.products),
        control=partial(proof_checks.rises_and_vanishes, lambda u, v: u),
        objects=("training.train", "training.Penalized"),
        note="Single steps of Algorithm 1 leave a floor of noise. Of the scores, not of the norms ||u_i|| alone, and "
        "not without dropout: there both stay unequal.",
    ),
    Claim(
        "mianjy2018-misprints",
        f"{SOURCE}, misprints",
        "Printed and meant: orthogonal Q in R^(d x d) in Section 2 and columns w_1d, I_d in the proof of Theorem 2.2, "
        "r for d; M in R^(d2 x d1) in the proof of Lemma A.1, where A after (12) has that shape, too, and in "
        "Algorithm 3, R^(d1 x d2); sums over i <= d2 of rows of U up to (10), d1; ||Ax||^2 = ||A||_F^2 after (12), E "
        "||Ax||^2; lam_{rho+1}(M) in the proof of Lemma A.3, a_{rho+1}; sum_{i=1}^d lam_i^2(M) beside the first r in "
        "the proof of Theorem 2.4, i > r, and kappa at its end, kappa_j; U' Sigma_W U'^T with U' = U_M^T U_W in the "
        "proof of Theorem 3.6, U' Sigma_W V'^T with V' = V_M^T V_W, too; a matrix called diagonalized in the proof of "
        "Remark 5.2, equalized, and D_ii z_ji^2 summed over i there, D_jj z_ji^2 over j; the index i of the loop of "
        "Algorithm 2 is also that of the sum in it, and its first diagonal element becomes the mean, not zero.",
        "not checked",
        note="Slips of notation that change no statement: the checks of these statements use what is meant.",
    ),
)
