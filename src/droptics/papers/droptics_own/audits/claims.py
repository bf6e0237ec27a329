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
        "Under the same masks an audit has the slopes, changes beyond first order, first looks, lists of outcomes "
        "alone and together, shared draws, and means with their degrees of freedom that are written out from the loss; "
        "the masks in which outputs are affine are those of eighteen functions of two.",
        pair(run_checks.audits_in_full),
        ("losses.CrossEntropy", "losses.Squared"),
        "By autograd under the same masks.",
    ),
    room_claim(
        "merged-shards",
        "Means with their intervals, sums of every kind, heads, chains and units of two shards are those of all "
        "examples; two masks in one "
        "place of a chain are one that keeps where both do.",
        pair(part_checks.merged_shards),
        ("audits.tallies.Mean", "audits.heads.Head", "audits.heads.Chain", "audits.units.UnitTally"),
        ENUMERATED,
    ),
    room_claim(
        "judged-masks",
        "Shares of zeros and whether they are no accident (a chance below 1e-4 by a binomial test, by Student's, or by "
        "Markov's inequality where all shares are alike and more than a unit off), gains of other rates and "
        "spreads of outputs are those of tests and refits by hand.",
        pair(part_checks.judged_masks),
        ("audits.passes.differs", "audits.passes.coins", "audits.audit"),
        "Beside scipy.stats.",
    ),
    room_claim(
        "advised-findings",
        "Each piece of advice on a report is given on one side of its number and not on the other, with its numbers "
        "in words.",
        pair(part_checks.advised_findings),
        ("audits.findings.remarks", "audits.lightning_callback", "audits.huggingface_callback"),
        WRITTEN,
    ),
    room_claim(
        "worded-reports",
        "Names, numbers, groups and tables of a report stand within every width of 40 letters or more, but for words "
        "that are longer, which stay whole, sites one by one up to twelve and in groups above, and curves where one "
        "map puts them.",
        pair(word_checks.worded_reports),
        ("audits.summary.terminal_text", "audits.drawing.curves", "audits.labels.compact"),
        WRITTEN,
    ),
    room_claim(
        "planted-mistakes",
        "Each planted mistake is found at its place under its code, and a sound network has none of them; gradients, "
        "modes, numbers and hooks of a network are after its audit what they were before.",
        pair(finding_checks.planted_mistakes),
        ("audits.audit",),
        "Twenty-five networks, five of them sound.",
    ),
    room_claim(
        "read-data",
        "Losses of data in every form, of tokens with shifted, smoothed and left-out labels too, are torch's own, also "
        "where a loss has one number for a batch, for every example or for every output, where batches of validation "
        "data have unequal numbers of labels, and where large outputs in single precision are taken in parts. Examples "
        "labeled -100 count in no loss and no accuracy. Losses that modules return are known where they are torch's.",
        pair(data_checks.read_data),
        ("audits.audit",),
        ENUMERATED,
    ),
    room_claim(
        "told-reports",
        "A report is what its JSON restores, NaN where a number is not finite; what has no schema or another is none. "
        "Its tables show its numbers, and the sums of its groups.",
        pair(report_checks.told_reports),
        ("audits.audit", "audits.Report"),
        WRITTEN,
    ),
    room_claim(
        "drawn-reports",
        "Pictures and pages of a report show its own numbers in their places: losses, rows of sites and of what they "
        "do together, curves with their bands.",
        pair(report_checks.drawn_reports),
        ("audits.audit",),
        WRITTEN,
    ),
    room_claim(
        "logged-reports",
        "After every so many epochs as were asked for, also from where they are unpickled, callbacks log an audit's "
        "losses with and without dropout, share of the penalty by site, and imbalance and co-adaptation of sites with "
        "flows: to Lightning's module, or to a Hugging Face trainer's history, its callbacks and a function.",
        pair(report_checks.logged_reports),
        ("audits.audit_numbers", "audits.lightning_callback", "audits.huggingface_callback", "audits.audit"),
        WRITTEN,
    ),
    room_claim(
        "shared-draws",
        "Beyond the least number each, draws go to the sites that cost least to resolve, then where their spread is "
        "largest, within the budget; sites of few units have the penalties of all masks, and intervals of the training "
        "loss cover theirs; the seed decides what is drawn.",
        pair(data_checks.shared_draws),
        ("audits.audit",),
        f"{ENUMERATED} Intervals at 99.9999 %.",
    ),
    room_claim(
        "spread-of-predictions",
        "The spread of predictions under masks lies in its interval, which is sampled; shares of the head, and of the "
        "inputs to first order, are those of all masks.",
        pair(data_checks.spread_of_predictions),
        ("audits.audit",),
        ENUMERATED,
    ),
    room_claim(
        "audited-head",
        "What an audit says of dropout before the last layer of a regression is what all masks give (penalty, other "
        "rates, training loss, variance), singular values cut at every rank (certificate, spectrum), fits without "
        "each example (leave-one-out errors), or the formula (flows).",
        (partial(audit_checks.audited_head, 1.0), partial(audit_checks.audited_head, 1.1)),
        ("audits.audit",),
        "By enumeration of all masks, ranks and examples.",
    ),
    room_claim(
        "audited-sites",
        "Penalties of two sites of a classifier, alone and together, lie in the intervals of its audit; those of a "
        "linear chain are exact, and so are those of a site in which outputs of one or more rows are affine; where "
        "training mode changes the features, too, they are those in training. The losses, second order, "
        "accuracies under 50 masks and fewest units of the classifier are written out.",
        (partial(audit_checks.audited_sites, 1.0), partial(audit_checks.audited_sites, 1.2)),
        ("audits.audit", "coadaptation.draw"),
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
        "audited-in-full",
        "Batches and outputs of every form, graphs, rules about the use of dropout and what stands around it, layers "
        "that are left out or never drop, heat maps and rules of one's own are by definition.",
        pair(input_checks.audited_inputs),
        ("audits.findings.finding", "audits.batches.batches", "data.Sample"),
        "Written out, on traces that are given.",
    ),
    room_claim(
        "audit-totals",
        "Rests and shifts, totals, exact and drawn penalties of sites, their curves and shares, what is measured, "
        "bounds of heads, what is no head, layers that are left out and parts of two shards are what the sums of an "
        "audit say.",
        pair(total_checks.audited_totals),
        ("audits.Report", "audits.audit", "data.Sample", "losses.CrossEntropy"),
        "From sums that are given; heads by all masks.",
    ),
)
