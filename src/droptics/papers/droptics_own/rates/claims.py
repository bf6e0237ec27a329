"""Claims on rates."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own.instruments import ENUMERATED, WRITTEN, pair, room_claim
from droptics.papers.droptics_own.rates import (
    answer_checks,
    design_checks,
    kept_copy_checks,
    mask_kind_checks,
    shared_mask_checks,
    trained_checks,
    tuning_checks,
    watched_module_checks,
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "droptics-shared-masks",
        "droptics, common random numbers",
        "Copies under SharedMasks at rates p < q that compare the same uniforms differ, on average over draws, at a "
        "share q - p of the units, the least that any pair of masks at these rates can; what falls at p falls at q "
        "in every draw, and at a rate of 1 all outputs are zero.",
        check=partial(shared_mask_checks.shared_masks, True),
        control=partial(shared_mask_checks.shared_masks, False),
        objects=("rates.masking.SharedMasks",),
        note="Proved. By 40,000 units with a fixed seed, within five standard errors. Uniforms are multiples of 2^-24, "
        "to which rates count.",
    ),
    room_claim(
        "modules-in-full",
        "Attention and stacked recurrent layers that run with given multipliers, of the weights or between layers, "
        "are torch's with these multipliers written in; a replayed run has the outputs and names of places of the "
        "first; Site multiplies entries or channels of an inner layer by its mask; of chains of three linear layers "
        "the training loss is the mean over all masks, of DropoutRidge left-out losses are those of refits; the loss "
        "of an example is the mean over its labels that count; Rates are equal after to_dict and from_dict, and plot "
        "losses -+ two errors.",
        pair(watched_module_checks.modules_in_full),
        ("models.Site", "rates.Rates", "heads.ridge.DropoutRidge"),
        "By enumeration of all masks, torch's own layers, and refits.",
    ),
    room_claim(
        "divided-rates",
        "On losses that are a known function of the rates: half of the examples tell the effect of every site, from "
        "a two-level design about the tied rate or exactly; a path goes against those beyond two errors; of its "
        "points, and of the best corner where its gain exceeds its error, that of largest gain less error is kept "
        "where on the other half Student's test at 5 % finds it better than the tied rate. judge says flat where no "
        "rate beats a constant output; no_split names one site, a flat verdict and rate 0.",
        pair(answer_checks.divided_rates),
        ("rates.two_level", "rates.verdicts.judge", "rates.splits.no_split"),
        WRITTEN,
    ),
    room_claim(
        "told-answers",
        "Rates from to_dict, JSON and files are equal to those written; their words hold the numbers of points, "
        "sites, gap, split, notes and places left out; apply and set_rates write a rate into the dropout layer, the "
        "drop or drops of a ridge, or the one attribute named for it that holds the rate before, and return the "
        "sites that have no such place; another schema, text that is no JSON, folders, and files for folders are "
        "refused; Fit looks at evenly spread steps, with stop='last' also at its tail.",
        pair(answer_checks.told_answers),
        ("rates.Rates", "rates.Fit", "rates.places.set_rates"),
        WRITTEN,
    ),
    room_claim(
        "masked-kinds",
        "Under SharedMasks what has its uniform number below the rate falls, entries, channels of Dropout1d to 3d, "
        "or weights of attention, by other numbers where a layer runs twice; the rest is divided by 1 - rate, or "
        "scaled and shifted as AlphaDropout does; at a rate of 1 layers give zero, without a step or in evaluation "
        "mode their inputs; a query that sees no key gets zero; MultiheadAttention and recurrent layers, which draw "
        "themselves, are torch's own at the rate, from the seed of the call.",
        pair(mask_kind_checks.masked_kinds),
        ("rates.masking.SharedMasks",),
        "Beside torch's own layers.",
    ),
    room_claim(
        "head-rates",
        "Where tune_rates scans a module of which only the last linear layer is trained, DropoutRidge or "
        "DropoutRidgeCV, on squared loss: mean losses on training and validation data, with standard errors and "
        "paired differences, and without validation data the error of every example left out, are those of refits "
        "whose ridge is rate / (1 - rate) times the sums of squares of the features, with a free offset or, if "
        "fit_intercept=False, none. An estimator that gives chances loses minus the logarithm of that of the label; "
        "best is the rate of least loss.",
        (partial(tuning_checks.head_rates, 1.0), partial(tuning_checks.head_rates, 1.1)),
        ("rates.tune_rates",),
        "By refits.",
    ),
    room_claim(
        "stationary-rates",
        "For chains of linear layers and affine tails behind what is not trained, on squared loss: the training "
        "objective is the mean over all masks, a fit has no slope, and the effect of a site or group of sites per "
        "unit of log-odds is the slope, by differences, of mean held-out losses of fits beside it, on all examples "
        "or some. Modules bent, normalized, masked twice or trained below the tail, and classes, get neither scan; "
        "tune_rates names sites that are not among those asked for.",
        (partial(tuning_checks.stationary, 1.0), partial(tuning_checks.stationary, 1.05)),
        ("rates.chains.chain_scan", "rates.tails.tail_scan", "rates.tune_rates", "rates.Fit"),
        ENUMERATED,
    ),
    room_claim(
        "copies",
        "train_copies at rate 0, and under masks of the seed, reaches the losses of loops with torch.optim's SGD "
        "with momentum, Adam and AdamW with decay; a copy trained together with others has the losses it has alone, "
        "and frozen weights stay; it stands for its look of least mean validation loss without dropout, or with "
        "stop='last' for the mean of the looks of its tail, with the training loss and step of these.",
        (partial(tuning_checks.copies, 1.0), partial(tuning_checks.copies, 1.1)),
        ("rates.copies.train_copies",),
        "Beside loops with torch.optim.",
    ),
    room_claim(
        "trained-by-functions",
        "A function that trains copies, in place or by what it returns, is called for every rate of a scan, corner "
        "of a design and step of a path from the same seeds, and for the answer and the tied rate from new ones, "
        "with these rates at the sites tuned, one in a group, and their own at others. Losses of points, of the scan "
        "on all examples, later on the half of their stage, and the gain of the split with its error are those of "
        "what it trained; the module is left as it was.",
        pair(trained_checks.trained_copies),
        ("rates.tune_rates", "rates.Fit"),
        "Written out. A guard of one seed, equal rates, patterns without a site, and fewer than 8 validation "
        "examples are refused.",
    ),
    room_claim(
        "conclusions",
        "compare(a, b) of losses (seeds, examples) gives the mean of a - b; its squared error adds, over examples "
        "and over two or more seeds, the variance of their means over their number, with Satterthwaite's degrees of "
        "freedom; it is clear beyond two errors, sure by Student's test at 5 %. judge's best has the least mean "
        "loss: flat at 0, where no other is clearly worse, or where not clear of the lowest rate or a constant "
        "output; else at the edge where no higher one is clearly worse. gap_of's share is the gain over the lowest "
        "rate's validation less training loss.",
        (partial(tuning_checks.conclusions, 1.0), partial(tuning_checks.conclusions, 1.1)),
        ("rates.verdicts.compare", "rates.verdicts.judge", "rates.points.gap_of"),
    ),
    room_claim(
        "copies-kept",
        "Copies whose training broke off go on from their last look and end in the losses of whole ones; they are "
        "kept under names that differ where weights, frozen parts, layers, Fit, loss, data, rates or seed do, and "
        "not trained again. Uniforms of masks, and numbers that a module draws itself, are new in every step and "
        "from every seed, the same for all copies. A copy has the losses of its best look, or means of its tail; "
        "what a pass writes on the module is put back.",
        pair(kept_copy_checks.kept_copies),
        ("rates.Fit", "losses.CrossEntropy"),
        "Beside trainings that nobody breaks off. What stays at a higher rate stays at a lower one. Masks of few "
        "units may agree by chance.",
    ),
    Claim(
        "droptics-designs",
        "droptics, how rates of several sites are compared",
        "From the two-level design of up to eleven sites (4, 8 or 12 copies), effects gives half the change of an "
        "additive loss from the low to the high level of every site exactly; its squared error is that of the mean "
        "over examples plus, where three columns or more are to spare, the median of their squared mean effects. "
        "path moves the log-odds of a site against its effect where this exceeds two errors, the one of largest such "
        "effect by 0.7 at a step of one, and leaves the others.",
        check=partial(design_checks.designed_effects, 1.0),
        control=partial(design_checks.designed_effects, 1.1),
        objects=("rates.two_level", "rates.designs.effects", "rates.splits.path"),
        note="Proved. Of two or more examples.",
    ),
)
