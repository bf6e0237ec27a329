"""What Pal, Lane, Vidal and Haeffele 2020 print where it fails, how it is read kindly, the smallest counterexample."""

from __future__ import annotations

from droptics.evidence.claims import Erratum

ERRATA = {
    "eq3": Erratum(
        r"\min_{U,V} E_w \left\| Y - \tfrac1\theta U (\mathrm{diag}(w) \otimes I_{\frac dr}) V^\top X \right\|_F^2",
        "Blocks of size r share one coin, as the sentence after (3) says: I_r, with d/r coins.",
        "The printed order of the Kronecker product makes r blocks of size d/r.",
        "pal2020-eq3-corrected",
        """\
from fractions import Fraction as F
coin = (0, 1)  # d = 2, r = 1, all weights one, y = 2, theta = 1/2
print(sum(F(1, 2) * (2 * (w + w) - 2) ** 2 for w in coin))  # one coin for both
print(sum(F(1, 4) * (2 * (w + v) - 2) ** 2 for w in coin for v in coin))""",
    ),
    "sec2.2": Erratum(
        r"\text{``for any non-zero'' } (U, V):\quad \Omega_{DropBlock}(U, X^\top V) > 0",
        "For any non-zero product U V^T X: then some block product is not zero.",
        "For weights that are not zero it can vanish, since all block products can.",
        "pal2020-sec2.2-corrected",
        """\
u, v = (1, 0), (0, 1)  # one output, one input, one block of size two
print("positive")
print((u[0] * v[0] + u[1] * v[1]) ** 2)  # times (1 - theta)/theta""",
    ),
    "thm2.3": Erratum(
        r"\Lambda^{**}(A) = \frac{1-\bar\theta}{\bar\theta}\left(\sum_{i=1}^{\rho^*-1} a_i^2 + "
        r"\frac{(\sum_{i=\rho^*}^d a_i)^2}{r - \rho^* + 1}\right),\quad "
        r"\rho^* \in \{1, \ldots, r\} \text{ ``that maximizes (11)''}",
        "For X of full column rank the largest value of (11) over the printed range, as the theorem and its "
        "restatement have it; the last step of the proof takes the largest, too, up to d.",
        "(11) never decreases in rho, so that its largest value is at rho = r. On the way the proof finds a condition "
        "on rho (Claim 2), a_(rho-1) >= T_rho/(r-rho+1) with T_rho the sum from rho on, and drops it: the "
        "formula is right for the largest rho that meets it.",
        "pal2020-thm2.3-corrected",
        """\
from fractions import Fraction as F
a, r = (1, 1, 1), 2
rest = lambda p: F(sum(a[p - 1 :]), r - p + 1)
value = lambda p: sum(x * x for x in a[: p - 1]) + rest(p) * sum(a[p - 1 :])
print(max(value(p) for p in (1, 2)))
print(max(value(p) for p in (1, 2) if p == 1 or a[p - 2] >= rest(p)))""",
    ),
    "thm2.7": Erratum(
        r"a_{\rho,\lambda} = (\tfrac{m_1}{\beta+1}, \ldots, \tfrac{m_\lambda}{\beta+1}, 0, \ldots, 0)\ "
        r"(\lambda \le \rho - 1),\quad a_{\rho,\lambda} = (\tfrac{m_1}{\beta+1}, \ldots, \tfrac{m_{\rho-1}}{\beta+1}, "
        r"m_\rho - \tfrac\beta c S, \ldots, m_\lambda - \tfrac\beta c S, 0, \ldots, 0)\ (\lambda \ge \rho),\quad "
        r"\beta = \tfrac{1-\bar\theta}{\bar\theta},\ S = \sum_{i=\rho}^\lambda m_i,\ "
        r"c = r + \beta\lambda + (\beta+1)(1-\rho),\quad \rho \in \{1, 2, \ldots, r-1\},\ "
        r"\lambda \in \{1, 2, \ldots, d\} \text{ ``minimize'' } F(A_{\rho, \lambda})",
        "rho up to r, the range of Theorem 2.3, and F with the right norm: then the best candidate is the optimum.",
        "The range ends one too early, in the theorem and its restatement: for r = 1, which is dropout, it is empty, "
        "and for r = 2 it misses the optimum.",
        "pal2020-thm2.7-corrected",
        """\
from fractions import Fraction as F
m = (3, 1)  # r = 2, beta = 1: the squared norm is x_1^2 + x_2^2
f = lambda x: sum((a - b) ** 2 + b**2 for a, b in zip(m, x))
level = lambda k: F(sum(m[:k]), 2 + k)
best = lambda k: [m[i] - level(k) if i < k else 0 for i in (0, 1)]
print(min(f(best(k)) for k in (1, 2)))  # rho = 1
print(f([F(a, 2) for a in m]))""",
    ),
    "cor3.2": Erratum(
        r"E_z \|Y - U\,\mathrm{diag}(\mu)^{-1} \mathrm{diag}(z)\, g_\Gamma(X)\|_F^2 = \|Y - U g_\Gamma(X)\|_F^2 + "
        r"\sum_{i=1}^d \|u_i\|_2^2 \|g_\Gamma^i(X)\|_2^2",
        "With the factor (1-theta)/theta, which Theorem 3.1 gives and (2) has.",
        "The factor is lost here, in (48) and in (50).",
        "pal2020-cor3.2-corrected",
        """\
from fractions import Fraction as F
theta = F(3, 4)  # one unit, weights and y one: no loss without dropout
print(1)
print(theta * (1 / theta - 1) ** 2 + (1 - theta) * 1)""",
    ),
    "prop3.3": Erratum(
        r"\min_{U, \Gamma} E_z \|Y - U\,\mathrm{diag}(\mu)^{-1} \mathrm{diag}(z)\, g_\Gamma(X)\|_F^2 = "
        r"\min_A \|Y - A\|_F^2 + \tfrac{1-\theta}{\theta} \|A\|_*^2",
        "At a fixed rate, as the proposition and the paragraph after it say; with the rate theta(d) of (7), where "
        "theta stands for the rate of one unit, it would be right.",
        "At a fixed rate the strength is divided by the width d, in agreement with Lemma 2.2: it vanishes as the width "
        "grows, and the conclusion drawn for unlimited capacity fails with it.",
        "pal2020-prop3.3-corrected",
        """\
from fractions import Fraction as F
f = lambda A, strength: (1 - A) ** 2 + strength * A**2  # y = 1, theta = 1/2
print(f(F(1, 2), 1))  # the least value as printed
print(f(F(2, 3), F(1, 2)))  # two equal units u_i v_i = A/2: penalty 2 (A/2)^2""",
    ),
    "thm4.1": Erratum(
        r"E_Z \left\| Y - \tfrac1\theta U (Z \odot V)^\top g_\Gamma(X) \right\|_F^2 = \|Y - U V^\top g_\Gamma(X)\|_F^2 "
        r"+ \tfrac{1-\theta}{\theta} \sum_{i=1}^d \|u_i\|_2^2 \|g_\Gamma(X)^\top v_i\|_2^2",
        "For any inputs to the layer, as stated; for inputs whose rows are orthogonal it is right.",
        "(55) takes the variance of a sum over independent entries z_ki v_ki to be that of one coin for the whole "
        "column. In place of ||g(X)^T v_i||^2 stands the sum over single connections, v_ki^2 ||row k of g(X)||^2.",
        "pal2020-thm4.1-corrected",
        """\
from fractions import Fraction as F
coin = (0, 1)  # U = 1, V = (1, 1), x = (1, 1), y = 2, theta = 1/2
print(1 * (1 + 1) ** 2)  # ||u||^2 (x.v)^2
print(sum(F(1, 4) * (2 * (z + w) - 2) ** 2 for z in coin for w in coin))""",
    ),
    "cor4.2": Erratum(
        r"E_Z \left\| Y - \tfrac1\theta U (Z \odot V)^\top X \right\|_2^2 = \|Y - U V^\top X\|_2^2 + "
        r"\tfrac{1-\theta}{\theta} \sum_{i=1}^d \|u_i\|_2^2 \|X^\top v_i\|_2^2",
        "Frobenius norms, any inputs X: Theorem 4.1 for a single layer.",
        "As in Theorem 4.1. It is right where the rows of X are orthogonal, as centered uncorrelated inputs have them "
        "in expectation, those of the experiments among them. That low rank is induced remains true, by the nuclear "
        "norm of U V^T with its columns scaled by the lengths of the rows of X.",
        "pal2020-cor4.2-corrected",
        """\
from fractions import Fraction as F
coin = (0, 1)  # U = 1, V = (1, 1), x = (1, 1), y = 2, theta = 1/2
print(1 * (1 + 1) ** 2)  # ||u||^2 (x.v)^2
print(sum(F(1, 4) * (2 * (z + w) - 2) ** 2 for z in coin for w in coin))""",
    ),
    "sec5.3": Erratum(
        r"\theta'_{DBOriginal} = 1 - (1 - \theta_{DropBlock})^{\frac{1}{2k-1}}",
        "theta' is the probability that a block is retained, a unit is dropped when any block over it is, and the "
        "rates of single units shall agree.",
        "The probability of a unit to be dropped is written as that of all its blocks being dropped: kept and dropped "
        "are interchanged, against the text before it, which finds more dropping and not less. A unit under c blocks "
        "is kept with theta'^c, so theta' = theta^(1/c).",
        "pal2020-sec5.3-corrected",
        """\
from fractions import Fraction as F
theta, k = F(7, 8), 2
block = 1 - F(1, 2)  # as printed: (1 - theta)^(1/3) = 1/2
print(theta)  # a unit is to be kept with this probability
print(block ** (2 * k - 1))  # and is kept when all 2k - 1 blocks over it are""",
    ),
    "sec2.3": Erratum(
        r"\Lambda(A) = \frac{1-\bar\theta}{\bar\theta} \inf_d \inf_{U, V : A = U V^\top X} \frac dr \sum_{i=1}^k "
        r"\|U_i V_i^\top X\|_F^2 \text{ ``is not necessarily convex''}",
        "A caution before the analysis, and nothing rests on it: the envelope will turn out to be tight.",
        "With the width free it is convex: factorizations of A and B, repeated until their blocks are t to 1-t, side "
        "by side give t A + (1-t) B at t and 1-t of their values. Lambda is (1-thetabar)/thetabar times the square of "
        "the gauge inf sum ||B_i||_F, and its own envelope. At a fixed width it need not be convex.",
        "pal2020-eq9",
        """\
from fractions import Fraction as F
ends = 1  # Lambda of diag(1, 0) and of diag(0, 1), r = 1, theta = 1/2
print("above", ends, "for some midpoint")
print(2 * (F(1, 2) ** 2 + F(1, 2) ** 2), "at this one")  # side by side: d = 2""",
    ),
}
