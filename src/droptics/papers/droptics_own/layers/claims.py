"""Claims on layers."""

from __future__ import annotations

from functools import partial

from droptics.evidence.claims import Claim
from droptics.papers import runs
from droptics.papers.droptics_own.instruments import ENUMERATED, PROVED, pair, room_claim
from droptics.papers.droptics_own.layers import drop_block_checks, layer_checks

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "droptics-dropconnect-last",
        "droptics, the true companion of pal2020-thm4.1",
        "With squared loss, masks Z of DropConnect on the last weights U at rate p raise the loss by E_Z ||(Z*U) h||^2 "
        "- ||U h||^2 = p/(1-p) sum_k ||u_k||^2 h_k^2 on average, u_k the columns of U: the very penalty of dropout of "
        "the features h before them at p.",
        check=partial(runs.last_weights, 1.0),
        control=partial(runs.last_weights, 1.02),
        objects=("layers.DropConnect", "penalties.penalty"),
        note=PROVED,
    ),
    Claim(
        "droptics-dropblock-layer",
        "droptics, on pal2020-sec5.3",
        "In training, with its default rate and rescale and edges of every kind, what DropBlock zeroes is a union of "
        "whole blocks, cut at the border, with sides no longer than the map's shorter. A position under n possible "
        "blocks falls with probability 1 - (1-gamma)^n; these average to `drop` over the positions, and survivors are "
        "divided by (1-gamma)^n, so that every output has its input for a mean.",
        check=partial(drop_block_checks.block_layer, 1.0),
        control=partial(drop_block_checks.block_layer, 1.1),
        objects=("layers.DropBlock",),
        note="By counting blocks; draws in float64, 4,000 of each position at a fixed seed, within five standard "
        "errors.",
    ),
    room_claim(
        "placed-blocks",
        "For all edges, rates, rescalings and sharing of channels DropBlock's outputs are those of blocks placed one "
        "by one at the same seeds; seed_rate is drop/block^k ('area'), that times positions over places inside "
        "('inside'), or what makes realized_rate, 1 - mean_i (1-gamma)^n_i, equal drop ('matched'). realized_rates "
        "tabulates these; DropBlock.like has the settings of torchvision, timm and dropblock. DropConnect in half "
        "precision drops weights as torch's dropout does.",
        pair(layer_checks.placed_blocks),
        ("layers.DropBlock", "layers.realized_rates", "layers.DropConnect"),
        "By loops over blocks.",
    ),
    room_claim(
        "adapted-heads",
        "ExplicitDropout.of_lora penalizes in training the branch s B A of the adapter named, at that adapter's rate, "
        "inputs masked: with squared loss by E_z ||s B A (z*x - x)||^2, with cross-entropy by half the curvature's "
        "quadratic form of s B A (z*x - x) on average ('second-order'), by at least the rise of the loss ('bound'), or "
        "by draws whose mean is that rise. explicit_penalty averages over tokens with labels; explicit_consistency is "
        "the sum over layers of mean divergences of pairs of draws.",
        pair(layer_checks.adapted_heads),
        ("layers.ExplicitDropout", "layers.explicit_penalty", "layers.explicit_consistency"),
        f"{ENUMERATED} Drawn numbers within five standard errors.",
    ),
)
