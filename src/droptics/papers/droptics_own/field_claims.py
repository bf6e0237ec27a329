"""Claims that hold whole answers against their definitions, field by field: draws, bounds, optima, recorded steps."""

from __future__ import annotations

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own import (
    algebra_room_checks,
    bound_field_checks,
    drawn_mask_checks,
    random_start_checks,
    recorded_step_checks,
    side_optimum_checks,
    side_path_checks,
    side_room_checks,
)
from droptics.papers.droptics_own.room_claims import pair, room_claim

CLAIMS: tuple[Claim, ...] = (
    room_claim(
        "drawn-in-full",
        "What given, listed and drawn masks add to the loss of every family on every kind of data, batches included, "
        "with interval, rounding, cost and words, is what loops over the masks give; so is half the curvature.",
        pair(drawn_mask_checks.drawn_masks_in_full),
        ("penalties.penalty", "penalties.criterion", "penalties.risk", "models.Connections", "penalties.SecondOrder"),
        "Maps of single networks under single masks.",
    ),
    room_claim(
        "bound-fields",
        "Terms, claims, trivial values and needed amounts of the bounds of completion, of classes of functions, of "
        "two-layer networks, of lazy and of adversarial training, printed and corrected, are those of the formulas.",
        pair(bound_field_checks.bound_fields),
        (
            "bounds.adversarial",
            "bounds.completion",
            "bounds.lazy",
            "bounds.lazy_setting",
            "bounds.rademacher",
            "bounds.relu",
            "bounds.squared",
            "bounds.uniform",
        ),
        "Quadratic equations for what is needed.",
    ),
    room_claim(
        "weak-directions",
        "Examples in single precision whose columns nearly depend on each other have the coordinates, optima and "
        "certificates of the directions above rounding; upper bounds of a spectrum never lie below their level.",
        pair(algebra_room_checks.algebra_rooms),
        ("optima.optimum", "optima.certify"),
        "By a decomposition in double precision; all ranks.",
    ),
    room_claim(
        "recorded-steps",
        "A recorded step of an adaptive ascent leaves the numbers of a plain one in the tensors that it read, for one "
        "run of an example or several.",
        pair(recorded_step_checks.recorded_steps),
        ("attacks.Apgd", "attacks.Threat"),
        "Field by field, after each of three steps.",
    ),
    room_claim(
        "side-paths",
        "Penalties with masked inputs, heads that differ by example, blocks on weights, losses and laws without any "
        "bound, and which method is the most exact, are by definition; what cannot be answered is refused in words.",
        pair(side_path_checks.side_paths),
        (
            "penalties.best_method",
            "penalties.has_closed_form",
            "penalties.penalty",
            "penalties.sub_penalties",
        ),
        "All masks.",
    ),
    room_claim(
        "side-optima",
        "Optima of inputs without energy and of layers without masks, tied optima that are turned, bounds of tied and "
        "of ReLU networks under laws of all layers, and reasons of certificates are by definition.",
        pair(side_optimum_checks.side_optima),
        ("optima.certify", "optima.optimal_factors", "optima.optimum"),
        "All ranks.",
    ),
    room_claim(
        "side-rooms",
        "Roots of moments that carry derivatives, laws that state a mean and a covariance alone, envelopes of silent "
        "inputs, explicit dropout by autocast and in evaluation, trainings of several laws at once, gradients by "
        "formula and margins of many points are by definition.",
        pair(side_room_checks.side_rooms),
        (
            "bounds.lazy",
            "bounds.linear_margin",
            "bounds.measured_rademacher",
            "envelopes.envelope",
            "equalization.imbalance",
            "layers.ExplicitDropout",
            "training.train",
        ),
        "By eigenvectors, autograd, each training alone.",
    ),
    room_claim(
        "random-starts",
        "Ascents that begin at random points: examples that are wrong from the start stay where they are if the fooled "
        "leave, and climb like all others if nobody does; points, counts and restarts are those of single examples.",
        pair(random_start_checks.random_starts),
        ("attacks.Apgd", "attacks.Pgd", "attacks.Threat"),
        "By autograd, example by example.",
    ),
)
