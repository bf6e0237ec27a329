"""Claims that span several rooms at once."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own.across import (
    companion_checks,
    edge_checks,
    fitted_field_checks,
    form_checks,
    limit_checks,
    model_output_checks,
    option_checks,
    planned_pass_checks,
    refusal_checks,
    rest_checks,
    scattered_checks,
    seldom_checks,
    setting_checks,
    side_room_checks,
    small_room_checks,
    spare_layer_checks,
    standstill_checks,
    watched_run_checks,
    wide_law_checks,
)
from droptics.papers.droptics_own.instruments import ENUMERATED, WRITTEN, pair, room_claim

CLAIMS: tuple[Claim, ...] = (
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
            "penalties.penalty",
            "penalties.risk",
        ),
        "By eigenvectors, autograd, each training alone, convex programs.",
    ),
    room_claim(
        "refused-arguments",
        "Wrong arguments, some of each of training, layers, attacks, predictions, rates and recommenders, end in an "
        "error that names them, and so do checkpoints of another width or of other ratings. Inverses by blocks are "
        "inverses, uniform numbers lie in the middles of their cells, and a ranker with a threshold is that of the "
        "ratings from it on.",
        pair(refusal_checks.refused_arguments),
        (
            "training.train",
            "attacks.perturb",
            "recommenders.DropoutCompletion",
            "recommenders.LocalAutoencoder",
            "attacks.attack",
            "attacks.margins",
            "layers.explicit_consistency",
            "predictions.expected_calibration_error",
            "rates.two_level",
            "recommenders.default_drop",
            "recommenders.hold_out_users",
            "recommenders.ranking",
            "predictions.predictive",
        ),
        "Beside torch.linalg.inv.",
    ),
    room_claim(
        "options-given",
        "Projections, precisions, starts, seeds, batches, losses, confidences, ignored labels, settings of estimators, "
        "grades, thresholds, clips and ridges that differ from their defaults do what they say.",
        pair(option_checks.every_option),
        (
            "attacks.attack",
            "attacks.robustness_curve",
            "attacks.Square",
            "layers.explicit_consistency",
            "training.masked_step",
            "training.Adversarial",
            "training.Free",
            "training.DropoutRegressor",
            "training.DropoutClassifier",
            "recommenders.LocalAutoencoder",
            "recommenders.ImplicitDropoutCompletion",
            "recommenders.AutoencoderCompletion",
            "recommenders.StackedCompletion",
            "training.lazy_start",
            "training.train",
            "attacks.perturb",
            "predictions.predictive",
        ),
        "Beside bisection, automatic differentiation and systems solved one by one.",
    ),
    room_claim(
        "limits-of-arguments",
        "What lies beyond a limit of attacks, trainings, recommenders, audits and tuned rates is refused with its "
        "reason, what lies inside passes; searches of perceptrons, lazy runs side by side and models that grow are "
        "those of the plain way.",
        pair(limit_checks.at_the_limits),
        (
            "attacks.attack",
            "attacks.robust_accuracy",
            "attacks.Square",
            "training.train",
            "training.train_lazy",
            "recommenders.DropoutAutoencoder",
            "rates.tune_rates",
            "audits.audit",
            "attacks.proportion",
            "predictions.calibration",
            "predictions.fit_noise",
            "training.lazy_start",
            "training.masked_step",
            "predictions.predictive",
        ),
        "By the words of refusals; forty beside neighbors that pass.",
    ),
    room_claim(
        "settings-given",
        "Seeds, sites, losses and populations of tuned rates, ways to give ratings, ridges and starts of completions, "
        "settings of trainings and levels, samples and rates of judgements that differ from their defaults do what "
        "they say.",
        pair(setting_checks.every_setting),
        (
            "rates.tune_rates",
            "recommenders.DropoutCompletion",
            "recommenders.RidgeCompletion",
            "recommenders.DropoutCompletionCV",
            "recommenders.StackedRanker",
            "training.train",
            "training.Settings",
            "predictions.calibration",
            "layers.realized_rates",
            "datasets.planted_ratings",
            "audits.audit",
            "training.lazy_start",
            "penalties.penalty",
            "predictions.predictive",
        ),
        "Beside copies trained one by one, derivatives of the objective and the same numbers given otherwise.",
    ),
    room_claim(
        "ways-of-large-problems",
        "Chunks of examples, sums over outcomes instead of masks, logits of few masks, audits on several ranks, losses "
        "of large outputs, inverses by many blocks and singular rows give what the plain way gives.",
        pair(scattered_checks.taken_here),
        ("predictions.predictive", "audits.audit", "rates.tune_rates", "evidence.formulas.mathml"),
        f"{ENUMERATED} Limits of size are lowered, so that small problems go these ways.",
    ),
    room_claim(
        "fields-left-behind",
        "Errors, members, deviations, units, classes, records, seeds and step sizes that fits and runs leave behind "
        "are those of their formulas.",
        pair(fitted_field_checks.left_behind),
        (
            "recommenders.StackedCompletion",
            "recommenders.StackedRanker",
            "recommenders.DropoutAutoencoder",
            "recommenders.DropoutCompletion",
            "training.DropoutRegressor",
            "training.DropoutClassifier",
            "training.Recording",
            "training.train_lazy",
            "models.DeepLinear",
            "models.Factorization",
            "training.lazy_start",
            "training.train",
            "penalties.penalty",
        ),
        WRITTEN,
    ),
    room_claim(
        "forms-of-numbers",
        "Up to rounding, strided numbers change nothing of searches, trainings, predictions, penalties of layers and "
        "recommenders; single precision nothing of margins of affine maps, trainings on all examples, predictions and "
        "recommenders; another order of examples or ratings nothing of searches without draws, moments of predictions "
        "and recommenders; another unit of ratings nothing of completions by dropout or by a kernel.",
        pair(form_checks.every_form),
        (
            "attacks.attack",
            "attacks.margins",
            "attacks.smallest_margins",
            "training.train",
            "predictions.predictive",
            "layers.ExplicitDropout",
            "recommenders.DropoutCompletion",
            "recommenders.RidgeCompletion",
            "recommenders.AutoencoderCompletion",
            "recommenders.DropoutAutoencoder",
            "recommenders.ImplicitDropoutCompletion",
        ),
        "Single precision to some hundred roundings, class probabilities and the kernel recommender to 1e-4, other "
        "recommenders to 1e-3. Penalties of layers in half precision to 3%.",
    ),
    room_claim(
        "passed-by",
        "Margins with a rate, examples that a bound needs, heads of weighed examples and nested layers are by formula.",
        pair(spare_layer_checks.passed_by),
        (
            "bounds.gate_margin",
            "bounds.linear_margin",
            "optima.optimal_head",
            "layers.explicit_penalty",
            "bounds.completion",
            "bounds.rademacher",
        ),
        WRITTEN,
    ),
    room_claim(
        "looked-again",
        "Searches take every step, free training stays in its box, records have their names, spare layers are told.",
        pair(spare_layer_checks.looked_again),
        ("training.train", "training.Free", "audits.audit"),
        WRITTEN,
    ),
    room_claim(
        "seen-again",
        "Triangles of many rows, equal columns of factors that stay as they are, modes, units, deep covariances, calls "
        "of attention, clipped ratings, heads without a bias and tallies are by definition.",
        pair(companion_checks.seen_again),
        (
            "optima.certify",
            "penalties.criterion",
            "recommenders.DropoutCompletion",
            "rates.tune_rates",
            "linalg.equalize_columns",
        ),
        f"{ENUMERATED} Two runs tell whether a call drops.",
    ),
    room_claim(
        "head-penalties",
        "Penalties of a last layer under coins, blocks, lists and normal noise, for three losses and weighed "
        "examples, by every method.",
        (partial(small_room_checks.penalties_of_heads, 1.0), partial(small_room_checks.penalties_of_heads, 1.1)),
        ("penalties.penalty", "penalties.risk"),
        ENUMERATED,
    ),
    room_claim(
        "network-penalties",
        "Penalties of ReLU networks with unequal rates and weighed examples are means over all masks minus the risk; "
        "drawn ones lie within their errors, those to second order are half the Hessian against the variances.",
        (partial(small_room_checks.penalties_of_networks, 1.0), partial(small_room_checks.penalties_of_networks, 1.1)),
        ("penalties.penalty", "penalties.criterion", "penalties.risk"),
        ENUMERATED,
    ),
    room_claim(
        "loss-derivatives",
        "Hessians, curvatures and largest slopes of the losses are those of automatic differentiation.",
        (partial(small_room_checks.derivatives_of_losses, 1.0), partial(small_room_checks.derivatives_of_losses, 1.1)),
        ("losses.CrossEntropy", "losses.Logistic", "losses.Squared"),
        "By automatic differentiation.",
    ),
    room_claim(
        "dropped-layers",
        "Rates that dropped blocks realize follow from how many blocks cover each place; explicit penalties "
        "are means over the labels that count.",
        (partial(small_room_checks.dropped_layers, 1.0), partial(small_room_checks.dropped_layers, 1.1)),
        (
            "layers.DropBlock",
            "layers.explicit_penalty",
            "layers.explicit_consistency",
            "layers.realized_rates",
        ),
        "By counting.",
    ),
    room_claim(
        "units-of-networks",
        "Flows and what follows from them, sub-networks by width, drawn and exported, and their accuracies are their "
        "definitions.",
        (partial(small_room_checks.units_of_networks, 1.0), partial(small_room_checks.units_of_networks, 1.1)),
        (
            "coadaptation.flows",
            "coadaptation.smallest",
            "coadaptation.accuracy_by_width",
            "coadaptation.draw",
            "coadaptation.evaluate",
            "coadaptation.importance",
            "coadaptation.alpha",
            "coadaptation.coadaptation",
            "coadaptation.split",
        ),
    ),
    room_claim(
        "trained-rates",
        "Losses of the points of a scan, on all validation examples, of a design and a path, on the half of them that "
        "chooses, and of a guard, on the other half and fresh seeds, are means over seeds of copies trained alone; "
        "effects of sites are contrasts of the design per unit of log-odds, and the rates of the answer are set.",
        (partial(wide_law_checks.trained_rates, 1.0), partial(wide_law_checks.trained_rates, 1.1)),
        ("rates.tune_rates",),
        "Beside copies trained alone.",
    ),
    room_claim(
        "wide-laws",
        "Moments, bands, bounds and draws of every law are those of its list; wide ones agree with narrow ones.",
        (partial(wide_law_checks.wide_laws, 1.0), partial(wide_law_checks.wide_laws, 1.1)),
        ("masks.SlidingBlock", "masks.Discrete", "masks.Product", "masks.Block"),
        ENUMERATED,
    ),
    room_claim(
        "large-heads",
        "Classes of large heads are those over all masks, to two hundredths where logits are nearly normal and within "
        "five standard errors where masks are drawn; densities of listed masks and gradients of penalties are theirs.",
        (partial(wide_law_checks.large_heads, 1.0), partial(wide_law_checks.large_heads, 1.05)),
        ("predictions.predictive", "penalties.penalty"),
        ENUMERATED,
    ),
    room_claim(
        "searched-optima",
        "Optima of correlated masks and of entries are what a search gives, and their bounds lie below.",
        (partial(wide_law_checks.searched_optima, 1.0), partial(wide_law_checks.searched_optima, 1.1)),
        ("optima.optimum",),
        "By L-BFGS from several starts.",
    ),
    room_claim(
        "audited-tails",
        "Audits of affine tails are exact, intervals of drawn sites cover the truth at their confidence, and unfused "
        "attention and LSTM layers are torch's own.",
        (partial(wide_law_checks.audited_tails, 1.0), partial(wide_law_checks.audited_tails, 1.1)),
        ("audits.audit",),
        ENUMERATED,
    ),
    room_claim(
        "random-networks",
        "The robust accuracy of a linear score that stays random is that of its mean; looked at again, a network is "
        "the mean over masks of the new seed; the optimum of measurements of every entry is what a search gives.",
        (partial(wide_law_checks.random_networks, 1.0), partial(wide_law_checks.random_networks, 1.3)),
        ("attacks.robust_accuracy", "attacks.Averaged", "optima.optimum", "penalties.penalty", "penalties.risk"),
        "By L-BFGS from several starts.",
    ),
    room_claim(
        "interrupted-runs",
        "Schedules, records and kept iterates go on where a run stops for a record.",
        (partial(edge_checks.interrupted_runs, 1.0), partial(edge_checks.interrupted_runs, 1.1)),
        ("training.train", "training.Inverse", "training.Recording"),
        "Written out.",
    ),
    room_claim(
        "far-corners",
        "Small squares of a search reach every pixel but those of the last of several rows or columns, escapes take "
        "the better side of their direction, the optimum of tall and flat maps is that of their singular values, "
        "columns are equalized in place, and the products of linear layers and convolutions counted.",
        (partial(edge_checks.far_corners, 1.0), partial(edge_checks.far_corners, 0.9)),
        (
            "attacks.Square",
            "landscapes.escape",
            "optima.optimum_of_map",
            "linalg.equalize_columns_",
            "attacks.attack",
        ),
        "Written out.",
    ),
    room_claim(
        "stacked-sites",
        "Masks of two dropout layers in a row multiply; sub-networks that an audit draws are rescaled, their biases "
        "are not; certified bounds of one large margin meet at the truth; the objective of a projected network is its "
        "error and its penalty.",
        (partial(edge_checks.stacked_sites, 1.0), partial(edge_checks.stacked_sites, 1.1)),
        (
            "audits.audit",
            "penalties.penalty",
            "heads.projection.variable_projection",
            "coadaptation.draw",
        ),
        f"{ENUMERATED} Sub-networks mask by mask.",
    ),
    room_claim(
        "rows-on-workers",
        "What workers compute of a block of users solves the systems of the rows and of the items.",
        (partial(edge_checks.rows_on_workers, 1.0), partial(edge_checks.rows_on_workers, 1.1)),
        ("recommenders.DropoutCompletion",),
        "By systems solved one by one.",
    ),
    room_claim(
        "second-looks",
        "Repeated ratings are averaged, attacks say who was right before, norms read factors, widths cut spectra, and "
        "maps cut blocks that are longer.",
        (partial(edge_checks.second_looks, 1.0), partial(edge_checks.second_looks, 1.1)),
        ("attacks.attack", "norms.path_norm", "optima.certify", "layers.DropBlock"),
    ),
    room_claim(
        "rest-in-full",
        "Attacks in batches, accuracies of sub-networks by labels, rows and signs, worst half-spaces, complexities and "
        "their rounding, errors of examples left out, losses of audits and single calls are by definition.",
        pair(rest_checks.rest_in_full),
        (
            "attacks.attack",
            "bounds.measured_rademacher",
            "coadaptation.evaluate",
            "coadaptation.flows",
            "coadaptation.retentivity",
            "coadaptation.symmetrize",
            "heads.ridge.DropoutRidgeCV",
        ),
        "Refits; all signs; a grid of directions.",
    ),
    room_claim(
        "missed-before",
        "Passes are planned by the kurtosis of outputs, controls are taken off with their sign, masks left over go to "
        "the largest stratum, of many examples those that weigh are bounded closely, steps over all cells are "
        "conjugate gradients, and rates are set where they are held.",
        pair(planned_pass_checks.missed_before),
        ("predictions.strata.allocate", "penalties.penalty", "attacks.standard_attacks"),
        "Loops over outputs, rows and masks.",
    ),
    room_claim(
        "seldom-asked",
        "Draws that are shared out, least and largest curvatures, best points of a box to the last bit, bounded "
        "streams, refusals and durations, searches without centering, blocks of users and laws of one layer are by "
        "definition.",
        pair(seldom_checks.seldom_asked),
        (
            "recommenders.DropoutCompletionCV",
            "recommenders.DropoutAutoencoder",
            "landscapes.hessian",
            "optima.deep_optimum",
            "equalization.equalize",
        ),
        "By the rule in words; one by one.",
    ),
    room_claim(
        "gone-astray",
        "Nobody who stands still is counted as fooled, other threads replay nothing, slopes of a search are those of "
        "its value, heads are believed where nothing was written, pairs of one unknown id do not spread.",
        pair(standstill_checks.passed_by),
        ("predictions.predictive", "recommenders.DropoutCompletion", "rates.running.Runner"),
        "By differences; by name and by place.",
    ),
    room_claim(
        "model-outputs",
        "Outputs of every family under no mask, one for all examples, one for each and several of these are sums over "
        "units; those of networks side by side are those alone, those without masks the matrix times the inputs. A "
        "layer of a module that takes masks must run once, and the last one end it.",
        pair(model_output_checks.model_outputs),
        (
            "models.TwoLayerLinear",
            "models.Autoencoder",
            "models.Connections",
            "models.DeepLinear",
            "models.ReLUNet",
            "models.Factorization",
            "models.LastLayer",
            "models.Site",
        ),
        WRITTEN,
    ),
    room_claim(
        "watched-runs",
        "A watched run at another rate, on, off or as written, in training and in evaluation, returns what a module "
        "made with that rate returns, and tells of every call the place, its own rate, whether the module asks for it "
        "and whether it drops: of every kind of dropout, attention and recurrent layers. Training without statistics "
        "leaves norm layers and named parts in evaluation; layers are left out by chance, hooks see their own thread "
        "alone, and modes, buffers and generators come back.",
        pair(watched_run_checks.watched_runs),
        ("models.watching.watched", "models.modes.undisturbed"),
        "Beside torch's own on the same random numbers.",
    ),
)
