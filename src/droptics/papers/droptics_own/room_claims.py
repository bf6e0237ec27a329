"""Claims on what no paper speaks of, room by room: each runs the library against sums that are written out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from droptics.evidence.claims import Check, Claim, Comparison
from droptics.papers.droptics_own import (
    asked_ranker_checks,
    audit_checks,
    ball_checks,
    data_penalty_checks,
    edge_checks,
    moment_checks,
    more_room_checks,
    random_number_checks,
    ranker_checks,
    saddle_checks,
    small_room_checks,
    step_checks,
    tuning_checks,
)


def room_claim(
    name: str, statement: str, pair: tuple[Check, Check], objects: tuple[str, ...], note: str = "Written out."
) -> Claim:
    """A claim of our own on an instrument."""
    check, control = pair
    return Claim(f"droptics-{name}", "droptics, instruments", statement, "holds", check, control, objects, note=note)


def pair(check: Callable[[float], list[Comparison]], factor: float = 1.1) -> tuple[Check, Check]:
    """A check, and its control with the truth multiplied by a factor."""
    return partial(check, 1.0), partial(check, factor)


ENUMERATED = "By enumeration of all masks."
CLAIMS: tuple[Claim, ...] = (
    room_claim(
        "audited-head",
        "What an audit says of dropout before the last layer of a regression (penalty, other rates, training loss, "
        "certificate, flows, spectrum, leave-one-out errors, variance) is what all masks give.",
        (partial(audit_checks.audited_head, 1.0), partial(audit_checks.audited_head, 1.1)),
        ("audits.audit",),
        ENUMERATED,
    ),
    room_claim(
        "audited-sites",
        "Penalties of two sites of a classifier, alone and together, lie in the intervals of its audit; those of a "
        "linear chain are exact.",
        (partial(audit_checks.audited_sites, 1.0), partial(audit_checks.audited_sites, 1.2)),
        ("audits.audit",),
        f"{ENUMERATED} Intervals of 99 %, at fixed seeds.",
    ),
    room_claim(
        "audited-paths",
        "Two blocks that are left out at rates above 0, with one coin an example: what they add to a loss that audits "
        "have for every example, alone and together, is the sum over all outcomes, where no example looks at another "
        "and the first pass keeps each block once; to a loss of whole batches it is drawn, with an interval that holds "
        "the sum.",
        (partial(audit_checks.audited_paths, 1.0), partial(audit_checks.audited_paths, 1.1)),
        ("audits.audit",),
        f"{ENUMERATED} Rates .2 and .35, intervals of 99 % at fixed seeds.",
    ),
    room_claim(
        "module-moments",
        "Mean, covariance and class probabilities of torch modules under their own dropout are those over all masks; "
        "sampled ones cover them, and the first order has the slopes in the masks.",
        (partial(moment_checks.module_moments, 1.0), partial(moment_checks.module_moments, 1.1)),
        ("predictions.predictive",),
        ENUMERATED,
    ),
    room_claim(
        "network-moments",
        "Sampled means and variances of ReLU networks, with listed, stratified and main-effect controls, cover those "
        "over all masks.",
        (partial(moment_checks.network_moments, 1.0), partial(moment_checks.network_moments, 1.1)),
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
        "Sixteen or more masks of a site where it is possible that no unit falls (a chance above 0 in float64), "
        "stratified by how many do: chances, sizes, weighed means and their variance are by definition.",
        (partial(moment_checks.strata, 1.0), partial(moment_checks.strata, 1.1)),
        ("predictions.strata.allocate", "predictions.strata.draw_counted"),
        ENUMERATED,
    ),
    room_claim(
        "observations",
        "Densities, intervals, scores and calibration of observations around masked predictions, and the noise of the "
        "largest likelihood, are those of the mixture over all masks.",
        (partial(moment_checks.observations, 1.0), partial(moment_checks.observations, 1.05)),
        ("predictions.calibration", "predictions.conformal_factor", "predictions.fit_noise"),
        ENUMERATED,
    ),
    room_claim(
        "autoencoders",
        "Weights of linear autoencoders under dropout solve their normal equations, column by column; a user, and one "
        "of her items, left out without a refit are as after a refit with the same regularizers.",
        (partial(ranker_checks.autoencoders, 1.0), partial(ranker_checks.autoencoders, 1.05)),
        ("recommenders.DropoutAutoencoder",),
        "By systems solved one by one.",
    ),
    room_claim(
        "neighbors",
        "A bounded diagonal, weights on the items that occur most often together, and sums of rankers are those of "
        "systems solved item by item.",
        (partial(ranker_checks.neighbors, 1.0), partial(ranker_checks.neighbors, 1.05)),
        ("recommenders.DropoutAutoencoder", "recommenders.LocalAutoencoder", "recommenders.StackedRanker"),
        "By systems solved one by one.",
    ),
    room_claim(
        "kernel-regressions",
        "Predictions and leave-one-out errors of row-wise regressions with a kernel between columns are those of the "
        "systems of the rows.",
        (partial(ranker_checks.kernel_regressions, 1.0), partial(ranker_checks.kernel_regressions, 1.05)),
        ("recommenders.AutoencoderCompletion",),
        "By systems solved one by one.",
    ),
    room_claim(
        "completion-rows",
        "New users, smoothed shares, spreads, diagnoses and rows over all cells are those of the systems of the rows, "
        "by every solver.",
        (partial(ranker_checks.rows_of_completions, 1.0), partial(ranker_checks.rows_of_completions, 1.05)),
        ("recommenders.DropoutCompletion", "recommenders.diagnose", "recommenders.ImplicitDropoutCompletion"),
        "By systems solved one by one.",
    ),
    room_claim(
        "blends",
        "Weights of a stack are the least squares fit to held-out ratings; every metric of a ranking is its "
        "definition.",
        (partial(ranker_checks.blends, 1.0), partial(ranker_checks.blends, 1.05)),
        ("recommenders.StackedCompletion", "recommenders.ranking"),
    ),
    room_claim(
        "head-rates",
        "Losses of a trained head at every rate, on validation data and with each example left out, are those of "
        "refits; the answer is their minimum.",
        (partial(tuning_checks.head_rates, 1.0), partial(tuning_checks.head_rates, 1.1)),
        ("rates.tune_rates",),
        "By refits.",
    ),
    room_claim(
        "stationary-rates",
        "The squared training loss of linear chains and affine tails is that over all masks, the fit is stationary, "
        "and the effect of a rate, per unit of its log-odds, is the difference of held-out losses of fits beside it.",
        (partial(tuning_checks.stationary, 1.0), partial(tuning_checks.stationary, 1.05)),
        ("rates.chains.chain_scan", "rates.tails.tail_scan"),
        ENUMERATED,
    ),
    room_claim(
        "copies",
        "Copies without masks train as torch.optim does, alone and together, and stand for their best look or the mean "
        "of the last; under masks those together are those alone.",
        (partial(tuning_checks.copies, 1.0), partial(tuning_checks.copies, 1.1)),
        ("rates.copies.train_copies",),
        "Beside loops with torch.optim.",
    ),
    room_claim(
        "conclusions",
        "Paired differences of losses, verdicts, splits and the share of the generalization gap are by definition.",
        (partial(tuning_checks.conclusions, 1.0), partial(tuning_checks.conclusions, 1.1)),
        ("rates.verdicts.compare", "rates.verdicts.judge", "rates.points.gap_of"),
    ),
    room_claim(
        "schedules",
        "Step sizes over time, of training and of attacks, are their formulas.",
        (partial(step_checks.schedules, 1.0), partial(step_checks.schedules, 1.1)),
        ("training.Inverse", "training.Cosine", "training.Staircase", "training.log_steps"),
    ),
    room_claim(
        "random-numbers",
        "Counted random numbers are Philox 4x32-10; masks, choices and fresh examples have the rates, weights "
        "and second moments that they should.",
        (partial(random_number_checks.random_numbers, 1.0), partial(random_number_checks.random_numbers, 1.1)),
        ("training.philox.bits", "training.random_numbers.Counted"),
        "Three published answers, and whole numbers; frequencies within five standard errors.",
    ),
    room_claim(
        "engines",
        "Every engine of the processor takes the step of the masked loss, tied and untied; exact gradients are those "
        "of the mean over all masks; records are their definitions.",
        (partial(step_checks.engine_steps, 1.0), partial(step_checks.engine_steps, 1.1)),
        ("training.train", "training.Recording"),
        ENUMERATED,
    ),
    room_claim(
        "hardened",
        "Adversarial and free training step along the gradient at attacked inputs; the probabilities of a small "
        "classifier are means over all masks, and it predicts the most probable class.",
        (partial(step_checks.hardened, 1.0), partial(step_checks.hardened, 1.1)),
        ("training.Adversarial", "training.Free", "training.DropoutClassifier"),
        "By automatic differentiation.",
    ),
    room_claim(
        "threats",
        "Projections onto balls within boxes are nearest points; steps to a boundary, in a box or not, the shortest.",
        (partial(ball_checks.threats, 1.0), partial(ball_checks.threats, 0.95)),
        ("attacks.Threat",),
    ),
    room_claim(
        "averaged",
        "Mean predictions over at most 1024 masks are sums over all of them, of a linear score in closed form; curves "
        "over radii of affine classifiers are those of their smallest margins.",
        (partial(step_checks.averaged, 1.0), partial(step_checks.averaged, 1.1)),
        ("attacks.Averaged", "attacks.robustness_curve"),
        ENUMERATED,
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
        ("penalties.penalty", "penalties.criterion"),
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
        ("layers.DropBlock", "layers.explicit_penalty", "layers.explicit_consistency"),
        "By counting.",
    ),
    room_claim(
        "units-of-networks",
        "Flows and what follows from them, sub-networks by width and exported modules are their definitions.",
        (partial(small_room_checks.units_of_networks, 1.0), partial(small_room_checks.units_of_networks, 1.1)),
        ("coadaptation.flows", "coadaptation.smallest"),
    ),
    room_claim(
        "attack-losses",
        "Losses of attacks and their slopes in the outputs, aimed at a class or not, are their definitions.",
        (partial(ball_checks.attack_losses, 1.0), partial(ball_checks.attack_losses, 1.1)),
        ("attacks.Dlr", "attacks.losses.value_and_slope"),
        "By automatic differentiation.",
    ),
    room_claim(
        "data-penalties",
        "Penalties of factorizations on entries and measurements and of two layers on moments are means over all masks "
        "minus the risk, under coins, blocks, sliding blocks and lists; moments of batches are those of all examples.",
        pair(data_penalty_checks.penalties_of_data),
        ("penalties.penalty", "penalties.risk", "data.Entries", "data.Measurements", "data.Moments"),
        f"{ENUMERATED} Draws within five standard errors, at fixed seeds.",
    ),
    room_claim(
        "saddles",
        "Balance, imbalance, gaps by order and escapes from saddles are their definitions.",
        (partial(saddle_checks.saddles, 1.0), partial(saddle_checks.saddles, 1.1)),
        ("equalization.balance", "equalization.imbalance", "equalization.order_gaps", "landscapes.escape"),
        "Written out.",
    ),
    room_claim(
        "trained-rates",
        "The points of a scan, a design, a path and a guard are means over seeds of copies trained one by one, on the "
        "examples that choose or judge; effects of sites are contrasts of the design, and rates are set.",
        (partial(more_room_checks.trained_rates, 1.0), partial(more_room_checks.trained_rates, 1.1)),
        ("rates.tune_rates",),
        "Beside copies trained alone.",
    ),
    room_claim(
        "wide-laws",
        "Moments, bands, bounds and draws of every law are those of its list; wide ones agree with narrow ones.",
        (partial(more_room_checks.wide_laws, 1.0), partial(more_room_checks.wide_laws, 1.1)),
        ("masks.SlidingBlock", "masks.Discrete", "masks.Product", "masks.Block"),
        ENUMERATED,
    ),
    room_claim(
        "large-heads",
        "Classes of large heads are those over all masks, to two hundredths where logits are nearly normal and within "
        "five standard errors where masks are drawn; densities of listed masks and gradients of penalties are theirs.",
        (partial(more_room_checks.large_heads, 1.0), partial(more_room_checks.large_heads, 1.05)),
        ("predictions.predictive", "penalties.penalty"),
        ENUMERATED,
    ),
    room_claim(
        "searched-optima",
        "Optima of correlated masks and of entries are what a search gives, and their bounds lie below.",
        (partial(more_room_checks.searched_optima, 1.0), partial(more_room_checks.searched_optima, 1.1)),
        ("optima.optimum",),
        "By L-BFGS from several starts.",
    ),
    room_claim(
        "solved-heads",
        "Heads solve their system, certificates follow from the spectrum of the targets, proximal maps are least.",
        (partial(more_room_checks.solved_heads, 1.0), partial(more_room_checks.solved_heads, 1.1)),
        ("optima.certify", "linalg.k_support_shrink"),
        "By systems solved one by one.",
    ),
    room_claim(
        "asked-rankers",
        "Recommendations, evaluations and chosen rates of recommenders follow from their scores.",
        (partial(asked_ranker_checks.asked_rankers, 1.0), partial(asked_ranker_checks.asked_rankers, 1.05)),
        ("recommenders.DropoutAutoencoder", "recommenders.DropoutCompletion", "recommenders.DropoutCompletionCV"),
        "Written out.",
    ),
    room_claim(
        "audited-tails",
        "Audits of affine tails are exact, intervals of drawn sites cover the truth at their confidence, and unfused "
        "attention and LSTM layers are torch's own.",
        (partial(more_room_checks.audited_tails, 1.0), partial(more_room_checks.audited_tails, 1.1)),
        ("audits.audit",),
        ENUMERATED,
    ),
    room_claim(
        "random-networks",
        "The robust accuracy of a linear score that stays random is that of its mean; the optimum of measurements of "
        "every entry is what a search gives.",
        (partial(more_room_checks.random_networks, 1.0), partial(more_room_checks.random_networks, 1.3)),
        ("attacks.robust_accuracy", "attacks.Averaged", "optima.optimum"),
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
        "Small squares reach every pixel but those of the last of several rows or columns, escapes take the better "
        "way, tall and flat maps have their own optimum.",
        (partial(edge_checks.far_corners, 1.0), partial(edge_checks.far_corners, 0.9)),
        ("attacks.Square", "landscapes.escape", "optima.optimum_of_map", "linalg.equalize_columns_"),
        "Written out.",
    ),
    room_claim(
        "stacked-sites",
        "Two sites on one layer multiply, sub-networks are rescaled, bounds hold at large margins.",
        (partial(edge_checks.stacked_sites, 1.0), partial(edge_checks.stacked_sites, 1.1)),
        ("audits.audit", "penalties.penalty", "heads.projection.variable_projection"),
        ENUMERATED,
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
)
