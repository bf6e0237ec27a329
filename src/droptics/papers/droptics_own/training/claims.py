"""Claims on training."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own.instruments import ENUMERATED, WRITTEN, pair, room_claim
from droptics.papers.droptics_own.training import (
    descent_checks,
    fitted_network_checks,
    line_checks,
    order_checks,
    random_number_checks,
    run_checks,
    standardized_checks,
    step_checks,
)

CLAIMS: tuple[Claim, ...] = (
    room_claim(
        "rates-in-full",
        "Losses example by example, orders of batches, two-level designs, paths of rates and whole divisions, best "
        "constants, what training draws and the weights it reaches with batches, decay, schedules, limits of norms, "
        "frozen tensors and another optimizer are those written out.",
        pair(order_checks.rates_in_full),
        (
            "training.train",
            "training.Dropout",
            "training.MaxNorm",
            "rates.Fit",
            "losses.CrossEntropy",
            "rates.two_level",
            "training.log_steps",
            "training.with_previous",
        ),
        "By autograd and torch.optim on the same draws.",
    ),
    room_claim(
        "training-in-full",
        "Exact gradients of every linear family, alone and in batches, and steps along them, attacks that training "
        "doubts, runs that leave, entries of every run, modules with their penalty and the lines of checkpoints are "
        "those of their plain forms.",
        pair(line_checks.training_in_full),
        (
            "training.train",
            "training.Penalized",
            "training.Adversarial",
            "training.Free",
            "training.Plain",
            "training.lazy_norm",
            "training.lazy_start",
        ),
        f"{ENUMERATED} By autograd on the same points.",
    ),
    room_claim(
        "batched-runs",
        "Runs of a batch with steps and laws of their own, decay of matrices, frozen parts and another loss than the "
        "squared one are those of torch's SGD, with momentum and without, and of its Adam.",
        pair(run_checks.batched_runs),
        ("training.train", "training.Penalized", "equalization.imbalance", "optima.certify"),
        "Beside loops with torch.optim.",
    ),
    room_claim(
        "guarded-runs",
        "Runs of a batch with seeds and laws of their own are those alone, also where they begin with weights in "
        "common, balls hold, and who diverges is taken out, with infinity for its records.",
        pair(run_checks.guarded_runs),
        ("training.train", "training.MaxNorm"),
        "Beside runs alone.",
    ),
    room_claim(
        "resumed-runs",
        "A run that broke off goes on from its checkpoint as if it had not, and one that ended takes no step; a "
        "training of other numbers refuses the file. Files of compiled steps hold an even number of units.",
        pair(run_checks.resumed_runs),
        ("training.train", "training.Checkpoint"),
        "Beside runs that did not break off.",
    ),
    room_claim(
        "trained-modules",
        "Steps of torch modules on weighed examples, plain, under masks and penalized (the mean over all masks, of "
        "units alone or in blocks), are those of automatic differentiation.",
        pair(descent_checks.trained_modules),
        ("training.train", "training.Penalized"),
        "By automatic differentiation.",
    ),
    room_claim(
        "trained-batches",
        "Steps of batches of factors at entries, and of attacked networks, are those of automatic differentiation; "
        "with products in bfloat16 masked and attacked networks move as with all digits, to two hundredths.",
        pair(descent_checks.trained_batches),
        ("training.train", "training.Adversarial"),
        "By automatic differentiation.",
    ),
    room_claim(
        "trained-populations",
        "Exact steps of a deep network on moments are those over all masks; it stops at the gap asked for, two at that "
        "of the slower.",
        pair(descent_checks.trained_populations),
        ("training.train", "training.Penalized"),
        ENUMERATED,
    ),
    room_claim(
        "small-networks",
        "The networks of the figures are their layers one after the other, with weights of the stated variance.",
        pair(fitted_network_checks.small_networks),
        ("training.SmallCnn", "training.ResNet"),
        WRITTEN,
    ),
    room_claim(
        "fitted-estimators",
        "A fitted regressor of few units predicts mean, spread, quantiles and mean log density of all masked networks "
        "with noise, the likeliest on a tenth that is held out; a classifier the mean of their softmax and its largest "
        "class. Columns of equal inputs, and equal targets, count by their differences. A step on weighted "
        "examples follows the weighted cross-entropy under the masks drawn and the decay of weights, not of offsets.",
        pair(fitted_network_checks.fitted_estimators),
        (
            "training.DropoutRegressor",
            "training.DropoutClassifier",
            "training.train",
        ),
        ENUMERATED,
    ),
    room_claim(
        "schedules",
        "Step sizes over time, of training and of attacks, are their formulas.",
        (partial(step_checks.schedules, 1.0), partial(step_checks.schedules, 1.1)),
        (
            "training.Inverse",
            "training.Cosine",
            "training.Staircase",
            "training.log_steps",
            "training.with_previous",
        ),
    ),
    room_claim(
        "random-numbers",
        "Counted random numbers are Philox 4x32-10, a stream for each kind, coins and normal numbers of a generator go "
        "on through NumPy's SFC64, a run draws what it draws alone; masks, choices and fresh examples have the rates, "
        "weights and second moments that they should.",
        (partial(random_number_checks.random_numbers, 1.0), partial(random_number_checks.random_numbers, 1.1)),
        ("training.philox.bits", "training.random_numbers.Counted"),
        "Three published answers, and whole numbers; frequencies and moments within five standard errors.",
    ),
    room_claim(
        "engines",
        "Every engine of the processor takes the step of the masked loss, tied and untied, each run of a batch with "
        "its own examples, masks and step size; exact gradients are those of the mean over all masks; records, also of "
        "losses, are their definitions.",
        (partial(step_checks.engine_steps, 1.0), partial(step_checks.engine_steps, 1.1)),
        ("training.train", "training.Recording"),
        ENUMERATED,
    ),
    room_claim(
        "hardened",
        "Adversarial and free training step along the gradient at attacked inputs, by the weights of the examples, "
        "with the divergence from clean predictions where it is asked for, each run of a batch as it would alone; a "
        "fast attack ends up the slope. The probabilities of a small classifier are means over all masks, and it "
        "predicts the most probable class.",
        (partial(step_checks.hardened, 1.0), partial(step_checks.hardened, 1.1)),
        (
            "training.Adversarial",
            "training.Free",
            "training.DropoutClassifier",
            "training.train",
        ),
        "By automatic differentiation.",
    ),
    room_claim(
        "averaged",
        "Mean predictions over at most 1024 masks are sums over all of them, of a linear score in closed form; curves "
        "over radii of affine classifiers are those of their smallest margins.",
        (partial(step_checks.averaged, 1.0), partial(step_checks.averaged, 1.1)),
        (
            "attacks.Averaged",
            "attacks.robustness_curve",
            "attacks.attack",
        ),
        ENUMERATED,
    ),
    Claim(
        "droptics-units-of-targets",
        "droptics, estimators",
        "For numbers y that are not all equal, targets 8 y + 5 give predictions 8 f + 5: of a trained network and of "
        "completed ratings.",
        check=partial(standardized_checks.standardized, 8.0),
        control=partial(standardized_checks.standardized, 7.0),
        objects=("training.DropoutRegressor", "recommenders.DropoutCompletion"),
        note="Eight is a power of two, so that no multiple is rounded.",
    ),
)
