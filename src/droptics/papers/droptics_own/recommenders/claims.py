"""Claims on recommenders."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers import runs
from droptics.papers.droptics_own.instruments import PROVED, WRITTEN, pair, room_claim
from droptics.papers.droptics_own.recommenders import (
    answer_checks,
    asked_checks,
    blend_checks,
    block_checks,
    cluster_checks,
    continued_checks,
    held_out_checks,
    penalty_checks,
    ranker_checks,
    rating_checks,
    read_rating_checks,
    swept_checks,
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "droptics-als-wr",
        "droptics, on thesis-prop4",
        "A solution X != 0 of weighted-lambda ALS of strength mu and width d solves expected dropout in matrix "
        "completion at lam = mu d/||diag(p)^1/2 X diag(q)^1/2||_*, p and q the shares of the ratings that rows and "
        "columns have, and conversely where the rank of X is below d.",
        check=partial(runs.weighted_ridge, 1.0),
        control=partial(runs.weighted_ridge, 1.1),
        objects=("recommenders.DropoutCompletion", "recommenders.RidgeCompletion"),
        note=PROVED + " Both fits by alternating least squares on the same ratings, from the same start.",
    ),
    Claim(
        "droptics-autoencoder",
        "droptics",
        "Dropout on the inputs of a linear autoencoder X W of squared loss with ridge lam >= 0, averaged over all "
        "masks, is a ridge of strength rho D_k + lam on row k, D the diagonal of G = X^T X; where C = (G + "
        "diag(rho D + lam))^-1 exists, W = I - C diag(sigma) minimizes it with sigma = rho D + lam, and the mean "
        "losses of each input where it is dropped, plus the ridge, with sigma = 1 / diag(C), whose W has a zero "
        "diagonal.",
        check=partial(penalty_checks.input_dropout, 1.0),
        control=partial(penalty_checks.input_dropout, 1.01),
        objects=("recommenders.DropoutAutoencoder",),
        note=PROVED
        + " rho = drop / (1 - drop). On dropped inputs the diagonal never enters: (1 - z) z = 0. Summed over all masks "
        "instead, their losses need the ridge drop lam.",
    ),
    Claim(
        "droptics-frequency-ridge",
        "droptics, on thesis-prop4",
        "Minimizers of expected dropout on the factors of implicit ALS, units rescaled so that both sides weigh alike, "
        "are critical points under the ridge scaled by frequency, lam (sum_u a_u |w_u|^2 + sum_i b_i |h_i|^2), at "
        "lam = rho ||diag(a)^1/2 W H^T diag(b)^1/2||_* / (d N).",
        check=partial(penalty_checks.frequency_ridge, 1.0),
        control=partial(penalty_checks.frequency_ridge, 1.05),
        objects=("recommenders.ImplicitDropoutCompletion",),
        note=PROVED
        + " a and b are the sums of the weights [observed] + alpha of users and items, N their total, rho = drop / "
        "(1 - drop). Minimizers equalize the d products (sum_u a_u w_uk^2)(sum_i b_i h_ik^2); rescaled so that both "
        "factors of each are q, the row systems of the two penalties agree at lam = rho q / N, and d q is the norm.",
    ),
    Claim(
        "droptics-completion",
        "droptics, thesis-prop3 and thesis-prop4 as solved",
        "Without biases and smoothing, alternating least squares ends where every row and column solves (G + lam "
        "diag G) u = V^T y (empirical) or (G + lam n_i diag s) u = V^T y (expected): lam = (1-theta)/theta, V and y "
        "those of its n_i ratings less the mean, s the mean of v^2 over all ratings; dropout SGD multiplies "
        "every factor of a rating by 0 or 1/theta, by 0 with chance 1 - theta.",
        check=lambda: [*runs.completion_systems(lambda drop: drop / (1 - drop)), *runs.completion_masks(1.0)],
        control=lambda: [*runs.completion_systems(lambda drop: drop), *runs.completion_masks(0.5)],
        objects=("recommenders.DropoutCompletion",),
        note=PROVED,
    ),
    room_claim(
        "ratings-in-full",
        "Ratings from arrays, tables, entries, sparse matrices, chunks and files, on disk or not, ids that are numbers "
        "or text, Gram matrices that grow, lists, held-out users, diagnoses and paths of rates are by definition.",
        pair(read_rating_checks.ratings_in_full),
        (
            "recommenders.DropoutCompletion",
            "recommenders.DropoutCompletionCV",
            "recommenders.diagnose",
            "recommenders.hold_out_users",
            "recommenders.ranking",
            "datasets.read_chunks",
            "recommenders.default_drop",
        ),
    ),
    room_claim(
        "workers",
        "Completions and autoencoders that workers fit to one file or to several, and completions to ratings sent to "
        "them, are those of one machine.",
        pair(cluster_checks.workers),
        ("recommenders.DropoutCompletion", "recommenders.RidgeCompletion", "recommenders.DropoutAutoencoder"),
        "Beside fits in one process.",
    ),
    room_claim(
        "continued-completions",
        "Ratings that come later are solved for row by row, the users whom they touch by all that is known of them and "
        "the items that were known, then new items by these ratings alone, and change nothing else; a warm start "
        "begins from the last factors of known ids; a sweep says the error and the mean objective of its factors, with "
        "ridges, too, in any unit of the ratings, and the first that lowers this by less than the tolerance times its "
        "value is the last; predictions beyond what the ratings bound are said.",
        pair(continued_checks.continued, 1.05),
        ("recommenders.DropoutCompletion", "recommenders.RidgeCompletion"),
        "By systems solved one by one.",
    ),
    room_claim(
        "saved-models",
        "Completions that were saved and loaded predict, recommend and go on as before, from checkpoints too; files of "
        "other classes, of other arrays and of none are refused by all models, rankers included.",
        pair(rating_checks.saved_models),
        (
            "recommenders.DropoutCompletion",
            "recommenders.RidgeCompletion",
            "recommenders.AutoencoderCompletion",
            "recommenders.DropoutAutoencoder",
            "recommenders.ImplicitDropoutCompletion",
        ),
        "Beside the model that was saved.",
    ),
    room_claim(
        "saved-rankers",
        "Rankers that were saved and loaded score, recommend, new users too, and, where they are autoencoders, explain "
        "as before, whether options are numbers of Python or NumPy and whether or not they changed since the fit.",
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
        "Ids of every kind are those of their text; every source holds the same ratings; the rate by default follows "
        "its rule; along a path every fit begins where the last one ended, the chosen width and rate have the least "
        "error on held-out ratings, and answers are those of a fit to all at these.",
        pair(rating_checks.named_ids),
        ("recommenders.DropoutCompletionCV", "recommenders.default_drop"),
        WRITTEN,
    ),
    room_claim(
        "bias-steps",
        "Stochastic steps of a completion are gradient steps of the mean squared error of a batch under inverted "
        "dropout of the factors, a mask for each rating, with a ridge on the biases; every epoch tells the error "
        "without masks and the expected objective, in the unit of the ratings.",
        pair(rating_checks.bias_steps),
        ("recommenders.sgd.descend",),
        "By automatic differentiation, from the same draws.",
    ),
    room_claim(
        "autoencoders",
        "Weights of linear autoencoders under dropout, their diagonal free, zero or bounded, solve their normal "
        "equations, column by column, by all eigenvectors and in two parts, too, for marks and for grades; few "
        "eigenvectors leave off no more than they say; parts of a score are its terms, the largest first; a user, and "
        "one of her items, left out are as after a refit with the same regularizers; less memory than the array over "
        "the items needs is refused.",
        (partial(ranker_checks.autoencoders, 1.0), partial(ranker_checks.autoencoders, 1.05)),
        ("recommenders.DropoutAutoencoder",),
        "By systems solved one by one.",
    ),
    room_claim(
        "neighbors",
        "A bounded diagonal, weights on the items of largest products with an item, and sums of rankers are those of "
        "systems solved item by item; the chosen rate and ridge have the largest gain of a grid and of "
        "neighbors at half its step.",
        (partial(ranker_checks.neighbors, 1.0), partial(ranker_checks.neighbors, 1.05)),
        ("recommenders.DropoutAutoencoder", "recommenders.LocalAutoencoder", "recommenders.StackedRanker"),
        "By systems solved one by one.",
    ),
    room_claim(
        "kernel-regressions",
        "Predictions and leave-one-out errors of row-wise regressions with a kernel between columns are those of the "
        "systems of the rows; the constants that are chosen have the least error of those tried.",
        (partial(ranker_checks.kernel_regressions, 1.0), partial(ranker_checks.kernel_regressions, 1.05)),
        ("recommenders.AutoencoderCompletion",),
        "By systems solved one by one.",
    ),
    room_claim(
        "completion-rows",
        "New users, smoothed shares, spreads, and diagnoses under every penalty are those of the systems of the rows, "
        "solved exactly or with a conjugate-gradient step for each unknown, compiled or batched, which agree after "
        "fewer steps, too; so are rows and items over all cells under both penalties, for marks and for grades.",
        (partial(ranker_checks.rows_of_completions, 1.0), partial(ranker_checks.rows_of_completions, 1.05)),
        ("recommenders.DropoutCompletion", "recommenders.diagnose", "recommenders.ImplicitDropoutCompletion"),
        "By systems solved one by one.",
    ),
    room_claim(
        "many-rows",
        "Sums, warnings, predictions, users left out, orders of ratings, and half-sweeps over rows of hundreds of "
        "ratings, by several threads, too, are those of all rows where only some are worked on at a time; so are row "
        "systems of every width, in both precisions.",
        pair(block_checks.many_rows, 1.05),
        ("recommenders.DropoutCompletion", "recommenders.DropoutAutoencoder"),
        "By systems solved one by one.",
    ),
    room_claim(
        "blends",
        "Weights of a stack are the least squares fit to held-out ratings, with the ridge of days that has the least "
        "error of four; every metric of a ranking is its definition.",
        (partial(blend_checks.blends, 1.0), partial(blend_checks.blends, 1.05)),
        ("recommenders.StackedCompletion", "recommenders.ranking"),
    ),
    room_claim(
        "asked-rankers",
        "Recommendations and evaluations of recommenders follow from their scores, by the definition of every metric, "
        "and those to strangers, where every interaction counts one, from the numbers of users who know an item; "
        "of the widths and rates tried, those of the least error on held-out ratings are chosen.",
        (partial(asked_checks.asked_rankers, 1.0), partial(asked_checks.asked_rankers, 1.05)),
        (
            "recommenders.DropoutAutoencoder",
            "recommenders.DropoutCompletion",
            "recommenders.DropoutCompletionCV",
            "recommenders.ImplicitDropoutCompletion",
            "recommenders.LocalAutoencoder",
            "recommenders.StackedRanker",
            "recommenders.hold_out_users",
        ),
        "Written out.",
    ),
    room_claim(
        "ratings-answered",
        "Predictions, errors with and without times, recommendations, clipping, unknown ids, ids of every kind, "
        "parameters and means of days are by definition.",
        pair(answer_checks.answered_ratings),
        (
            "datasets.Ratings",
            "recommenders.StackedCompletion",
            "recommenders.DropoutCompletion",
            "recommenders.RidgeCompletion",
            "recommenders.AutoencoderCompletion",
        ),
        "On a model whose ratings are a table; unknown ids on fitted ones, too, which know the mean and a bias.",
    ),
    room_claim(
        "worked-elsewhere",
        "Half-sweeps on a device solve the normal equations of every row and reach the sums that they say; passes are "
        "counted where they are made; clusters are asked at their port; intervals count rounding.",
        pair(swept_checks.worked_elsewhere),
        ("penalties.penalty",),
        "By a solver, row by row; calls that somebody takes.",
    ),
    Claim(
        "droptics-held-out",
        "droptics, how recommendations are judged",
        "Users held out keep a known and a hidden rating, every rating stands in one part; the gain of rank r is "
        "1/log2(r + 1).",
        check=partial(held_out_checks.held_out, 1),
        control=partial(held_out_checks.held_out, 2),
        objects=("recommenders.hold_out_users", "recommenders.ranking"),
        note="Counted.",
    ),
)
