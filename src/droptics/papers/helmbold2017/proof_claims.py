"""Definitions, lemmas on weight decay and steps of proofs of Helmbold and Long, as claims."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.helmbold2017 import checks, decay_checks, negative_checks
from droptics.papers.helmbold2017.errata import ERRATA

SOURCE = "Helmbold, Long 2017 (JMLR 18, arXiv 1602.04484)"

STATED: tuple[Claim, ...] = (
    Claim(
        "helmbold2017-def2",
        f"{SOURCE}, Definition 2",
        "Dropout aversion: risk of the dropout optimum beyond the least risk; A o P: the inputs multiplied by A.",
        check=partial(decay_checks.aversion, -1),
        control=partial(decay_checks.aversion, 1),
        objects=("penalties.criterion", "penalties.risk"),
        note="Evaluated where the optimum is known: two inputs, one unit, drop 1/2. The definition needs minimizers to "
        "exist.",
    ),
    Claim(
        "helmbold2017-thm5-proof",
        f"{SOURCE}, proof of Theorem 5",
        "D(W, x, R) = prod c_j D(W', x, R).",
        "slip",
        check=partial(checks.rescaled_layers, True, swap=True),
        control=partial(checks.rescaled_layers, True),
        objects=("models.ReLUNet",),
        erratum=ERRATA["thm5-proof"],
    ),
    Claim(
        "helmbold2017-lem16-proof",
        f"{SOURCE}, proof of Lemma 16",
        "The slope of psi exceeds 1/sqrt(9/32K).",
        "slip",
        check=partial(negative_checks.slope_step, True),
        control=partial(negative_checks.slope_step, False),
        erratum=ERRATA["lem16-proof"],
    ),
    Claim(
        "helmbold2017-def21",
        f"{SOURCE}, Definition 21",
        "Aversion witness: the minimizer of risk plus weight decay of largest risk; on P_(x,1) its risk is lam^2/x.x.",
        check=partial(decay_checks.witness, 1.0),
        control=partial(decay_checks.witness, 1.2),
    ),
    Claim(
        "helmbold2017-lem22",
        f"{SOURCE}, Lemma 22",
        "Every hidden node may be taken to be zero on one of 0 and x.",
        check=partial(decay_checks.hinges, lambda w, least: w * least),
        control=partial(decay_checks.hinges, lambda w, least: least / w),
    ),
    Claim(
        "helmbold2017-lem22-proof",
        f"{SOURCE}, proof of Lemma 22",
        "Subtracting m = min{h(0), h(x)} from the node's bias and adding m/w to b changes no output.",
        "slip",
        check=partial(decay_checks.hinges, lambda w, least: least / w),
        control=partial(decay_checks.hinges, lambda w, least: w * least),
        erratum=ERRATA["lem22-proof"],
    ),
    Claim(
        "helmbold2017-lem23",
        f"{SOURCE}, Lemma 23",
        "At an optimum of weight decay on P_(x,1) every used node has its weights along x, |v.x| is its range, and the "
        "output at x is at most 1.",
        check=decay_checks.at_optimum,
        control=partial(decay_checks.at_optimum, 0.2),
        note="At an optimum that descent finds; nodes that are not used have no weights.",
    ),
    Claim(
        "helmbold2017-lem24",
        f"{SOURCE}, Lemma 24",
        "Every hidden node may be taken to be zero at 0: turn it around and negate its output weight.",
        check=partial(decay_checks.swapped, -1.0),
        control=partial(decay_checks.swapped, 1.0),
    ),
    Claim(
        "helmbold2017-lem26",
        f"{SOURCE}, Lemma 26, eq. (10)-(11)",
        "The output bias of the weight-decay optimum is (1 - activation)/2, so its outputs at 0 and x sum to 1.",
        check=decay_checks.at_optimum,
        control=partial(decay_checks.at_optimum, share=0.6),
    ),
    Claim(
        "helmbold2017-lem32",
        f"{SOURCE}, Lemma 32",
        "Squared weights of sum B reach an activation of at most B ||x||/2, attained at the optimum: A costs 2A/||x||.",
        check=partial(decay_checks.budget, 1.0),
        control=partial(decay_checks.budget, 0.5),
    ),
    Claim(
        "helmbold2017-misprints",
        f"{SOURCE}, misprints",
        "Lemma 9: x in {0,1}^K and the i-th input; Appendix A: P_(x,y) is the single example there; proof of Theorem "
        "17: key nodes output 2.",
        "not checked",
        note="Slips of notation: the checks of these statements use what is meant.",
    ),
)
# statements that one check shows together: number -> the one above that carries it
TOGETHER = {
    "def3": ("def2", "Definition 3"),
    "lem25": ("lem23", "Lemma 25"),
    "lem27": ("lem23", "Lemma 27"),
    "lem28": ("lem23", "Lemma 28"),
    "lem29": ("lem32", "Lemma 29"),
    "def30": ("lem32", "Definition 30"),
    "def31": ("lem32", "Definition 31"),
    "lem33": ("lem32", "Lemma 33"),
}
CLAIMS: tuple[Claim, ...] = STATED + tuple(
    next(claim for claim in STATED if claim.id == f"helmbold2017-{other}").printed_as(
        f"helmbold2017-{number}", f"{SOURCE}, {where}"
    )
    for number, (other, where) in TOGETHER.items()
)
