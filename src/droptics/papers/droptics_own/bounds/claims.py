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
        "In thesis-thm14 the mean over the T steps of the expected risks is at most (lam^2 + 2.45)/(eta T), where 4 "
        "lam^2/(eta T) is printed.",
        check=partial(chapter5_bound_checks.sharper, 1.0),
        control=partial(chapter5_bound_checks.sharper, 0.5),
        objects=("bounds.lazy", "bounds.martingale"),
        note=PROVED
        + " Of thesis-thm15, with probability at least 1 - delta - 1/(4 eta c sqrt(m) T), at most 4.93 (lam^2 + "
        "1.45)/(eta T) + 7.10 ln(1/delta)/T. Checked: the lemmas put together again, the loss of the competitor as "
        "the proof of thesis-lem13 has it, and that bounds.lazy is no more.",
    ),
    Claim(
        "droptics-flows",
        "droptics, what thesis-thm12 and thesis-cor2 measure",
        "bounds.relu_alpha of a ReLU network of one hidden layer, one output and no biases is sum_k |u_k| sqrt(E "
        "relu(v_k.x)^2), E the mean by the weights of the examples; with symmetrized=True, of examples beside their "
        "negatives, it is sum_k |u_k| sqrt(v_k^T C v_k/2), C = E x x^T.",
        check=partial(runs.flow_sum, 1.0),
        control=partial(runs.flow_sum, 1.01),
        objects=("bounds.relu_alpha",),
        note=PROVED,
    ),
    room_claim(
        "bound-fields",
        "Of bounds.completion, uniform, squared, rademacher, relu, lazy, adversarial and surveyed, printed and "
        "corrected, every field is that of the theorem named by `claim`: terms by name, `value`, which they make, "
        "`trivial`, the largest value there is, and `needed`, the examples, or steps and width, at which value comes "
        "down to trivial, infinite where the risk alone is above it; vacuous is value >= trivial.",
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
        "Formulas written out; quadratic equations for what is needed.",
    ),
    room_claim(
        "deviations",
        "bounds.uniform, squared, martingale, hoeffding and gaussian_tail are the expressions of thesis-thm18, -thm19 "
        "and the tail bounds; completion, relu, rademacher and surveyed those of thesis-thm11, -cor2, -cor3, -thm12, "
        "-thm13 and -eq1.1 to -eq1.4. measured_rademacher is the mean over all signs, drawn ones from 13 examples on, "
        "of the largest |sum_i s_i relu(v.x_i)| / (n sqrt(E relu(v.x)^2)) over v on lines and planes, and of a linear "
        "relaxation above. Calls outside the theorems' conditions are refused by the argument's name.",
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
        "bounds.adversarial gives iterations, step sizes and margins of thesis-thm16, -cor4 and -cor5, bounds.lazy and "
        "lazy_setting terms and least widths of thesis-thm14 and -thm15, printed and corrected. active_units is min(m, "
        "q m + sqrt(m ln(T/delta)/2)), initial_norm sqrt(d) + 2 sqrt(ln m). linear_margin is, up to its tolerance, the "
        "largest least y v.x/||x|| over unit v, 0 where none is positive; the ends of gate_margin, q sqrt(2 ln n / "
        "steps) apart at most, enclose q times that of weights behind the gates.",
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
        "Written out; least widths by bisection, margins by convex programs. q = 1 - drop, m the width, d the inputs, "
        "T the steps.",
    ),
)
