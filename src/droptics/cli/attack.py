"""`droptics attack`: clean and robust accuracy of a saved model, by one search or by an ensemble."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from droptics.cli.options import AsJson, Examples

if TYPE_CHECKING:
    from torch import Tensor, nn

    from droptics.attacks import Attack, Method
    from droptics.data import Sample


def attack_command(
    model: Annotated[
        Path,
        typer.Argument(
            help="A TorchScript archive (.pt), an exported program (.pt2), or a state dict (.safetensors, .pt) of "
            "linear layers with ReLU between them."
        ),
    ],
    data: Examples,
    threat: Annotated[str, "Norm and radius: l2:0.5, linf:8/255 or l1:3."] = "linf:8/255",
    method: Annotated[str, "fgsm, bim, pgd, or linear (exact for affine models)."] = "pgd",
    loss: Annotated[str, "What to climb: cross-entropy (logistic for one output) or margin."] = "cross-entropy",
    reflected: Annotated[bool, "Reflect the loss about the origin: a lower bound of the error."] = False,
    target: Annotated[str, "Wrong class a reflected or margin loss aims at: nearest, greedy or every."] = "nearest",
    steps: Annotated[int, "Steps of bim and pgd."] = 40,
    step: Annotated[float | None, "Step size; by default a fifth of the radius (bim) or decaying (pgd)."] = None,
    restarts: Annotated[int, "Runs per example; later ones start at random."] = 1,
    box: Annotated[str, 'Smallest and largest legal value, or "none".'] = "0,1",
    count: Annotated[int | None, "Attack only the first so many examples."] = None,
    batch: Annotated[int, "Examples per batch."] = 1000,
    confidence: Annotated[float, "Coverage of the intervals."] = 0.95,
    device: Annotated[str, 'Torch device such as "cuda".'] = "cpu",
    out: Annotated[Path | None, "Write the perturbed inputs, success and distances to this .safetensors file."] = None,
    seed: Annotated[int, "Seed of the random starts."] = 0,
    standard: Annotated[bool, "Run the whole ensemble of attacks, the number people publish."] = False,
    checkpoint: Annotated[Path | None, "With --standard: a .safetensors file from which a broken run goes on."] = None,
    html: Annotated[Path | None, "With --standard: write the result as a page."] = None,
    beside: Annotated[list[Path] | None, "With --standard: another model, in the same table."] = None,
    as_json: AsJson = False,
) -> None:
    """Attack a saved model and print its clean and robust accuracy with confidence intervals.

    The robust accuracy is an upper bound: a stronger attack may find more. What the attack returns is checked again in
    eval mode, inside the ball and the box, and every reason to doubt its strength is printed: gradients that vanish,
    a model that is not deterministic, success that falls as the steps grow.

    Models are loaded without unpickling code. A state dict says nothing about the layers between its matrices; it is
    read as linear layers with ReLU between them, and refused if its shapes do not fit that. Bytes are read as 0..1.

    Examples:
      droptics attack model.pt --data images.npz --threat l2:0.5 --method pgd --reflected
      droptics attack model.pt2 --data test.npz --threat linf:8/255 --steps 100 --restarts 5 --out found.safetensors
      droptics attack linear.safetensors --data test.npz --threat l1:2 --method linear --box none
      droptics attack model.pt2 --data test.npz --threat linf:8/255 --standard --html robustness.html
      droptics attack plain.pt2 --data test.npz --standard --beside hardened.pt2 --beside smoothed.pt2
    """
    import warnings

    from droptics.attacks import Threat, WeakAttackWarning, attack
    from droptics.cli.modules import check_device, like_weights
    from droptics.cli.tables import show
    from droptics.files import check_target

    for place, name, suffix in ((out, "--out", ".safetensors"), (html, "--html", ""), (checkpoint, "--checkpoint", "")):
        if place is not None:
            check_target(place, suffix, name)
    if not standard and (html is not None or checkpoint is not None):
        raise ValueError("--html and --checkpoint go with --standard")
    danger = Threat.parse(threat, None if box.strip().lower() == "none" else _box(box))
    sample = _sample(data, count, check_device(device))
    network = _model(model, device)
    sample = sample.to(like_weights(network, sample.inputs).dtype)
    if standard or beside:
        from droptics.cli.ensembles import several, standard_attack

        if not beside:
            standard_attack(network, sample, danger, (batch, checkpoint), (html, out, as_json))
            return
        if not standard or any(path is not None for path in (checkpoint, html, out)):
            raise ValueError("--beside goes with --standard, and without --checkpoint, --html and --out of one model")
        models = {str(path): network if path is model else _model(path, device) for path in (model, *beside)}
        several(models, sample, danger, batch, as_json)
        return
    outputs = _outputs(network, sample)
    how = _method(method, _loss(loss, reflected, target, outputs), steps, step, restarts, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakAttackWarning)
        result = attack(network, sample, danger, how, batch=batch)
    rows = _rows(result, confidence)
    if out is not None:
        from droptics.files.arrays import write_tensors

        names = ("inputs", "success", "radius", "clean_correct")
        write_tensors(out, {name: getattr(result, name) for name in names})
        rows["written to"] = str(out)
    show(f"{model.name} under {danger.norm} attacks of radius {danger.radius:.6g}", rows, as_json)


def _rows(result: Attack, confidence: float) -> dict[str, object]:
    clean, robust = result.clean_accuracy(confidence), result.robust_accuracy(confidence)
    fooled = result.success & result.clean_correct
    return {
        "examples": len(result.success),
        "clean accuracy": float(clean),
        "clean accuracy interval": [float(clean.lower), float(clean.upper)],
        "robust accuracy": float(robust),
        "robust accuracy interval": [float(robust.lower), float(robust.upper)],
        "fooled by the attack": int(fooled.sum()),
        "mean distance of the fooled": float(result.radius[fooled].mean()) if bool(fooled.any()) else 0.0,
        "gradients per example": result.gradients / len(result.success),
        "doubts": list(result.warnings) or "none",
    }


def _box(text: str) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f'--box must read smallest,largest, such as 0,1, or "none", got {text!r}') from None
    return low, high


def _sample(path: Path, count: int | None, device: str) -> Sample:
    from droptics.cli.files import read_examples
    from droptics.data import Sample

    inputs, targets = read_examples(path)
    if not inputs.is_floating_point():
        if inputs.element_size() != 1 or bool((inputs.long() < 0).any()):
            raise ValueError(f"{path}: inputs must be floating point or bytes 0..255, got {inputs.dtype}")
        inputs = inputs.float() / 255
    if count is not None and count < 1:
        raise ValueError(f"--count must be positive, got {count}")
    inputs, targets = inputs[:count], targets[:count]
    if targets.is_floating_point():
        targets = targets.to(inputs.dtype)
    return Sample(inputs.to(device), targets.to(device))


def _model(path: Path, device: str) -> Any:
    """The model of a file, without ever running code from it."""
    from droptics.cli.modules import read_module
    from droptics.files.limits import check_regular
    from droptics.files.modules import is_script, read_state

    check_regular(path)
    if path.suffix == ".pt2" or is_script(path):
        return read_module(path, device)
    return _layers(read_state(path), path).to(device)


def _layers(state: dict[str, Tensor], path: Path) -> nn.Module:
    """Linear layers with ReLU between them, in the order of the state dict's names."""
    import re
    from itertools import pairwise

    from torch import nn

    from droptics.models.modules import linear_layer

    def order(name: str) -> list[object]:
        return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name)]

    names = sorted((name for name in state if name.endswith("weight")), key=order)
    known = {*names, *(name[: -len("weight")] + "bias" for name in names)}
    wide = {name for name, value in state.items() if value.is_floating_point() and value.element_size() > 1}
    if bad := sorted(known & state.keys() - wide):
        found = state[bad[0]].dtype
        raise ValueError(f"{path}: {bad[0]} is {found}; weights must be floating-point numbers of 16 bits or more")
    if not names or set(state) - known or any(state[name].ndim != 2 for name in names):
        advice = "save the whole model with torch.jit.script or torch.export instead"
        raise ValueError(f"{path} is not a state dict of linear layers (it has {sorted(state)[:6]}); {advice}")
    for before, name in pairwise(names):
        width, given = state[name].shape[1], state[before].shape[0]
        if width != given:
            raise ValueError(f"{path}: {name} takes {width} inputs, {given} come before it")
    layers = (linear_layer(state[name], state.get(name[: -len("weight")] + "bias")) for name in names)
    parts = [part for layer in layers for part in (nn.ReLU(), layer)]
    return nn.Sequential(nn.Flatten(), *parts[1:]).eval()  # no ReLU before the first layer


