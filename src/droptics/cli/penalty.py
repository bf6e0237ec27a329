"""`droptics penalty`: the exact penalty of a saved linear network on saved data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from droptics.cli.options import AsJson, Numbers, Rate, Together


def penalty_command(
    model: Annotated[
        Path, typer.Argument(help="A .npz or .safetensors file of U and V (x -> U V^T x), or W1, W2, ...")
    ],
    data: Numbers,
    drop: Rate,
    block: Together = 1,
    sliding: Annotated[bool, "Blocks slide over the units, matched to --drop."] = False,
    connect: Annotated[bool, "Drop single weights of V (DropConnect) instead of hidden units."] = False,
    samples: Annotated[int | None, "Also estimate by Monte Carlo with this many masks, with its interval."] = None,
    as_json: AsJson = False,
) -> None:
    """Exact penalty that dropout adds to the squared loss of a linear network.

    Prints the risk without dropout, the exact penalty, their sum (the expected training loss), and for deep networks
    the share of each order of interaction between layers.

    Example: droptics penalty weights.npz --data data.npz --drop 0.5
    """
    from droptics.cli.files import read_model, read_sample
    from droptics.cli.laws import law_for
    from droptics.cli.tables import show
    from droptics.models import DeepLinear
    from droptics.penalties import MonteCarlo, penalty, risk, sub_penalties

    network = read_model(model, connect=connect)
    sample = read_sample(data).to(network.dtype)
    masks = law_for(network, drop, block, sliding)
    exact = penalty(network, sample, masks)
    base = float(risk(network, sample))
    rows: dict[str, object] = {
        "risk without dropout": base,
        "penalty": float(exact),
        "expected training loss": base + float(exact),
        "share of the training loss": float(exact) / (base + float(exact)) if base + float(exact) else 0.0,
        "method": exact.method,
    }
    if isinstance(network, DeepLinear):
        for order, term in enumerate(sub_penalties(network, sample, masks).tolist(), start=1):
            rows[f"penalty of order {order}"] = term
    if samples is not None:
        estimate = penalty(network, sample, masks, MonteCarlo(samples))
        rows["Monte Carlo"] = float(estimate)
        rows["Monte Carlo interval"] = [float(estimate.lower), float(estimate.upper)]
    show(f"{model.name} on {len(sample)} examples, drop {drop}", rows, as_json)
