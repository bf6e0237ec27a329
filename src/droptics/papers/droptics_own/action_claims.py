"""Results of our own on laws, solvers and layers: the library's code against sums and steps that are written out."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers import runs
from droptics.papers.droptics_own import rates_checks

PROVED = "Proved."

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "droptics-completion",
        "droptics, thesis-prop3 and thesis-prop4 as solved",
        "Without biases and smoothing, alternating least squares ends where every row and column solves (G + lam "
        "diag G) u = V^T y (empirical) or (G + lam n_i diag s) u = V^T y (expected): lam = (1-theta)/theta, V and y "
        "those of its n_i ratings less the mean, s the mean of v^2 over all; dropout SGD multiplies by 0 or 1/theta.",
        check=lambda: [*runs.completion_systems(lambda drop: drop / (1 - drop)), *runs.completion_masks(1.0)],
        control=lambda: [*runs.completion_systems(lambda drop: drop), *runs.completion_masks(0.5)],
        objects=("recommenders.DropoutCompletion",),
        note=PROVED,
    ),
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
    Claim(
        "droptics-any-law",
        "droptics, generalizes pal2020-lem3.1 and thesis-prop8",
        "The penalty of two-layer, DropConnect and deep linear networks under any law, correlated ones included, on "
        "weighted examples: the mean over all masks minus the weighted risk.",
        check=partial(runs.any_law, 1.0),
        control=partial(runs.any_law, 1.1),
        objects=("penalties.penalty", "penalties.risk", "models.Connections", "models.DeepLinear"),
        note=PROVED,
    ),
    Claim(
        "droptics-dropblock-layer",
        "droptics, on pal2020-sec5.3",
        "As it is made by default the DropBlock layer drops whole blocks, on average over the positions the share that "
        "was asked for, and keeps every mean.",
        check=partial(runs.block_layer, 1.0),
        control=partial(runs.block_layer, 1.1),
        objects=("layers.DropBlock",),
        note="By counting blocks, and by 4,000 draws with a fixed seed, within five standard errors.",
    ),
    Claim(
        "droptics-flows",
        "droptics, what thesis-thm12 and thesis-cor2 measure",
        "alpha of a ReLU network of one hidden layer, one output and no biases is sum_k |u_k| sqrt(E relu(v_k.x)^2); "
        "on examples beside their negatives it is sum_k |u_k| sqrt(v_k^T C v_k/2).",
        check=partial(runs.flow_sum, 1.0),
        control=partial(runs.flow_sum, 1.01),
        objects=("bounds.relu_alpha",),
        note=PROVED,
    ),
    Claim(
        "droptics-shared-masks",
        "droptics, common random numbers",
        "Copies at rates p < q that compare the same uniforms differ at a share q - p of the units, the least that any "
        "pair of masks at these rates can, and what falls at p falls at q.",
        check=partial(rates_checks.shared_masks, True),
        control=partial(rates_checks.shared_masks, False),
        objects=("rates.masking.SharedMasks",),
        note=PROVED + " By 40,000 units with a fixed seed, within five standard errors.",
    ),
)
