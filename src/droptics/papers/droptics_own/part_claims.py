"""Claims on the parts of layers, rates, attacks and audits: each beside loops, solvers or numbers that are given."""

from __future__ import annotations

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own import (
    ascent_checks,
    audit_part_checks,
    audit_word_checks,
    fitted_field_checks,
    form_checks,
    further_checks,
    layer_checks,
    limit_checks,
    mask_kind_checks,
    option_checks,
    rate_answer_checks,
    refusal_checks,
    robustness_checks,
    setting_checks,
    threat_checks,
)
from droptics.papers.droptics_own.room_claims import ENUMERATED, pair, room_claim

WRITTEN = "Written out."
CLAIMS: tuple[Claim, ...] = (
    room_claim(
        "placed-blocks",
        "Seeds, realized rates and outputs of DropBlock in every setting are those of blocks placed one by one, and "
        "presets, tables and settings in words are what they say.",
        pair(layer_checks.placed_blocks),
        ("layers.DropBlock", "layers.realized_rates", "layers.DropConnect"),
        "By loops over blocks.",
    ),
    room_claim(
        "adapted-heads",
        "The penalty of the branch of a LoRA layer, and of the tokens that have labels, is what the squared loss rises "
        "by over all masks; of cross-entropy a bound, the second order, or on average the draws.",
        pair(layer_checks.adapted_heads),
        ("layers.ExplicitDropout", "layers.explicit_penalty", "layers.explicit_consistency"),
        f"{ENUMERATED} Drawn numbers within five standard errors.",
    ),
    room_claim(
        "divided-rates",
        "On losses that are known a tied rate is divided as its design, effects, path, surest step and guard say.",
        pair(rate_answer_checks.divided_rates),
        ("rates.two_level", "rates.verdicts.judge", "rates.splits.no_split"),
        WRITTEN,
    ),
    room_claim(
        "told-answers",
        "Tuned rates as dictionaries, JSON, files and words hold what they are made of, and are put where rates live.",
        pair(rate_answer_checks.told_answers),
        ("rates.Rates", "rates.Fit", "rates.places.set_rates"),
        WRITTEN,
    ),
    room_claim(
        "masked-kinds",
        "Shared masks of attention, of channels and of layers that draw themselves are those of their uniform numbers.",
        pair(mask_kind_checks.masked_kinds),
        ("rates.masking.SharedMasks",),
        "Beside torch's own layers.",
    ),
    room_claim(
        "reachable-points",
        "Projections, largest linear functions and shortest rises of every threat, with a box and without, are those "
        "of a solver; random points lie inside, without a box around the inputs and as far as uniform ones on average.",
        pair(threat_checks.reachable_points),
        ("attacks.Threat", "attacks.perturb", "attacks.adapter.BIM"),
        "Beside scipy.optimize.",
    ),
    room_claim(
        "adaptive-steps",
        "Ascents with momentum, attacks on leaky networks, training under them and their floors go step by step as "
        "their formulas.",
        pair(ascent_checks.adaptive_steps),
        ("attacks.Apgd", "attacks.Threat"),
        "By automatic differentiation.",
    ),
    room_claim(
        "told-robustness",
        "Results of ensembles as dictionaries, JSON, tables and pages hold their numbers.",
        pair(robustness_checks.told_robustness),
        ("attacks.Robustness",),
        WRITTEN,
    ),
    room_claim(
        "merged-shards",
        "Means with their intervals, heads, chains and units of two shards are those of all examples.",
        pair(audit_part_checks.merged_shards),
        ("audits.tallies.Mean", "audits.heads.Head", "audits.heads.Chain", "audits.units.UnitTally"),
        ENUMERATED,
    ),
    room_claim(
        "judged-masks",
        "Shares of zeros and whether they are no accident (a chance below 1e-4 by a binomial test, by Student's, or by "
        "Markov's inequality where all shares are alike and more than a unit off), gains of other rates and "
        "spreads of outputs are those of tests and refits by hand.",
        pair(audit_part_checks.judged_masks),
        ("audits.passes.differs", "audits.passes.coins", "audits.audit"),
        "Beside scipy.stats.",
    ),
    room_claim(
        "advised-findings",
        "Each piece of advice on a report is given on one side of its number and not on the other, with its numbers "
        "in words.",
        pair(audit_part_checks.advised_findings),
        ("audits.findings.remarks", "audits.lightning_callback", "audits.huggingface_callback"),
        WRITTEN,
    ),
    room_claim(
        "worded-reports",
        "Names, numbers, groups and tables of a report stand within every width of 40 letters or more, but for words "
        "that are longer, which stay whole, and curves where one map puts them.",
        pair(audit_word_checks.worded_reports),
        ("audits.summary.terminal_text", "audits.drawing.curves", "audits.labels.compact"),
        WRITTEN,
    ),
    room_claim(
        "refused-arguments",
        "Wrong arguments, some of each of training, layers, attacks, predictions, rates and recommenders, end in an "
        "error that names them, and so do checkpoints of another width or of other ratings. Inverses by blocks are "
        "inverses, uniform numbers lie in the middles of their cells, and a ranker with a threshold is that of the "
        "ratings from it on.",
        pair(refusal_checks.refused_arguments),
        ("training.train", "attacks.perturb", "recommenders.DropoutCompletion", "recommenders.LocalAutoencoder"),
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
        ),
        "Beside copies trained one by one, derivatives of the objective and the same numbers given otherwise.",
    ),
    room_claim(
        "ways-of-large-problems",
        "Chunks of examples, sums over outcomes instead of masks, logits of few masks, audits on several ranks, losses "
        "of large outputs, inverses by many blocks and singular rows give what the plain way gives.",
        pair(further_checks.taken_here),
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
)
