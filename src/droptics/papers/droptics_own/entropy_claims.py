"""Our own results on cross-entropy heads, as claims."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own import entropy_checks as checks

PROVED = "Proved."

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "droptics-certified",
        "droptics",
        "Outputs linear in the mask, pi the softmax of their mean, d the moves, X = sum_k pi_k exp(d_k - pi . d): the "
        "cross-entropy penalty is E log X with X >= 1, and (M1^2 / M2) log(1 + M2 / M1) <= E log X <= log(1 + M1) for "
        "M1 = E X - 1 > 0, M2 = E (X - 1)^2; averaged over the outcomes of some units both hold again.",
        check=partial(checks.certified, 1.0),
        control=partial(checks.certified, 0.5),
        objects=("penalties.Certified",),
        note=PROVED + " Above by Jensen; below because log(1 + x) / x is convex, under the law reweighted by X - 1.",
    ),
    Claim(
        "droptics-logistic",
        "droptics",
        "The logistic penalty of a margin with mean c and characteristic function phi of its moves is "
        "int_0^inf Re[e^(ict) (1 - phi(t))] / (t sinh(pi t)) dt; the midpoint rule of step 2 pi / L errs by at most "
        "(E e^m + E e^-m) e^-L / (1 - e^-L).",
        check=partial(checks.logistic, 1.0),
        control=partial(checks.logistic, 1.01),
        objects=("penalties.ClosedForm",),
        note=PROVED + " From the Fourier integral of log cosh and Poisson summation.",
    ),
    Claim(
        "droptics-consistency",
        "droptics",
        "To second order in the noise the mean divergence between two independent masks of a head (R-Drop) is twice "
        "its cross-entropy penalty; between two of the K masks that a layer of rate p draws together, which balance "
        "each other, (K - f (1 - f) / (K p (1 - p))) / (K - 1) times that, with f the fractional part of K p.",
        check=partial(checks.consistency, 2.0),
        control=partial(checks.consistency, 1.0),
        objects=("layers.ExplicitDropout",),
        note=PROVED + " Both are quadratic forms of the softmax Hessian.",
    ),
)
