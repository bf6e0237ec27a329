"""Claims on bounds."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers import runs
from droptics.papers.droptics_own.bounds import bound_checks, field_checks, training_checks
from droptics.papers.droptics_own.instruments import PROVED, pair, room_claim
from droptics.papers.thesis import chapter5_bound_checks

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "droptics-lazy-constant",
        "droptics, sharpens thesis-thm14",
        "The learning bound of lazy dropout training holds with (lam^2 + 2.45)/(eta T).",
        check=partial(chapter5_bound_checks.sharper, 1.0),
        control=partial(chapter5_bound_checks.sharper, 0.5),
        objects=("bounds.lazy", "bounds.martingale"),
        note=PROVED
        + " Compression: 4.93 (lam^2 + 1.45)/(eta T) + 7.10 ln(1/delta)/T. Checked: the lemmas put together "
        "again, the loss of the competitor as the proof of thesis-lem13 has it.",
    ),
    Claim(
        "droptics-flows",
        "droptics, what thesis-thm12 and thesis-cor2 measure",
        "alpha of a ReLU network of one hidden layer, one output and no biases is sum_k |u_k| sqrt(E relu(v_k.x)^2); "
        "on examples beside their negatives it is sum_k |u_k| sqrt(v_k^T C v_k/2), C = E x x^T.",
        check=partial(runs.flow_sum, 1.0),
        control=partial(runs.flow_sum, 1.01),
        objects=("bounds.relu_alpha",),
        note=PROVED,
    ),
    room_claim(
        "bound-fields",
        "Terms, claims, trivial values and needed amounts of the bounds of completion, of classes of functions, of "
        "two-layer networks, of lazy and of adversarial training, printed and corrected, and of four published "
        "expressions, are those of the formulas.",
        pair(field_checks.bound_fields),
        (
            "bounds.adversarial",
            "bounds.completion",
            "bounds.lazy",
            "bounds.lazy_setting",
            "bounds.rademacher",
            "bounds.relu",
            "bounds.squared",
            "bounds.surveyed",
            "bounds.uniform",
        ),
        "Quadratic equations for what is needed.",
    ),
    room_claim(
        "deviations",
        "Bounds of deviations, completed matrices and two-layer networks, measured complexities and published "
        "expressions are their formulas, every constant and every way to say that nothing is known included.",
        pair(bound_checks.deviations),
        (
            "bounds.uniform",
            "bounds.squared",
            "bounds.hoeffding",
            "bounds.martingale",
            "bounds.completion",
            "bounds.relu",
            "bounds.rademacher",
            "bounds.measured_rademacher",
            "bounds.surveyed",
            "bounds.completion_condition",
            "bounds.completion_constant",
            "bounds.data_norm",
            "bounds.gaussian_tail",
            "bounds.linear_margin",
            "bounds.adversarial",
            "bounds.lazy",
            "bounds.lazy_setting",
            "bounds.relu_alpha",
        ),
        "Written out; complexities by all signs and a grid of directions.",
    ),
    room_claim(
        "trained-bounds",
        "Iterations of adversarial and lazy training with all their constants, the most units that masks keep and the "
        "norms of starts are those of the formulas; the margins that they assume are those of convex programs.",
        pair(training_checks.trained_bounds),
        (
            "bounds.adversarial",
            "bounds.lazy",
            "bounds.lazy_setting",
            "bounds.linear_margin",
            "bounds.gate_margin",
            "bounds.active_units",
            "bounds.initial_norm",
        ),
        "Written out; least widths by bisection, margins by convex programs.",
    ),
)
