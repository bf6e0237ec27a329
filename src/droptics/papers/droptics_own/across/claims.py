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
from droptics.papers.droptics_own.instruments import ENUMERATED, pair, room_claim

CLAIMS: tuple[Claim, ...] = (
    room_claim(
        "side-rooms",
        "Of a mask law that states only means m > 0 and a covariance C, penalty of a two-layer linear "
        "network under squared loss is that of multipliers of covariance C_ij / (m_i m_j). ExplicitDropout "
        "under bfloat16 autocast has the penalties of the same features in float32, to 1e-5, in eval mode 0. "
        "train of two deep linear networks at once, each with law, step size and seed, gives each the "
        "weights and records of its run alone. linear_margin is the largest margin of a unit vector on "
        "examples of length one, or 0.",
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
        "Trainings one by one; margins by a convex program, to 2e-6; forms of layers under one seed.",
    ),
    room_claim(
        "refused-arguments",
        "34 calls with one wrong argument each, of training, layers, attacks, predictions, rates and "
        "recommenders, end in a ValueError whose text holds the name of the argument. DropoutCompletion "
        "refuses to go on from a checkpoint of another width or of other ratings. LocalAutoencoder with "
        "threshold t and implicit feedback, all other items neighbors, has the items with a rating of t or "
        "more and solves the ridge systems of these ratings, each counted as 1. Inverses by blocks of 5, 512 "
        "and 700 rows are torch's to 1e-10.",
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
        "The text of each error is searched for the name.",
    ),
    room_claim(
        "options-given",
        'Pgd with projection "exact" ends a step at the point of l2 ball and box nearest to where it led, '
        'with "clip" at the nearest of the ball, clipped to the box. A method with seed s draws as a torch '
        "generator of seed s. explicit_consistency averages over labels other than ignore_index. masked_step "
        "is one gradient step on the mean loss under its masks. DropoutRegressor and DropoutClassifier train "
        "as train with Adam, on standardized inputs. LocalAutoencoder counts ratings from the threshold on, "
        "by grade or as 1. clip=(low, high) bounds predictions.",
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
        "By bisection, automatic differentiation and systems solved one by one, on random problems of a dozen rows.",
    ),
    room_claim(
        "limits-of-arguments",
        "96 calls beyond a limit of attacks, trainings, recommenders, audits or tuned rates end in a "
        "ValueError with the words that the check lists; 31 like them, but inside the limit, pass. Square on "
        "a ReLU perceptron, whose first layer is updated by its changes, returns the points, successes and "
        "query counts of whole passes, to 1e-9. train_lazy of two stacked starts gives weights, drift and "
        "sub-networks of each alone. DropoutAutoencoder fitted in two parts by partial_fit has the weights "
        "of one fit, in full and at rank 3 of 6.",
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
        "By the words of the errors; single runs from the same seeds.",
    ),
    room_claim(
        "settings-given",
        "With another seed, population, sites or loss, tune_rates gives points of a scan the mean losses of "
        "copies trained one by one. Five completions fitted to pairs and values predict as fitted to "
        "triples. After 200 full sweeps of RidgeCompletion no derivative of its penalized squared error is "
        "above 1e-3. train with Settings is train with the same keywords; keywords beside it come first. The "
        "coverage of calibration at level q is the share of targets whose predictive distribution function "
        "is within q / 2 of 1 / 2.",
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
        "Copies, derivatives and distribution functions written out, on small problems.",
    ),
    room_claim(
        "ways-of-large-problems",
        "With limits of size lowered so that small problems go the ways of large ones: covariances of "
        "outputs A (x z), a few examples at a time, are A diag(x_i^2 p_i / (1 - p_i)) A^T; predictive of a "
        "ReLU network, by sums over outcomes of its units, has the moments of all masks; audits by two "
        "ranks, half the batches each, report the losses, intervals of penalties, and spectra of one audit "
        "of all; squared losses and cross-entropy of large outputs are torch's, with derivatives; inverses "
        "by many blocks are inverses.",
        pair(scattered_checks.taken_here),
        ("predictions.predictive", "audits.audit", "rates.tune_rates", "evidence.formulas.mathml"),
        "By enumeration of all masks, and torch.",
    ),
    room_claim(
        "fields-left-behind",
        "holdout_rmse_ of StackedCompletion are root mean squared errors, on held-out ratings, of the blend "
        "and of each member fitted to the rest; deviations_ of StackedRanker the standard deviations of its "
        "members' scores. drop_, ridge_ and diagonal_ of DropoutAutoencoder are given ones, or the best of "
        "points_. DropoutRegressor and DropoutClassifier divide inputs by their deviations, constant ones by "
        "1; interval(X, q) has tails of (1 - q) / 2. History of train holds distance, risk, penalty and "
        "singular values of its iterates, drift of train_lazy the largest distance of a row from its start.",
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
        "Written out, refits included.",
    ),
    room_claim(
        "forms-of-numbers",
        "On random problems of a dozen examples, up to rounding: strided inputs change no answer of attack, "
        "train, predictive, ExplicitDropout and six recommenders; float32 changes no smallest_margins of "
        "affine maps, weights of train on all examples, moments and classes of predictive, or predictions; "
        "another order of examples or ratings reorders the answers of Fgsm, Bim, Pgd, Apgd and Fab from the "
        "inputs and moments of predictive, and changes no prediction; 1024 times the ratings give 1024 times "
        "the predictions of DropoutCompletion and AutoencoderCompletion.",
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
        "float32 to some hundred roundings, classes and AutoencoderCompletion to 1e-4, other recommenders, "
        "by their default solver, to 1e-3. Penalties of ExplicitDropout in bfloat16 to 3%.",
    ),
    room_claim(
        "passed-by",
        "The ends of gate_margin at rate p are 1 - p times those at rate 0, which enclose the least mean "
        "length of gated sums over weights of the examples. rademacher needs for a bound of one as many "
        "examples as were given times its squared value, completion as many as bring its bound down to the "
        "trivial one. The weights of optimal_head without a bias solve (S + diag(p_i / (1 - p_i) S_ii)) W^T "
        "= T, with S and T the weighted second moments. explicit_penalty counts a layer inside others.",
        pair(spare_layer_checks.passed_by),
        (
            "bounds.gate_margin",
            "bounds.linear_margin",
            "optima.optimal_head",
            "layers.explicit_penalty",
            "bounds.completion",
            "bounds.rademacher",
        ),
        "A grid of weights, to 7%; the rest written out.",
    ),
    room_claim(
        "looked-again",
        "A run of Apgd from the inputs that fools nobody on an affine map of two classes takes one gradient per "
        "example and step, and ends where the wrong class gains most within the l2 ball. One step of train "
        "with Free and three replays is three steps of the weights, each with a step of the moves, clipped to "
        "the ball, from points clipped to the box. history holds steps, losses and what record names. audit "
        "finds DR101 at a layer that never runs, beside one of its rate, and passes numbers of a batch on.",
        pair(spare_layer_checks.looked_again),
        ("training.train", "training.Free", "audits.audit"),
        "Written out, by autograd. For a loss that is not saturated: a cross-entropy that rounds to zero does "
        "not rise. DR101 is for positive rates, and not where the module of the layer calls functional dropout "
        "at its rate.",
    ),
    room_claim(
        "seen-again",
        "equalize_columns gives a factor columns of equal energy and keeps its product with a companion; the "
        "factor given stays as it is. Deep linear networks have the covariances of all masks, independent or "
        "in blocks. A watched call of attention, LSTM or GRU in train mode is told with its place and rate, "
        "as dropping exactly where two runs differ. DropoutCompletion clips predictions to the range of "
        "ratings or to clip, and predicts nothing before a fit. tune_rates of a squared-loss head without a "
        "bias has the losses of the ridge solutions.",
        pair(companion_checks.seen_again),
        (
            "optima.certify",
            "penalties.criterion",
            "recommenders.DropoutCompletion",
            "rates.tune_rates",
            "linalg.equalize_columns",
        ),
        "By enumeration of all masks; the rest written out.",
    ),
    room_claim(
        "head-penalties",
        "For squared, cross-entropy and logistic loss on weighted examples, the penalty of a last layer "
        "under coins, blocks or listed masks is the mean loss over all masks minus the risk: by Enumerate; "
        "by ClosedForm for squared and logistic loss; between the ends of Certified for cross-entropy; "
        "within the width of the 99 % interval of MonteCarlo(800, seed=3). SecondOrder gives half the trace "
        "of the Hessian in the multipliers, at one, times their covariance. Under normal noise ClosedForm of "
        "the logistic loss is the integral over the margin.",
        (partial(small_room_checks.penalties_of_heads, 1.0), partial(small_room_checks.penalties_of_heads, 1.1)),
        ("penalties.penalty", "penalties.risk"),
        "By enumeration of all masks; four units, unequal rates; quadrature to 1e-7.",
    ),
    room_claim(
        "network-penalties",
        "For a ReLU network of layers 3-3-4-2 with offsets, unequal rates up to .5 before all layers and "
        "weighted examples under squared loss: penalty, by default and by Enumerate, is the mean loss over "
        "all masks minus the risk, and criterion the mean itself; of MonteCarlo(600, seed=2), the value is "
        "no farther from it than the width of its 99 % interval, and the guaranteed ends enclose it; "
        "SecondOrder gives half the sum over units of the second derivative of the loss in the unit's "
        "multiplier times p / (1 - p).",
        (partial(small_room_checks.penalties_of_networks, 1.0), partial(small_room_checks.penalties_of_networks, 1.1)),
        ("penalties.penalty", "penalties.criterion", "penalties.risk"),
        ENUMERATED,
    ),
    room_claim(
        "loss-derivatives",
        "For Squared, CrossEntropy and Logistic, hessian(outputs, targets) is the Hessian of each example's "
        "loss in its outputs, curvatures(outputs, targets, D) are d^T H d for the columns d of D, and slope "
        "is the supremum over outputs of the sum of absolute derivatives: 2 for CrossEntropy of two classes "
        "or more, 1 for Logistic, None for Squared.",
        (partial(small_room_checks.derivatives_of_losses, 1.0), partial(small_room_checks.derivatives_of_losses, 1.1)),
        ("losses.CrossEntropy", "losses.Logistic", "losses.Squared"),
        "By automatic differentiation at random outputs; slopes at outputs far from zero.",
    ),
    room_claim(
        "dropped-layers",
        "realized_rates gives the mean over places of 1 - (1 - g)^k, where k blocks cover the place and g is "
        "the chance of a block in torchvision, timm and dropblock; matched, that of the layer DropBlock, is "
        "the rate itself. explicit_penalty of one layer is the mean where the label is not -100, with "
        'shifted=True where the next label is not; form "bound" is at least the penalty over all masks. '
        "explicit_consistency is the mean divergence of Kullback and Leibler over ordered pairs of sampled "
        "masks.",
        (partial(small_room_checks.dropped_layers, 1.0), partial(small_room_checks.dropped_layers, 1.1)),
        (
            "layers.DropBlock",
            "layers.explicit_penalty",
            "layers.explicit_consistency",
            "layers.realized_rates",
        ),
        "By counting blocks; by enumeration of all masks.",
    ),
    room_claim(
        "units-of-networks",
        "With one hidden layer, flows f, not all 0, are norms of outgoing weights times roots of mean "
        "squares of units; importance is f / sum f, alpha sum f, coadaptation sum f / (sqrt(n) |f|). "
        "smallest with draws=0 keeps the shortest prefix of units by decreasing flow whose network, scaled "
        "by sum f over the prefix's own sum, loses at most the tolerance in accuracy. evaluate has the "
        "accuracies of networks under masks times a scale. draw keeps units of Bernoulli(.3, 6) "
        "independently with chance .7.",
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
        "Written out; 4,000 draws to five standard errors.",
    ),
    room_claim(
        "trained-rates",
        'With split="factorial", guard=2 and two repeats, the loss that tune_rates gives a point is a mean '
        "over two seeds of copies trained alone: over all validation examples in the scan, the half that "
        "chooses in the design and on the path, the other half, by fresh seeds, in the guard. best is the "
        "tied rate of least loss. Levels of the design are .7 in log-odds from best; the effect of a site is "
        "the mean over the design of level times loss, over .7^2. apply sets the rates of the answer.",
        (partial(wide_law_checks.trained_rates, 1.0), partial(wide_law_checks.trained_rates, 1.1)),
        ("rates.tune_rates",),
        "Beside copies trained alone.",
    ),
    room_claim(
        "wide-laws",
        "For coins, blocks, sliding blocks, listed masks and products of up to five units, what atom_batches "
        "lists is the law, and mean, covariance, characteristic (the covariance of multipliers), "
        "diagonal(lag), weigh(G) and bound, the largest multiplier of positive chance by size, are sums and "
        "maxima over it; 4,000 samples lie in the list, each mask as often as it should be to five standard "
        "errors. For 2,100 units, weigh and correlate of SlidingBlock sum over neighbors within a block, "
        "those of Block over blocks of their own rates.",
        (partial(wide_law_checks.wide_laws, 1.0), partial(wide_law_checks.wide_laws, 1.1)),
        ("masks.SlidingBlock", "masks.Discrete", "masks.Product", "masks.Block"),
        ENUMERATED,
    ),
    room_claim(
        "large-heads",
        "Class probabilities by predictive(...).classes(512), of five heads on twelve tanh units, are those "
        "over all masks to .02, and to five standard errors where masks are drawn; logits are taken as "
        "normal only where the units are near -1 and 1. Under listed masks, log_likelihood and density of a "
        "linear network are those of the mixture of normals around the outputs of each mask. The gradient of "
        "a ReLU network's exact penalty in its weights and offsets is that of the sum over all masks.",
        (partial(wide_law_checks.large_heads, 1.0), partial(wide_law_checks.large_heads, 1.05)),
        ("predictions.predictive", "penalties.penalty"),
        ENUMERATED,
    ),
    room_claim(
        "searched-optima",
        "On one instance each, optimum of TwoLayerLinear under three listed masks that are correlated, and "
        "optimum of Factorization on six entries of a 3 x 2 matrix under coins of rate .3, have as objective "
        "the least value that L-BFGS finds from two random starts, to 1e-6 and to 1e-5 (width 3 and 2); "
        "their model has this value, and their bound is at most as large.",
        (partial(wide_law_checks.searched_optima, 1.0), partial(wide_law_checks.searched_optima, 1.1)),
        ("optima.optimum",),
        "By L-BFGS on the criterion written out.",
    ),
    room_claim(
        "audited-tails",
        "The penalty that audit reports of dropout before a mean over places and a linear layer, under "
        "squared loss and at other rates too, is the mean loss over all masks minus the loss without, with "
        "no interval. Of two layers of a tanh network, within a budget of 60, the last is exact, and 99 % "
        "intervals of the first hold the truth for eight seeds, on average at most six standard deviations "
        "of their values to either side. Attention and LSTM layers computed in steps give torch's outputs.",
        (partial(wide_law_checks.audited_tails, 1.0), partial(wide_law_checks.audited_tails, 1.1)),
        ("audits.audit",),
        ENUMERATED,
    ),
    room_claim(
        "random-networks",
        "robust_accuracy of Averaged, for a linear network of one output under coins, is the share of "
        "examples whose margin by the mean weights w exceeds the radius times the dual norm of w, on linf "
        "and l2 balls. With two outputs, Averaged.again(6, seed) is the logarithm of the mean softmax over "
        "six masks that the seed draws; of a module, pass k draws by seed + k. optimum of Factorization for "
        "measurements of each entry of a 2 x 3 matrix is what L-BFGS finds, to 1e-5, its bound no larger.",
        (partial(wide_law_checks.random_networks, 1.0), partial(wide_law_checks.random_networks, 1.3)),
        ("attacks.robust_accuracy", "attacks.Averaged", "optima.optimum", "penalties.penalty", "penalties.risk"),
        "By the masks of the seed, and L-BFGS from two starts.",
    ),
    room_claim(
        "interrupted-runs",
        "train on one example with step size .02 and schedule Inverse(2) takes step t with size .02 / (1 + t "
        '/ 2), counted from 0, by the engines "kernel", "products" and "torch"; the iterates of keep and the '
        "risks of record, at the steps asked for and at the last one, are those of the nine steps written "
        "out, wherever a run stops for a record alone on its way.",
        (partial(edge_checks.interrupted_runs, 1.0), partial(edge_checks.interrupted_runs, 1.1)),
        ("training.train", "training.Inverse", "training.Recording"),
        "Written out, for two lists of stops.",
    ),
    room_claim(
        "far-corners",
        "Of images that one pixel decides, Square in linf fools all within reach by 150 queries, but where "
        "the pixel lies in the last of several rows or columns. escape ends at the least criterion among 26 "
        "steps (1 + |weights|) / 2^k to either side of its direction. optimum_of_map, under coins of rate p "
        "and width 3, has as objective the least of |s - x|^2 + l (sum x)^2. equalize_columns_ makes the "
        "columns of F equal in energy and keeps F F^T, in units from 2^-600 to 2^300.",
        (partial(edge_checks.far_corners, 1.0), partial(edge_checks.far_corners, 0.9)),
        (
            "attacks.Square",
            "landscapes.escape",
            "optima.optimum_of_map",
            "linalg.equalize_columns_",
            "attacks.attack",
        ),
        "Written out. s are the singular values, x >= 0 has at most 3 entries above 0, l = p / (3 (1 - p)); "
        "tall and flat maps of 6 and of over 400 rows.",
    ),
    room_claim(
        "stacked-sites",
        "Two dropout layers before linear ones have in audit the training loss of their masks' products. Of "
        "50 sub-networks that it draws before a last layer, mean and 5 % and 95 % quantiles of accuracy are "
        "those with kept units over 1 - p and the offset as it is. For margins of hundreds, the ends of "
        "Certified for the logistic loss of one output meet at the mean over all masks minus the risk, to "
        "1e-7. The objective of variable_projection is squared error plus penalty of its network.",
        (partial(edge_checks.stacked_sites, 1.0), partial(edge_checks.stacked_sites, 1.1)),
        (
            "audits.audit",
            "penalties.penalty",
            "heads.projection.variable_projection",
            "coadaptation.draw",
        ),
        "By enumeration of all masks, sub-networks mask by mask.",
    ),
    room_claim(
        "rows-on-workers",
        "The rows that a worker of DropoutCompletion computes of a block of users solve (G^T G + D) u = G^T "
        "y, with G the item rows of a user's n ratings y and D = diag(a sum of squares in G + n b + c); "
        "conjugate gradients on the items end at the rows of the same systems; the objective is squared "
        "error plus its penalties. Without a ridge on biases, ratings times 2^30 give predictions times "
        "2^30, to 1e-3.",
        (partial(edge_checks.rows_on_workers, 1.0), partial(edge_checks.rows_on_workers, 1.1)),
        ("recommenders.DropoutCompletion",),
        "By systems solved one by one.",
    ),
    room_claim(
        "second-looks",
        "DropoutCompletion takes the mean of two ratings of the same pair. attack reports who was right "
        "before, who is wrong at the points that it returns, their margins and distances. path_norm of U "
        "V^T, squared, is the sum over paths of U_ok^2 V_ik^2. The bound of certify for one unit of rate p "
        "is the error of regression, plus squared singular values of the whitened map, the first times l / "
        "(1 + l), l = p / (1 - p). DropBlock on a map shorter than its block drops at its rate.",
        (partial(edge_checks.second_looks, 1.0), partial(edge_checks.second_looks, 1.1)),
        ("attacks.attack", "norms.path_norm", "optima.certify", "layers.DropBlock"),
        "Written out; 20,000 drawn maps.",
    ),
    room_claim(
        "rest-in-full",
        "attack of Bim, Pgd and Fab in batches of 7 is attack at once, to 1e-9. evaluate has the accuracies "
        "of masked networks, by labels, one-hot rows or signs. retentivity in the plane is the least share "
        "of a half-space over 4,000 directions, to 1e-4, and not above it. measured_rademacher of one "
        "feature is the mean over all signs of six examples. loo_errors_ of DropoutRidgeCV are those of "
        "refits without each example, with and without an intercept. Losses of audits are torch's for "
        "classes last or second, shifted or not.",
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
        "Refits; all signs; a grid of directions; torch.",
    ),
    room_claim(
        "missed-before",
        "An audit's uncertainty plans ceil((k - 1) / .01) passes, k the mean kurtosis of the drawn outputs. "
        "allocate gives strata their shares of the masks, rounded down but two or more, and what is left to "
        "the largest. Of 73 examples of which five carry all but 1e-7 of the weight, Certified leaves open "
        "at most 1.001 times what it leaves of the five, plus 5 % of their lower end, and holds the mean "
        "over all masks. Steps over all cells are conjugate gradients, preconditioned by the diagonal, row "
        "by row.",
        pair(planned_pass_checks.missed_before),
        ("predictions.strata.allocate", "penalties.penalty", "attacks.standard_attacks"),
        "Loops over outputs, rows and masks.",
    ),
    room_claim(
        "seldom-asked",
        "hessian of a two-layer or tied criterion, under units that drop apart or in blocks, is that of "
        "autograd. The best point of a box for a linear "
        "function, in a ball that holds the box, is its corner and lies inside to the last bit. Errors of "
        "DropoutCompletionCV along its path are those of fits made one after the other, from the strong rate "
        "to the weak, on ratings not held out; the least held-out error is chosen. deep_optimum with one "
        "hidden layer has the least of the objectives that keep 0, 1, 2, ... of the singular values and lower "
        "them by one number.",
        pair(seldom_checks.seldom_asked),
        (
            "recommenders.DropoutCompletionCV",
            "recommenders.DropoutAutoencoder",
            "landscapes.hessian",
            "optima.deep_optimum",
            "equalization.equalize",
        ),
        "By autograd; single fits, centered or not.",
    ),
    room_claim(
        "gone-astray",
        "Pgd counts as fooled exactly those whom the network has wrong at the points that it returns, though "
        'who stands still in a corner leaves. DropoutCompletion.predict with unknown="ignore" and '
        "return_std=True gives pairs of known ids sqrt(p / (1 - p)) times the norm of the product of their "
        "factors, others 0. predictive gives the moments of all masks where functional.dropout writes in "
        "place, told by place or by name. Runner trains copies together where population says so, or where "
        "vmap gives the bits of copies alone.",
        pair(standstill_checks.passed_by),
        ("predictions.predictive", "recommenders.DropoutCompletion", "rates.running.Runner"),
        "One ReLU network of 400 examples; by enumeration of all masks.",
    ),
    room_claim(
        "model-outputs",
        "Outputs of every family, under no mask, one for all examples, one for each, or several of these, "
        "are sums over units times their multipliers, layer by layer; of networks side by side they are "
        "those of each alone. Without masks those of linear families are the matrix times the inputs, and of "
        "Factorization at all cells the matrix. LastLayer multiplies what the head takes, Site what the "
        "inner layer returns; a layer that runs never or twice is refused, and so is a last layer whose "
        "output is changed.",
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
        "Written out, entry by entry.",
    ),
    room_claim(
        "watched-runs",
        "A watched run at another rate, on, off or as written, in train or eval mode, returns what a module "
        "made with that rate returns from the same seed, and tells each call's place, own rate, whether the "
        "module asks for it and whether it drops: every dropout of torch.nn and torch.nn.functional, "
        "attention, LSTM, GRU and RNN. A call of attention that passes rate 0 in eval mode stays off. "
        "training_without_statistics leaves norm layers with running statistics and parts that are named in "
        "eval mode; undisturbed puts back modes, buffers and generators.",
        pair(watched_run_checks.watched_runs),
        ("models.watching.watched", "models.modes.undisturbed"),
        "Beside torch's own on the same random numbers, on CPUs.",
    ),
)
