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
        "Every row and column rated, p and q their shares of the ratings: the product X != 0 of a minimizer of "
        "weighted-lambda ALS, the mean squared error plus mu (sum_i p_i |u_i|^2 + sum_j q_j |v_j|^2) of width d, is "
        "also that of one of expected dropout in matrix completion, the mean squared error plus lam sum_k (sum_i p_i "
        "u_ik^2)(sum_j q_j v_jk^2), at lam = mu d/||diag(p)^1/2 X diag(q)^1/2||_*, and conversely where the rank of "
        "X is below d.",
        check=partial(runs.weighted_ridge, 1.0),
        control=partial(runs.weighted_ridge, 1.1),
        objects=("recommenders.DropoutCompletion", "recommenders.RidgeCompletion"),
        note=PROVED + " Both fits by alternating least squares on the same ratings, from the same start.",
    ),
    Claim(
        "droptics-autoencoder",
        "droptics",
        "Dropout on the inputs of a linear autoencoder X W of squared loss with ridge lam >= 0, averaged over all "
        "masks, is a ridge of strength rho D_k + lam on row k, D the diagonal of G = X^T X; where C = (G + diag(rho "
        "D + lam))^-1 exists, W = I - C diag(sigma) minimizes it with sigma = rho D + lam, and the losses of each "
        "input where it is dropped, averaged over the coins of the others, plus the ridge, with sigma = 1 / diag(C), "
        "whose W has a zero diagonal.",
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
        note="Proved. The loss is sum_observed (1 - w_u^T h_i)^2 + alpha sum_ui (w_u^T h_i)^2, a and b are the sums of "
        "the weights [observed] + alpha of users and items, N their total, rho = drop / (1 - drop). Minimizers "
        "equalize the d products (sum_u a_u w_uk^2)(sum_i b_i h_ik^2), whose sum times rho / N is the penalty; "
        "rescaled so that both factors of each are q, the row systems of the two penalties agree at lam = rho q / "
        "N, and d q is the norm.",
    ),
    Claim(
        "droptics-completion",
        "droptics, thesis-prop3 and thesis-prop4 as solved",
        "Where alternating least squares without biases and smoothing stands still, every row and column solves (G + "
        "lam diag G) u = V^T y (empirical) or (G + lam n_i diag s) u = V^T y (expected): lam = (1-theta)/theta, G = "
        "V^T V, V the factors and y the values, less the mean, of its n_i ratings, s the mean of v^2 over all "
        "ratings; dropout SGD multiplies every factor of a rating by 0 or 1/theta, by 0 with chance 1 - theta.",
        check=lambda: [*runs.completion_systems(lambda drop: drop / (1 - drop)), *runs.completion_masks(1.0)],
        control=lambda: [*runs.completion_systems(lambda drop: drop), *runs.completion_masks(0.5)],
        objects=("recommenders.DropoutCompletion",),
        note="Proved. Both fits at the end of 2000 sweeps.",
    ),
    room_claim(
        "ratings-in-full",
        "Arrays, Ratings, text ids, Entries, sparse matrices, chunks and files give the same pairs, each once with "
        "the mean of its ratings less their mean, in both orders, in memory or on disk, most active first; ids are "
        "found by their text; read_chunks takes header, columns, separators and numbers of a table of cases; Gram "
        "matrices that grow and shrink, their regularized inverses and rows, ranking's metrics, hold_out_users' "
        "counts and shares, diagnose's numbers, and DropoutCompletionCV's path at 4 to 0.35 times the strength 4.8 "
        "width / ratings^(1/3) are those of loops written out.",
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
        "DropoutCompletion and RidgeCompletion whose engine is a client have the predictions, mean, objective and "
        "range of a fit without one, from a file and from ratings that are sent, DropoutCompletion also from several "
        "files, each user in one; DropoutAutoencoder, from files, has the weights, and the points of a choice; less "
        "memory than its array needs, ratings that are no path, and a user in two files are refused; a client that "
        "was given stays open.",
        pair(cluster_checks.workers),
        ("recommenders.DropoutCompletion", "recommenders.RidgeCompletion", "recommenders.DropoutAutoencoder"),
        "Beside fits in one process; tasks of the workers run here, one after the other.",
    ),
    room_claim(
        "continued-completions",
        "partial_fit solves the rows of the users whom later ratings touch by all their ratings of items that were "
        "known, then new items by these ratings alone; other factors, biases and the mean stay, and range_ widens "
        "where they exceed it. A warm start begins from the factors of known ids. Each line of history_ has the "
        "error and mean objective of its factors, of ridges, too, in any unit; the first sweep that lowers this by "
        "less than the tolerance times its value is the last.",
        pair(continued_checks.continued, 1.05),
        ("recommenders.DropoutCompletion", "recommenders.RidgeCompletion"),
        "By systems solved one by one. A new rating of a known pair replaces the old one, those of a pair among "
        "the later ones are averaged. UnboundedPredictions is warned of where the root mean square of <u, v> "
        "exceeds twice the range over a row, or the range over all pairs; without centering, the largest rating "
        "counts for a smaller range.",
    ),
    room_claim(
        "saved-models",
        "DropoutCompletion, RidgeCompletion and AutoencoderCompletion that were saved with their ratings and loaded "
        "predict and recommend as before, the first two also with the same ratings, history and answers to later "
        "ratings; a fit from a checkpoint goes on as if it had not stopped. Files of other classes, of other arrays, "
        "of no arrays, and none are refused by the load of each of these, DropoutAutoencoder and "
        "ImplicitDropoutCompletion.",
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
        "DropoutAutoencoder and ImplicitDropoutCompletion that were saved and loaded have the same rate, ids, scores "
        "and lists, for users known, unknown and new, and the former the same explanations and points of its choice, "
        "whether options are numbers of Python or NumPy and whether or not they changed since the fit.",
        pair(rating_checks.saved_rankers),
        ("recommenders.DropoutAutoencoder", "recommenders.ImplicitDropoutCompletion"),
        "Beside the model that was saved.",
    ),
    room_claim(
        "new-users",
        "recommend_new of DropoutAutoencoder lists the largest entries of a user's row, not all 0, times the weights, "
        "of all items or, by default, those where the row is 0; it has 1 or the grade, from the threshold on, at known "
        "items. against_popularity gives the mean recall of held-out users by such scores and by numbers of users, "
        "known items left out. hold_out_users holds out max(1, round(share n)) of n users, at most n - 1, all with two "
        "ratings or more; of their c ratings round(fold_in c) are known, at least one and at most c - 1.",
        pair(rating_checks.new_users),
        ("recommenders.DropoutAutoencoder", "recommenders.against_popularity", "recommenders.hold_out_users"),
        "Written out. Recall is that of droptics-ranked-lists; round takes halves to even numbers. A row of zeros gets "
        "the most popular items.",
    ),
    room_claim(
        "ranked-lists",
        "Where h_r is 1 if the item at rank r of a user's unseen items, by score, is relevant, H_r = h_1 + ... + "
        "h_r, and m the lesser of k and her relevant unseen items: ndcg@k is sum_{r<=k} h_r / log2(r + 1) over "
        "sum_{r<=m} 1 / log2(r + 1), recall@k H_k / m, precision@k sum_{r<=k} h_r H_r / (r m), hit@k 1 if H_k > 0, "
        "mrr one over the first rank; values are means over users with m > 0, with standard errors; above gives "
        "paired differences; coverage is the share of items in any list.",
        pair(rating_checks.ranked_lists),
        ("recommenders.ranking",),
        "Written out. Equal scores rank by the order of the items; errors are of two or more users.",
    ),
    room_claim(
        "named-ids",
        "Two ids are the same where their texts are, 3, 3.0 and '3' alike; sparse matrices, Entries, files and "
        "Ratings hold the same ratings; the default rate has the strength 4.8 width / ratings^(1/3). "
        "DropoutCompletionCV fits rates from the largest down, each from where the last one ended, takes the width "
        "and rate of least error on held-out ratings, and answers, with refit=True, as a fit to all ratings at "
        "these.",
        pair(rating_checks.named_ids),
        ("recommenders.DropoutCompletionCV", "recommenders.default_drop"),
        WRITTEN,
    ),
    room_claim(
        "bias-steps",
        "Steps of DropoutCompletion(solver='sgd') go down the gradient of the mean squared error of a batch, with "
        "factors multiplied by 0 or 1 / (1 - drop), a mask for each rating, plus the bias ridge over the number of "
        "ratings times the squared biases; each epoch of history_ has the root mean square error without masks, and "
        "the expected objective over masks, of all ratings, in their unit.",
        pair(rating_checks.bias_steps),
        ("recommenders.sgd.descend",),
        "By automatic differentiation, from the same draws.",
    ),
    room_claim(
        "autoencoders",
        "With gamma = ridge + drop / (1 - drop) diag(X^T X) and C = (X^T X + diag(gamma))^-1, DropoutAutoencoder's "
        "weights, their diagonal free, zero or bounded, are the constrained minimizers, by all eigenvectors and "
        "after partial_fit, too, for feedback='implicit' and 'graded'; cut_ bounds the norm of what few eigenvectors "
        "leave off gamma^1/2 C gamma^1/2 with probability 1 - 1e-6; explain gives the terms of a score, the largest "
        "first; left_out_residuals and leave_one_out are those of refits without the user at the same gamma; less "
        "memory than its array over the items needs is refused.",
        (partial(ranker_checks.autoencoders, 1.0), partial(ranker_checks.autoencoders, 1.05)),
        ("recommenders.DropoutAutoencoder",),
        "By systems solved one by one. Users are left out with all eigenvectors.",
    ),
    room_claim(
        "neighbors",
        "DropoutAutoencoder's weights with a bounded diagonal, and LocalAutoencoder's, each item on the so many whose "
        "product with it is largest in absolute value and not 0, solve the normal equations of each item; "
        "StackedRanker adds scores over their standard deviation. Without given rate and ridge, DropoutAutoencoder, "
        "with choose='loo', takes the largest leave-one-out gain of a grid of nine, and of four neighbors of its "
        "best at half a step.",
        (partial(ranker_checks.neighbors, 1.0), partial(ranker_checks.neighbors, 1.05)),
        ("recommenders.DropoutAutoencoder", "recommenders.LocalAutoencoder", "recommenders.StackedRanker"),
        "By systems solved one by one. Equal products rank by the order of the items. Deviations are over the "
        "thousand most active users, gains over pairs that are drawn where there are many; rankers of equal "
        "scores are left out.",
    ),
    room_claim(
        "kernel-regressions",
        "AutoencoderCompletion, by users or by items, predicts the mean plus biases plus a ridge regression of each "
        "row of residuals, with a kernel between columns from the other rows; its leave-one-out errors are those of "
        "these systems without one rating, of all rows of two or more ratings or of a drawn sample; of the ridge and "
        "implicit constants that it tries those of least error are taken; recommend lists what is not rated by "
        "prediction.",
        (partial(ranker_checks.kernel_regressions, 1.0), partial(ranker_checks.kernel_regressions, 1.05)),
        ("recommenders.AutoencoderCompletion",),
        "By systems solved one by one.",
    ),
    room_claim(
        "completion-rows",
        "DropoutCompletion's rows of new users, rows with smoothed shares, and standard deviations over dropped "
        "factors are those of their systems; items at the end of a fit solve theirs, exactly or with as many "
        "conjugate-gradient steps as unknowns; compiled and batched rows agree after fewer, too; diagnose's numbers "
        "are those of the factors, for every penalty. ImplicitDropoutCompletion's items, and scores of rows, solve "
        "the systems over all cells under both penalties, for feedback='implicit' and 'graded'.",
        (partial(ranker_checks.rows_of_completions, 1.0), partial(ranker_checks.rows_of_completions, 1.05)),
        ("recommenders.DropoutCompletion", "recommenders.diagnose", "recommenders.ImplicitDropoutCompletion"),
        "By systems solved one by one.",
    ),
    room_claim(
        "many-rows",
        "Where users, ratings or rows are worked on some at a time, sums of squares, warnings of far predictions, "
        "predictions, errors and objectives, users left out, and both orders of ratings are those of all together; "
        "rows of hundreds of ratings by one thread and by three, and row systems of 1 to 107 factors in both "
        "precisions, exactly and by conjugate gradients, solve their normal equations.",
        pair(block_checks.many_rows, 1.05),
        ("recommenders.DropoutCompletion", "recommenders.DropoutAutoencoder"),
        "By systems solved one by one.",
    ),
    room_claim(
        "blends",
        "StackedCompletion's weights are the least squares fit of members' predictions, less the mean, to held-out "
        "ratings, with days also of the first member's errors for a user on a day, sum / (count + ridge), at the "
        "ridge of 4, 8, 16 and 32 of least held-out error; predictions, where not clipped, blend members fitted to all "
        "ratings by these, lists without days. ranking's ndcg, recall, precision, hit and mrr of scores in uint8, "
        "float32 and float64 are those of the lists of items not seen, written out.",
        (partial(blend_checks.blends, 1.0), partial(blend_checks.blends, 1.05)),
        ("recommenders.StackedCompletion", "recommenders.ranking"),
    ),
    room_claim(
        "asked-rankers",
        "recommend lists the items of largest score, without those seen if asked, for strangers those most users "
        "know, scored by their share of the largest number; evaluate and evaluate_popularity are the metrics of such "
        "lists for held-out users, by scores and by those numbers; StackedRanker's scores of a new user add those of "
        "its members; DropoutCompletion predicts, scores and lists by mean, biases and factors, lists ranked before "
        "they are clipped. DropoutCompletionCV takes the width and rate of least held-out error of those tried.",
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
        "Of a model whose ratings are a table: predict looks up pairs of ids, clipped if asked, evaluate gives rmse, "
        "mae and counts, with times where the model has them, score is -rmse, recommend ranks unseen items before "
        "clipping. Fitted completions predict the mean plus the known biases of unknown ids, and warn, raise or are "
        "silent as asked; center=False leaves the mean at 0; ids are the same where their texts are; parameters are "
        "set and told by name; Days gives a user's summed errors of a day over their number plus the ridge.",
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
        "Half-sweeps batched on a device, and compiled ones over rows of up to 90 ratings, solve the normal "
        "equations of every row and return the sums of squares, with the penalty and without, that they reach; a "
        "loss of an audit's Runs counts one pass, its gradient two more; clusters.connect waits for a scheduler to "
        "speak at its port before Dask is asked, and refuses who is silent and what is no address; ends of a sampled "
        "interval move out by the bound on rounding; columns of a table are found by name and by number.",
        pair(swept_checks.worked_elsewhere),
        ("penalties.penalty",),
        "By a solver, row by row; calls that somebody takes.",
    ),
    Claim(
        "droptics-held-out",
        "droptics, how recommendations are judged",
        "hold_out_users puts every rating in one of train, known and hidden; a user held out has none in train and "
        "one at least in each of the others. In ranking's ndcg the gain of rank r is 1/log2(r + 1), over the largest "
        "sum that a list can have.",
        check=partial(held_out_checks.held_out, 1),
        control=partial(held_out_checks.held_out, 2),
        objects=("recommenders.hold_out_users", "recommenders.ranking"),
        note="Counted.",
    ),
)