def _outputs(model: Any, sample: Sample) -> int:
    """How many outputs the model has; a first evaluation that turns the model's own errors into one line."""
    import torch

    from droptics.attacks.gradients import as_columns
    from droptics.models.modules import evaluating

    try:
        with evaluating(model), torch.no_grad():
            outputs = model(sample.inputs[:1])
    except RuntimeError as problem:
        shape, last = tuple(sample.inputs[:1].shape), str(problem).strip().splitlines()[-1]
        text = f"the model cannot be evaluated on inputs of shape {shape} and type {sample.inputs.dtype}: {last}"
        raise ValueError(text) from problem
    return as_columns(outputs, 1).shape[1]


def _loss(name: str, reflected: bool, target: str, outputs: int) -> Any:
    from droptics.attacks import CrossEntropy, Logistic, Margin, Reflected

    if name not in ("cross-entropy", "margin"):
        raise ValueError(f"--loss must be cross-entropy or margin, got {name!r}")
    aim: Any = target
    plain: Any = Margin(aim) if name == "margin" else Logistic() if outputs == 1 else CrossEntropy()
    return Reflected(plain, aim) if reflected else plain


def _method(name: str, loss: Any, steps: int, step: float | None, restarts: int, seed: int) -> Method:
    from droptics.attacks import Bim, Fgsm, LinearExact, Pgd

    match name:
        case "fgsm":
            return Fgsm(loss)
        case "bim":
            return Bim(loss, steps, step)
        case "pgd":
            return Pgd(loss, steps, step, restarts, seed=seed)
        case "linear":
            return LinearExact()
    raise ValueError(f"--method must be fgsm, bim, pgd or linear, got {name!r}")
