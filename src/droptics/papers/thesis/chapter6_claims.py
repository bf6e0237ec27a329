"""Chapter 6 of the thesis: adversarial training with the reflected loss, as claims."""

from __future__ import annotations

import math
from functools import partial

import torch

from droptics.evidence.claims import Claim
from droptics.papers.thesis import chapter6_checks as checks
from droptics.papers.thesis import chapter6_class_checks as class_checks
from droptics.papers.thesis import chapter6_training_checks as training_checks
from droptics.papers.thesis.errata_training import ERRATA

SOURCE = "Mianjy thesis (Johns Hopkins), chapter 6"

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "thesis-eq6.2",
        f"{SOURCE}, Section 6.2, after eq. (6.2)",
        "The reflected loss l_-(z) = -l(-z) = -log(1 + e^z) is a concave lower bound of the 0-1 loss I{z < 0}, of "
        "slope -sigmoid(z).",
        check=partial(checks.reflected_loss, lambda z: -torch.sigmoid(z)),
        control=partial(checks.reflected_loss, lambda z: -torch.sigmoid(-z)),
        objects=("attacks.Reflected",),
        note="Being negative it is trivially below the 0-1 loss; 1 - log2(1+e^z) is concave and below it, too, and "
        "meets it for z -> -infinity and, where a score of zero is right, at zero.",
    ),
    Claim(
        "thesis-sec6.2",
        f"{SOURCE}, Section 6.5.2, on the loss of Section 6.2",
        "Reflecting the cross-entropy loss has a minimal effect on FGSM and BIM in terms of robust test accuracy: in "
        "binary problems it changes only the length of a gradient in the input, so that attacks whose steps are its "
        "sign or its direction stay the same.",
        check=lambda: [*checks.same_attacks(4, False), *class_checks.two_classes()],
        control=partial(checks.same_attacks, 4, True),
        objects=(
            "attacks.Fgsm",
            "attacks.Bim",
            "attacks.Reflected",
            "attacks.attack",
        ),
        note="Printed is the minimal effect; why it is none at all explains the equal columns of Table 6-I. The length "
        "changes by e^(y f): in floating point until one of the two gradients is rounded to zero.",
    ),
    Claim(
        "thesis-alg5",
        f"{SOURCE}, Algorithm 5",
        "From delta_1 = x, delta_{t+1} is delta_t - eta_atk sigmoid(y f(delta_t)) y grad f(delta_t), projected to the "
        "ball of radius nu around x; kept is the visited point of largest l_-(y f), so of least y f.",
        check=partial(checks.algorithm_5, 1.0),
        control=partial(checks.algorithm_5, 0.9),
        objects=("papers.thesis.leaky.LeakyNet", "papers.thesis.leaky.reflected_pgd"),
        note="Section 6.2 prints the loss in place of its gradient. The printed output leaves out the point after the "
        "last step; the library's may be that one, too.",
    ),
    Claim(
        "thesis-alg6",
        f"{SOURCE}, Algorithm 6",
        "W_{t+1} = W_t - eta_tr grad_W l(y_t f(delta_t; W_t)), l(z) = log(1 + e^-z), delta_t the output of Algorithm 5 "
        "for W_t and a fresh example (x_t, y_t), held fixed in the gradient; a stays. From ||a||_inf <= kappa and "
        "||W_1||_F <= omega.",
        check=partial(checks.algorithm_6, 0.3),
        control=partial(checks.algorithm_6, 0.27),
        objects=("papers.thesis.leaky.LeakyNet", "papers.thesis.leaky.adversarial_sgd"),
    ),
    Claim(
        "thesis-eq6.3",
        f"{SOURCE}, eq. (6.3)",
        "L_beta(W) = P(min over the ball of radius nu around x of y f_Wbar < -beta), Wbar = W/||W||_F, y = +-1, beta "
        ">= 0; for slope alpha = 1 the minimum of y f_W is y w.x - nu ||w||, w = W^T a.",
        check=partial(checks.linear_robust_margin, 1.0),
        control=partial(checks.linear_robust_margin, 0.9),
        objects=(
            "attacks.LinearExact",
            "papers.thesis.leaky.beta_robust_error",
            "attacks.attack",
            "attacks.smallest_margins",
        ),
    ),
    Claim(
        "thesis-def7",
        f"{SOURCE}, Definition 7",
        "A point delta of the ball around x is a beta-effective attack when y f_Wbar(delta) <= -beta, Wbar = "
        "W/||W||_F. L_beta is the share of examples that have one, less those whose strongest is exactly at -beta, and "
        "does not grow with beta.",
        check=partial(checks.beta_error, 1.0),
        control=partial(checks.beta_error, 0.9),
        objects=(
            "papers.thesis.leaky.LeakyNet",
            "papers.thesis.leaky.beta_robust_error",
            "papers.thesis.leaky.effective",
        ),
        note="(6.3) has y f_Wbar < -beta: an example whose strongest attack is exactly at -beta has an effective one "
        "and does not count in L_beta.",
    ),
    Claim(
        "thesis-sec6.3",
        f"{SOURCE}, Section 6.3, text around eq. (6.3)",
        "L_beta counts only attacks that fool by a margin: with L_rob = P(min over the ball of y f_Wbar < 0) of (6.1), "
        "L_beta <= L_rob for beta >= 0, and it tends to L_rob with beta -> 0.",
        check=partial(checks.vanishing_beta, 1.0),
        control=partial(checks.vanishing_beta, 1.2),
        objects=("papers.thesis.leaky.LeakyNet", "papers.thesis.leaky.beta_robust_error"),
        note="The paragraph calls it a weaker version of the robust error and also a more stringent notion; what is "
        "stricter is what counts as an attack.",
    ),
    Claim(
        "thesis-lem18",
        f"{SOURCE}, Lemma 18",
        "-l'(y f(delta*)) <= -2 l'(y f(delta_atk)) + 4 nu^2/(eta_atk T_atk), l(z) = log(1 + e^-z), for a delta* within "
        "nu of x that is beta-effective, y f(delta*) <= -beta ||W||_F, beta >= 2 nu (1-alpha) kappa sqrt m, |a_r| <= "
        "kappa, eta_atk <= 1/(kappa^2 m ||W||_F^2), delta_atk the output of Algorithm 5 after T_atk steps.",
        check=lambda: [
            *checks.attack_bound(2.0, 1.0),
            *checks.intermediate_step(2.0, by_distance=True),
            *checks.slow_attack(1.6),
        ],
        control=partial(checks.attack_bound, 2.0, 0.45),
        objects=("papers.thesis.leaky.LeakyNet", "papers.thesis.leaky.reflected_pgd"),
        note="Proved, with the printed 2, though the printed proof needs beta >= 4 nu (1-alpha) kappa sqrt m: with h = "
        "-y f(delta*), d = ||delta_t - delta*||, s the logistic function and a = y f(delta_atk), y <grad f(delta_t), "
        "delta*> is -h but for flipped units, whose part is at most h d/(2 nu): at most -h/2 while d <= nu, as at the "
        "start. So a step from z = y f(delta_t) >= a adds at most -eta_atk s(z) (2z + h - s(z)) to d^2. If a > 0 and "
        "2a + h > s(a), d falls in every step and 4 nu^2/(eta_atk T_atk) >= 4 s(a) (2a + h - s(a)), which added to 2 "
        "s(-a) is above s(h); if 2a + h <= s(a), or a <= 0, 2 s(-a) alone is. The right side is at least twice the "
        "left when the attack is the strongest, so that the control takes 0.45 of it.",
    ),
    Claim(
        "thesis-lem18-proof",
        f"{SOURCE}, proof of Lemma 18",
        "With |a_r| <= kappa and beta >= 2 nu (1-alpha) kappa sqrt m a beta-effective delta* has y <grad f(delta_t), "
        "delta*> <= y f(delta*)/2 for delta_t in the ball of radius nu around x, which is all that the proof uses of "
        "an iterate.",
        "slip",
        check=partial(checks.intermediate_step, 2.0),
        control=partial(checks.intermediate_step, 4.0),
        erratum=ERRATA["lem18-proof"],
    ),
    Claim(
        "thesis-lem18-proof-corrected",
        f"{SOURCE}, proof of Lemma 18, corrected",
        "With |a_r| <= kappa and beta >= 4 nu (1-alpha) kappa sqrt m a beta-effective delta* has y <grad f(delta_t), "
        "delta*> <= y f(delta*)/2 for every delta_t in the ball of radius nu around x.",
        check=partial(checks.intermediate_step, 4.0),
        control=partial(checks.intermediate_step, 3.9),
        note="4 is the least factor: one unit of slope just below 1/2 fails for every smaller one.",
    ),
    Claim(
        "thesis-eq6.7",
        f"{SOURCE}, eq. (6.7)",
        "With eta_tr <= 1/(m kappa^2 (R+nu)^2), |a_r| <= kappa and ||x|| <= R, ||W_{t+1}||_F^2 <= ||W_1||_F^2 + 3 "
        "eta_tr t along every run of Algorithm 6.",
        check=partial(training_checks.norm_growth, 3.0),
        control=partial(training_checks.norm_growth, 0.6),
        objects=("papers.thesis.leaky.adversarial_sgd",),
        note=".612 suffices in place of 3: the largest growth in a step over eta, at a score of 1.085; the "
        "control has .6.",
    ),
    Claim(
        "thesis-lem19",
        f"{SOURCE}, Lemma 19",
        "Under Assumption 3 with nu < gamma and eta_tr <= 1/(m kappa^2 (R+nu)^2), Algorithm 6 has an iterate at which "
        "E_D[-l'(y f(delta_atk))] <= eps in expectation over the samples, within T_tr <= 4 (1 + ||W_1||_F gamma alpha "
        "kappa sqrt(m) eps)/(eta_tr (gamma-nu)^2 alpha^2 kappa^2 m eps^2) steps, delta_atk the output of Algorithm 5.",
        "holds only if",
        check=lambda: [*training_checks.learns(1.0), *checks.algorithm_5(1.0), *checks.algorithm_6(0.3)],
        control=partial(training_checks.learns, 0.17),
        outside=partial(training_checks.learns, 1.0, 0.0),
        objects=("papers.thesis.leaky.adversarial_sgd", "papers.thesis.leaky.reflected_pgd"),
        note="Only if |a_r| = kappa for every r: with a = 0 the network never moves. Runs of Algorithm 6 from a start "
        "that is wrong everywhere, 60 steps of T_tr = 205 to 230; the control stops after .17 of T_tr.",
    ),
    Claim(
        "thesis-thm16",
        f"{SOURCE}, Theorem 16",
        "Under Assumption 3 with nu < gamma, Algorithm 6 with eta_tr <= 1/(m kappa^2 (R+nu)^2), eta_atk <= 1/(kappa^2 "
        "m ||W_t||_F^2) and T_atk >= 8 nu^2/(eta_atk eps) has, in expectation over the samples, an iterate with L_beta "
        "<= 2 eps within T_tr <= 64 (R+nu)^2 (1 + omega gamma alpha kappa sqrt(m) eps)/((gamma-nu)^2 alpha^2 eps^2) "
        "steps, for any beta >= 2 nu (1-alpha) kappa sqrt m.",
        "holds only if",
        check=lambda: [*training_checks.robust_training(0.5), *training_checks.all_steps(1.0)],
        control=partial(training_checks.robust_training, 0.0),
        outside=partial(training_checks.all_steps, 1e-3),
        objects=("papers.thesis.leaky.adversarial_sgd", "papers.thesis.leaky.beta_robust_error", "bounds.adversarial"),
        note="Only if |a_r| = kappa: with a thousandth of it T_tr steps change nothing. And only if eta_tr equals 1/(m "
        "kappa^2 (R+nu)^2). Smaller steps: thesis-thm16-rate. The 2 in beta is that of Lemma 18, proved at "
        "thesis-lem18; L_beta by certificate on all points. Here three steps do, far fewer than T_tr, and the control "
        "takes them without attacks. For slopes below 1/2 it speaks only of points misclassified without attack: see "
        "droptics-effective-attacks.",
    ),
    Claim(
        "thesis-cor4",
        f"{SOURCE}, Corollary 4",
        "For alpha = 1, kappa = 1/sqrt m, omega = 1/gamma, nu < gamma and eps < 1 the number of steps in Theorem 16 is "
        "at most 128 (R+nu)^2/((gamma-nu)^2 eps^2).",
        check=partial(training_checks.iterations_corollary, 128.0),
        control=partial(training_checks.iterations_corollary, 127.0),
        objects=("bounds.adversarial",),
        note="The number alone: that so many steps suffice is Theorem 16 at slope 1 and needs |a_r| = kappa, as there. "
        "Printed for all eps > 0: from 1/2 on nothing is claimed, L_rob <= 1 <= 2 eps.",
    ),
    Claim(
        "thesis-cor4-cost",
        f"{SOURCE}, after Corollary 4",
        "For nu, R, eps > 0 and T >= 1, sum_{t=1}^T 24 nu^2 t/((R+nu)^2 eps) <= 12 nu^2 T^2/((R+nu)^2 eps).",
        "slip",
        check=partial(training_checks.total_cost, lambda T: T),
        control=partial(training_checks.total_cost, lambda T: T + 1),
        objects=("bounds.adversarial",),
        erratum=ERRATA["cor4-cost"],
    ),
    Claim(
        "thesis-cor4-cost-corrected",
        f"{SOURCE}, after Corollary 4, corrected",
        "For kappa = 1/sqrt m, omega^2 = 3/(R+nu)^2 and eta_tr = 1/(R+nu)^2 the attacks of T steps together, that on "
        "W_t counted as 8 nu^2 ||W_t||_F^2/eps, no whole number, cost at most 12 nu^2 T(T+1)/((R+nu)^2 eps); with the "
        "T_tr printed in Theorem 16 and eps <= 1/2 that is at most 196608 nu^2 (R+nu)^2/((gamma-nu)^4 alpha^4 eps^5), "
        "as printed.",
        check=lambda: [*training_checks.total_cost(lambda T: T + 1), *checks.algorithm_6(0.3)],
        control=partial(training_checks.total_cost, lambda T: T),
        objects=("bounds.adversarial", "papers.thesis.leaky.adversarial_sgd"),
    ),
    Claim(
        "thesis-cor5",
        f"{SOURCE}, Corollary 5",
        "With kappa = beta/(2 nu (1-alpha) sqrt m) and the largest eta_atk, 4 nu^2 (1-alpha)^2/(beta^2 ||W_t||_F^2), "
        "the attack steps of Theorem 16, T_atk >= 8 nu^2/(eta_atk eps), are T_atk >= 2 (1-alpha)^2/(beta^2 ||W_t||_F^2 "
        "eps).",
        "slip",
        check=partial(training_checks.attack_steps, True),
        control=partial(training_checks.attack_steps, False),
        objects=("bounds.adversarial",),
        erratum=ERRATA["cor5"],
    ),
    Claim(
        "thesis-cor5-corrected",
        f"{SOURCE}, Corollary 5, corrected",
        "With kappa = beta/(2 nu (1-alpha) sqrt m) and the largest eta_atk, 4 nu^2 (1-alpha)^2/(beta^2 ||W_t||_F^2), "
        "the attack steps of Theorem 16, T_atk >= 8 nu^2/(eta_atk eps), are T_atk >= 2 beta^2 ||W_t||_F^2/((1-alpha)^2 "
        "eps).",
        check=partial(training_checks.attack_steps, False),
        control=partial(training_checks.attack_steps, False, 1.9),
        objects=("bounds.adversarial",),
        note="Slopes alpha < 1. The network scales with kappa, so a small beta is only a change of units. "
        "bounds.adversarial has kappa = beta/(4 nu (1-alpha) sqrt m), which the printed proof needs, so a quarter of "
        "these steps, each four times as long; with constants='printed beta' it has the kappa above and twice the "
        "steps.",
    ),
    Claim(
        "thesis-sec6.5.1",
        f"{SOURCE}, Section 6.5.1",
        "delta = [-.501, .5, 0] has norm .7078 and lies in {delta in (-.51, .51)^3 : ||delta|| <= .7078}.",
        "slip",
        check=partial(class_checks.grid_point, 0.7078, "<="),
        control=partial(class_checks.grid_point, 0.70782, "<="),
        erratum=ERRATA["sec6.5.1"],
    ),
    Claim(
        "thesis-sec6.5.1-corrected",
        f"{SOURCE}, Section 6.5.1, corrected",
        "At radius .7078 the label of the point (3,2,1), 1 for f(x) = x, can be flipped with moves in (-.51, .51)^3: "
        "the least margin over the ball, 1 - sqrt(2) .7078 < 0, is reached there.",
        check=partial(class_checks.flips_exist, 0.7078),
        control=partial(class_checks.flips_exist, 0.7071),
        objects=(
            "attacks.LinearExact",
            "attacks.attack",
        ),
    ),
    Claim(
        "thesis-rem6.5.3",
        f"{SOURCE}, Section 6.5.3",
        "An attack that aims at the most likely wrong class can leave the label as it is though another class is "
        "within reach: f(x) = W x with rows 2 e_1, e_1 and 10 e_2, at x = e_1 and radius .3 in l2.",
        check=partial(class_checks.greedy_target, 10.0),
        control=partial(class_checks.greedy_target, 5.0),
        objects=(
            "attacks.Reflected",
            "attacks.Pgd",
            "attacks.attack",
        ),
        note="Aiming at the class of least linearized distance among all, by steps that begin with the radius, "
        "succeeds there, and without a box in linear models wherever some point of the ball has another label. With "
        "twelve classes the one within reach may be none of the nine most likely wrong ones, at which alone Reflected "
        "looks by default.",
    ),
    Claim(
        "thesis-sec6.6",
        f"{SOURCE}, Section 6.6, open question",
        "A multi-class reflected loss that bounds the 0-1 error of outputs z at label y from below: -log(1 + exp(z_y - "
        "max_{j != y} z_j)), and 1 - log2(1 + exp(z_y - max_{j != y} z_j)), too.",
        check=partial(class_checks.multi_class_margin, 2.0),
        control=partial(class_checks.multi_class_margin, math.e),
        objects=("attacks.Reflected", "attacks.Margin"),
        note="Being negative the first is trivially below; 1 - ln(1 + exp(..)), the control, is not. For each wrong "
        "class alone the loss is concave in the outputs; with three classes or more the largest of them is not.",
    ),
)
