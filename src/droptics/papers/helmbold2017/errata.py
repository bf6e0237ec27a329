"""What Helmbold and Long 2017 print where it fails, how it is read kindly, and the smallest counterexample."""

from __future__ import annotations

from droptics.evidence.claims import Erratum

ERRATA = {
    "lem10": Erratum(
        r"c := \frac{K^2}{2 n^{d-1} (1 + \frac Kn)(1 + \frac1n)^{d-2}}",
        "K in place of its square, as the proof of the lemma has it: this c minimizes the criterion.",
        "The square stands in the text before the lemma alone. With it the criterion is 1/2 at K = 2, more beyond.",
        "helmbold2017-lem10-corrected",
        """\
from fractions import Fraction as F
K, n = 2, 2  # one gadget, depth 2: mean output 2 c n / K on 3 of 4 masks
fit = lambda m: (1 + F(K, n)) * m**2 - 2 * m + 1
J = lambda c: (F(1, 4) + F(3, 4) * fit(2 * c * n / K)) / 2
print(J(K**2 / (2 * n * (1 + F(K, n)))))
print(J(K / (2 * n * (1 + F(K, n)))))""",
    ),
    "lem15": Erratum(
        r"\Pr(X < n/2 - \sqrt n/4) = \Pr(X > n/2 + \sqrt n/4) \ge 1/4,\quad X \sim \mathrm{Bin}(n, 1/2)",
        "For every n >= 1, since the lemma excepts none. It is used for n = K > 18 alone, where it holds.",
        "It fails for n = 5, 7, 16, 18 and for no other n. The proof takes the middle interval to hold at most "
        "sqrt(n)/2 integers; it can hold more, and its ends, which are left out, count where they are integers "
        "(n = 16). Lemma 16 is not touched.",
        "helmbold2017-lem15-corrected",
        """\
from fractions import Fraction as F
from math import comb
n = 5
below = [k for k in range(n) if 2 * k < n and (2 * k - n) ** 2 * 4 > n]
print(F(1, 4))
print(F(sum(comb(n, k) for k in below), 2**n))""",
    ),
    "thm17-proof": Erratum(
        r"\lim_{n \to \infty} J_D(W_{neg}) = 1/10",
        "The network of Lemma 10 with output bias 1/5 and its output weights chosen again, that is times 4/5.",
        "Said is only the bias; with the weights of Lemma 10 the limit is .115. That is below 1/8 too, so the theorem "
        "stands either way.",
        "helmbold2017-thm17-proof-corrected",
        """\
from fractions import Fraction as F
t, b = F(1, 4), F(1, 5)  # n -> infinity: output b with chance t, else b + 1
print(F(1, 10))
print((b**2 + (1 - t) * b**2 + t * (b - 1) ** 2) / 2)""",
    ),
    "thm5-proof": Erratum(
        r"D(W, x, R) = \left(\prod\nolimits_j c_j\right) D(W', x, R)",
        "W and W' interchanged, as the theorem itself has them.",
        "In this line of the proof alone; with product one, which is all that the rest uses, both say the same.",
        "helmbold2017-thm5",
        """\
from fractions import Fraction as F
W, c = F(3), (F(2), F(5))  # weights W and 1, scaled by c, x = 1, all kept
print(c[0] * c[1] * (c[0] * W) * c[1])  # prod(c) D(W')
print(W)  # D(W)""",
    ),
    "lem16-proof": Erratum(
        r"\frac{1 - \sqrt{\frac{2}{9K}} - \sqrt{\frac{1}{18K}}}{K/2 - \sqrt K/4} > \frac{1}{\sqrt{9/32K}}",
        "K outside the root, which is what the next display uses.",
        "Read as 9/(32K) the right side grows with K, read as (9/32)K it falls as 1/sqrt(K); the left side is below "
        "both. The lemma stands.",
        "helmbold2017-lem16",
        """\
from fractions import Fraction as F
K = 64  # the least K > 18 that is a square and a power of two
print(F(32, 9 * K))  # the printed lower bound squared, in its lesser reading
print("less than", 1 / (F(K, 2) - F(8, 4)) ** 2)  # numerator below 1""",
    ),
    "lem22-proof": Erratum(
        r"\text{adding } \frac{\min\{h_j(0), h_j(x)\}}{w_j^*} \text{ to } b",
        "w_j* times the minimum: what the output loses.",
        "A product printed as a quotient. The lemma stands.",
        "helmbold2017-lem22",
        """\
from fractions import Fraction as F
h, m, w, b = F(3), F(1), F(2), F(0)  # a node of value 3 lowered by 1
print(w * (h - m) + b + m / w)
print(w * h + b)""",
    ),
}
