"""`droptics attack --standard`: the ensemble on one model with all it can write, or on several side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from droptics.attacks import Threat
    from droptics.data import Sample


def standard_attack(
    network: Any,
    sample: Sample,
    threat: Threat,
    run: tuple[int, Path | None],
    targets: tuple[Path | None, Path | None, bool],
) -> None:
    """The ensemble: its table or JSON, and the page and the points where they are asked for."""
    from droptics.attacks import robust_accuracy

    (batch, checkpoint), (html, out, as_json) = run, targets
    result = robust_accuracy(network, sample, threat, batch=batch, checkpoint=checkpoint)
    if html is not None:
        result.to_html(html)
    if out is not None:
        from droptics.files.arrays import write_tensors

        write_tensors(out, {"inputs": result.inputs, "found_by": result.found_by})
    print(result.to_json() if as_json else result)


def several(models: Mapping[str, Any], sample: Sample, threat: Threat, batch: int, as_json: bool) -> None:
    """The ensemble on each of several models."""
    import json

    from droptics.attacks import Robustness, robust_accuracy
    from droptics.cli.modules import like_weights

    names = {path: Path(path).name for path in models}
    if len(set(names.values())) < len(names):
        names = {path: path for path in models}
    results = {}
    for path, network in models.items():
        own = sample.to(like_weights(network, sample.inputs).dtype)
        results[names[path]] = robust_accuracy(network, own, threat, batch=batch)
    if as_json:
        print(json.dumps({name: result.to_dict() for name, result in results.items()}, indent=1, allow_nan=False))
    else:
        print(Robustness.side_by_side(results))
