"""Claims on branches that the other claims pass by: options, files, long sums, reports, batches of runs."""

from __future__ import annotations

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own import rating_checks, report_checks, run_checks, sum_checks
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
        "A stochastic step of a completion is that of the mean squared error with a ridge on the biases.",
        pair(rating_checks.bias_steps),
        ("recommenders.sgd.descend",),
        "By automatic differentiation.",
    ),
    room_claim(
        "long-sums",
        "Criteria of ReLU networks, their gradients and their rounding are those of all masks, where outcomes are "
        "sorted, listed, blocked, repeated or batched.",
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
        "Costs of exact criteria are numbers of outcomes, and the method that is chosen is the most exact.",
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
        "What single precision leaves in penalties and criteria lies within the errors told, for every family and law.",
        pair(sum_checks.rounding_errors),
        ("penalties.penalty", "penalties.criterion", "penalties.unit_gram", "penalties.unit_energies"),
        "Beside double precision.",
    ),
    room_claim(
        "many-examples",
        "Certified bounds of many weighed examples, of products and of normal noise hold the penalty and are narrow.",
        pair(sum_checks.many_examples),
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
        pair(run_checks.trained_modules),
        ("training.train", "training.Penalized"),
        "By automatic differentiation.",
    ),
    room_claim(
        "trained-batches",
        "Steps of batches of factors at entries, and of attacked networks, are those of automatic differentiation.",
        pair(run_checks.trained_batches),
        ("training.train", "training.Adversarial"),
        "By automatic differentiation.",
    ),
    room_claim(
        "trained-populations",
        "Exact steps of a deep network on moments are those over all masks, and it stops at the gap asked for.",
        pair(run_checks.trained_populations),
        ("training.train", "training.Penalized"),
        ENUMERATED,
    ),
    room_claim(
        "small-networks",
        "The networks of the figures are their layers one after the other, with weights of the stated variance.",
        pair(run_checks.small_networks),
        ("training.SmallCnn", "training.ResNet"),
        WRITTEN,
    ),
    room_claim(
        "fitted-estimators",
        "A fitted regressor predicts mean, spread, quantiles and log densities of all masked networks with noise.",
        pair(run_checks.fitted_estimators),
        ("training.DropoutRegressor", "training.DropoutClassifier"),
        ENUMERATED,
    ),
    room_claim(
        "planted-mistakes",
        "Each planted mistake is found at its place under its code, and a sound network has none of them.",
        pair(report_checks.planted_mistakes),
        ("audits.audit",),
        "Twenty-two networks, five of them sound.",
    ),
    room_claim(
        "read-data",
        "Losses of data in every form, of tokens with shifted, smoothed and left-out labels too, are torch's own.",
        pair(report_checks.read_data),
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
        "Draws go where their spread is largest within the budget, and intervals cover what all masks give.",
        pair(report_checks.shared_draws),
        ("audits.audit",),
        f"{ENUMERATED} Intervals at 99.9999 %.",
    ),
    room_claim(
        "spread-of-predictions",
        "The spread of predictions under masks, and the share of the inputs in it, are those of all masks.",
        pair(report_checks.spread_of_predictions),
        ("audits.audit",),
        ENUMERATED,
    ),
)
