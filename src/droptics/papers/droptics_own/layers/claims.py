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
        "With squared loss DropConnect on the LAST weights has the very penalty of dropout before them, at one rate.",
        check=partial(runs.last_weights, 1.0),
        control=partial(runs.last_weights, 1.02),
        objects=("layers.DropConnect", "penalties.penalty"),
        note=PROVED,
    ),
    Claim(
        "droptics-dropblock-layer",
        "droptics, on pal2020-sec5.3",
        "As it is made by default, with edges of every kind, the DropBlock layer drops whole blocks, no larger than "
        "the map, on average over the positions the share that was asked for, and keeps every mean.",
        check=partial(drop_block_checks.block_layer, 1.0),
        control=partial(drop_block_checks.block_layer, 1.1),
        objects=("layers.DropBlock",),
        note="By counting blocks, and by 4,000 draws with a fixed seed, within five standard errors.",
    ),
    room_claim(
        "placed-blocks",
        "Seeds, realized rates and outputs of DropBlock in every setting are those of blocks placed one by one, and "
        "presets, tables and settings in words are what they say.",
        pair(layer_checks.placed_blocks),
        ("layers.DropBlock", "layers.realized_rates", "layers.DropConnect"),
        "By loops over blocks.",
    ),
    room_claim(
        "adapted-heads",
        "The penalty of the branch of any adapter of a LoRA layer, and of the tokens that have labels, is what the "
        "squared loss rises by over all masks; of cross-entropy a bound, the second order, or on average the draws.",
        pair(layer_checks.adapted_heads),
        ("layers.ExplicitDropout", "layers.explicit_penalty", "layers.explicit_consistency"),
        f"{ENUMERATED} Drawn numbers within five standard errors.",
    ),
)
