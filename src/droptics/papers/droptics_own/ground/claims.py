"""Claims on the ground floor: data, laws, losses, norms, arguments."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers import runs
from droptics.papers.droptics_own.ground import (
    argument_checks,
    data_checks,
    derivative_checks,
    law_checks,
    white_checks,
    word_checks,
)
from droptics.papers.droptics_own.instruments import ENUMERATED, pair, room_claim

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "droptics-laws",
        "droptics, what a mask law is",
        "Mean, covariance, Cbar = Cov/(mean mean^T) and largest multiplier of every law, from the list of its masks; "
        "draws scatter as Cbar says.",
        check=partial(runs.law_moments, 1.0),
        control=partial(runs.law_moments, 0.5),
        objects=("masks.Bernoulli", "masks.Block", "masks.SlidingBlock", "masks.Discrete", "masks.Gaussian"),
        note="By enumeration; SlidingBlock with both kinds of edges.",
    ),
    room_claim(
        "white-in-full",
        "White coordinates of moments, samples, entries and measurements give the risks of the examples, their slack "
        "is its formula where second moments are read, and symmetries are counted.",
        pair(white_checks.white_in_full),
        ("data.Sample", "data.Moments", "data.Entries", "data.Measurements"),
        "Sums over the examples.",
    ),
    room_claim(
        "kinds-of-arguments",
        "Every kind of argument takes what it says, its ends included or not, and nothing beside; what is refused is "
        "named.",
        pair(argument_checks.kinds_of_arguments),
        ("data.Sample", "data.Moments", "data.Entries", "masks.Discrete", "norms.k_support"),
        "Ends of ranges by bisection over all numbers, which a control moves; values beside them.",
    ),
    room_claim(
        "laws-in-full",
        "All that a law of masks says of itself and does to vectors and matrices is what its outcomes give.",
        pair(law_checks.laws_in_full),
        (
            "masks.Bernoulli",
            "masks.Block",
            "masks.SlidingBlock",
            "masks.Discrete",
            "masks.Product",
            "masks.Gaussian",
            "masks.drop_for_width",
        ),
        ENUMERATED,
    ),
    room_claim(
        "data-in-full",
        "Moments of samples, batches and parts are sums in fractions up to the rounding that they tell, of no more "
        "than the rank that they tell; samples too large for single precision are not converted to it; shifted "
        "estimates shift both ends, and norms are those of their definitions.",
        pair(data_checks.data_in_full),
        ("data.Moments", "data.Sample", "estimates.Estimate", "norms.path_norm", "norms.k_support"),
        "In fractions; k-support norms by bisection.",
    ),
    room_claim(
        "floor-in-words",
        "What is refused is named with what it must be, what came and what to do; answers that are not finite name the "
        "argument to blame; old keywords, bars of long loops and pictures are by definition.",
        pair(word_checks.floor_in_words),
        ("data.Sample", "data.Entries", "norms.k_support", "norms.path_norm"),
        "Word by word.",
    ),
    room_claim(
        "derivatives-in-full",
        "Penalties, criteria, induced penalties and envelopes of weighted examples have in weights, data and rates the "
        "derivatives of their formulas: backward and forward, along one of them or all, by torch.func and by dual "
        "numbers, and of batches along any axis.",
        pair(derivative_checks.derivatives),
        (
            "penalties.criterion",
            "penalties.penalty",
            "envelopes.induced",
            "envelopes.envelope",
            "masks.Bernoulli",
            "models.ReLUNet",
            "models.DeepLinear",
        ),
        "Beside torch's derivatives of sums written out. Of ReLU networks in the rates of the last hidden layer, and "
        "forward by torch.func alone: the others are constants, and dual numbers are refused.",
    ),
)
