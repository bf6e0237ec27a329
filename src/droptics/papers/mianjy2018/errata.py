"""What Mianjy, Arora and Vidal 2018 print where it fails, how it is read kindly, and the smallest counterexample."""

from __future__ import annotations

from droptics.evidence.claims import Erratum

TRUNCATION = """\
from fractions import Fraction as F
s, lam, r = (F(2), F(1)), F(1, 10), 1  # M = diag(2, 1), one unit: rho = 1
alpha = lam * s[0] / (r + lam)
print(*(max(x - alpha, 0) for x in s))  # S_alpha(M) has rank 2
print(s[0] / (1 + lam), 0)  # the least (2 - x)^2 + 1 + lam x^2, of rank 1"""

ERRATA = {
    "rem5.2": Erratum(
        r"Z_1 = 1,\quad Z_k := 2^{\frac{-k+1}{2}}"
        r"\begin{bmatrix} Z_{k-1} & Z_{k-1} \\ -Z_{k-1} & Z_{k-1} \end{bmatrix},\quad r = 2^k",
        "The factor is meant once, in front of the recursion without factors; the proof has squared entries 2^(1-k).",
        "Read as the recursion it is, the factors multiply: from size 4 on Z_k is no rotation, though the columns of "
        "U V Z_k keep equal norms. One factor 2^(-1/2) a level is right, and Z_k has size 2^(k-1).",
        "mianjy2018-rem5.2-corrected",
        """\
from fractions import Fraction as F
squares = [F(1, 2) ** (k - 1) for k in (2, 3)]  # of the factors of Z_2, Z_3
print(1)  # (Z_3 Z_3^T)_11 of a rotation
print(4 * squares[0] * squares[1])  # four entries, both factors in each""",
    ),
    "sec3": Erratum(
        r"\text{``not true in general'' that any pair is jointly equalizable, that is }"
        r"\|u_i\|\,\|v_i\| = \|u_1\|\,\|v_1\|\ \forall i",
        "By Definition 3.2, the only one of the paper, there is a pair (U, V) for which no rotation Q makes the "
        "products ||U q_i|| ||V q_i|| equal.",
        "x -> ||Ux|| ||Vx|| is continuous on the sphere, so it is constant on some orthonormal basis (Kakutani; Yamabe "
        "and Yujobo): every pair is equalized by a rotation. In width two a quarter turn exchanges the two products, "
        "so somewhere between they agree. With the stronger definition of the thesis the sentence is right.",
        "mianjy2018-sec3-corrected",
        """\
U, V = ((2, 1), (0, 1)), ((1, 0), (3, 1))  # any pair of width two
n = lambda A, c, s: sum((c * row[0] + s * row[1]) ** 2 for row in A)
gap = lambda c, s: n(U, c, s) * n(V, c, s) - n(U, -s, c) * n(V, -s, c)
print("one sign for all rotations of some pair")
print(gap(1, 0), "and", gap(0, 1), "after a quarter turn: zero in between")""",
    ),
    "thm2.4": Erratum(
        r"\kappa_j := \tfrac1j \sum_{i=1}^j \lambda_i(M),\quad "
        r"\rho := \max\{j \in [r] : \lambda_j(M) > \tfrac{\lambda j \kappa_j}{r + \lambda j}\},\quad "
        r"U_* U_*^\top = S_{\frac{\lambda \rho \kappa_\rho}{r + \lambda \rho}}(M),\quad "
        r"S_\alpha(X) := U(\Sigma - \alpha I)_+ V^\top",
        "M is symmetric and positive semi-definite, as an autoencoder has it, and lambda_i are its eigenvalues, as in "
        "the proof.",
        "The proof optimizes r values and then thresholds all d of them. Where the (r+1)-th eigenvalue exceeds alpha "
        "the printed matrix has rank above r: no U with r columns has it. Only the top rho are kept.",
        "mianjy2018-thm2.4-corrected",
        TRUNCATION,
    ),
    "thm3.6": Erratum(
        r"\kappa_j := \tfrac1j \sum_{i=1}^j \lambda_i(M),\quad "
        r"\rho := \max\{j \in [r] : \lambda_j(M) > \tfrac{\lambda j \kappa_j}{r + \lambda j}\},\quad "
        r"U_* V_*^\top = S_{\frac{\lambda \rho \kappa_\rho}{r + \lambda \rho}}(M)",
        "For any fixed r, which Section 5 claims over earlier work; the singular values are ordered.",
        "As in Theorem 2.4 the truncation to r values is lost in the last line of the proof. It is right exactly when "
        "the (r+1)-th singular value is at most alpha, for instance when r is at least the rank of M.",
        "mianjy2018-thm3.6-corrected",
        TRUNCATION,
    ),
    "alg3": Erratum(
        r"\kappa_j = \tfrac1j \sum_{i=1}^j \lambda_i(M),\quad "
        r"\rho \leftarrow \max\{j \in [r] : \lambda_j(M) > \tfrac{\lambda j \kappa_j}{r + \lambda j}\},\quad "
        r"\bar M \leftarrow S_{\frac{\lambda \rho \kappa_\rho}{r + \lambda \rho}}(M),\quad "
        r"(U, \Sigma, V) \leftarrow \mathrm{svd}(\bar M),\quad \tilde U \leftarrow U \Sigma^{\frac12}",
        "Input is M, the size r of the factorization and lambda; step 3 is an SVD of r triples, zeros where there are "
        "fewer, the one whose cost Remark 5.1 counts, and with it the output is a global optimum.",
        "Step 2 is Theorem 3.6: where the (r+1)-th singular value exceeds alpha, an SVD has more than r columns.",
        "mianjy2018-thm3.6-corrected",
        TRUNCATION,
    ),
    "thm3.4-proof": Erratum(
        r"U, V \text{ ``are jointly equalized''} \Rightarrow "
        r"\|u_i\|^2 = \|v_i\|^2 = \tfrac1r \operatorname{Tr} \Sigma",
        "At a global optimum, up to the rescaling that the text before allows: the products equal Tr Sigma / r, Sigma "
        "the singular values of UV^T.",
        "The norms themselves need not, at an optimum either; only their products are used, so the theorem stands.",
        "mianjy2018-thm3.3",
        """\
from fractions import Fraction as F
M, lam, u, v = F(2), F(1), F(2), F(1, 2)  # optimal: u v = M / (1 + lam)
print(u * v, u * v)  # ||u||^2 and ||v||^2 as printed
print(u**2, v**2)""",
    ),
    "lemA.3-proof": Erratum(
        r"g(\rho + 1) = g(\rho) - \frac{(\lambda h_\rho - (r + \lambda\rho)\, \lambda_{\rho+1}^2(M))^2}"
        r"{(r + \lambda\rho)(r + \lambda\rho + \lambda)}",
        "The eigenvalue stands in the first power, as completing the square in the line before gives.",
        "A square too many. The lemma stands.",
        "mianjy2018-lemA.3",
        """\
from fractions import Fraction as F
lam, r, a = 1, 2, F(2)  # both values are a, rho = 1
low, top = r + lam, r + 2 * lam
g = lam * a**2 / low + a**2, lam * (2 * a) ** 2 / top
print((lam * a - low * a**2) ** 2 / (low * top))  # g(1) - g(2) as printed
print(g[0] - g[1])""",
    ),
    "lemD.2-proof": Erratum(
        r"g''(0) = -4(\|u_1\|^2 - \|u_2\|^2)^2 < 0,\quad \delta = -c \cdot \operatorname{sgn}(u_1^\top u_2)",
        "Up to the positive factor lambda of the regularizer; for orthogonal columns any small step does.",
        "The factor lambda is lost from g(t) on, and the step is zero for orthogonal columns. The sign and the lemma "
        "stand.",
        "mianjy2018-lemD.2",
        """\
from fractions import Fraction as F
lam = F(1, 2)
g = lambda t: lam * ((1 - t * t) ** 2 + t**4)  # u_1 = e_1, u_2 = 0
d = lambda t: (g(t) - 2 * g(0) + g(-t)) / t**2  # linear in t^2
print(-4)
print((4 * d(F(1, 2)) - d(1)) / 3)  # d at 0, which is g''(0)""",
    ),
    "lemD.3-proof": Erratum(
        r"f(U(t)) - f(U) = -2 \sigma_j^2 t^2 (w_j(t)^\top M w_j(t) - w_j^\top M w_j) < 0,\quad "
        r"g''(0) = -4 \sigma_j^2 (w_j(t)^\top M w_j(t) - w_j^\top M w_j) < 0",
        "w' in place of w_j(t), the eigenvector that is turned to, in both.",
        "The printed difference is t^2 times that with w', zero at t = 0. Case 2 writes the loss for R(U) and "
        "Sigma for its square. The lemma stands.",
        "mianjy2018-lemD.3",
        """\
from fractions import Fraction as F
s = F(2, 3)  # M = diag(2, 1), lam = 1/2, r = 1
fit = lambda c: (2 - c * s) ** 2 + (1 - (1 - c) * s) ** 2
f = lambda t: fit(t * t) + 2 * t * t * (1 - t * t) * s**2
d = lambda t: (f(t) - 2 * f(0) + f(-t)) / t**2  # linear in t^2
print(0)
print((4 * d(F(1, 2)) - d(1)) / 3)  # d at 0, which is g''(0)""",
    ),
    "eq17": Erratum(
        r"\sigma^2 = \left(I - \frac{\lambda}{r + \lambda r'}\right) \vec\lambda",
        "The matrix of Lemma A.2, which is cited there, with all its ones.",
        "1 1^T is missing behind the fraction; the next line uses it.",
        "mianjy2018-eq17-corrected",
        """\
from fractions import Fraction as F
lam, r, values = F(1), 2, (F(2), F(1))
share = lam / (r + 2 * lam)
print(*(v - share * v for v in values))
print(*(v - share * sum(values) for v in values))""",
    ),
    "sec6": Erratum(
        r"\text{Algorithm 1 ``decrease[s] this measure monotonically''},\quad "
        r"\operatorname{Var}_i \|u_{ti}\|\,\|v_{ti}\|",
        "A description of the right panel of Figure 3, the mean of 50 runs, and not a general statement.",
        "In general the variance rises while different singular values are learned, from equal scores already in the "
        "first step; what Figure 3 shows is compared under mianjy2018-fig3.",
        "mianjy2018-sec6-corrected",
        """\
from fractions import Fraction as F
a, lam = F(1, 10), F(1, 2)  # M = diag(2, 1), U = V = a I: equal scores a^2
u = [a + F(1, 50) * (2 * (m - a * a) * a - 2 * lam * a**3) for m in (2, 1)]
print(0)  # the variance before the first step, which may not grow
print(((u[0] ** 2 - u[1] ** 2) / 2) ** 2)""",
    ),
}
