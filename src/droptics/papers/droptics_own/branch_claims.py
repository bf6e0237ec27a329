"""Claims on branches that the other claims pass by: options, files, long sums, reports, batches of runs."""

from __future__ import annotations

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own import (
    audited_data_checks,
    corner_checks,
    descent_checks,
    entropy_checks,
    finding_checks,
    fitted_network_checks,
    module_checks,
    rating_checks,
    report_checks,
    run_checks,
    search_checks,
    second_checks,
    sum_checks,
)
from droptics.papers.droptics_own.room_claims import ENUMERATED, pair, room_claim

WRITTEN = "Written out."
CLAIMS: tuple[Claim, ...] = (
    room_claim(
        "workers",
        "Completions and autoencoders that workers fit to files, or to ratings sent to them, are those of one machine.",
        pair(rating_checks.workers),
        ("recommenders.DropoutCompletion", "recommenders.RidgeCompletion", "recommenders.DropoutAutoencoder"),
        "Beside fits in one process.",
    ),
    room_claim(
        "saved-models",
        "Completions that were saved and loaded predict, recommend and go on as before, from checkpoints too.",
        pair(rating_checks.saved_models),
        (
            "recommenders.DropoutCompletion",
            "recommenders.RidgeCompletion",
            "recommenders.AutoencoderCompletion",
        ),
        "Beside the model that was saved.",
    ),
    room_claim(
        "saved-rankers",
        "Rankers that were saved and loaded score, recommend and explain as before.",
        pair(rating_checks.saved_rankers),
        ("recommenders.DropoutAutoencoder", "recommenders.ImplicitDropoutCompletion"),
        "Beside the model that was saved.",
    ),
    room_claim(
        "new-users",
        "Lists for users the model never saw, from a threshold on, and recall beside that of popularity are by "
        "definition.",
        pair(rating_checks.new_users),
        ("recommenders.DropoutAutoencoder", "recommenders.against_popularity", "recommenders.hold_out_users"),
        WRITTEN,
    ),
    room_claim(
        "ranked-lists",
        "Metrics of rankings with their errors, and differences of two rankings, are by definition.",
        pair(rating_checks.ranked_lists),
        ("recommenders.ranking",),
        WRITTEN,
    ),
    room_claim(
        "named-ids",
        "Ids of every kind are those of their text, every source holds the same ratings, chosen rates are the best.",
        pair(rating_checks.named_ids),
        ("recommenders.DropoutCompletionCV", "recommenders.default_drop"),
        WRITTEN,
    ),
    room_claim(
        "bias-steps",
        "Stochastic steps of a completion are gradient steps of the mean squared error of a batch under inverted "
        "dropout of the factors, a mask for each rating, with a ridge on the biases; every epoch tells the error "
        "without masks and the expected objective.",
        pair(rating_checks.bias_steps),
        ("recommenders.sgd.descend",),
        "By automatic differentiation, from the same draws.",
    ),
    room_claim(
        "long-sums",
        "Criteria of ReLU networks are those of all masks, where outcomes are sorted, listed, blocked, repeated or "
        "batched; so are penalties and gradients, and errors are at most the rounding told, where outcomes are sorted, "
        "listed or blocked.",
        pair(sum_checks.long_sums),
        ("penalties.criterion", "penalties.penalty"),
        ENUMERATED,
    ),
    room_claim(
        "counted-sums",
        "Sums over sorted lists are those over all pairs, and moments of a layer by halves those of all outcomes.",
        pair(sum_checks.counted_sums),
        ("penalties.relu.moments.Dominance", "penalties.relu.device.dominance_sum"),
        ENUMERATED,
    ),
    room_claim(
        "costs-of-sums",
        "Costs of exact criteria are numbers of outcomes, estimated beyond two layers; the method that is chosen is "
        "the first that applies of closed form, enumeration, certified interval and draws.",
        pair(sum_checks.costs_of_sums),
        ("penalties.relu_cost", "penalties.best_method", "penalties.has_closed_form"),
        ENUMERATED,
    ),
    room_claim(
        "inner-sites",
        "Penalties of dropout inside a module, by entries and by channels, are those over all masks, and to second "
        "order those of the Hessian.",
        pair(sum_checks.inner_sites),
        ("penalties.penalty", "models.Site"),
        ENUMERATED,
    ),
    room_claim(
        "rounding-errors",
        "What single precision leaves in penalties and criteria lies within the errors told where nothing underflows, "
        "for linear, tied, deep, factored, connected and ReLU networks and laws of coins, blocks, lists and products.",
        pair(sum_checks.rounding_errors),
        ("penalties.penalty", "penalties.criterion", "penalties.unit_gram", "penalties.unit_energies"),
        "Beside double precision.",
    ),
    room_claim(
        "many-examples",
        "Certified bounds hold the penalty of many weighed examples, under coins, products and blocks, and under "
        "normal noise; for four units of rates .1 to .5 within 8 % of it, for variances .25 and .1 within 1 %.",
        pair(entropy_checks.many_examples),
        ("penalties.penalty", "penalties.Certified"),
        f"{ENUMERATED} Normal noise by quadrature.",
    ),
    room_claim(
        "batched-runs",
        "Runs of a batch with steps and laws of their own, decay and frozen parts are those of torch's optimizers.",
        pair(run_checks.batched_runs),
        ("training.train", "training.Penalized"),
        "Beside loops with torch.optim.",
    ),
    room_claim(
        "guarded-runs",
        "Runs of a batch with seeds and laws of their own are those alone, balls hold, and who diverges is taken out.",
        pair(run_checks.guarded_runs),
        ("training.train", "training.MaxNorm"),
        "Beside runs alone.",
    ),
    room_claim(
        "resumed-runs",
        "A run that broke off goes on from its checkpoint as if it had not.",
        pair(run_checks.resumed_runs),
        ("training.train", "training.Checkpoint"),
        "Beside runs that did not break off.",
    ),
    room_claim(
        "trained-modules",
        "Steps of torch modules, plain, under masks and penalized, are those of automatic differentiation.",
        pair(descent_checks.trained_modules),
        ("training.train", "training.Penalized"),
        "By automatic differentiation.",
    ),
    room_claim(
        "trained-batches",
        "Steps of batches of factors at entries, and of attacked networks, are those of automatic differentiation.",
        pair(descent_checks.trained_batches),
        ("training.train", "training.Adversarial"),
        "By automatic differentiation.",
    ),
    room_claim(
        "trained-populations",
        "Exact steps of a deep network on moments are those over all masks, and it stops at the gap asked for.",
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
        "with noise; a classifier the mean of their softmax and its largest class. A step on weighted examples follows "
        "the weighted cross-entropy under the masks drawn.",
        pair(fitted_network_checks.fitted_estimators),
        ("training.DropoutRegressor", "training.DropoutClassifier"),
        ENUMERATED,
    ),
    room_claim(
        "planted-mistakes",
        "Each planted mistake is found at its place under its code, and a sound network has none of them.",
        pair(finding_checks.planted_mistakes),
        ("audits.audit",),
        "Twenty-two networks, five of them sound.",
    ),
    room_claim(
        "read-data",
        "Losses of data in every form, of tokens with shifted, smoothed and left-out labels too, are torch's own.",
        pair(audited_data_checks.read_data),
        ("audits.audit",),
        ENUMERATED,
    ),
    room_claim(
        "told-reports",
        "A report is what its JSON restores; its tables show its numbers, and the sums of its groups.",
        pair(report_checks.told_reports),
        ("audits.audit", "audits.Report"),
        WRITTEN,
    ),
    room_claim(
        "drawn-reports",
        "Pictures and pages of a report show its own numbers in their places.",
        pair(report_checks.drawn_reports),
        ("audits.audit",),
        WRITTEN,
    ),
    room_claim(
        "logged-reports",
        "Callbacks log the numbers of an audit at the epochs that were asked for.",
        pair(report_checks.logged_reports),
        ("audits.audit_numbers", "audits.lightning_callback", "audits.huggingface_callback"),
        WRITTEN,
    ),
    room_claim(
        "shared-draws",
        "Beyond the least number each, draws go to the sites that cost least to resolve, then where their spread is "
        "largest, within the budget; sites of few units have the penalties of all masks, and intervals of the training "
        "loss cover theirs.",
        pair(audited_data_checks.shared_draws),
        ("audits.audit",),
        f"{ENUMERATED} Intervals at 99.9999 %.",
    ),
    room_claim(
        "spread-of-predictions",
        "The spread of predictions under masks lies in its interval, which is sampled; shares of the head, and of the "
        "inputs to first order, are those of all masks.",
        pair(audited_data_checks.spread_of_predictions),
        ("audits.audit",),
        ENUMERATED,
    ),
    room_claim(
        "adapters",
        "Attacks that are called with images in [0, 1] end in the corner of ball and box that is worst for an affine "
        "score of two classes, or in the worst point of the sphere inside the box, or fool it on their way.",
        pair(search_checks.adapters),
        ("attacks.adapter.FGSM", "attacks.adapter.BIM", "attacks.adapter.PGD", "attacks.adapter.PGDL2"),
        WRITTEN,
    ),
    room_claim(
        "affine-ensembles",
        "Ensembles of attacks on affine models fool exactly those nearer than the radius, resumed runs too.",
        pair(search_checks.affine_ensembles),
        ("attacks.robust_accuracy", "attacks.attack", "attacks.standard_attacks"),
        "Distances to boundaries in the dual norm.",
    ),
    room_claim(
        "two-searches",
        "An adaptive search from the inputs says whom it fools and lowers no loss of the others; losses have the "
        "values and slopes of their formulas.",
        pair(search_checks.two_searches),
        ("attacks.losses.value_and_slope",),
        "By automatic differentiation.",
    ),
    room_claim(
        "random-modules",
        "Means over draws of a module are those of its passes, and doubts are told.",
        pair(search_checks.random_modules),
        ("attacks.Averaged", "attacks.attack"),
        WRITTEN,
    ),
    room_claim(
        "radii-and-leaks",
        "Errors by radius of affine classifiers are those of distances; the lowest scores that a search finds for "
        "leaky networks are those of the affine piece where nothing bends within the ball, and in the plane those over "
        "all directions.",
        pair(search_checks.radii_and_leaks),
        ("attacks.robustness_curve", "papers.thesis.leaky.smallest_score"),
        WRITTEN,
    ),
    room_claim(
        "masked-modules",
        "Means and variances of attention, recurrent layers and written modules under their own dropout are those "
        "over all masks.",
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
        "Scans that are stored give the same answer again, from files too, and none for another fit, layer or labels; "
        "a function of one's own trains copies.",
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
        "Scans of estimators are fits at each rate with losses of held-out examples; exact scans need no copies.",
        pair(module_checks.scanned_estimators),
        ("rates.tune_rates",),
        "Beside fits at each rate.",
    ),
    room_claim(
        "proximal-batches",
        "Proximal maps of squared k-support norms are least nearby, in batches too, with the slopes of differences.",
        pair(corner_checks.proximal_batches),
        ("linalg.k_support_shrink", "norms.k_support"),
        "By differences.",
    ),
    room_claim(
        "products-and-maps",
        "Products in blocks are sums, and maps given as arrays, sparse matrices and operators have one optimum.",
        pair(corner_checks.products_and_maps),
        ("optima.optimum_of_map",),
        WRITTEN,
    ),
    room_claim(
        "stated-bounds",
        "Bounds of completed matrices from models and data are the formulas of the theorem, constants included.",
        pair(corner_checks.stated_bounds),
        ("bounds.completion", "bounds.completion_alpha", "bounds.completion_constant"),
        WRITTEN,
    ),
    room_claim(
        "stated-network-bounds",
        "Bounds of two-layer networks from models and data are the formulas of the theorems, constants included.",
        pair(corner_checks.stated_network_bounds),
        ("bounds.relu", "bounds.rademacher", "bounds.relu_alpha", "bounds.data_norm"),
        WRITTEN,
    ),
    room_claim(
        "transformed-answers",
        "Penalties, criteria and proximal maps under torch.func, in batches and with derivatives, are those one by "
        "one.",
        pair(corner_checks.transformed_answers),
        ("penalties.criterion", "penalties.penalty", "linalg.k_support_shrink"),
        "One by one.",
    ),
    room_claim(
        "single-precision",
        "Envelopes in single precision lie within their error where nothing underflows, and certificates hold "
        "objective, bound and gap.",
        pair(corner_checks.single_precision),
        ("envelopes.envelope", "optima.certify"),
        "Beside double precision.",
    ),
    room_claim(
        "small-layers",
        "Layers drop weights as torch's dropout does, once or for each example; variances by rates of features are "
        "those of all masks.",
        pair(corner_checks.small_layers),
        ("layers.DropConnect", "layers.VarianceHead"),
        ENUMERATED,
    ),
    room_claim(
        "explicit-layers",
        "Explicit penalties of tokens, over elements and in half precision are means over all masks, bounds have the "
        "mean inside the logarithm, second orders the curvature; inputs pass unchanged, and eval mode has no penalty.",
        pair(corner_checks.explicit_layers),
        ("layers.ExplicitDropout",),
        ENUMERATED,
    ),
    room_claim(
        "passed-by",
        "Margins with a rate, examples that a bound needs, heads of weighed examples and nested layers are by formula.",
        pair(second_checks.passed_by),
        ("bounds.gate_margin", "bounds.linear_margin", "optima.optimal_head", "layers.explicit_penalty"),
        WRITTEN,
    ),
    room_claim(
        "looked-again",
        "Searches take every step, free training stays in its box, records have their names, spare layers are told.",
        pair(second_checks.looked_again),
        ("training.train", "training.Free", "audits.audit"),
        WRITTEN,
    ),
)
