"""What the thesis prints where it fails, how it is read kindly, the smallest counterexample: chapters 5 and 6."""

from __future__ import annotations

from droptics.evidence.claims import Erratum

ERRATA = {
    "asm2": Erratum(
        r"\gamma > 0 \text{ and ``a linear transformation'' } \psi : R^d \to R^d,\quad \|\psi(z)\|_2 \le 1 "
        r"\text{ for all } z \in R^d,\quad E_{z,b}[y \langle \psi(z), b x I[z^\top x \ge 0] \rangle] \ge \gamma "
        r"\text{ for almost all } (x, y) \sim D",
        "Any measurable map, as in the works that are cited for the assumption.",
        "A linear map that is bounded on the whole space is zero, and has no margin. Nothing uses linearity.",
        "thesis-asm2-corrected",
        """\
from fractions import Fraction as F
slope, z = F(1, 1000), 10**6  # psi(z) = slope z
print(1)  # the bound
print(slope * z)""",
    ),
    "sec5.3": Erratum(
        r"\text{``assume that the event'' } \max_{r \in [m]} \|w_{r,1}\| \le 2\sqrt{\ln m} \text{ ``holds'', or "
        r"``multiply the probability of success'' by } 1 - 1/m",
        "sqrt(d) + 2 sqrt(ln m), as the sentence before has it and the constant c of Theorem 14 uses.",
        "sqrt(d) is lost on the way; without it the event hardly ever happens once d is well above 4 ln m.",
        "thesis-sec5.3-corrected",
        """\
from math import log, sqrt
from scipy.stats import chi2
m, d = 2, 3
print(1 - 1 / m)  # the probability said of the event
print(float(chi2.cdf((2 * sqrt(log(m))) ** 2, d) ** m))""",
        inexact="a chi-square probability",
    ),
    "lem11": Erratum(
        r"\text{``almost surely'':}\quad \sum_{t=1}^T \ell(y_t f_t(q W_t)) \le E_{B_T}\left[\sum_{t=1}^T "
        r"L_t(W_t)\right]",
        "With the expectation over the masks on the left too, which is how Theorem 14 uses it; or given the masks "
        "before t on both sides.",
        "On the left W_t still depends on the masks before t, on the right they are averaged: for some of them the "
        "left side is larger. The last step of the proof drops that average.",
        "thesis-lem11-corrected",
        """\
from math import exp, log
l, q, eta, w = lambda z: log(1 + exp(-z), 2), 0.5, 0.5, 0.1  # one unit
# x = a = 1, first y = 1 and then y = -1
later = (w, w + eta / log(2) / (1 + exp(w)))  # W_2, the unit dropped or kept
right = (l(0) + l(w)) / 2 + sum(l(0) + l(-v) for v in later) / 4
print(right)  # said to bound the left side for every first mask
print(l(q * w) + l(-q * later[1]))  # the left side when the unit was kept""",
        inexact="exponentials and logarithms",
    ),
    "thm15-constants": Erratum(
        r"\frac1T \sum_{t=1}^T Q(W_t; B_t) \le \frac4T \sum_{t=1}^T Q_t(W_t) + \frac{4 \log(1/\delta)}{T} \Rightarrow "
        r"\frac1T \sum_{t=1}^T R(W_t; B_t) \le \frac{16 \ln 2\, \lambda^2}{\eta T} + \frac{8 \ln 2\, \ln 1/\delta}{T}",
        "log is base 2 and ln natural, as elsewhere in the chapter; then the line before is right.",
        "2 ln 2 times 4 log2(1/delta) is 8 ln(1/delta), not 8 ln 2 ln(1/delta); with R = 1/ln 2, as the proof has it, "
        "the factor is at least 2/(3-e) = 7.10. Theorem 22 allows a larger R: 2 (e-2)/ln 2 gives 8 (e-2) = 5.75, so "
        "that the 6 of the theorem holds, and its 12, which becomes 8 ln 2 = 5.55.",
        "thesis-thm15-constants-corrected",
        """\
from math import log
delta = 0.1  # the last term, without 1/T
print(round(8 * log(2) * log(1 / delta), 4))
print(round(2 * log(2) * 4 * log(1 / delta, 2), 4))""",
        inexact="logarithms",
    ),
    "lem18-proof": Erratum(
        r"\beta \ge 2\nu(1-\alpha)\kappa\sqrt m:\quad (1-\alpha)\kappa \sum_{j \notin I} \|w_j\| "
        r"\|\delta^* - \delta_t\| \le (1-\alpha)\kappa\nu \sqrt m \|W\|_F,"
        r"\quad y f_{W,t}(\delta^*) \le \tfrac12 y f_W(\delta^*)",
        "Both points lie in the ball of radius nu around x; one of them at its center would do.",
        "Two points of that ball are up to 2 nu apart, so the step needs beta >= 4 nu (1-alpha) kappa sqrt m. The "
        "lemma holds with the printed 2: delta_1 = x is within nu of delta*, and an attack that could break the lemma "
        "comes no farther from it, see thesis-lem18.",
        "thesis-lem18-proof-corrected",
        """\
from fractions import Fraction as F
slope, y = F(3, 10), -1  # m = d = a = w = nu = 1, x = 1/2
f = lambda u: max(slope * u, u)
star, t = F(3, 2), F(-1, 2)  # of the ball; y f(star) <= -2 (1 - slope)
print(y * f(star) / 2)  # the printed upper bound
print(y * slope * star)  # <grad f(t), star> y""",
    ),
    "cor4-cost": Erratum(
        r"\sum_{t=1}^{T_{tr}} \frac{24\nu^2 t}{(R+\nu)^2 \epsilon} \le \frac{12 \nu^2 T_{tr}^2}{(R+\nu)^2 \epsilon}",
        "Up to the lower term: T(T+1) for T^2; the order of the cost is not touched.",
        "The sum of t is T(T+1)/2. The end of the chain has room for it where eps <= 1/2.",
        "thesis-cor4-cost-corrected",
        """\
from fractions import Fraction as F
nu, R, eps, T = 1, 1, 1, 1
print(F(12 * nu**2 * T**2, (R + nu) ** 2 * eps))
print(sum(F(24 * nu**2 * t, (R + nu) ** 2 * eps) for t in range(1, T + 1)))""",
    ),
    "cor5": Erratum(
        r"\kappa = \frac{\beta}{2\nu(1-\alpha)\sqrt m},\quad \eta_{atk} \le \frac{4\nu^2(1-\alpha)^2}{\beta^2 "
        r"\|W_t\|_F^2},\quad T_{atk} \ge \frac{2(1-\alpha)^2}{\beta^2 \|W_t\|_F^2 \epsilon}",
        "8 nu^2/(eta_atk eps) of Theorem 16 with the step of the corollary.",
        "The quotient stands upside down: it is 2 beta^2 ||W||_F^2/((1-alpha)^2 eps).",
        "thesis-cor5-corrected",
        """\
from fractions import Fraction as F
beta, nu, alpha, W, eps = 1, 1, F(1, 2), 1, 1
eta = 4 * nu**2 * (1 - alpha) ** 2 / (beta**2 * W**2)  # the stated step
print(2 * (1 - alpha) ** 2 / (beta**2 * W**2 * eps))
print(8 * nu**2 / (eta * eps))""",
    ),
    "thm16-rate": Erratum(
        r"T_{tr} \le \frac{64(R+\nu)^2(1+\omega\gamma\alpha\kappa\sqrt m \epsilon)}{(\gamma-\nu)^2\alpha^2\epsilon^2},"
        r"\quad \eta_{tr} \le \frac{1}{m\kappa^2(R+\nu)^2},\quad \text{``in expectation over'' } \{(x_t, y_t)\}: "
        r"L_\beta(W_\tau) \le 2\epsilon \text{ ``for any'' } \beta \ge 2\nu(1-\alpha)\kappa\sqrt m",
        "For the largest step, eta_tr equal to the bound; Lemma 19 has the step in its number of iterations and "
        "Corollary 4 equality.",
        "For smaller steps the number grows as 1/eta_tr: too small a step leaves a bad start where it is.",
        "thesis-thm16",
        """\
from fractions import Fraction as F
eps, eta, w = F(1, 4), F(1, 10**6), F(-1)  # x = y = gamma = R = 1
# omega = 1, nu = 1/2, alpha = 1, a step adds at most eta (R + nu)
T = 64 * F(3, 2) ** 2 * (1 + eps) / (F(1, 2) ** 2 * eps**2)
print(2 * eps)  # L_beta of some iterate up to T, beta = 0
print(int(w + T * eta * F(3, 2) < 0))  # every iterate is wrong""",
    ),
    "sec6.5.1": Erratum(
        r"\delta = [-0.501, 0.5, 0] \text{ with } \|\delta\| = 0.7078,\quad "
        r"\{\delta \in (-0.51, +0.51)^3 \mid \|\delta\| \le 0.7078\}",
        "Its norm to four digits; flipping points do exist in the set.",
        "It is .707814: the point that motivates the set lies outside of it, by a rounding.",
        "thesis-sec6.5.1-corrected",
        """\
from fractions import Fraction as F
print(F(7078, 10**4) ** 2)  # the squared radius
print(F(501, 1000) ** 2 + F(1, 2) ** 2)""",
    ),
}
