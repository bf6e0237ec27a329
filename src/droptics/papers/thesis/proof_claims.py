"""Steps of proofs, expressions and sentences of the thesis that carry no number of their own, as claims."""

from __future__ import annotations

import math
from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.thesis import chapter4_relu_checks as relu_checks
from droptics.papers.thesis import chapter5_bound_checks as bound_checks
from droptics.papers.thesis import proof_checks as checks
from droptics.papers.thesis import survey_checks as survey
from droptics.papers.thesis.errata import ERRATA as EARLIER
from droptics.papers.thesis.errata_training import ERRATA as TRAINING

SOURCE = "Mianjy thesis (Johns Hopkins)"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "thesis-eq1.1",
        f"{SOURCE}, eq. (1.1)",
        "From d0 = 2 inputs on, for 1 <= p <= 2, 1/p + 1/p* = 1, and ||x||_{p*} <= 1: generalization gap on n examples "
        "<= O(sqrt((2 d^(1/p*))^(2k) psi_p(w)^2 log(d0)/n)), psi_p the l_p path norm, k hidden layers of at most d "
        "units.",
        "holds only if",
        check=lambda: [*survey.by_paths(lambda p: 1 - 1 / p), *survey.random_signs(1.0)],
        control=partial(survey.by_paths, lambda p: 0.5),
        outside=partial(survey.random_signs, 0.0),
        objects=("bounds.surveyed",),
        note="Printed for every p and without a size of the inputs. Checked is what stands inside O(.), at p = 1, 2 "
        "and 4, as (1.1) to (1.4) leave the constants open, and that a lower bound of the Rademacher complexity of one "
        "unit stays below it. It does not for inputs of entries +-1 at p = 2, where it grows as sqrt(d0/n), nor at "
        "p = 4 for n = d0 unit vectors, where it is n^(-1/4)/2. For one input the print is zero, no bound, and the "
        "library has log 2. The control takes p* = 2 for every p.",
    ),
    Claim(
        "thesis-eq1.2",
        f"{SOURCE}, eq. (1.2)",
        "Generalization gap on n examples <= O(prod_i ||W_i||_2 (sum_i (||W_i^T||_{2,1}/||W_i||_2)^(2/3))^(3/2)/sqrt "
        "n) for layers W_i, O(.) open for the size of the inputs, the margin and logarithms, which its source has.",
        check=partial(survey.expressions, "spectral", survey.by_spectral),
        control=partial(survey.expressions, "spectral", partial(survey.by_spectral, rows=False)),
        objects=("bounds.surveyed",),
        note="Quoted from [BFT17]. Checked is that bounds.surveyed has what stands inside O(.); ||W^T||_{2,1} is the "
        "sum of the norms of the rows of W, the control takes columns.",
    ),
    Claim(
        "thesis-sec1.1-norms",
        f"{SOURCE}, notation and Section 1.1.1",
        "||X||_{p,q} = (sum_j (sum_i |X_ij|^p)^(q/p))^(1/q) is the q-norm of the p-norms of the columns, p, q >= 1; "
        "||v||_{2/3} <= (k+1) ||v||_2 for k+1 entries.",
        check=partial(checks.group_norm, 1.0),
        control=partial(checks.group_norm, 0.9),
    ),
    Claim(
        "thesis-sec2.2",
        f"{SOURCE}, Section 2.2",
        "For some pairs (U, V) of r columns no rotation Q makes all ||U q_i|| ||V q_i|| equal to ||UV^T||_*/r, that "
        "is, jointly equalizes them (Definition 2): U = I_2 and V = diag(1, 0).",
        check=lambda: checks.no_rotation(checks.unbalanced_pairs()),
        control=lambda: checks.no_rotation(checks.balanced_pairs()),
        objects=("norms.nuclear",),
        note="At width two, where every angle can be tried; the control takes other factors of the same maps, as "
        "Theorem 4 does. Right with "
        "the definition of the thesis; wrong with that of the earlier paper: see mianjy2018-sec3.",
    ),
    Claim(
        "thesis-lem6-proof",
        f"{SOURCE}, proof of Lemma 6 (2)",
        "Without loss of generality every layer of a network of the map M satisfies ||W_i||_F <= ||M||_F.",
        "slip",
        check=partial(checks.factors_within, lambda m, layers: m),
        control=partial(checks.factors_within, lambda m, layers: m ** (1 / layers)),
        erratum=EARLIER["lem6-proof"],
    ),
    Claim(
        "thesis-lem7-proof",
        f"{SOURCE}, proof of Lemma 7",
        "With dropout at one rate in all k hidden layers of a linear network the penalty is R_1 + ... + R_k, if the "
        "sub-regularizer R_l of l pivots has the factor lam^l, lam = (1-theta)/theta, in it, as this proof has it.",
        check=partial(checks.plain_sum, True),
        control=partial(checks.plain_sum, False),
        objects=("penalties.penalty",),
        note="Proposition 8 keeps lam^l outside of R_l. The sum over nodes, missing where the terms of R_l are "
        "defined, stands in the line after.",
    ),
    Claim(
        "thesis-eq3.14",
        f"{SOURCE}, eq. (3.14)-(3.15)",
        "R_l >= e_l(1/d) ||W_{k+1->1}||_*^2, e_l(1/d) the sum over all choices of l hidden layers of the product of "
        "their 1/d_j, whatever the second moment C of the inputs.",
        "slip",
        check=partial(checks.without_root, 0.1),
        control=partial(checks.without_root, 1.0),
        objects=("norms.nuclear", "penalties.sub_penalties"),
        erratum=EARLIER["eq3.14"],
    ),
    Claim(
        "thesis-sec3.2-walks",
        f"{SOURCE}, Section 3.1, walk sums",
        "For isotropic inputs the sum, over all walks from an input to the first pivot and back, of the products of "
        "their weights is the head term alpha, and that from one pivot to the next and back is the middle term beta.",
        "slip",
        check=partial(checks.walk_sum, 1),
        control=partial(checks.walk_sum, 2),
        erratum=EARLIER["sec3.2-walks"],
        note="Checked for inputs of any second moment C, where walks from a that end at b count C_ab.",
    ),
    Claim(
        "thesis-thm9-conjugate",
        f"{SOURCE}, proof of Theorem 9",
        "For beta > 0 and symmetric positive definite A, M -> beta ||MA||_2^2 and Q -> ||QA^-1||_*^2/(4 beta) are "
        "convex conjugates of one another, on matrices of any shape that fits.",
        check=partial(checks.conjugate_pair, 4.0),
        control=partial(checks.conjugate_pair, 3.8),
        objects=("norms.nuclear",),
    ),
    Claim(
        "thesis-prop5-gradient",
        f"{SOURCE}, after Proposition 5",
        "On any batch the gradient of the squared loss of a two-layer ReLU network with its hidden units dropped, "
        "averaged over masks, is that of loss plus lam sum_k ||u_k||^2 mean a_k^2, lam = p/(1-p), p the rate, a_k the "
        "activation of unit k and u_k its outgoing weights.",
        check=partial(checks.mean_gradient, True),
        control=partial(checks.mean_gradient, False),
        objects=("penalties.criterion", "models.ReLUNet", "training.masked_step"),
        note="Our consequence of the proof, which speaks of a mini-batch. For weighted batches and masks of each "
        "example's own, too; the slope of relu at 0 is 0 on both sides.",
    ),
    Claim(
        "thesis-sec4.3-class",
        f"{SOURCE}, Section 4.3, before Theorem 13",
        "By Theorem 12, for n inputs X of a sample S from a beta-retentive law of second moment C, the networks H_r of "
        "d1 units and regularizer R(u,V) <= r have R_S(H_r) <= 2 sqrt(d1 r) ||X||_{C+}/(n sqrt beta).",
        check=partial(relu_checks.inside_class, 1.0),
        control=partial(relu_checks.inside_class, 0.38),
        objects=(
            "bounds.rademacher",
            "bounds.measured_rademacher",
            "coadaptation.flows",
            "penalties.penalty",
            "bounds.data_norm",
            "coadaptation.retentivity",
        ),
        note="Since they lie in F_alpha with alpha = sqrt(d1 r), which networks of equal flows reach; the regularizer "
        "is the one without lam. R_S of the examples is .17 to .4 of the bound, so that the control takes .38: see "
        "thesis-thm13.",
    ),
    Claim(
        "thesis-def6",
        f"{SOURCE}, Definition 6",
        "For the clipped prediction g the squared loss (1-yg(x))^2 as defined and (y-g(x))^2, which the class L_alpha "
        "has, are one.",
        "holds only if",
        check=partial(checks.two_losses, (1.0, -1.0)),
        control=partial(checks.two_losses, (0.9,)),
        outside=partial(checks.two_losses, (0.5, 0.0)),
        note="Only if y is -1 or +1, as Lemma 10 assumes, not for all labels of the section, in [-1, 1]: they differ "
        "by (1 - y^2)(1 - g^2). The interval clipped to is printed as [-1, 1] first and as [-1,-1] then, a slip.",
    ),
    Claim(
        "thesis-thm15-constants",
        f"{SOURCE}, proof of Theorem 15",
        "A mean of Q_t(W_t) of at most 2 lam^2/(eta T), as Lemmas 12 and 13 give it, yields by Theorem 22 with R = "
        "1/ln 2, with probability at least 1-delta, (1/T) sum_t R(W_t;B_t) <= 16 ln 2 lam^2/(eta T) + 8 ln 2 "
        "ln(1/delta)/T, factors 11.1 and 5.55.",
        "slip",
        check=partial(bound_checks.compression_constants, 16 * math.log(2), 8 * math.log(2)),
        control=partial(bound_checks.compression_constants, 16 * math.log(2), 7.0995),
        objects=("bounds.martingale",),
        erratum=TRAINING["thm15-constants"],
    ),
    Claim(
        "thesis-thm15-constants-corrected",
        f"{SOURCE}, proof of Theorem 15, corrected",
        "A mean of Q_t(W_t) of at most 2 lam^2/(eta T), as Lemmas 12 and 13 give it, yields by Theorem 22 with R = "
        "2 (e-2)/ln 2, with probability at least 1-delta, (1/T) sum_t R(W_t;B_t) <= 8 ln 2 lam^2/(eta T) + 8 (e-2) "
        "ln(1/delta)/T, factors 5.55 and 5.75, below the 12 and 6 of Theorem 15; with R = 1/ln 2 the factors are 4 ln "
        "2/(3-e) = 9.84 and 2/(3-e) = 7.10.",
        check=lambda: [
            *bound_checks.compression_constants(12.0, 6.0, 2 * (math.e - 2)),
            *bound_checks.compression_constants(9.842, 7.0995),
        ],
        control=partial(bound_checks.compression_constants, 12.0, 5.7, 2 * (math.e - 2)),
        objects=("bounds.martingale",),
        note="The differences are at most 1/ln 2, so every larger R is allowed; none makes the second factor less than "
        "8 (e-2). From Lemma 13 as stated. bounds.lazy has R = 1/ln 2 and takes the loss of the competitor from the "
        "proof of Lemma 13, 1/(2 ln 2 eta T) in place of lam^2/(2 eta T): 2 ln 2/(3-e) (lam^2 + 1/ln 2) in place of 4 "
        "ln 2/(3-e) lam^2.",
    ),
    Claim(
        "thesis-asm3",
        f"{SOURCE}, Assumption 3",
        "||x|| <= R and y (v.x) >= gamma > 0 with probability one, for a unit vector v; then each point x' within nu "
        "of x has ||x'|| <= R + nu and y (v.x') >= gamma - nu.",
        check=partial(checks.separable, 0.9),
        control=partial(checks.separable, 1.1),
        objects=("attacks.linear_attack",),
        note="An assumption; checked is what it leaves under attacks of radius nu, which the proof of Lemma 19 uses: "
        "both ends are attained, and the margin is positive for nu < gamma.",
    ),
    Claim(
        "thesis-lem18-slope",
        f"{SOURCE}, proof of Lemma 18",
        "|l_-'| <= min{1, -l_-} for l_-(z) = -log(1 + e^z), so that the printed |l_-'| <= max{1, -l_-} holds too.",
        check=partial(checks.reflected_slope, 1.0),
        control=partial(checks.reflected_slope, 0.99),
        objects=("attacks.Reflected",),
        note="The maximum is not enough for the line that it is to justify, l_-'^2 <= -l_-, which uses both terms of "
        "the minimum. The sums of the proof run over j in I_t, not outside it as printed.",
    ),
    Claim(
        "thesis-thm16-rate",
        f"{SOURCE}, Theorem 16, the step",
        "For every step size eta_tr <= 1/(m kappa^2 (R+nu)^2), with the other conditions there, one of the first 64 "
        "(R+nu)^2 (1 + omega gamma alpha kappa sqrt(m) eps)/((gamma-nu)^2 alpha^2 eps^2) iterates has L_beta <= 2 eps "
        "in expectation.",
        "slip",
        check=partial(checks.small_step, 0.002),
        control=partial(checks.small_step, 0.004),
        objects=("papers.thesis.leaky.adversarial_sgd", "papers.thesis.leaky.beta_robust_error", "bounds.adversarial"),
        erratum=TRAINING["thm16-rate"],
        note="That number is generous: here .002 of the largest step is too small, .004, the control, still does.",
    ),
    Claim(
        "thesis-misprints",
        f"{SOURCE}, misprints",
        "Printed -> meant. Proofs of Theorem 6: U' Sigma_W U'^T -> U' Sigma_W V'^T; Lemma 8: sums over i_{k+1}, too -> "
        "without; Proposition 8, third order: theta^(2(i+m+mm)) -> theta^(2(i+m+mm-k)); Lemma 17: g_t^(t)(W_t) -> "
        "g_t^(t)(U); Theorem 14: ||W_1-U||_F^2/(2 eta T) -> ||W_1-U||_F^2/(eta T), as in Lemma 12; Lemma 18: G = "
        "||W||_F -> kappa sqrt m ||W||_F. Section 5.2.1: y_i for row r -> y_r; (5.4): grad g_i(B_t W_1) -> grad "
        "g_t(W_1); before (5.11): eta l' y grad g_k -> minus that; Section 6.2: l_- -> its gradient; Theorem 20: d2 x "
        "d1 -> d2 x d0; after Theorem 11: Theorem 20 -> Theorem 11.",
        "not checked",
        note="Slips of notation that change no statement: the checks of these statements use what is meant.",
    ),
)
