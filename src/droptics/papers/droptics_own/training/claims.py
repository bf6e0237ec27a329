"""Claims on training."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own.instruments import ENUMERATED, WRITTEN, pair, room_claim
from droptics.papers.droptics_own.training import (
    descent_checks,
    fitted_network_checks,
    line_checks,
    order_checks,
    random_number_checks,
    run_checks,
    standardized_checks,
    step_checks,
)

CLAIMS: tuple[Claim, ...] = (
    room_claim(
        "rates-in-full",
        "Losses of examples are torch's with reduction='none', averaged over the entries of a row that count "
        "(squared adds them up, class weights cancel); batches come in the order of randperm from a key of seed and "
        "epoch; two_level has balanced orthogonal columns, effects are half-differences of means, a path moves "
        "log-odds against those beyond two errors; best constants are means and class shares; batches, masks and "
        "fresh examples have the weights, rates and moments of their laws; train's weights with batches, decay, "
        "schedules, MaxNorm, frozen tensors and Adam are those of torch.optim on the same draws.",
        pair(order_checks.rates_in_full),
        (
            "training.train",
            "training.Dropout",
            "training.MaxNorm",
            "rates.Fit",
            "losses.CrossEntropy",
            "rates.two_level",
            "training.log_steps",
            "training.with_previous",
        ),
        "By autograd and torch.optim on the same draws.",
    ),
    room_claim(
        "training-in-full",
        "Gradients by moments of DeepLinear, TwoLayerLinear and Autoencoder, alone and in batches, and train's steps "
        "along them and for Connections, are autograd's of the mean over all masks; one-step attacks are doubted "
        "where ten steps fool over a quarter of the batch more; Diverged names step, size and runs of the first loss "
        "above 1e8 (1 + first risk), or with diverging='freeze' these runs are put back and others go on; steps of "
        "Factorization are those of its entries; objectives and laws that differ have other lines in checkpoints; "
        "lazy_norm is sqrt(inputs) + 2 sqrt(log max(width, 2)) + 1.",
        pair(line_checks.training_in_full),
        (
            "training.train",
            "training.Penalized",
            "training.Adversarial",
            "training.Free",
            "training.Plain",
            "training.lazy_norm",
            "training.lazy_start",
        ),
        f"{ENUMERATED} By autograd on the same points.",
    ),
    room_claim(
        "batched-runs",
        "Runs of a batch by Plain or Penalized, with step sizes and laws of their own, schedules, decay of matrices "
        "but not of biases, frozen tensors and the logistic loss, reach run by run the weights of torch.optim.SGD, "
        "with momentum too, and of Adam, each given the loss plus decay / 2 times the squared matrices; recorded "
        "losses, risks, objectives, imbalances and certified bounds are those of each run.",
        pair(run_checks.batched_runs),
        ("training.train", "training.Penalized", "equalization.imbalance", "optima.certify"),
        "Beside loops with torch.optim.",
    ),
    room_claim(
        "guarded-runs",
        "Runs of a batch with seeds and laws of their own have the weights, masks and records that each has alone, "
        "also where they begin with tensors in common; MaxNorm scales columns longer than its radius back to it; "
        "with diverging='freeze' a run that diverges gets weights from before, later records of it are infinity, and "
        "the others end as alone.",
        pair(run_checks.guarded_runs),
        ("training.train", "training.MaxNorm"),
        "Beside runs alone.",
    ),
    room_claim(
        "resumed-runs",
        "A run that broke off goes on from its Checkpoint to the weights, draws, records and kept iterates of a run "
        "that did not, without taking the early steps again; one that ended takes no step. A file is refused by a "
        "training of other weights, data, rates, step size, steps, seed, batches, convention, decay, balls, frozen "
        "or kept tensors, gap, records, schedule at the records' steps, or of an objective or optimizer that prints "
        "otherwise. Files of the kernel give an odd number of units one row more.",
        pair(run_checks.resumed_runs),
        ("training.train", "training.Checkpoint"),
        "Beside runs that did not break off.",
    ),
    room_claim(
        "trained-modules",
        "train's steps on LastLayer of a torch module with weighed squared loss are automatic differentiation's "
        "through all parameters: by Plain, by Dropout under the masks it drew, by Penalized of the mean over all "
        "masks, of units alone or in blocks; multipliers are 0 or 1 / (1 - rate), other ones in other steps; "
        "recorded singular_values are those of the outputs.",
        pair(descent_checks.trained_modules),
        ("training.train", "training.Penalized"),
        "By automatic differentiation.",
    ),
    room_claim(
        "trained-batches",
        "train's steps on batches of Factorization at Entries, under the masks drawn, and of ReLUNet by "
        "Adversarial(Fgsm) in a ball and box, at attacked inputs where their loss is no smaller, are automatic "
        "differentiation's, run by run; with batch_size=3 a step is that of the mean over three of the entries. "
        "Two steps, masked or attacked, of two given networks of 3, 4 and 3 units in float32 move under "
        "precision='bfloat16' every tensor as in full precision, to two hundredths of its largest move, but not "
        "exactly.",
        pair(descent_checks.trained_batches),
        ("training.train", "training.Adversarial"),
        "By automatic differentiation. Other networks may differ by more in bfloat16, where slopes nearly "
        "cancel; what no mask or unit lets move stays where it is in both.",
    ),
    room_claim(
        "trained-populations",
        "Penalized steps of DeepLinear on Moments are those of the mean over all masks, as are recorded objectives, "
        "risks and penalties; with a bound and stop_gap the run stops at the first look at which its objective is at "
        "most (1 + stop_gap) bound, a batch of two where both are.",
        pair(descent_checks.trained_populations),
        ("training.train", "training.Penalized"),
        ENUMERATED,
    ),
    room_claim(
        "small-networks",
        "SmallCnn is convolutions of stride 2 with ReLU, the mean over each quarter of the image, a linear layer and "
        "a head without offset; ResNet a convolution, residual blocks, of which each stage after the first halves "
        "the image and doubles the channels, group norms of max(1, min(8, channels // 4)) groups, the mean over the "
        "image, and the same two layers; weights are drawn with mean 0 and variance 2 / fan-in of convolutions, 1 / "
        "fan-in of linear layers, offsets are 0.",
        pair(fitted_network_checks.small_networks),
        ("training.SmallCnn", "training.ResNet"),
        WRITTEN,
    ),
    room_claim(
        "fitted-estimators",
        "Where its masks are listed, a fitted DropoutRegressor predicts the mean over all masked networks, with "
        "return_std the root of their variance plus noise^2, intervals by quantiles of their mixture with normal "
        "noise, and scores its mean log density; noise='estimate' is the likeliest on a held-out tenth, as fit_noise "
        "has it; DropoutClassifier's probabilities are means of softmax, it predicts the largest. Columns of equal "
        "inputs, and equal targets, count by differences from these. A Dropout step with CrossEntropy follows the "
        "weighed loss under the masks drawn, and decays weights, not offsets.",
        pair(fitted_network_checks.fitted_estimators),
        (
            "training.DropoutRegressor",
            "training.DropoutClassifier",
            "training.train",
        ),
        "By enumeration of all masks.",
    ),
    room_claim(
        "schedules",
        "At step t Inverse(s) is 1 / (1 + t / s), Cosine(n) (1 + cos(pi min(t, n) / n)) / 2, Staircase(m, f) f^(t // "
        "m); log_steps(n, c) holds 0, n and, where c > 1, n^(i / (c - 1)), rounded, for i < c; with_previous adds "
        "the step before each; attacks' Decay(a, f, m) is a f^(t // m), their default steps are a fifth of the "
        "radius, or run geometrically from the radius to a hundredth of it.",
        (partial(step_checks.schedules, 1.0), partial(step_checks.schedules, 1.1)),
        (
            "training.Inverse",
            "training.Cosine",
            "training.Staircase",
            "training.log_steps",
            "training.with_previous",
        ),
    ),
    room_claim(
        "random-numbers",
        "philox.bits are the words of Philox 4x32-10 at counter (group, step, stream, step >> 32) and key the halves "
        "of a seed; uniforms are middles of equal cells, normal numbers Box and Muller's of these; masks, choices, "
        "inputs and noise have a stream each. Sequential takes coins and normal numbers from NumPy's SFC64 of (seed, "
        "1), stretch after stretch. A run among several draws what it draws alone; masks, choices and fresh examples "
        "have the rates and pairs, weights, and second moments of their laws.",
        (partial(random_number_checks.random_numbers, 1.0), partial(random_number_checks.random_numbers, 1.1)),
        ("training.philox.bits", "training.random_numbers.Counted"),
        "Three published answers, and whole numbers; frequencies and moments within five standard errors.",
    ),
    room_claim(
        "engines",
        "engine='kernel', 'products' and 'torch' give TwoLayerLinear and Autoencoder the steps of autograd on the "
        "squared loss of single examples under the masks drawn, also runs of a batch with examples, masks and step "
        "sizes of their own; Penalized gives DeepLinear the step of the mean over all masks; the loss in history is "
        "the mean over the steps since the last record, at the start that of the first, mean_loss that between two "
        "records, in either order; objective, variance and spread of importance (0 where no unit passes on anything), "
        "singular values and distance are those of the weights.",
        (partial(step_checks.engine_steps, 1.0), partial(step_checks.engine_steps, 1.1)),
        ("training.train", "training.Recording"),
        ENUMERATED,
    ),
    room_claim(
        "hardened",
        "Steps of Adversarial are autograd's at inputs that Fgsm moved, by the weights of the examples, with "
        "consistency c of the clean loss plus c times the divergence of the chances there from the clean ones; Free "
        "moves inputs and weights by one gradient in each replay, inputs within ball and box, and hands the moves "
        "on; runs of a batch step as alone; Adversarial.fast trains, where slopes are constant, in the ball and a "
        "quarter of a radius or more up the slope. DropoutClassifier's listed probabilities are means over all "
        "masks; it predicts the largest.",
        (partial(step_checks.hardened, 1.0), partial(step_checks.hardened, 1.1)),
        (
            "training.Adversarial",
            "training.Free",
            "training.DropoutClassifier",
            "training.train",
        ),
        "By automatic differentiation.",
    ),
    room_claim(
        "averaged",
        "Averaged.of lists up to 1024 masks, and draws where there are more: its exp is the mean of softmax over all "
        "of them, for one output itself the mean score, of TwoLayerLinear and LastLayer in closed form; "
        "single_accuracy is the mean over masks of the share of right passes. For affine classifiers without a box "
        "robustness_curve by Apgd(Margin('every')) gives, in linf and l2, the share of examples with a margin below "
        "radius times the dual norm of its slope, in l1 no more; one l2 step of Pgd goes along the normalized slope.",
        (partial(step_checks.averaged, 1.0), partial(step_checks.averaged, 1.1)),
        (
            "attacks.Averaged",
            "attacks.robustness_curve",
            "attacks.attack",
        ),
        "By enumeration of all masks. Margins are those of the label over each other class.",
    ),
    Claim(
        "droptics-units-of-targets",
        "droptics, estimators",
        "Targets 8 y + 5 give predictions 8 f + 5 where targets y, not all equal, give f: of DropoutRegressor, and "
        "of DropoutCompletion by alternating least squares, with the mean taken off and predictions not cut to a "
        "given range.",
        check=partial(standardized_checks.standardized, 8.0),
        control=partial(standardized_checks.standardized, 7.0),
        objects=("training.DropoutRegressor", "recommenders.DropoutCompletion"),
        note="Eight is a power of two, so that no multiple is rounded; the sum 8 y + 5 may be, and then so are "
        "predictions.",
    ),
)
