"""`droptics predict`: how sure is my network?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from droptics.cli.options import AsJson, State


def predict_command(
    model: Annotated[
        str,
        typer.Argument(
            help="A module: a file of torch.export.save (.pt2, exported in training mode), or package.module:factory "
            "(a class or function that returns the module)."
        ),
    ],
    data: Annotated[Path, "A .npz or .safetensors file with the array inputs (or images), one row each."],
    state: State = None,
    samples: Annotated[int, "Masks, where the network is random before its last layer too."] = 200,
    classes: Annotated[bool, "Read the outputs as logits: probabilities, entropy, mutual information."] = False,
    seed: Annotated[int, "Seed of the sampled masks."] = 0,
    out: Annotated[Path | None, "Write mean, variance and the rest to this .safetensors file."] = None,
    as_json: AsJson = False,
) -> None:
    """Mean and variance of every prediction under the network's own dropout, without repeating passes where possible.

    What passes with dropout left on converge to: exact where only the layer before the last is random, or few masks
    come before it; otherwise that layer is integrated and the others are sampled, with intervals.

    Example: droptics predict nets:classifier --state weights.safetensors --data test.npz --classes --json
    """
    import torch

    from droptics.checks import check_finite
    from droptics.cli.files import INPUTS, TARGETS, read_named
    from droptics.cli.modules import like_weights, load_module
    from droptics.cli.tables import show
    from droptics.errors import NoClosedForm
    from droptics.files import check_target
    from droptics.files.arrays import write_tensors
    from droptics.penalties import MonteCarlo
    from droptics.predictions import predictive

    if out is not None:
        check_target(out, ".safetensors")
    module = load_module(model, state)
    inputs = like_weights(module, read_named(data, INPUTS, optional=TARGETS)["inputs"])
    if inputs.is_floating_point():
        check_finite(inputs, "inputs")
    with torch.no_grad():
        try:
            found = predictive(module, inputs)
        except NoClosedForm:
            found = predictive(module, inputs, None, MonteCarlo(samples, seed=seed))
        tensors = {"mean": found.mean.value, "variance": found.variance.value}
        rows: dict[str, object] = {
            "examples": len(inputs),
            "outputs": found.mean.value.shape[-1],
            "mean standard deviation": float(found.std.mean()),
            "largest standard deviation": float(found.std.max()),
            "of example": int(found.std.amax(-1).argmax()),
            "method": found.variance.method,
        }
        if classes:
            told = found.classes()
            tensors |= {
                "probabilities": told.probabilities.value,
                "entropy": told.entropy.value,
                "mutual_information": told.mutual_information.value,
            }
            rows["mean entropy"] = float(told.entropy.value.mean())
            rows["mean mutual information"] = float(told.mutual_information.value.mean())
            rows["method of the classes"] = told.probabilities.method
    if out is not None:
        write_tensors(out, {key: value.contiguous() for key, value in tensors.items()})
        rows["written"] = str(out)
    show(f"{model} on {data.name}", rows, as_json)
