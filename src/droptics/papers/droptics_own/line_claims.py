"""Claims that restate a part of the library from the same data and draws: what it computes on the way, to rounding."""

from __future__ import annotations

from droptics.evidence.claims import Claim
from droptics.papers.droptics_own import control_checks, interval_checks, krylov_checks
from droptics.papers.droptics_own.room_claims import pair, room_claim

CLAIMS: tuple[Claim, ...] = (
    room_claim(
        "krylov-in-full",
        "Products with every kind of map, Krylov spaces with their residuals, bounds on the rest of a spectrum, optima "
        "of maps, graded eigenvalues and shares of layers are those of dense algebra.",
        pair(krylov_checks.krylov_in_full),
        ("optima.optimum_of_map",),
        "Dense algebra, fractions, polynomials of the same random vectors.",
    ),
    room_claim(
        "white-in-full",
        "White coordinates of moments, samples, entries and measurements give the risks of the examples, their slack "
        "is what rounding may do, and symmetries are counted.",
        pair(krylov_checks.white_in_full),
        ("data.Sample", "data.Moments", "data.Entries", "data.Measurements"),
        "Sums over the examples.",
    ),
    room_claim(
        "intervals-in-full",
        "Ranges of losses, limits by two moments, guaranteed intervals and scales of rounding are their formulas, for "
        "every family of models.",
        pair(interval_checks.intervals_in_full),
        ("penalties.penalty", "penalties.MonteCarlo", "penalties.risk"),
    ),
    room_claim(
        "controls-in-full",
        "Sampled predictions: plans, listed masks, main effects, slopes, fitted weights, moments, degrees of freedom "
        "and both intervals follow from the drawn masks.",
        pair(control_checks.controls_in_full),
        ("penalties.MonteCarlo", "models.ReLUNet"),
        "From the same draws, group by group.",
    ),
)
