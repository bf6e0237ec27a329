"""What is tried: for every routine, how an instance is drawn, how its answer is checked, and the line that asks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fuzzing import checks
from fuzzing.checks import Check
from fuzzing.instances import RATES, Instance, Law, draw, draw_law

Generator = np.random.Generator


@dataclass(frozen=True)
class Routine:
    """A routine by name; `question` is the line of code that shows a failure."""

    name: str
    draw: Callable[[Generator], Instance]
    check: Callable[[Instance], list[Check]]
    question: str
    # for intervals: the rate that an instance counts for
    group: Callable[[Instance], str] | None = None


def drawn(family: str, laws: str = "one many block list") -> Callable[[Generator], Instance]:
    """Instances of a family under some kinds of laws."""
    return lambda random: draw(random, family, laws)


def at_one_rate(family: str) -> Callable[[Generator], Instance]:
    """All rates of an instance the same, one of the list."""

    def apply(random: Generator) -> Instance:
        instance, rate = draw(random, family, "one", moments=False), float(random.choice(RATES))
        laws = tuple(Law("Bernoulli", (rate,) * law.size) for law in instance.laws)
        return replace(instance, laws=laws, single=False)

    return apply


def numbers(random: Generator) -> Instance:
    """Numbers and a law that need not fit together."""
    instance = draw(random, "Head", "one many")
    return replace(instance, laws=(draw_law(random, int(random.integers(1, 5)), "one many"),))


def any_law(random: Generator) -> Instance:
    instance = draw(random, "Head", "one many")
    return replace(instance, laws=(draw_law(random, int(random.integers(1, 5))),))


def regression(random: Generator) -> Instance:
    return replace(draw(random, "Head", "one"), single=False)


TWO = "TwoLayerLinear"
LISTED = "print(penalty(model, data, masks, Enumerate()))"
PENALTY, CRITERION = "print(penalty(model, data, masks))", "print(criterion(model, data, masks))"
OPTIMUM = "best = optimum({}, data, masks)\nprint(best.objective, best.bound, best.certified, best.model)"
SPECTRAL = "print(induced(model, data, masks), envelope(model, data, masks))"
CERTIFY, EQUALIZE = "print(certify(model, data, masks))", "print(equalize(model, data, masks))"
RIDGE = "print(vars(DropoutRidge(float(masks.drop[0])).fit(inputs, targets)))"
SHRINK = "print(linalg.shrink_unequal(targets.flatten()[:4].abs(), masks.relative_variance.to(targets)))"
SAMPLED = "print(penalty(model, data, masks, MonteCarlo(100, confidence=0.95)))"
FAMILIES = (TWO, "Autoencoder", "Connections", "Factorization", "DeepLinear", "ReLUNet")
SOLVED = (
    (TWO, "one many"),
    ("Autoencoder", "one many"),
    ("Factorization", "one many"),
    ("DeepLinear", "one"),
    ("Connections", "one"),
)

ALL = [
    *(Routine(f"penalty of {family}", drawn(family), checks.check_penalty, PENALTY) for family in FAMILIES),
    Routine("penalty, enumerated", drawn(TWO), checks.check_enumerated, LISTED),
    *(Routine(f"criterion of {family}", drawn(family), checks.check_criterion, CRITERION) for family in FAMILIES),
    Routine("induced, envelope", drawn(TWO, "one many block"), checks.check_spectral, SPECTRAL),
    Routine("equalize", drawn(TWO, "one many"), checks.check_equalized, EQUALIZE),
    Routine("balance", drawn(TWO, "one many"), checks.check_balanced, "print(balance(model, data))"),
    *(
        Routine(f"optimum of {name}", drawn(name, laws), checks.check_optimum, OPTIMUM.format(name))
        for name, laws in SOLVED
    ),
    Routine("optimum, blocks and lists", drawn(TWO, "block list"), checks.check_optimum, OPTIMUM.format(TWO)),
    *(
        Routine(f"certify {name}", drawn(name, laws), checks.check_certificate, CERTIFY)
        for name, laws in ((TWO, "one many block list"), *SOLVED[1:])
    ),
    *(
        Routine(f"convex form of {name}", drawn(name, laws), checks.check_convex, OPTIMUM.format(name))
        for name, laws in ((TWO, "one many"), ("Connections", "one"))
    ),
    Routine("convex form under blocks", drawn(TWO, "block"), checks.check_convex_blocks, OPTIMUM.format(TWO)),
    Routine("convex form of envelopes", drawn(TWO, "one many"), checks.check_convex_envelope, SPECTRAL),
    Routine("convex form of heads", drawn("Head"), checks.check_convex_head, OPTIMUM.format("LastLayer")),
    Routine("optimal head", drawn("Head"), checks.check_head, OPTIMUM.format("LastLayer")),
    Routine("DropoutRidge", regression, checks.check_ridge, RIDGE),
    Routine("shrinkage", numbers, checks.check_shrinkage, SHRINK),
    Routine("laws", any_law, checks.check_law, "print(masks.characteristic)"),
    *(
        Routine(f"interval of {name}", at_one_rate(name), checks.check_interval, SAMPLED, checks.rate)
        for name in (TWO, "DeepLinear", "ReLUNet")
    ),
]
ROUTINES = {routine.name: routine for routine in ALL}
