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
        "predictive of ReLU networks with offsets, under Bernoulli laws of inputs and units, has the mean and "
        "variance over all masks. On more examples than inputs the objective of optimum of DeepLinear is the "
        "criterion of its network over all masks, and the least that a search finds.",
        check=partial(offset_checks.many_examples, 1.0),
        control=partial(offset_checks.many_examples, 1.2),
        objects=("predictions.predictive", "optima.optimum"),
        note="By enumeration; that the criterion is the least one, by L-BFGS.",
    ),
    room_claim(
        "classes-in-full",
        "classes of a predictive: probabilities, the entropy of their mean and the mutual information are means of "
        "the softmax over listed head masks, over normal logits of their mean and covariance, or, where a trial of "
        "masks disagrees with these, over drawn masks; cost is the number of early masks. calibration has nll, pit, "
        "rmse, coverage and, within 1 %, crps of the mixture over all masks, also 40 deviations out; fit_noise has "
        "its largest likelihood; expected_calibration_error sums |confidence - accuracy| over 15 bins by their "
        "shares.",
        pair(class_checks.classes_in_full),
        (
            "predictions.predictive",
            "predictions.calibration",
            "predictions.fit_noise",
            "predictions.expected_calibration_error",
        ),
        "The same masks and points.",
    ),
    room_claim(
        "masked-modules",
        "predictive of attention, by torch's function and layer, of a GRU of two layers, and of modules with dropout "
        "as a layer or a function has the mean and variance over all masks of their own dropout, of four to six units "
        "here; intervals of 3,000 draws hold those of attention and GRU.",
        pair(module_checks.masked_modules),
        ("predictions.predictive",),
        f"{ENUMERATED} Drawn numbers at 99.9999 %.",
    ),
    room_claim(
        "every-density",
        "predictive of a linear head: under Block and Product laws log_likelihood and interval for observations with "
        "normal noise sigma are those of the mixture over all masks, under a Gaussian law of variances v those of the "
        "normal law of variance sum_j v_j (w_j h_j)^2 + sigma^2; where sigma is tiny beside the outputs the former "
        "are refused.",
        pair(module_checks.every_density),
        ("predictions.predictive",),
        ENUMERATED,
    ),
    room_claim(
        "wide-heads",
        "covariance in predictive of a ReLU network by ClosedForm and Enumerate is that over all masks, and by 4,000 "
        "draws within .02 of it; class probabilities of linear heads of 240 units, by normal logits, and of 40, by "
        "1,024 masks, are those of 40,000 masks within five standard errors, by normal logits and .005, and sum to "
        "one.",
        pair(module_checks.wide_heads),
        ("predictions.predictive",),
        "By enumeration of all masks. Wide heads beside 40,000 masks at a fixed seed.",
    ),
    room_claim(
        "stored-scans",
        "tune_rates with a store has the losses, errors and best rate of a scan again without training, and trains "
        "anew for another fit, module, weights, data or seed; Rates.load reads what save wrote, and apply sets the "
        "best rates in a module. A fit that is a function is called with a copy of the module for every rate and "
        "repetition, and its losses are those of the trained copies.",
        pair(module_checks.stored_scans),
        ("rates.tune_rates", "rates.Rates"),
        "Beside scans that are not stored.",
    ),
    room_claim(
        "shared-masks-of-layers",
        "Under SharedMasks the modules Dropout, Dropout1d, 2d and 3d, AlphaDropout and FeatureAlphaDropout and the "
        "function scaled_dot_product_attention of torch drop an entry or channel where a uniform number, the same for "
        "every rate, lies below the rate. set_rates sets the rates of attributes, of attention, of dropout layers and "
        "of recurrent layers.",
        pair(module_checks.shared_masks),
        ("rates.masking.SharedMasks", "rates.places.set_rates"),
        WRITTEN,
    ),
    room_claim(
        "scanned-estimators",
        "tune_rates of DropoutRidge, DropoutClassifier, DropoutRegressor and DropoutCompletionCV has for losses those "
        "of fits at each rate on the held-out examples, of DropoutRidgeCV without such the leave-one-out errors; best "
        "is the rate of the least loss of ridge fits and completions. Linear chains of dropout and layers are scanned "
        "without copies.",
        pair(module_checks.scanned_estimators),
        ("rates.tune_rates",),
        "Beside fits at each rate.",
    ),
    room_claim(
        "module-moments",
        "predictive of torch modules of few units under their own dropout has the mean, covariance and class "
        "probabilities over all masks; of 200 masks, at eight seeds, means, variances and class probabilities are "
        "within twice the half widths of their 99 % intervals and covariances, averaged, within five standard errors. "
        "SecondOrder has the variance of the last mask plus sum_j (p_j / (1 - p_j)) times the squared slopes in the "
        "earlier multipliers.",
        (partial(moment_checks.module_moments, 1.0), partial(moment_checks.module_moments, 1.1)),
        ("predictions.predictive",),
        ENUMERATED,
    ),
    room_claim(
        "network-moments",
        "predictive of the ReLU networks compared, by MonteCarlo: with 600 masks mean and variance over all masks lie "
        "within twice the half widths of 99 % intervals, those of means narrower than 95 % of plain draws; where "
        "outputs are linear in the early mask and every site has a control the mean is exact. Controls are outputs "
        "under the masks of one site, slopes at one, or what a unit does alone, weighed by least squares; means, "
        "variances and Student intervals are those of what they leave, stratified or not, degrees of freedom by its "
        "fourth moments.",
        pair(control_checks.network_controls),
        ("predictions.predictive",),
        "By enumeration of all masks; from the same draws. What no drawn mask shows no interval covers, such as a unit "
        "that falls once in 10,000 and alone moves the output. Few masks leave wide sites without a control.",
    ),
    room_claim(
        "normal-closure",
        "Mean and covariance of max(u, 0) for normal u are those of quadrature. predictive of a ReLU network by "
        "Closure passes them from layer to layer: masks add p / (1 - p) (variance + mean^2) to every variance, and "
        'all covariances enter the next layer, or under Closure("diagonal") the variances alone.',
        (partial(moment_checks.closures, 1.0), partial(moment_checks.closures, 1.05)),
        ("predictions.predictive", "predictions.Closure"),
        "By a grid of 1801 points a coordinate.",
    ),
    room_claim(
        "strata",
        "Masks of independent units in strata of none, one and more drops: count_chances gives their chances; "
        "allocate gives each stratum that can occur its share of the masks, a part spread evenly and the rest by "
        "chance, rounded down, at least two, the largest what is left; draw_counted draws masks of a stratum by "
        "their law given its drops; with chance c and n masks in each, the mean is sum c m, its variance sum c^2 S^2 "
        "/ n.",
        (partial(moment_checks.strata, 1.0), partial(moment_checks.strata, 1.1)),
        ("predictions.strata.allocate", "predictions.strata.draw_counted"),
        "By enumeration of all masks, and a chi-squared test of draws. Sixteen masks or more; no drop at all has "
        "a chance above 0 in float64.",
    ),
    room_claim(
        "observations",
        "With normal noise s around the outputs of all masks, log_likelihood, pdf, cdf and interval (of equal tails) "
        "are those of the mixture, as are calibration's nll, rmse of the mean, pit, coverage and crps (to a cell of "
        "its grid); conformal_factor is the ceil((n + 1) level)-th smallest |y - m| / sqrt(V + s^2), infinite beyond "
        "n; fit_noise is the likeliest s between 0.1 and 1.5 times the rmse where the likelihood has one peak there, "
        "in the unit of the targets; expected_calibration_error is the mean gap of confidence and accuracy over "
        "bins.",
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
        "when it runs again, only MonteCarlo takes; a module that was changed is read anew. Modes, parameters, "
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
        "many deviations between outputs of more than 4096 masks. "
        "Answers name method, cost and confidence; drawn ones weigh their masks "
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
