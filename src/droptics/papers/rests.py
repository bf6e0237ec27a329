"""Which statement rests on which: those that a proof calls by their number, and those of ours that sharpen one."""

from __future__ import annotations

from collections.abc import Sequence

from droptics.evidence.claims import REFUTED, Claim

_PROOFS = {
    "mianjy2018": {
        "alg2": "thm2.2",
        "alg3": "thm3.3",
        "thm2.3": "lemA.1 thm2.2",
        "thm2.4": "thm2.2 thm2.3 lemA.2 lemA.3",
        "thm3.3": "thm2.2",
        "thm3.4": "lemA.1 thm3.3",
        "thm3.6": "thm3.4 lemA.3",
        "lemD.2": "lemD.1",
        "lemD.3": "lemA.2 thm2.4",
        "lem4.1": "lemD.2",
        "thm4.3": "lem4.1 lemD.2 lemD.3",
    },
    "thesis": {
        "thm2": "lem2 thm1",
        "thm3": "thm1 thm2 lem20 lem21",
        "thm4": "thm1",
        "thm5": "lem2 thm4",
        "thm6": "thm5 lem21",
        "lem4": "lem3",
        "lem5": "lem20 thm3",
        "lem1": "lem4",
        "thm7": "lem1 lem4 lem5",
        "lem7": "prop8",
        "thm9": "lem7 lem8",
        "thm10": "thm9 prop1 lem9",
        "cor1": "thm10",
        "prop4": "thm4",
        "prop6": "prop5",
        "thm11": "thm19 thm20",
        "thm13": "lem22",
        "thm12": "asm1",
        "cor2": "thm12 thm19 lem10-clipping",
        "cor3": "cor2",
        "thm19": "thm18",
        "lem14": "thm21",
        "lem15": "asm2 thm17",
        "lem16": "thm17",
        "lem12": "alg4",
        "lem13": "lem14 lem15 lem16",
        "thm14": "lem11 lem12 lem13 lem17",
        "thm15": "lem12 lem13 thm22",
        "lem18": "alg5",
        "lem19": "alg6 asm3",
        "thm16": "lem18 lem19",
        "cor4": "thm16",
        "cor5": "thm16",
    },
    "pal2020": {
        "lem2.1": "lem3.1",
        "alg1": "lem2.1",
        "thm2.6": "thm2.5",
        "thm2.7": "thm2.3",
        "cor2.8": "thm2.5 thm2.6",
        "cor3.2": "lem3.1",
        "prop3.3": "cor3.2",
        "cor4.2": "thm4.1",
    },
    "helmbold2017": {
        "thm6": "thm5",
        "lem10": "lem9",
        "lem12": "def11",
        "lem14": "def13 lem12",
        "lem16": "lem14 lem15",
        "thm8": "lem10 lem16",
        "thm17": "lem10 lem12",
        "lem23": "lem22",
        "lem24": "lem23",
        "lem25": "lem24",
        "lem26": "lem25",
        "lem33": "lem32",
        "thm7": "def21 lem26 lem28 lem29 lem33",
    },
}
_OWN = {
    "benign-landscape": "droptics-critical-points droptics-hessian",
    "optimal-factors": "mianjy2018-thm3.4",
    "balanced": "pal2020-thm2.5",
    "dropblock-dropout": "pal2020-eq9",
    "connections": "pal2020-thm4.1-corrected",
    "deep-optimum": "droptics-deep-induced",
    "loo": "droptics-head",
    "als-wr": "thesis-prop4",
    "odd-widths": "thesis-thm13",
    "lazy-constant": "thesis-lem12 thesis-lem13 thesis-lem17",
    "predictive-mixture": "droptics-predictive",
    "predictive-relu": "droptics-predictive-mixture",
    "predictive-density": "droptics-predictive-mixture",
}
RESTS: dict[str, tuple[str, ...]] = {
    f"{paper}-{name}": tuple(f"{paper}-{other}" for other in others.split())
    for paper, proofs in _PROOFS.items()
    for name, others in proofs.items()
} | {f"droptics-{name}": tuple(others.split()) for name, others in _OWN.items()}


def beneath(name: str) -> set[str]:
    """Every statement that the proof of one rests on, directly or not."""
    found: set[str] = set()
    waiting = list(RESTS.get(name, ()))
    while waiting:
        other = waiting.pop()
        if other not in found:
            found.add(other)
            waiting += RESTS.get(other, ())
    return found


def unsettled(claims: Sequence[Claim]) -> dict[str, list[str]]:
    """Statements that hold as printed although their proof rests on ones that fail as printed, by name."""
    failing = {claim.id for claim in claims if claim.verdict in REFUTED}
    return {
        claim.id: sorted(beneath(claim.id) & failing)
        for claim in claims
        if claim.verdict not in REFUTED and beneath(claim.id) & failing
    }
