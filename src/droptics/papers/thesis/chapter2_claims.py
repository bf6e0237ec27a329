"""Chapter 2 of the thesis prints the statements of Mianjy, Arora and Vidal 2018 again, under new numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from droptics.evidence.claims import Claim
from droptics.linalg import shrink
from droptics.papers.mianjy2018 import checks
from droptics.papers.mianjy2018.claims import CLAIMS as EARLIER
from droptics.papers.thesis.errata import ERRATA

SOURCE = "Mianjy thesis (Johns Hopkins), chapter 2"
TITLES = {
    "alg": "Algorithm",
    "def": "Definition",
    "thm": "Theorem",
    "rem": "Remark",
    "lem": "Lemma",
    "eq2": "eq. 2",
    "sec": "Section",
}
# thesis number -> number in the earlier paper
NUMBERS = {
    "alg1": "alg1",
    "alg2": "alg2",
    "def1": "def2.1",
    "def2": "def3.2",
    "def3": "def4.2",
    "thm1": "thm2.2",
    "thm2": "thm2.3",
    "thm3": "thm2.4",
    "thm3-corrected": "thm2.4-corrected",
    "thm4": "thm3.3",
    "thm5": "thm3.4",
    "thm6": "thm3.6",
    "thm6-corrected": "thm3.6-corrected",
    "thm7": "thm4.3",
    "rem1": "rem2.5",
    "rem2": "rem3.1",
    "rem3": "rem3.5",
    "rem4": "rem5.1",
    "rem5": "rem5.2",
    "rem5-corrected": "rem5.2-corrected",
    "lem1": "lem4.1",
    "lem2": "lemA.1",
    "lem3": "lemD.1",
    "lem4": "lemD.2",
    "lem5": "lemD.3",
    "lem20": "lemA.2",
    "lem21": "lemA.3",
    "thm5-proof": "thm3.4-proof",
    "lem21-proof": "lemA.3-proof",
    "lem4-proof": "lemD.2-proof",
    "lem5-proof": "lemD.3-proof",
    "eq2.7": "eq7",
    "eq2.19": "eq17",
    "eq2.19-corrected": "eq17-corrected",
    "sec2.6": "sec6",
    "sec2.6-corrected": "sec6-corrected",
}
# corrected statements that carry the number of another statement
MEANT = {"thm5-proof": "thm4", "lem21-proof": "lem21", "lem4-proof": "lem4", "lem5-proof": "lem5"}
NOTES = {
    "def2": "Stronger than the earlier definition: every product must equal ||UV^T||_*/r, not only one another; the "
    "next sentence asks only for the latter, which is weaker, and the one after it calls the two equivalent.",
    "thm2": "With dropout: at lam = 0, the left panel of Figure 2-1, optima need not be.",
    "thm5": "With dropout; at lam = 0 any factors of M are optimal. Of optima, not of all critical points: the optimum "
    "of width r - 1 beside a unit of weight zero has r/(r-1) times that R.",
    "rem4": "Counted are products, d r^2 for the Gram matrix and for each factor times Q, and the cubes of the sizes "
    "of eigendecompositions and of bases, which sum to at most r^4.",
}
STATEMENTS = {
    "lem2": "For E x x^T = I and y = Mx: L_theta(U,V) = E ||y - (1/theta) U diag(b) V^T x||^2, independent coins b_i "
    "of chance theta, is L(U,V) + lam sum_i ||u_i||^2 ||v_i||^2, and L(U,V) = E ||y - UV^T x||^2 is ||M - UV^T||_F^2.",
    "rem2": "L_theta(UD, VD^-1) = L_theta(U,V), L_theta the risk with dropout, for every diagonal D with positive "
    "entries; signs do not matter either.",
    "thm5": "For lam > 0 every (U, V), r columns each, that minimizes ||M-UV^T||_F^2 + R, R = lam sum_i ||u_i||^2 "
    "||v_i||^2, is jointly equalized, every ||u_i|| ||v_i|| = ||UV^T||_*/r, and R = (lam/r) (sum_i ||u_i|| ||v_i||)^2 "
    "= (lam/r) ||UV^T||_*^2.",
    "rem4": "Where an SVD of rank r costs O(d^2 r), d = max{d2, d0}, Algorithm 3 costs O(d^2 r + d r^2 + r^4): the "
    "Gram matrix of Algorithm 2 costs O(d r^2) and the eigendecomposition in each of its iterates O(r^3).",
    "def2": "(U, V), r columns each, is jointly equalized when every ||u_i|| ||v_i|| = ||UV^T||_*/r: exactly then, for "
    "lam > 0, lam sum_i ||u_i||^2 ||v_i||^2 >= (lam/r) (sum_i ||u_i|| ||v_i||)^2 >= (lam/r) ||UV^T||_*^2 are "
    "equalities.",
}
# a formula that the thesis prints otherwise: it has none for S_alpha
PRINTED = {
    "thm3": r"\kappa_j := \tfrac1j \sum_{i=1}^j \lambda_i(M),\quad \rho := \max\{j \in [r] : \lambda_j(M) > "
    r"\tfrac{\lambda j \kappa_j}{r + \lambda j}\},\quad "
    r"U_* U_*^\top = S_{\frac{\lambda \rho \kappa_\rho}{r + \lambda \rho}}(M)",
}
# what words of errata and notes refer to in the earlier paper -> in the thesis
PLACES = {
    "Figure 3": "Figure 2-3",
    "mianjy2018-fig3": "thesis-fig2-3",
    "Lemma A.2": "Lemma 20",
    "Theorem 2.4": "Theorem 3",
    "Section 4": "Section 2.3",
    "Section 5": "Section 2.4",
}


def _placed(words: str) -> str:
    for earlier, here in PLACES.items():
        words = words.replace(earlier, here)
    return words


def _again(number: str, earlier: str) -> Claim:
    claim = next(item for item in EARLIER if item.id == f"mianjy2018-{earlier}")
    name, _, part = number.partition("-")
    where = f"{SOURCE}, {TITLES[name[:3]]} {name[3:]}".replace("eq. 2 .", "eq. 2.")
    where += {"": "", "corrected": ", corrected", "proof": ", proof"}[part]
    if name in ("lem20", "lem21"):
        where = where.replace("chapter 2", "appendix")
    meant = MEANT.get(number, f"{number}-corrected")
    erratum = claim.erratum and replace(
        claim.erratum,
        printed=PRINTED.get(number, claim.erratum.printed),
        reading=_placed(claim.erratum.reading),
        wrong=_placed(claim.erratum.wrong),
        corrected=f"thesis-{meant}",
    )
    said = {"statement": STATEMENTS.get(number, claim.statement), "note": NOTES.get(number, _placed(claim.note))}
    return claim.printed_as(f"thesis-{number}", where, erratum=erratum, **said)


CLAIMS: tuple[Claim, ...] = (
    *(_again(number, earlier) for number, earlier in NUMBERS.items()),
    Claim(
        "thesis-alg3",
        f"{SOURCE}, Algorithm 3",
        "With r = rank M, rho = max{j <= r : s_j > lam (s_1+...+s_j)/(1 + lam j)} and alpha = lam (s_1+...+s_rho)/(1 + "
        "lam rho) the matrix S_alpha(M), all singular values s of M lowered by alpha and cut at zero, is the UV^T, r "
        "columns each, of least ||M-UV^T||_F^2 + lam sum_i ||u_i||^2 ||v_i||^2.",
        "slip",
        check=partial(checks.untied_optimum, checks.thesis_threshold, checks.FULL_CASES),
        control=partial(checks.untied_optimum, shrink, checks.FULL_CASES),
        objects=("linalg.shrink", "optima.optimum"),
        erratum=ERRATA["alg3"],
    ),
)
