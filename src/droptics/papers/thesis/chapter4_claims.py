"""Chapter 4 of the thesis: dropout and generalization, as claims."""

from __future__ import annotations

import math
from functools import partial

from droptics.bounds import completion_constant
from droptics.evidence.claims import Claim
from droptics.papers.thesis import chapter4_checks as checks
from droptics.papers.thesis import chapter4_relu_checks as relu_checks

SOURCE = "Mianjy thesis (Johns Hopkins), chapter 4"


def _rate(drop: float) -> float:
    return drop / (1 - drop)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "thesis-prop3",
        f"{SOURCE}, eq. (4.1)-(4.2), Proposition 3",
        "Dropout in matrix sensing adds lam sum_k mean_j (u_k^T A_j v_k)^2.",
        check=partial(checks.sensing, _rate),
        control=partial(checks.sensing, lambda drop: drop),
        objects=("penalties.penalty", "models.Factorization", "data.Measurements"),
    ),
    Claim(
        "thesis-sec4.2",
        f"{SOURCE}, Section 4.2",
        "With Gaussian measurements the least expected regularizer of M is ||M||_*^2 / d1.",
        check=partial(checks.gaussian_sensing, 1),
        control=partial(checks.gaussian_sensing, 0),
        objects=("norms.nuclear",),
    ),
    Claim(
        "thesis-prop4",
        f"{SOURCE}, Proposition 4",
        "In matrix completion the least expected regularizer of M is ||diag(sqrt p) M diag(sqrt q)||_*^2 / d1.",
        "holds only if",
        check=partial(checks.induced_completion, True),
        control=partial(checks.induced_completion, False),
        outside=checks.not_a_product,
        objects=("norms.weighted_trace",),
        note="Only if the sampling is a product, p, q > 0 and d1 >= rank M; the printed right-hand side has UV^T.",
    ),
    Claim(
        "thesis-prop4-proof",
        f"{SOURCE}, proof of Proposition 4",
        "A rotation of the given pair (U, V) attains the least regularizer.",
        "false as printed",
        check=partial(checks.rotation_only, "=="),
        control=partial(checks.rotation_only, ">"),
        objects=("norms.weighted_trace",),
        note="First replace the pair by the factors of the weighted SVD, then rotate.",
        corrected="thesis-prop4",
        counterexample="""\
import torch; from droptics import norms
V, h, t = torch.tensor([4.0, 0.25]).double(), torch.tensor([0.5, 0.5]).double(), torch.linspace(0, 3.2, 999).double()
first, second = V[0] ** 2 * t.cos() ** 2 + V[1] ** 2 * t.sin() ** 2, V[0] ** 2 * t.sin() ** 2 + V[1] ** 2 * t.cos() ** 2
print(float((first + second).min() / 4))  # U = I: the regularizer is the same under every rotation
print(float(norms.weighted_trace(torch.diag(V), h, h)) ** 2 / 2)""",
    ),
    Claim(
        "thesis-thm11",
        f"{SOURCE}, Theorem 11",
        "L(clip(UV^T)) <= Lhat + 8 sqrt((2 alpha d2 log d2 + log(2/delta)/4)/n) when d1 R(U,V) <= alpha.",
        "vacuous",
        check=lambda: [*checks.completion_terms(True, 8.0), *checks.completion_terms(False, 8.0)],
        control=partial(checks.completion_terms, True, 4.0),
        vacuity=checks.completion_is_vacuous,
        objects=("bounds.completion",),
        note="A statement with probability 1-delta; what is checked is its evaluation. The constant needs the "
        "factor K of thesis-thm20-corrected (small square matrices), alpha must be fixed before seeing the data, "
        "and the non-degeneracy condition fails on real ratings.",
    ),
    Claim(
        "thesis-prop5",
        f"{SOURCE}, eq. (4.3)-(4.4), Proposition 5",
        "Dropout on the hidden layer of a ReLU network adds lam sum_k ||u_k||^2 mean a_k^2.",
        check=partial(relu_checks.relu_penalty, _rate),
        control=partial(relu_checks.relu_penalty, lambda drop: drop),
        objects=("penalties.penalty", "models.LastLayer"),
        note="It holds for any activation and any depth below the dropped layer.",
    ),
    Claim(
        "thesis-sec4.3",
        f"{SOURCE}, Section 4.3",
        "For symmetric isotropic inputs R(w) = 1/2 sum U(i2,i1)^2 V(i0,i1)^2.",
        "false as printed",
        check=partial(relu_checks.path_expression, False),
        control=partial(relu_checks.path_expression, True),
        objects=("penalties.penalty", "norms.path_norm"),
        note="R contains lam in this chapter: the factor is lam/2.",
        corrected="thesis-prop6",
        counterexample="""\
drop, u, v = 0.2, 1.0, 1.0  # one unit, x = +-1
print(0.5 * u**2 * v**2)
print(drop / (1 - drop) * u**2 * (max(v, 0) ** 2 + max(-v, 0) ** 2) / 2)""",
    ),
    Claim(
        "thesis-prop6",
        f"{SOURCE}, Proposition 6",
        "For symmetric isotropic inputs R = (lam/2) sum_k ||u_k||^2 ||v_k||^2.",
        "holds only if",
        check=partial(relu_checks.isotropic_regularizer, 0.5),
        control=partial(relu_checks.isotropic_regularizer, 1.0),
        outside=partial(relu_checks.isotropic_regularizer, 0.5, False),
        objects=("norms.path_norm",),
        note="Only if the inputs are symmetric; isotropy is not enough. The printed (4.8) interchanges indices.",
    ),
    Claim(
        "thesis-prop2",
        f"{SOURCE}, Proposition 2",
        "With delta = C^2 the three-point law gives a unit with E relu(w.x)^2 = 1 and ||w|| > C.",
        "false as printed",
        check=partial(relu_checks.unbounded_norm, lambda C: C**2),
        control=partial(relu_checks.unbounded_norm, lambda C: 0.99 / C**2),
        objects=("coadaptation.retentivity",),
        note="delta < 1/C^2 (and below 1/2): ||w|| = delta^(-1/2).",
        corrected="thesis-prop2-corrected",
        counterexample="""\
C = 2.0
print(C**2)  # printed as a probability
print(0.99 / C**2)""",
    ),
    Claim(
        "thesis-prop2-corrected",
        f"{SOURCE}, Proposition 2, corrected",
        "With delta < 1/C^2 the three-point law gives a unit with E relu(w.x)^2 = 1 and ||w|| > C.",
        check=partial(relu_checks.unbounded_norm, lambda C: 0.99 / C**2),
        control=partial(relu_checks.unbounded_norm, lambda C: min(0.4, 1.1 / C**2)),
        objects=("coadaptation.retentivity",),
    ),
    Claim(
        "thesis-asm1",
        f"{SOURCE}, Assumption 1",
        "Retentivity beta = min_v E relu(v.x)^2 / E (v.x)^2 is at most 1/2; 1/2 for symmetric data.",
        check=partial(relu_checks.retained, 0.5),
        control=partial(relu_checks.retained, 0.001),
        objects=("coadaptation.retentivity",),
        note="It is 0 for every non-negative data set, all raw images included; the plug-in value is biased down.",
    ),
    Claim(
        "thesis-sec4.3-symmetrization",
        f"{SOURCE}, Section 4.3, symmetrization",
        "With a fair random sign on x the activation has second moment v^T C v / 2, and beta = 1/2.",
        check=partial(relu_checks.symmetrized_moments, 0.5),
        control=partial(relu_checks.symmetrized_moments, 1.0),
        objects=("coadaptation.symmetrize", "coadaptation.flows"),
    ),
    Claim(
        "thesis-sec4.3-cauchy",
        f"{SOURCE}, before Proposition 2",
        "sum_k |u_k| a_k <= sqrt(d1 R(w)) with R containing lam.",
        "false as printed",
        check=partial(relu_checks.cauchy_schwarz, True),
        control=partial(relu_checks.cauchy_schwarz, False),
        objects=("coadaptation.split",),
        note="False whenever p < 1/2: R/lam belongs under the root.",
        corrected="thesis-sec4.3-cauchy-corrected",
        counterexample="""\
p, u, a = 0.2, 1.0, 1.0  # one unit
print((p / (1 - p) * u**2 * a**2) ** 0.5)  # printed upper bound of |u| a
print(abs(u) * a)""",
    ),
    Claim(
        "thesis-sec4.3-cauchy-corrected",
        f"{SOURCE}, before Proposition 2, corrected",
        "sum_k |u_k| a_k <= sqrt(d1 Rbar) with Rbar = R/lam.",
        check=partial(relu_checks.cauchy_schwarz, False),
        control=partial(relu_checks.cauchy_schwarz, True),
        objects=("coadaptation.split",),
    ),
    Claim(
        "thesis-thm12",
        f"{SOURCE}, Theorem 12",
        "R_S(F_alpha) <= 2 alpha ||X||_{C+} / (n sqrt beta).",
        check=partial(relu_checks.rademacher_upper, 2.0),
        control=partial(relu_checks.rademacher_upper, 0.25),
        objects=("bounds.rademacher", "bounds.measured_rademacher"),
        note="The proof drops alpha twice; in every case measured the factor 1/sqrt(beta) is not needed.",
    ),
    Claim(
        "thesis-eq4.6",
        f"{SOURCE}, notation ||X||_{{C+}}",
        "||X||_{C+} = sqrt(n rank C) when C is the second moment of the same examples.",
        check=partial(relu_checks.weighted_norm_is_rank, 1.0),
        control=partial(relu_checks.weighted_norm_is_rank, 2.0),
        objects=("bounds.data_norm",),
    ),
    Claim(
        "thesis-thm13",
        f"{SOURCE}, Theorem 13",
        "R_S(H_r) >= c sqrt(d1 r) ||X|| / n, with c = 1/2 for even width.",
        check=lambda: [*relu_checks.rademacher_lower(0.5), *relu_checks.linear_class_inside(2.0)],
        control=partial(relu_checks.rademacher_lower, 3.0),
        objects=("bounds.rademacher", "bounds.measured_rademacher"),
        note="The thesis proves even widths and leaves c open; c = 1/2 is the Khintchine-Kahane constant over sqrt 2.",
    ),
    Claim(
        "thesis-cor2",
        f"{SOURCE}, Corollary 2",
        "L(g) <= Lhat(g) + 16 alpha ||X|| / (sqrt(beta) n) + 12 sqrt(log(2/delta)/2n).",
        "vacuous",
        check=partial(relu_checks.generalization, False, 16.0),
        control=partial(relu_checks.generalization, False, 8.0),
        vacuity=partial(relu_checks.generalization_is_vacuous, False),
        objects=("bounds.relu",),
        note="Needs n >= 512 rank examples to say anything at alpha = 1.",
    ),
    Claim(
        "thesis-cor3",
        f"{SOURCE}, Corollary 3",
        "L(g) <= 2 Lhat_S'(g) + 46 alpha' ||X|| / n + 24 sqrt(log(2/delta)/2n) after symmetrization.",
        "vacuous",
        check=partial(relu_checks.generalization, True, 32 * math.sqrt(2)),
        control=partial(relu_checks.generalization, True, 23.0),
        vacuity=partial(relu_checks.generalization_is_vacuous, True),
        objects=("bounds.relu",),
        note="46 rounds 32 sqrt 2 = 45.25; needs n >= 2048 rank examples.",
    ),
    Claim(
        "thesis-sec4.4a",
        f"{SOURCE}, Section 4.4 (a)",
        "Dropout on the inputs of an unfactored model adds lam sum_ab M_ab^2 E A_ab^2.",
        check=partial(checks.unfactored_inputs, True),
        control=partial(checks.unfactored_inputs, False),
        objects=("penalties.penalty",),
    ),
    Claim(
        "thesis-sec4.4b",
        f"{SOURCE}, Section 4.4 (b)",
        "With one output the solution satisfies (1 + nu/n) X X^T u = X y.",
        "false as printed",
        check=partial(checks.normal_equations, lambda nu, n: 1 + nu / n),
        control=partial(checks.normal_equations, lambda nu, n: 1 + nu),
        objects=("penalties.effective_strength",),
        note="No division by n: (1 + nu) X X^T u = X y, a pure scaling of least squares.",
        corrected="thesis-sec4.4b-corrected",
        counterexample="""\
n, nu = 2, 1.0  # x = (1, 1), y = (1, 1), width 1, drop 1/2
u = 1 / (1 + nu)  # minimizes the mean of (1 - u)^2 + nu u^2
print((1 + nu / n) * 2 * u - 2)  # residual of the printed equation
print((1 + nu) * 2 * u - 2)""",
    ),
    Claim(
        "thesis-sec4.4b-corrected",
        f"{SOURCE}, Section 4.4 (b), corrected",
        "With one output the solution satisfies (1 + nu) X X^T u = X y.",
        check=partial(checks.normal_equations, lambda nu, n: 1 + nu),
        control=partial(checks.normal_equations, lambda nu, n: 1 + nu / n),
        objects=("penalties.effective_strength",),
    ),
    Claim(
        "thesis-sec4.4c",
        f"{SOURCE}, Section 4.4 (c)",
        "<UV^T, A> = <vec U^T, (I kron V^T) vec A^T>.",
        check=partial(checks.kronecker, True),
        control=partial(checks.kronecker, False),
        objects=("models.Factorization",),
    ),
    Claim(
        "thesis-lem10-clipping",
        f"{SOURCE}, Lemma 10 (1)",
        "Clipping does not increase the empirical Rademacher complexity.",
        check=partial(relu_checks.clipping, "<="),
        control=partial(relu_checks.clipping, ">"),
        objects=("bounds.measured_rademacher",),
    ),
    Claim(
        "thesis-lem10",
        f"{SOURCE}, Lemma 10 (2)",
        "R_S(L) <= 2 R_S(G) for the squared loss, called 2-Lipschitz on [-1, 1].",
        "false as printed",
        check=partial(relu_checks.loss_contraction, 2.0),
        control=partial(relu_checks.loss_contraction, 4.0),
        objects=("bounds.squared",),
        note="(1-z)^2 is 4-Lipschitz there. Two equal inputs with labels +1 and -1: the ratio is 2.5.",
        corrected="thesis-lem10-corrected",
        counterexample="""\
from itertools import product
G = [(g, g) for g in (-1.0, -0.5, 0.0, 0.5, 1.0)]; L = [((1 - a) ** 2, (1 + b) ** 2) for a, b in G]
R = lambda F: sum(max(s * f + t * h for f, h in F) for s, t in product((1, -1), repeat=2)) / 8
print(2 * R(G))  # printed upper bound
print(R(L))""",
    ),
    Claim(
        "thesis-lem10-corrected",
        f"{SOURCE}, Lemma 10 (2), corrected",
        "R_S(L) <= 4 R_S(G).",
        check=partial(relu_checks.loss_contraction, 4.0),
        control=partial(relu_checks.loss_contraction, 2.0),
        objects=("bounds.squared",),
    ),
    Claim(
        "thesis-sec4.6",
        f"{SOURCE}, flows and co-adaptation",
        "d1 Rbar = (alpha/phi)^2: the regularizer splits into size alpha and equality phi in [1/sqrt d1, 1].",
        check=partial(relu_checks.flow_split, 2.0),
        control=partial(relu_checks.flow_split, 1.0),
        objects=("coadaptation.split", "coadaptation.coadaptation"),
    ),
    Claim(
        "thesis-thm20",
        "Mianjy thesis (Johns Hopkins), appendix, Theorem 20",
        "The unit ball of the weighted trace norm has R_n <= sqrt(alpha d2 log d2 / n).",
        "false as printed",
        check=partial(checks.entry_complexity, lambda side: 1.0),
        control=partial(checks.entry_complexity, lambda side: completion_constant((side, side))),
        objects=("bounds.completion_constant",),
        note="The source has O(.); constant 1 fails for square matrices with sides below about 60. M is d2 x d0.",
        corrected="thesis-thm20-corrected",
        counterexample="""\
from itertools import product; from math import log, sqrt; import torch
E = lambda i, j: 2 * torch.eye(2).double()[[i]].T @ torch.eye(2).double()[[j]]  # 2 x 2, uniform, n = 2
N = [float(torch.linalg.matrix_norm(E(*c[:2]) + s * E(*c[2:]), 2)) for c in product((0, 1), repeat=4) for s in (1, -1)]
print(sqrt(2 * log(2) / 2))
print(sum(N) / len(N) / 2)""",
    ),
    Claim(
        "thesis-thm20-corrected",
        "Mianjy thesis (Johns Hopkins), appendix, Theorem 20, with an explicit constant",
        "R_n <= K sqrt(alpha d2 log d2 / n), K = sqrt(2l) + l (d0/d2)^(1/4)/3, l = log(d2+d0)/log d2.",
        check=partial(checks.entry_complexity, lambda side: completion_constant((side, side))),
        control=partial(checks.entry_complexity, lambda side: 1.0),
        objects=("bounds.completion_constant",),
    ),
)
