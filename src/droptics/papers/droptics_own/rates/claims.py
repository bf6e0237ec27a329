"""Claims on rates."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own.instruments import ENUMERATED, PROVED, WRITTEN, pair, room_claim
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
        "Copies at rates p < q that compare the same uniforms differ, on average over draws, at a share q - p of the "
        "units, the least that any pair of masks at these rates can, and what falls at p falls at q in every draw.",
        check=partial(shared_mask_checks.shared_masks, True),
        control=partial(shared_mask_checks.shared_masks, False),
        objects=("rates.masking.SharedMasks",),
        note=PROVED + " By 40,000 units with a fixed seed, within five standard errors.",
    ),
    room_claim(
        "modules-in-full",
        "Attention and recurrent layers under given masks are torch's layers with multipliers between; replayed runs, "
        "names of places, sites, chains of three layers, left-out losses, joined examples, losses of each by its "
        "labels that count, and answers on rates, written, read and drawn, are by definition.",
        pair(watched_module_checks.modules_in_full),
        ("models.Site", "rates.Rates", "heads.ridge.DropoutRidge"),
        f"{ENUMERATED} Torch's own layers; refits.",
    ),
    room_claim(
        "divided-rates",
        "On losses that are known a tied rate is judged beside a constant output, and divided as its design, effects, "
        "path, surest step and guard say.",
        pair(answer_checks.divided_rates),
        ("rates.two_level", "rates.verdicts.judge", "rates.splits.no_split"),
        WRITTEN,
    ),
    room_claim(
        "told-answers",
        "Tuned rates as dictionaries, JSON, files and words hold what they are made of, and are put where rates live; "
        "what is none, and places where no file can stand, are refused.",
        pair(answer_checks.told_answers),
        ("rates.Rates", "rates.Fit", "rates.places.set_rates"),
        WRITTEN,
    ),
    room_claim(
        "masked-kinds",
        "Under shared masks what has its uniform number below the rate falls, entries, channels or weights of "
        "attention, anew where a layer runs twice, and the rest is divided by 1 - rate, or as alpha dropout has it; a "
        "query that sees no key gets zero; layers that draw themselves, as recurrent ones, are torch's own at the rate "
        "and from the seed of the call.",
        pair(mask_kind_checks.masked_kinds),
        ("rates.masking.SharedMasks",),
        "Beside torch's own layers.",
    ),
    room_claim(
        "head-rates",
        "Losses of a trained head, and of estimators with their own rates and offsets, at every rate, on validation "
        "data, on training data and with each example left out, are those of refits; the answer is their minimum.",
        (partial(tuning_checks.head_rates, 1.0), partial(tuning_checks.head_rates, 1.1)),
        ("rates.tune_rates",),
        "By refits.",
    ),
    room_claim(
        "stationary-rates",
        "The squared training loss of linear chains and affine tails is that over all masks, the fit is stationary, "
        "and the effect of the rate of a site, or of both together, per unit of its log-odds, is the difference of "
        "held-out losses, all or some, of fits beside it. "
        "What only looks like them is refused, and sites that keep their rate are named.",
        (partial(tuning_checks.stationary, 1.0), partial(tuning_checks.stationary, 1.05)),
        ("rates.chains.chain_scan", "rates.tails.tail_scan", "rates.tune_rates", "rates.Fit"),
        ENUMERATED,
    ),
    room_claim(
        "copies",
        "Copies train as torch.optim does, alone and together, without masks and under theirs, frozen weights stay, "
        "and they stand for their best look without dropout, or the mean of the last; under masks those together are "
        "those alone.",
        (partial(tuning_checks.copies, 1.0), partial(tuning_checks.copies, 1.1)),
        ("rates.copies.train_copies",),
        "Beside loops with torch.optim.",
    ),
    room_claim(
        "trained-by-functions",
        "A function that trains copies, in place or by what it returns, is called for every rate of a scan, corner of "
        "a design, step of a path and for the answer beside the tied rate, with these rates at the sites that are "
        "tuned, groups alike, and their own at the others; from the same seeds but for the last, which are judged on "
        "new ones. Losses of all stages, on the examples that each asks, the gain of the split and its error are "
        "those of what it trained; the module is left as it was. Calls that cannot be meant are refused.",
        pair(trained_checks.trained_copies),
        ("rates.tune_rates", "rates.Fit"),
        WRITTEN,
    ),
    room_claim(
        "conclusions",
        "Paired differences of losses, verdicts, splits and the share of the generalization gap are by definition.",
        (partial(tuning_checks.conclusions, 1.0), partial(tuning_checks.conclusions, 1.1)),
        ("rates.verdicts.compare", "rates.verdicts.judge", "rates.points.gap_of"),
    ),
    room_claim(
        "copies-kept",
        "Trainings that are broken off end in the numbers of whole ones; copies are kept under all that they depend "
        "on; masks, and numbers that a module draws itself, are others in every step and from every seed, the same in "
        "all copies; looks, tails, buffers, rates in attributes and what a pass writes on a module are by definition.",
        pair(kept_copy_checks.kept_copies),
        ("rates.Fit", "losses.CrossEntropy"),
        "Beside trainings that nobody breaks off.",
    ),
    Claim(
        "droptics-designs",
        "droptics, how rates of several sites are compared",
        "The two-level design of up to eleven sites gives the effects of an additive loss exactly and their errors "
        "over examples, and over runs where three columns are to spare; along the descent log-odds move as the effects "
        "that exceed two errors.",
        check=partial(design_checks.designed_effects, 1.0),
        control=partial(design_checks.designed_effects, 1.1),
        objects=("rates.two_level", "rates.designs.effects", "rates.splits.path"),
        note="Proved.",
    ),
)
