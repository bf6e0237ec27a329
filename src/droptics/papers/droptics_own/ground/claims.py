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
        "mean, covariance, characteristic Cbar = Cov/(mean mean^T) and bound, the largest |z_i/mean_i|, of "
        "masks.Bernoulli, Block, SlidingBlock and Discrete are those of the list of their masks z; Gaussian has mean "
        "1, Cbar the diagonal of its variances, and no bound. Draws are on the list, and products of z_i/mean_i - 1 "
        "have the mean Cbar_ij.",
        check=partial(runs.law_moments, 1.0),
        control=partial(runs.law_moments, 0.5),
        objects=("masks.Bernoulli", "masks.Block", "masks.SlidingBlock", "masks.Discrete", "masks.Gaussian"),
        note="By enumeration; SlidingBlock with both kinds of edges; 20,000 draws at a fixed seed, within five "
        "standard errors.",
    ),
    room_claim(
        "white-in-full",
        "spectra.coordinates.whiten of moments, samples, entries in product proportions and isotropic measurements has "
        "coordinates, W' of a map W, in which its risk is constant + ||target - W'||^2, the criterion that of examples "
        "and the spectrum the singular values of W', with inputs those of W (E x x^T)^(1/2); other entries and "
        "measurements are refused. `slack`, what rounding may take off a bound, is its formula where second "
        "moments are read. symmetry_dimension is the rank, to 1e-8, of what rescalings of units and, among at most 400 "
        "pairs of axes, rotations move.",
        pair(white_checks.white_in_full),
        ("data.Sample", "data.Moments", "data.Entries", "data.Measurements"),
        "Sums over the examples; symmetries counted by hand. Directions of the inputs below the rounding of their "
        "precision count as without energy.",
    ),
    room_claim(
        "kinds-of-arguments",
        "Every annotated kind of droptics.arguments (counts, rates, sizes, vectors, matrices, ids) accepts values at "
        "and within its ends and refuses those beyond, beside numbers NaN, booleans, text, other shapes and other "
        "types; the first and the last number of every range are those it says. Calls that break them end in a "
        "ValueError whose first word is the argument.",
        pair(argument_checks.kinds_of_arguments),
        ("data.Sample", "data.Moments", "data.Entries", "masks.Discrete", "norms.k_support"),
        "Ends of ranges by bisection over all numbers, which a control moves; values beside them.",
    ),
    room_claim(
        "laws-in-full",
        "Moments, reach, independence, supports, bounds and rarest outcomes of masks.Bernoulli, Block, SlidingBlock, "
        "Discrete and Product, and what they do to vectors and matrices (weigh, hadamard, add_noise_, correlate, "
        "noise, variances, covariances, diagonal, directions), are sums over all their masks; those of Gaussian are by "
        "its variances. weigh_at_most is never below weigh. SlidingBlock.matching drops the mean share asked for; "
        "drop_for_width(p, d, r) is the p' with r/d p'/(1-p') = p/(1-p).",
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
        "Moments of samples, of batches and merged are the weighted means of x x^T, y x^T and y y^T, each entry off by "
        "at most `rounding` times the roots of two diagonal ones; `rank`, where known, is not below that of the "
        "inputs. Sample.to refuses float32 for numbers beyond it; Estimate.shift moves value and both ends. path_norm "
        "sums over paths, weighted_trace and nuclear over singular values, k_support squared is min sum a_i^2/t_i over "
        "0 < t_i <= 1, sum t_i <= k.",
        pair(data_checks.data_in_full),
        ("data.Moments", "data.Sample", "estimates.Estimate", "norms.path_norm", "norms.k_support"),
        "In fractions; k-support norms by bisection.",
    ),
    room_claim(
        "floor-in-words",
        "Errors of arguments say which, what it must be, what came, some what to do. Where an answer is not "
        "finite, the error names the argument whose tensors hold the largest numbers, of 2^20 at least, or one whose "
        "tensors hold NaN; where none do, as for numbers that are no tensors, it passes. Old keywords work and warn "
        "with the new ones. Bars and clocks show within a command on a terminal alone, and items pass as they are. "
        "plots.panels, bars and landscape hold the numbers, names and scales they were given.",
        pair(word_checks.floor_in_words),
        ("data.Sample", "data.Entries", "norms.k_support", "norms.path_norm"),
        "Word by word.",
    ),
    room_claim(
        "derivatives-in-full",
        "The first derivatives that torch takes of criterion, penalty, induced and envelope of weighted examples, in "
        "weights, data and rates, one rate of zero among them, are those of their formulas written out, where these "
        "have any: backward, forward along one of them or all, by torch.func and by dual numbers, and of batches along "
        "any axis.",
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
