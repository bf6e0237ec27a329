"""Statements of Mianjy, Arora and Vidal 2018 on the optimization landscape, as claims."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.mianjy2018 import landscape_checks

SOURCE = "Mianjy, Arora, Vidal 2018 (ICML, with appendix)"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "mianjy2018-lem4.1",
        f"{SOURCE}, Lemma 4.1",
        "All local optima of ||M-UU^T||_F^2 + lam sum_i ||u_i||^4 with dropout, lam > 0, are equalized: ||u_i|| = "
        "||u_j|| for all i and j.",
        check=lambda: [
            *landscape_checks.unequal_points(0.6),
            *landscape_checks.unequal_points(0.05, 2),
            *landscape_checks.local_minima(0.6),
        ],
        control=partial(landscape_checks.local_minima, 0.0),
        note="However little dropout: at lam = 0 columns may differ. Of maxima, too: all critical points but the "
        "origin have a direction of positive curvature.",
    ),
    Claim(
        "mianjy2018-def4.2",
        f"{SOURCE}, Definition 4.2",
        "Strict saddle: a critical point with a negative eigenvalue of the Hessian. f satisfies the strict saddle "
        "property if all saddle points of f are strict.",
        check=partial(landscape_checks.strict_saddle_property, 2),
        control=partial(landscape_checks.strict_saddle_property, 3),
        objects=(
            "landscapes.inspect",
            "models.Autoencoder",
            "models.DeepLinear",
            "linalg.shrink",
            "penalties.criterion",
        ),
        note="The tied problem of Section 4 has the property; networks of three layers do not where E y x^T is not 0: "
        "their Hessian at the origin, a saddle, is zero. As worded maxima with a negative eigenvalue are strict "
        "saddles, too; the library calls them maxima.",
    ),
    Claim(
        "mianjy2018-lemD.1",
        f"{SOURCE}, Lemma D.1",
        "UU^T <= M, M - UU^T is positive semi-definite, at every critical point U of ||M-UU^T||_F^2 + lam sum_i "
        "||u_i||^4, lam >= 0, for M symmetric and positive semi-definite.",
        check=partial(landscape_checks.below_map, 1.0),
        control=partial(landscape_checks.below_map, -1.0),
        note="M is read so, as for Theorem 2.4, though the lemma does not say it: lambda_i(M) stands in print for its "
        "singular values and for its eigenvalues, which agree only then. It must be so (M = diag(1,-1), U = 0); for "
        "every symmetric M UU^T <= PMP with P the projector on range U.",
    ),
    Claim(
        "mianjy2018-lemD.1-corrected",
        f"{SOURCE}, Lemma D.1, for every symmetric M",
        "For every symmetric M and lam >= 0, UU^T <= PMP, PMP - UU^T is positive semi-definite, at every critical "
        "point U of ||M-UU^T||_F^2 + lam sum_i ||u_i||^4, P the projector on the range of U.",
        check=partial(landscape_checks.range_is_positive, True),
        control=partial(landscape_checks.range_is_positive, False),
    ),
    Claim(
        "mianjy2018-lemD.2",
        f"{SOURCE}, Lemma D.2",
        "All local minima of ||M-UU^T||_F^2 + lam sum_i ||u_i||^4, lam > 0, are equalized, their columns have equal "
        "norm, and all critical points that are not are strict saddles: two columns of different norm are orthogonal "
        "there, and turning them into each other has the second derivative -4 lam (n_1-n_2)^2 < 0, n_i = ||u_i||^2.",
        check=lambda: [
            *landscape_checks.rotation_curvature(lambda lam: lam),
            *landscape_checks.unequal_points(0.6),
            *landscape_checks.local_minima(0.6),
        ],
        control=partial(landscape_checks.rotation_curvature, lambda lam: 1.0),
        note="The printed proof loses the factor lam; for orthogonal columns any small angle does.",
    ),
    Claim(
        "mianjy2018-lemD.3",
        f"{SOURCE}, Lemma D.3",
        "||M-UU^T||_F^2 + lam sum_i ||u_i||^4, U of r <= d columns, s_1 >= ... >= s_d the eigenvalues of a symmetric "
        "M: for 0 <= lam < r s_r / (s_1+...+s_r - r s_r), or any lam >= 0 where s_1 = ... = s_r > 0, all equalized "
        "local minima are global, and all other equalized critical points are strict saddles, of some negative "
        "curvature.",
        check=partial(landscape_checks.strict_saddles, True),
        control=partial(landscape_checks.strict_saddles, True, every=True),
        objects=("linalg.shrink",),
    ),
    Claim(
        "mianjy2018-thm4.3",
        f"{SOURCE}, Theorem 4.3",
        "||M-UU^T||_F^2 + lam sum_i ||u_i||^4, U of r <= d columns, s_1 >= ... >= s_d the eigenvalues of a symmetric "
        "M: for 0 <= lam < r s_r / (s_1+...+s_r - r s_r), or any lam >= 0 where s_1 = ... = s_r > 0, all local minima "
        "are global and all saddles are strict.",
        check=lambda: [*landscape_checks.strict_saddles(False), *landscape_checks.unequal_points(0.5)],
        control=partial(landscape_checks.strict_saddles, False, every=True),
        objects=("linalg.shrink",),
        note="The threshold, which is the condition rho = r, is not needed: see droptics-benign-landscape.",
    ),
)
