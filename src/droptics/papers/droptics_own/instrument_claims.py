"""Claims on instruments: parts of the library that no paper speaks of, so that `verify` runs them as well."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own import instrument_checks as checks
from droptics.papers.droptics_own import offset_checks

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "droptics-subnetworks",
        "droptics, on thesis-fig5-2",
        "A sub-network is the network without the other units' outgoing weights, the kept ones times a factor and the "
        "offset as it is; its accuracy is that of these outputs. The evenness of flows is their sum by "
        "sqrt(units) times their norm.",
        check=partial(checks.subnetworks, 1.7),
        control=partial(checks.subnetworks, 1.6),
        objects=("coadaptation.evaluate", "coadaptation.subnetwork_outputs", "coadaptation.evenness"),
        note="Each sub-network is written out.",
    ),
    Claim(
        "droptics-linear-robustness",
        "droptics, on thesis-eq6.3",
        "For affine classifiers with offsets the robust accuracy of the ensemble and the smallest margins are those of "
        "the worst corner of the l_inf ball, without a box; the ends of its interval, at 95 %, have binomial tails of "
        "2.5 %, but for 0 where none is right and 1 where all are.",
        check=partial(checks.linear_robustness, 0.2),
        control=partial(checks.linear_robustness, 0.15),
        objects=("attacks.robust_accuracy", "attacks.smallest_margins", "attacks.proportion"),
        note="By enumeration of the corners.",
    ),
    Claim(
        "droptics-designs",
        "droptics, how rates of several sites are compared",
        "The two-level design of up to eleven sites gives the effects of an additive loss exactly and their errors "
        "over examples, and over runs where three columns are to spare; along the descent log-odds move as the effects "
        "that exceed two errors.",
        check=partial(checks.designed_effects, 1.0),
        control=partial(checks.designed_effects, 1.1),
        objects=("rates.two_level", "rates.designs.effects", "rates.splits.path"),
        note="Proved.",
    ),
    Claim(
        "droptics-held-out",
        "droptics, how recommendations are judged",
        "Users held out keep a known and a hidden rating, every rating stands in one part; the gain of rank r is "
        "1/log2(r + 1).",
        check=partial(checks.held_out, 1),
        control=partial(checks.held_out, 2),
        objects=("recommenders.hold_out_users", "recommenders.ranking"),
        note="Counted.",
    ),
    Claim(
        "droptics-units-of-targets",
        "droptics, estimators",
        "Targets 8 y + 5 give predictions 8 f + 5: of a trained network and of completed ratings.",
        check=partial(checks.standardized, 8.0),
        control=partial(checks.standardized, 7.0),
        objects=("training.DropoutRegressor", "recommenders.DropoutCompletion"),
        note="Eight is a power of two, so that nothing rounds otherwise.",
    ),
    Claim(
        "droptics-krylov",
        "droptics, mianjy2018-thm2.4 for large maps",
        "The optimum from a block Krylov basis is that of the whole spectrum.",
        check=partial(checks.leading_values, 1.0),
        control=partial(checks.leading_values, 1.1),
        objects=("optima.optimum_of_map",),
        note="On a map of known singular values with sides beyond those that are decomposed directly.",
    ),
    Claim(
        "droptics-portrait",
        "droptics, on mianjy2018-fig1",
        "Every point of a portrait is critical for the mean over all masks, and its global minima have the least "
        "value: four of a positive map where both units are dropped at times and independently, the origin of a "
        "negative one.",
        check=partial(checks.drawn_landscape, 1.0),
        control=partial(checks.drawn_landscape, 1.1),
        objects=("landscapes.portrait",),
        note="By enumeration.",
    ),
    Claim(
        "droptics-root-slopes",
        "droptics, derivatives of E[x x^T]^(1/2)",
        "Derivatives of the root and of the inverse root of a second moment of full rank are the limits of their "
        "differences.",
        check=partial(checks.root_slopes, 2.0),
        control=partial(checks.root_slopes, 1.5),
        objects=("linalg.psd_root", "linalg.psd_inverse_root"),
        note="Central differences with step 1e-5.",
    ),
    Claim(
        "droptics-sampled",
        "droptics, estimates by draws",
        "The interval of a criterion is that of its penalty moved by the risk; draws of the sampled layer have the "
        "penalty for a mean.",
        check=partial(checks.sampled_intervals, 1.0),
        control=partial(checks.sampled_intervals, 1.2),
        objects=("penalties.criterion", "layers.ExplicitDropout"),
        note="By 20,000 draws with a fixed seed, within five standard errors.",
    ),
    Claim(
        "droptics-offsets",
        "droptics, extends droptics-predictive-mixture",
        "Mean and variance of a ReLU network with offsets over coins of inputs and units, and the criterion of a deep "
        "optimum on more examples than inputs, are those over all masks.",
        check=partial(offset_checks.many_examples, 1.0),
        control=partial(offset_checks.many_examples, 1.2),
        objects=("predictions.predictive", "optima.optimum"),
        note="By enumeration.",
    ),
    Claim(
        "droptics-units",
        "droptics, on mianjy2018-thm4.3",
        "Minimum, saddle or no critical point at all: the kind of a point does not depend on the units of inputs and "
        "targets.",
        check=partial(checks.own_units, 1.0),
        control=partial(checks.own_units, 1.3),
        objects=("landscapes.inspect",),
        note="Units are powers of two.",
    ),
    Claim(
        "droptics-searches",
        "droptics, on thesis-eq6.3",
        "On 60 examples of an affine classifier, with steps enough, those along gradients and to the boundary (linf "
        "and l2), of signs and squares (linf) fool exactly the examples whose least margin over the ball is negative, "
        "and stay in the ball.",
        check=partial(checks.searches, 1.0),
        control=partial(checks.searches, 1.5),
        objects=("attacks.Pgd", "attacks.Apgd", "attacks.Fab", "attacks.Square", "attacks.attack"),
        note="The smallest margin is z_y - z_c - radius ||w_y - w_c|| in the dual norm.",
    ),
)
