"""Claims on audits."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own.audits import (
    audit_checks,
    data_checks,
    finding_checks,
    input_checks,
    part_checks,
    report_checks,
    run_checks,
    total_checks,
    word_checks,
)
from droptics.papers.droptics_own.instruments import ENUMERATED, WRITTEN, pair, room_claim

CLAIMS: tuple[Claim, ...] = (
    room_claim(
        "audits-in-full",
        "For two dropout layers of a network, under squared loss and cross-entropy and the same masks, an "
        "audit takes: slopes, the derivatives of each example's loss in the multipliers at one; remainders, "
        "the change of loss minus slopes times moves; guesses, half the change of slopes times moves; for "
        "lists of outcomes, the mean change over all masks of one layer and of both. Means over draws have "
        "Satterthwaite's degrees of freedom. Of eighteen functions of two masks, those in which the outputs "
        "are affine are found.",
        pair(run_checks.audits_in_full),
        ("losses.CrossEntropy", "losses.Squared"),
        "By autograd under the same masks.",
    ),
    room_claim(
        "merged-shards",
        "Mean.merge has value, standard error and t interval, by Satterthwaite's degrees of freedom, of all "
        "rows of draws; Head.merge the second moments, penalty and, between its bounds, the cross-entropy "
        "penalty of all examples; Chain.merge the penalty of a linear chain over all masks and examples; "
        "UnitTally.merge the flows and evenness of all. Two masks of rates p and q at one place of a chain "
        "are one of rate 1 - (1 - p)(1 - q).",
        pair(part_checks.merged_shards),
        ("audits.tallies.Mean", "audits.heads.Head", "audits.heads.Chain", "audits.units.UnitTally"),
        ENUMERATED,
    ),
    room_claim(
        "judged-masks",
        "differs(seen, rate) says whether the zeros seen have a chance below 1e-4 at the rate: by Student's "
        "test of the examples' shares, by twice the smaller binomial tail where examples fall whole or one "
        "is seen, by twice Markov's bound where all shares are alike and more than a unit off. coins gives "
        "the one factor of examples that fall whole. rate_choice.gain of an audit is the mean difference, "
        "with its t interval, of squared errors of refits without each example.",
        pair(part_checks.judged_masks),
        ("audits.passes.differs", "audits.passes.coins", "audits.audit"),
        "Beside scipy.stats, at 0.8 and 1.25 times the threshold; refits.",
    ),
    room_claim(
        "advised-findings",
        "remarks(report) gives the codes that the check lists: DR004 for losses that are not finite, DR105 "
        "for a penalty of exactly 0, DR501 where the lower end of the training loss is above the validation "
        "loss and the loss without dropout, DR502 where the validation loss is above the latter and DR501 is "
        "not given, DR503 where the upper end of a penalty is below 0, DR505 where the lower end of a gain "
        "is above 0; texts hold the numbers. Callbacks with every=n report at the end of each n-th epoch.",
        pair(part_checks.advised_findings),
        ("audits.findings.remarks", "audits.lightning_callback", "audits.huggingface_callback"),
        "Written out, on reports with few numbers and rates above 0.",
    ),
    room_claim(
        "worded-reports",
        "At widths of 40, 72, 110 and 200 letters no line of a report's text is longer than the width, but "
        "for a single word that is longer itself, which stays whole. Up to twelve sites have a row each with "
        "name, kind, rate, penalty, share and method; more stand in groups with the sums of their penalties "
        "and shares. curves puts points, band, level and ticks where one affine map of each axis puts them.",
        pair(word_checks.worded_reports),
        ("audits.summary.terminal_text", "audits.drawing.curves", "audits.labels.compact"),
        "Written out, on reports with given numbers.",
    ),
    room_claim(
        "planted-mistakes",
        "In each of twenty networks with one planted mistake audit finds its code, once, at its place, and "
        "no other of the codes DR001 to DR003, DR1xx, DR2xx, DR3xx, DR401, DR402 and DR504; in five sound "
        "networks none of these. After an audit gradients, modes, parameters, buffers, requires_grad, hooks "
        "and torch's generator are as before. Rates of masks written by hand are those they state, else the "
        "share of zeros seen.",
        pair(finding_checks.planted_mistakes),
        ("audits.audit",),
        "Four mistakes that leave a network without dropout have DR003, too.",
    ),
    room_claim(
        "read-data",
        "The loss without dropout that audit reports is torch's mean over all examples of a Sample without "
        "weights, a pair, a set, a loader, batches or dictionaries, for torch's losses of mean reduction, "
        "functions, and names; over all labels but -100 for cross-entropy of examples or tokens, shifted or "
        "smoothed, whatever the batches. Under squared loss of a head, training_loss is the mean over all "
        "masks. Accuracy counts no label -100. A module's own loss is taken as torch's squared, mean squared "
        "or cross-entropy loss where it equals that to one part in 10,000.",
        pair(data_checks.read_data),
        ("audits.audit",),
        "By enumeration of all masks; torch. Losses with weights of classes, or another ignore_index, have a "
        "mean for each batch, which counts by its examples.",
    ),
    room_claim(
        "told-reports",
        "Report.from_json(report.to_json()) has every field of the report, numbers bit by bit, but NaN for a "
        "required number that is not finite; content of no schema or another is refused. Its text shows the "
        "losses and a row for each of up to twelve sites; of more, for each group, with the sum of its "
        "penalties, whose ends lie off by the root of the sum of squares of theirs, and for the five of "
        "largest penalty.",
        pair(report_checks.told_reports),
        ("audits.audit", "audits.Report"),
        "Written out, on two audits.",
    ),
    room_claim(
        "drawn-reports",
        "The page of an audit has a row of each site, with rate, penalty and half its interval, share and "
        "method, and one of their interaction, and the pictures of each site in their order. Their lines are "
        "affine images of the numbers of the report: errors by rate, flows in decreasing order, measured and "
        "optimal spectra, training loss by rate beside the loss without dropout; a band is as high as the "
        "intervals of its penalties.",
        pair(report_checks.drawn_reports),
        ("audits.audit",),
        "Coordinates read from the pictures, to one decimal.",
    ),
    room_claim(
        "logged-reports",
        "With every=k, audits.lightning_callback and huggingface_callback audit the network after each k-th epoch, "
        "counting on where they are unpickled. They log the numbers of audit_numbers: losses with and without dropout, "
        "of each site penalty over training loss, and of sites with flows imbalance and co-adaptation; the one by the "
        "module's log_dict, the other to the trainer's history, all its callbacks and `log`. `last` is the report.",
        pair(report_checks.logged_reports),
        ("audits.audit_numbers", "audits.lightning_callback", "audits.huggingface_callback", "audits.audit"),
        WRITTEN,
    ),
    room_claim(
        "shared-draws",
        "Beyond the least number each, draws go to sites in the order of what it costs to resolve them, to 20 % of "
        "their penalty or 1 % of all at (2.8 deviation / that)^2 draws, then where deviation / sqrt(draws) is largest, "
        "within the budget. Penalties of sites of three units are those of all masks, and intervals of the training "
        "loss hold its mean over all masks. Equal seeds draw equal masks.",
        pair(data_checks.shared_draws),
        ("audits.audit",),
        f"{ENUMERATED} Intervals at 99.9999 %.",
    ),
    room_claim(
        "spread-of-predictions",
        "With uncertainty=True the mean variance over all masks of the outputs of the first uncertainty.examples "
        "examples lies in the drawn interval of uncertainty.variance. Of its value, the share of dropout before the "
        "last layer is the variance that this dropout has alone, that of dropout p on the inputs p/(1-p) times the "
        "mean of sum_i (x_i df/dx_i)^2, which is theirs alone where the network is linear.",
        pair(data_checks.spread_of_predictions),
        ("audits.audit",),
        "By enumeration of all masks, at fixed seeds.",
    ),
    room_claim(
        "audited-head",
        "With squared loss and dropout before the last, linear layer, an audit's penalty, also at another rate, "
        "training loss and variance, of its first examples, are those over all masks; the certificate's bound is the "
        "least criterion over ranks of the spectrum, whose optimum it shows; errors at other rates are those of fits "
        "without each example; flows are ||w_k|| sqrt(E h_k^2), imbalance d sum psi^2 / (sum psi)^2 - 1, coadaptation "
        "sum psi / (sqrt(d) ||psi||).",
        (partial(audit_checks.audited_head, 1.0), partial(audit_checks.audited_head, 1.1)),
        ("audits.audit",),
        "By enumeration of all masks, ranks and examples.",
    ),
    room_claim(
        "audited-sites",
        "Penalties of two sites of a classifier, alone and together, lie in the intervals of its audit; those of a "
        "linear chain, and of a site in which outputs of one or more rows are affine, are exact; where training mode "
        "changes the features, they are those of the features in training. second_order is half the mean over masks of "
        "the variance, under the class probabilities, of the logits' moves; `subnetworks` has the accuracies under 50 "
        "masks and the fewest units, in five orders, that keep the accuracy within .01.",
        (partial(audit_checks.audited_sites, 1.0), partial(audit_checks.audited_sites, 1.2)),
        ("audits.audit", "coadaptation.draw"),
        f"{ENUMERATED} Intervals of 99 %, at fixed seeds.",
    ),
    room_claim(
        "audited-paths",
        "Two residual blocks left out with one coin an example, at rates above 0: their penalties, alone and together, "
        "are the sums over all outcomes where the loss has a number for every example, no example looks at another, "
        "and the first pass keeps each block once; where a loss has one number for a batch they are drawn, with "
        "intervals that hold the sums.",
        (partial(audit_checks.audited_paths, 1.0), partial(audit_checks.audited_paths, 1.1)),
        ("audits.audit",),
        f"{ENUMERATED} Rates .2 and .35, intervals of 99 % at fixed seeds.",
    ),
    room_claim(
        "audited-in-full",
        "Sixteen forms of data become the arguments, targets and counts of their batches; the output, or loss, is "
        "found in dictionaries, tuples and objects; graphs count their training nodes. Rules on rates, modes, shapes, "
        "rescaling, padding, NaN, shifted variances and layers that never drop speak of the calls that break them "
        "alone; a layer left out at p adds p times the loss without it less that with it. heat_map has a cell for each "
        "of twelve or more sites; rules added by findings.finding speak by their codes.",
        pair(input_checks.audited_inputs),
        ("audits.findings.finding", "audits.batches.batches", "data.Sample"),
        "Written out, on traces that are given.",
    ),
    room_claim(
        "audit-totals",
        "A report's total is that of the chain, else of all outcomes, else of draws, else of its one site; a site's "
        "penalty is exact, or certified where narrower, else drawn, its curve moves that part alone, and its share is "
        "penalty over training loss. interaction is the total less all sites; rest, what training mode changes "
        "besides, counts above 1e-5 of the loss. Two shards sum to all examples. Intervals of heads hold the penalty "
        "over all masks, and layers left out have no mask of their own.",
        pair(total_checks.audited_totals),
        ("audits.Report", "audits.audit", "data.Sample", "losses.CrossEntropy"),
        "From sums that are given; heads by all masks.",
    ),
)
