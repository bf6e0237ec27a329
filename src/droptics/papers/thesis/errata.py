"""What the thesis prints where it fails, how it is read kindly, and the smallest counterexample: chapters 1 to 4.

Chapter 2 repeats the earlier paper, and its errata with it.
"""

from __future__ import annotations

from droptics.evidence.claims import Erratum

ERRATA = {
    "sec1.3.1": Erratum(
        r"R(U, V) \text{ ``is equal to the'' } \ell_2\text{-path norm } \psi_2(U, V)",
        "lambda times its square, for isotropic inputs, as chapter 2 has it in and after (2.3).",
        "A summary that leaves out the square and the factor.",
        "mianjy2018-eq3",
        """\
u, v, lam = 2, 1, 1  # one unit, E x^2 = 1: one path, of weight 2
print(u * v)  # the path norm
print(lam * u**2 * v**2)  # what dropout adds""",
    ),
    "sec1.3.1-gap": Erratum(
        r"\sigma_1(\bar M) - \sigma_2(\bar M) \ge \tfrac1\nu \sigma_2(\bar M) "
        r"\text{ ``is always satisfied by two-layer linear networks''}",
        "With two layers the conclusion of Theorem 10 needs no gap, by Theorem 6; chapter 3 itself names only "
        "networks with one output.",
        "The condition itself fails for two layers, at two equal singular values for instance.",
        "thesis-thm6-corrected",
        """\
from fractions import Fraction as F
nu, s = F(1, 2), (1, 1)  # width 2, lam = 1, Mbar = I_2
print(True)
print(s[0] - s[1] >= s[1] / nu)""",
    ),
    "alg3": Erratum(
        r"r \leftarrow \mathrm{Rank}(M),\quad \kappa_j = \tfrac1j \sum_{i=1}^j \lambda_i(M),\quad "
        r"\rho \leftarrow \max\{j \in [r] : \lambda_j(M) > "
        r"\tfrac{\lambda j \kappa_j}{1 + \lambda j}\},\quad \bar M \leftarrow S_{\frac{\lambda\rho\kappa_\rho}{1 + "
        r"\lambda\rho}}(M)",
        "r for 1 in both denominators, as Theorem 6 and Algorithm 3 of the earlier paper have it; since r is the rank, "
        "nothing needs to be cut off.",
        "As printed it solves the problem with lambda in place of lambda/r. Its input is d0 x d0, meant is d2 x d0.",
        "thesis-thm6-corrected",
        """\
from fractions import Fraction as F
r, lam = 2, 1  # M = I_2
f = lambda x: 2 * (1 - x) ** 2 + F(lam, r) * (2 * x) ** 2
print(f(1 - F(2 * lam, 1 + 2 * lam)))  # both values lowered as printed
print(f(1 - F(2 * lam, r + 2 * lam)))""",
    ),
    "eq3.1": Erratum(
        r"\bar W_{i \to j} := \frac{1}{\theta^k} W_i B_{i-1} W_{i-1} \cdots B_j W_j,\quad "
        r"E[\bar W_{i \to j}] = W_{i \to j}",
        "For i = k+1 and j = 1, the map of the whole network, which alone enters (3.1).",
        "For a part of the network the exponent is i - j, one factor for each mask in the product.",
        "thesis-eq3.1-corrected",
        """\
from fractions import Fraction as F
theta, k = F(1, 2), 2  # all weights one: W_{2->1} = 1, with one mask
print(1)
print(theta / theta**k)  # the mean of the printed estimate""",
    ),
    "rem6": Erratum(
        r"R(W_2, W_1) = \lambda \sum_{i=1}^{d_1} \|W_1(:, i)\|^2 \|W_2(i, :)\|^2",
        "Rows of W_1 and columns of W_2, the weights into and out of a hidden node; isotropic inputs, as on the page "
        "before.",
        "Rows and columns are interchanged, and the shallow case is Lemma 2, not Proposition 8.",
        "thesis-rem6-corrected",
        """\
W1, W2 = ((1, 1), (0, 0)), ((1, 0), (0, 0))  # lam = 1, E x x^T = I
column = lambda W, i: sum(w[i] ** 2 for w in W)
row = lambda W, i: sum(x * x for x in W[i])
print(sum(column(W1, i) * row(W2, i) for i in (0, 1)))
print(sum(row(W1, i) * column(W2, i) for i in (0, 1)))""",
    ),
    "lem9": Erratum(
        r"M_* = S_{\alpha_\rho}(\bar M) C^{-\frac12},\ \alpha_\rho := \frac{\nu \sum_{j=1}^\rho \sigma_j(\bar M)}"
        r"{1 + \rho\nu},\ \rho \in [\min\{r, \mathrm{Rank}\,\bar M\}] \text{ ``the largest integer''}:\ "
        r"\sigma_i(\bar M) > \alpha_\rho\ \forall i \in [\rho],\quad \mathrm{Rank}\,W \le \min_{i \in [k+1]} d_i =: r",
        "alpha is that of the largest rho in the printed range that meets the printed condition; the operator acts on "
        "all of Mbar.",
        "As in Theorem 6 the values beyond the least width are not cut off: where the (r+1)-th exceeds alpha the "
        "printed matrix has rank above r and is not feasible.",
        "thesis-lem9-corrected",
        """\
from fractions import Fraction as F
s, nu, width = (F(2), F(1)), F(1, 10), 1  # C = I, Mbar = diag(2, 1)
alpha = nu * s[0] / (1 + nu)
print(*(max(x - alpha, 0) for x in s))  # rank 2 through a layer of width 1
print(s[0] / (1 + nu), 0)  # the least (2 - x)^2 + 1 + nu x^2""",
    ),
    "cor1": Erratum(
        r"W^*_{k+1 \to 1} = \tfrac{1}{1+\nu} C_{yx}",
        "For whitened inputs, C = I, which the experiments use.",
        "In general it is Cyx C^-1/(1+nu), as Lemma 9 gives.",
        "thesis-cor1-corrected",
        """\
from fractions import Fraction as F
C, Cyx, nu = F(4), F(4), 1  # y = x, E x^2 = 4, width 1, lam = 1
print(Cyx / (1 + nu))
print(Cyx / (C * (1 + nu)))  # minimizes 4 - 2 Cyx w + (1 + nu) C w^2""",
    ),
    "lem6-proof": Erratum(
        r"\Theta(M) := \inf_{W_{k+1} \cdots W_1 = M,\ \|W_i\|_F \le \|M\|_F} R(\{W_i\})",
        "After rescaling, some bound on all layers may be assumed, which makes the feasible set compact.",
        "Not this bound: for small M no such network exists. Scaling every hidden node to unit C-norm bounds all "
        "layers, and the lemma stands for C > 0 and lam > 0.",
        "thesis-lem6",
        """\
from fractions import Fraction as F
m = F(1, 2)  # a scalar map through one hidden node: w2 * w1 = m
print(m)  # the product that is needed
print(m * m)  # the largest product with |w1|, |w2| <= m""",
    ),
    "eq3.14": Erratum(
        r"R_l(\{W_i\}) \ge \sum_{j_l, \ldots, j_1} \frac{\|W_{k+1 \to 1}\|_*^2}{\prod_l d_{j_l}} =: LB_l(\{W_i\})",
        "For whitened inputs, or with C^1/2 behind the map as in Lemma 7 just above.",
        "C^1/2 is missing here, in (3.15) and in the last line of the proof of Theorem 9.",
        "thesis-lem7",
        """\
from fractions import Fraction as F
w1, w2, C = 1, 1, F(1, 100)  # one hidden node, E x^2 = C
print((w2 * w1) ** 2)  # the bound as printed
print(w1 * C * w1 * w2**2)  # R_1""",
    ),
    "sec3.2-walks": Erratum(
        r"\alpha_{j_1, i_1} = \sum_{i_0} \sum_{i', i''} W_1(i'_1, i_0) \cdots W_{j_1}(i_1, i'_{j_1-1}) "
        r"W_{j_1}(i_1, i''_{j_1-1}) \cdots W_1(i''_1, i_0)",
        "The square of the head term; Proposition 8 has alpha as the norm and Figure 3-1 the square.",
        "The sum over walks there and back is the square of alpha, and so for the middle and tail terms.",
        "thesis-fig3-1",
        """\
row = (3, 4)  # weights into a node of the first layer, isotropic inputs
print(5)  # alpha = ||row||
print(sum(w * w for w in row))  # the sum over walks there and back""",
    ),
    "prop4-proof": Erratum(
        r"\text{Theorem 4 on } (\mathrm{diag}(\sqrt p) U, \mathrm{diag}(\sqrt p) V):\ \exists Q:\ "
        r"\|\mathrm{diag}(\sqrt p) U q_i\|\, \|\mathrm{diag}(\sqrt q) V q_i\| = \tfrac1{d_1} "
        r"\|\mathrm{diag}(\sqrt p) U V^\top \mathrm{diag}(\sqrt q)\|_*",
        "First the other pair of Theorem 4 with the same product, then its rotation; sqrt q for V.",
        "A rotation of the given pair does not suffice. The last inequality, that the value is at most Theta, was "
        "there before; what is left to show is the other direction. The proposition stands.",
        "thesis-prop4",
        """\
from fractions import Fraction as F
v = (F(4), F(1, 4))  # U = I, V = diag(v), p = q = (1/2, 1/2)
print(F(1, 2) * (F(1, 2) * sum(v)) ** 2)  # what the rotation is said to reach
print(F(1, 4) * sum(x * x for x in v))  # for every rotation""",
    ),
    "sec4.3": Erratum(
        r"R(w) := E[\hat R(w)] = \tfrac12 \sum_{i_0, i_1, i_2 = 1}^{d_0, d_1, d_2} U(i_2, i_1)^2 V(i_0, i_1)^2",
        "Up to the factor p/(1-p) that the displayed regularizer above it carries.",
        "The factor is lost; (4.8) has it and interchanges indices. Nor is half of the sum 'precisely' the squared "
        "path norm.",
        "thesis-prop6",
        """\
from fractions import Fraction as F
p, u, v = F(1, 5), 1, 1  # one unit, x = 1 or -1
print(F(1, 2) * u**2 * v**2)
print(p / (1 - p) * u**2 * F(v**2, 2))  # active for one of the signs""",
    ),
    "prop2-proof": Erratum(
        r"\|w\| \ge C \text{ ``as long as we let'' } \delta = C^2,\quad w = [\tfrac{1}{\sqrt\delta}; 0]",
        "The inverse: delta below 1/C^2 and 1/2, so that ||w|| > C. The proposition is true.",
        "With the printed choice the norm is 1/C, and for C at least 1 delta is no probability.",
        "thesis-prop2",
        """\
from fractions import Fraction as F
C = 2
print(C**2)  # what ||w||^2 is to reach
print(1 / F(C**2))  # ||w||^2 = 1/delta""",
    ),
    "sec4.3-cauchy": Erratum(
        r"\sum_{i=1}^{d_1} |u_i| a_i \le \sqrt{d_1 R(w)}",
        "R without the factor p/(1-p), as in the class before Theorem 13.",
        "With R as it is displayed in the same section it fails for every p < 1/2, where flows are equal.",
        "thesis-sec4.3-cauchy-corrected",
        """\
from fractions import Fraction as F
p, u, a = F(1, 5), 1, 1  # one unit; both sides squared
print(p / (1 - p) * u**2 * a**2)  # the printed upper bound
print(u**2 * a**2)""",
    ),
    "sec4.4b": Erratum(
        r"\min_u \hat E_i (y_i - u^\top x_i)^2 + \nu \|u\|_{\hat C}^2:\quad (1 + \tfrac{\nu}{n}) X X^\top u = X y",
        "The mean over n examples on both sides; then the n cancels.",
        "The division by n is one too many: (1 + nu) X X^T u = X y. A scaling of the parameters, as it says.",
        "thesis-sec4.4b-corrected",
        """\
from fractions import Fraction as F
n, nu = 2, 1  # x = (1, 1), y = (1, 1): minimize (1 - u)^2 + nu u^2
print(2 / ((1 + F(nu, n)) * 2))
print(F(1, 1 + nu))""",
    ),
    "lem10": Erratum(
        r"R_S(L_\alpha) \le 2 R_S(G_\alpha),\quad Y = \{-1, +1\}",
        "For predictions clipped to [-1, 1] and the squared loss, as defined; some Lipschitz constant is meant.",
        "(1 - z)^2 has slope up to 4 on [-1, 1], not 2; the factor 4 holds, 2 does not. Corollary 2 does not use it.",
        "thesis-lem10-corrected",
        """\
from fractions import Fraction as F
from itertools import product
G = [(g, g) for g in (-1, 0, 1)]  # two equal inputs, labels 1 and -1
signs = list(product((1, -1), repeat=2))
R = lambda A: F(sum(max(s * a + t * b for a, b in A) for s, t in signs), 8)
print(2 * R(G))
print(R([((1 - a) ** 2, (1 + b) ** 2) for a, b in G]))""",
    ),
    "thm11-constant": Erratum(
        r"R_n(g \circ M_\alpha) \le R_n(M_\alpha) \le \sqrt{\frac{\alpha d_2 \log(d_2)}{n}}",
        "Theorem 20, which is cited there, has O(.) around the root; some constant is meant.",
        "Constant one fails for small matrices, as 2 x 2 and 3 x 3. With the constant K of thesis-thm20 in front of "
        "the root Theorem 11 is right.",
        "thesis-thm20",
        """\
from itertools import product; from math import log, sqrt; import torch
e = 2**0.5 * torch.eye(2).double()  # 2 x 2, uniform sampling, alpha = 1, n = 2
seen = [torch.outer(e[a], e[b]) for a, b in product((0, 1), repeat=2)]
sums = [x + s * y for x, y in product(seen, repeat=2) for s in (1, -1)]
norms = [float(torch.linalg.matrix_norm(total, 2)) for total in sums]
print(sqrt(2 * log(2) / 2))
print(sum(norms) / len(norms) / 2)""",
        inexact="a logarithm and spectral norms",
    ),
}
