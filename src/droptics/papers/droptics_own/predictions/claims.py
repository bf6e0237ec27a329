"""Claims on predictions."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own.instruments import ENUMERATED, PROVED, WRITTEN, pair, room_claim
from droptics.papers.droptics_own.predictions import (
    answer_checks,
    class_checks,
    control_checks,
    family_checks,
    module_checks,
    moment_checks,
    offset_checks,
    predictive_checks,
    reading_checks,
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "droptics-offsets",
        "droptics, extends droptics-predictive-mixture",
        "Mean and variance of a ReLU network with offsets over coins of inputs and units, and the criterion of a deep "
        "optimum on more examples than inputs, are those over all masks.",
        check=partial(offset_checks.many_examples, 1.0),
        control=partial(offset_checks.many_examples, 1.2),
        objects=("predictions.predictive", "optima.optimum"),
        note="By enumeration; that the criterion is the least one, by L-BFGS.",
    ),
    room_claim(
        "classes-in-full",
        "Class probabilities, entropies and mutual information of listed, drawn and normal logits, the trial that "
        "decides between them, and scores of observations, far out too, are sums over their points, and cost all early "
        "masks.",
        pair(class_checks.classes_in_full),
        (
            "predictions.predictive",
            "predictions.calibration",
            "predictions.fit_noise",
            "predictions.expected_calibration_error",
        ),
        "From the same points.",
    ),
    room_claim(
        "masked-modules",
        "Means and variances of attention, recurrent layers and written modules under their own dropout, summed and "
        "drawn, are those over all masks.",
        pair(module_checks.masked_modules),
        ("predictions.predictive",),
        f"{ENUMERATED} Drawn numbers at 99.9999 %.",
    ),
    room_claim(
        "every-density",
        "Densities and quantiles of heads under blocks and products are those of all masks, under normal noise normal.",
        pair(module_checks.every_density),
        ("predictions.predictive",),
        ENUMERATED,
    ),
    room_claim(
        "wide-heads",
        "Joint covariances in closed form, listed and drawn are those of all masks, classes of wide heads those of "
        "many draws.",
        pair(module_checks.wide_heads),
        ("predictions.predictive",),
        f"{ENUMERATED} Wide heads beside 40,000 masks.",
    ),
    room_claim(
        "stored-scans",
        "Scans that are stored give the same answer again, from files too, and none for another fit, layer, weights, "
        "data or seed; a function of one's own trains copies.",
        pair(module_checks.stored_scans),
        ("rates.tune_rates", "rates.Rates"),
        "Beside scans that are not stored.",
    ),
    room_claim(
        "shared-masks-of-layers",
        "Copies drop a unit where one and the same uniform number lies below their rate, in every kind of dropout "
        "layer of torch and in its function of attention; rates are set in all places that hold them.",
        pair(module_checks.shared_masks),
        ("rates.masking.SharedMasks", "rates.places.set_rates"),
        WRITTEN,
    ),
    room_claim(
        "scanned-estimators",
        "Scans of estimators are fits at each rate with losses of held-out examples, and the best rate has the least; "
        "exact scans need no copies.",
        pair(module_checks.scanned_estimators),
        ("rates.tune_rates",),
        "Beside fits at each rate.",
    ),
    room_claim(
        "module-moments",
        "Mean, covariance and class probabilities of torch modules under their own dropout are those over all masks; "
        "intervals of sampled means, variances and class probabilities cover them, sampled covariances are within five "
        "standard errors, and the first order has the slopes in the masks.",
        (partial(moment_checks.module_moments, 1.0), partial(moment_checks.module_moments, 1.1)),
        ("predictions.predictive",),
        ENUMERATED,
    ),
    room_claim(
        "network-moments",
        "Sampled means and variances of ReLU networks, with listed, stratified and main-effect controls, cover those "
        "over all masks; where outputs are linear in the early mask, controls leave no noise in the mean. Controls are "
        "outputs under the masks of one site, slopes at one, or what a unit does alone, weighed by least squares; "
        "means, variances and Student intervals are those of what they leave, with degrees of freedom by its fourth "
        "moments.",
        pair(control_checks.network_controls),
        ("predictions.predictive",),
        f"{ENUMERATED} Within five standard errors.",
    ),
    room_claim(
        "normal-closure",
        "The moments of max(u, 0) for normal u are those of quadrature, and the closure of a ReLU network is their "
        "recursion.",
        (partial(moment_checks.closures, 1.0), partial(moment_checks.closures, 1.05)),
        ("predictions.predictive", "predictions.Closure"),
        "By a grid of 1801 points a coordinate.",
    ),
    room_claim(
        "strata",
        "Masks of independent units in strata of none, one and more drops: count_chances gives their sums over all "
        "masks; allocate gives each stratum that can occur its share of the masks, a part spread evenly and the rest "
        "by chance, rounded down, at least two, the largest what is left; draw_counted draws masks of a stratum by "
        "their law given its drops; with chance c and n masks in each, the mean is sum c m, its variance sum c^2 S^2 "
        "/ n.",
        (partial(moment_checks.strata, 1.0), partial(moment_checks.strata, 1.1)),
        ("predictions.strata.allocate", "predictions.strata.draw_counted"),
        "By enumeration of all masks, and a chi-squared test of draws. Sixteen masks or more; no drop at all has "
        "a chance above 0 in float64.",
    ),
    room_claim(
        "observations",
        "With normal noise s around the outputs of all masks, log_likelihood, pdf, cdf and interval are those of the "
        "mixture, as are calibration's nll, rmse of the mean, pit, coverage and crps (to a cell of its grid); "
        "conformal_factor is the ceil((n + 1) level)-th smallest |y - m| / sqrt(V + s^2), infinite beyond n; "
        "fit_noise is the likeliest s between 0.1 and 1.5 times the rmse where the likelihood has one peak there, in "
        "the unit of the targets; expected_calibration_error is the mean gap of confidence and accuracy over bins.",
        (partial(moment_checks.observations, 1.0), partial(moment_checks.observations, 1.05)),
        (
            "predictions.calibration",
            "predictions.conformal_factor",
            "predictions.fit_noise",
            "predictions.expected_calibration_error",
            "predictions.predictive",
        ),
        (
            "By enumeration of all masks. A density below 1e-12 / rmse counts as that much in fit_noise. With masks "
            "of normal noise, the normal law of variance V + s^2."
        ),
    ),
    room_claim(
        "masked-families",
        "outputs(inputs, multipliers) of TwoLayerLinear, Autoencoder, Connections, DeepLinear, Factorization, "
        "ReLUNet, LastLayer and Site is the sum over layers written out, without masks, under one for all examples, "
        "one for each, a list, and a list for each; outputs of a batch of networks are those of each, as are its "
        "predicted means, variances and covariances, those over all masks; weights, biases and masks of other sizes, "
        "and heads and sites that a module lacks or does not run once, are refused by name; a module keeps no hook, "
        "and its modes.",
        pair(family_checks.masked_families),
        (
            "predictions.predictive",
            "models.Autoencoder",
            "models.Connections",
            "models.DeepLinear",
            "models.Factorization",
            "models.LastLayer",
            "models.ReLUNet",
            "models.Site",
            "models.TwoLayerLinear",
        ),
    ),
    room_claim(
        "modules-read",
        "Means and variances that predictive lists for a module are those over all masks also where its last layer "
        "has computed weights or writes to its outputs, parts have forwards or hooks of their own, masks are written "
        "in place, it takes several tensors, or layers drop inside. What draws outside its sites, or drops otherwise "
        "when it runs again, is refused unless drawn; a module that was changed is read anew. Modes, parameters, "
        "buffers, hooks, forwards, inputs and generators of torch, NumPy and Python are put back, after an error, "
        "too.",
        pair(reading_checks.modules_read),
        ("predictions.predictive",),
        (
            "By enumeration of all masks; modules that show one thing each. A buffer that a pass replaces by one of "
            "another shape stays."
        ),
    ),
    room_claim(
        "predictions-answered",
        "With normal noise s, pdf, cdf, tables, quantiles and intervals are those of the mixture of normal laws over "
        "all masks, within 9 s of all outputs; log_likelihood is the logarithm far outside, too, save in gaps of "
        "many deviations between outputs. Answers name method, cost and confidence; drawn ones weigh their masks "
        "alike, of which covariance and class probabilities are made, with 99 % intervals that hold as often; a seed "
        "twice gives the same draws. Models, inputs, masks and methods that do not fit are refused by name; torch's "
        "functional dropout counts as a site.",
        pair(answer_checks.predicted_answers),
        ("predictions.predictive", "predictions.Density", "predictions.Closure"),
        (
            "By enumeration of all masks; drawn answers from the same masks; the share that intervals hold over 60 "
            "seeds."
        ),
    ),
    Claim(
        "droptics-predictive",
        "droptics, the penalty read for one example",
        "Outputs linear in the mask, f(x; z) = f(x; 0) + sum_j z_j g_j(x), have mean f(x; 1) and covariance sum_ij "
        "Cbar_ij g_i(x) g_j(x)^T under every law of masks z with mean one and covariance Cbar; the penalty is its "
        "trace averaged over examples by their weights. predictive, VarianceHead and DropoutRidge.predict give them.",
        check=partial(predictive_checks.linear_covariance, 1.0),
        control=partial(predictive_checks.linear_covariance, 1.01),
        objects=("predictions.predictive", "layers.VarianceHead", "heads.ridge.DropoutRidge", "penalties.penalty"),
        note=PROVED,
    ),
    Claim(
        "droptics-predictive-deep",
        "droptics, thesis-prop8 read for one example",
        "Deep linear networks, masks of mean one that are independent from layer to layer: a mask adds Cbar o (E + h "
        "h^T) to the covariance E of its layer, whose values are h without masks, and every layer maps it; with "
        "independent units only variances are injected, n_l = lambda_l o (h_l^2 + sum_{m<l} (A_lm o A_lm) n_m), "
        "lambda_l the diagonal of Cbar and A_lm the map from layer m to it.",
        check=partial(predictive_checks.deep_covariance, 1.0),
        control=partial(predictive_checks.deep_covariance, 1.01),
        objects=("predictions.predictive",),
        note=PROVED,
    ),
    Claim(
        "droptics-predictive-mixture",
        "droptics",
        "Where outputs are affine in the last mask, with mean c and covariance Q given the earlier masks, of which "
        "the last one is independent: mean f = E c and Cov f = E Q + Cov c, over the earlier masks.",
        check=partial(predictive_checks.mixture, True),
        control=partial(predictive_checks.mixture, False),
        objects=("predictions.predictive",),
        note=PROVED,
    ),
    Claim(
        "droptics-predictive-relu",
        "droptics, helmbold2017-eq2 read for one example",
        "ReLU networks: with m = E h and S = E h h^T of the last hidden layer the outputs have mean W m + b and "
        "covariance W (S - m m^T + Cbar o S) W^T, Cbar the covariance of the last layer's masks divided by their means "
        "and independent of earlier ones; the squared dropout criterion is |mean - y|^2 plus its trace.",
        check=partial(predictive_checks.relu_leaf, 1.0),
        control=partial(predictive_checks.relu_leaf, 1.01),
        objects=("penalties.relu_criterion", "predictions.predictive"),
        note=PROVED,
    ),
    Claim(
        "droptics-predictive-density",
        "droptics",
        "An output that is c_a plus independent terms of characteristic functions phi_aj given the early mask a, of "
        "chance pi_a, has with normal noise of deviation s the density (1/pi) int_0^inf Re[e^(-i theta y) sum_a pi_a "
        "e^(i theta c_a) prod_j phi_aj(theta)] e^(-theta^2 s^2/2) d theta at y; for bounded outputs the trapezoid "
        "rule of step 2 pi / (range of outputs and y + 18 s) up to 8.5 / s is right to 1e-16 / s, but for rounding.",
        check=partial(predictive_checks.density, 1.0),
        control=partial(predictive_checks.density, 1.01),
        objects=("predictions.predictive", "predictions.Density"),
        note=(
            "Proved: copies of the density one period off lie 18 s away or more, and what the rule leaves off beyond "
            "the last angle is below 1e-16 / s."
        ),
    ),
)
