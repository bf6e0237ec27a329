"""`droptics optimum`: the best network of a width, and how far a given one is from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from droptics.cli.options import AsJson, Numbers, Rate, Together

if TYPE_CHECKING:
    from droptics.data import Sample

PART = 8


def optimum_command(
    data: Numbers,
    drop: Rate,
    width: Annotated[list[int], "Number of hidden units; repeat it for each layer of a deep network."],
    block: Together = 1,
    model: Annotated[Path | None, "Weights of a trained network (as in `droptics penalty`) to be certified."] = None,
    out: Annotated[Path | None, "Write the optimal weights to this .safetensors file."] = None,
    as_json: AsJson = False,
) -> None:
    """Global optimum of dropout training for a linear network, found by algebra and certified.

    Prints the least possible training loss, the rank of the optimal map and the certificate; with --model also how
    far that network is from the optimum.

    Example: droptics optimum --data data.npz --drop 0.5 --width 20
    """
    from droptics.cli.files import read_model, read_sample, write_model
    from droptics.cli.laws import law_for, law_for_widths
    from droptics.cli.tables import show
    from droptics.files import check_target
    from droptics.models import DeepLinear, TwoLayerLinear
    from droptics.optima import certify, optimum
    from droptics.progress import clocked

    if out is not None:
        check_target(out, ".safetensors")
    sample = read_sample(data)
    family = TwoLayerLinear if len(width) == 1 else DeepLinear
    with clocked(_seconds(family, sample, width), "optimum"):
        best = optimum(family, sample, law_for_widths(width, drop, block))
    rows: dict[str, object] = {
        "least training loss": best.objective,
        "proved lower bound": best.bound,
        "gap": best.gap,
        "certified": best.certified,
        "rank of the map": best.rank,
        "rests on": best.claim,
    }
    if model is not None:
        network = read_model(model)
        widths = network.layer_units if isinstance(network, DeepLinear) else (network.units,)
        if tuple(width) != tuple(widths):
            options = " ".join(f"--width {units}" for units in widths)
            raise ValueError(f"--model {model} is of another width than asked for; compare it with {options}")
        certificate = certify(network, sample.to(network.dtype), law_for(network, drop, block, sliding=False))
        rows |= {"your training loss": certificate.objective, "your gap": certificate.gap}
        rows["your gap, relative"] = certificate.relative_gap
    if out is not None:
        write_model(best.model, out)
        rows["weights"] = str(out)
    show(f"optimum at width {', '.join(map(str, width))}, drop {drop}", rows, as_json)


def _seconds(family: Any, sample: Sample, widths: list[int]) -> float:
    """How long the optimum will take: its cost is cubic, and a part of the inputs and outputs is solved beforehand."""
    import time

    from droptics.cli.laws import law_for_widths
    from droptics.data import Sample
    from droptics.optima import optimum

    features, outputs, examples = sample.inputs.shape[1] // PART, sample.targets.shape[1] // PART, len(sample) // PART
    if features < 64:  # over at once
        return 0.0
    part = Sample(sample.inputs[:examples, :features], sample.targets[:examples, : max(outputs, 1)])
    law = law_for_widths([max(width // PART, 1) for width in widths], 0.5, 1)
    optimum(family, part, law)  # what is done once, at the first call
    start = time.perf_counter()
    optimum(family, part, law)
    return PART**3 * (time.perf_counter() - start)
