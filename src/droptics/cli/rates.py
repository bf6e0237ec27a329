"""`droptics rates`: which rate, at each of my layers?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from droptics.cli.options import LossName


def rates_command(
    model: Annotated[
        str, typer.Argument(help="package.module:factory, a class or function that returns the module to be trained.")
    ],
    data: Annotated[
        Path,
        "Training data: a .npz or .safetensors file with the arrays inputs (or images) and targets (or "
        "labels), or a folder of such files.",
    ],
    validation: Annotated[Path, "Data of the same form, on which rates are compared."],
    loss: LossName = None,
    state: Annotated[Path | None, "Initial weights, a state dict (.safetensors, or .pt without code)."] = None,
    scan: Annotated[str, "Rates to try, with commas."] = "0,0.1,0.2,0.3,0.5,0.7",
    split: Annotated[bool, "A rate per site, where that pays on fresh seeds."] = False,
    sites: Annotated[str | None, "Sites to tune: names or patterns, with commas."] = None,
    groups: Annotated[str | None, "Patterns, with commas; the sites that fit one share a rate."] = None,
    epochs: Annotated[int, "Passes over the training data."] = 20,
    batch_size: Annotated[int, "Examples per step."] = 50,
    optimizer: Annotated[str, "adam, adamw or sgd."] = "adam",
    step_size: Annotated[float, "The learning rate."] = 1e-3,
    decay: Annotated[float, "Weight decay."] = 0.0,
    stop: Annotated[str, "Compare copies at their best look (early stopping), or at the last: best, last."] = "best",
    repeats: Annotated[int, "Seeds of batches and masks."] = 1,
    engine: Annotated[str, "local, processes, processes:N or dask://host:port; the numbers are the same."] = "local",
    store: Annotated[Path | None, "Folder for finished copies: a killed run resumes from it."] = None,
    seed: Annotated[int, "Of batches and masks."] = 0,
    out: Annotated[Path | None, "Write the answer to this .json file."] = None,
    plot: Annotated[Path | None, "Draw the losses along the scan into this .png file."] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Train copies of a network that differ in nothing but the rate, and say which rate is best.

    Copies share initial weights, batches and the uniform numbers of their masks; validation losses are compared example
    by example. The answer says which rates cannot be told apart, and whether anything is gained at all.

    Example: droptics rates nets:classifier --data train.npz --validation held.npz --epochs 40 --split --json
    """
    from droptics.cli.files import read_examples
    from droptics.cli.modules import like_weights, load_module
    from droptics.files import check_target, replacing
    from droptics.plots import save
    from droptics.rates import Fit, tune_rates

    for target, name, suffix in ((out, "--out", ".json"), (plot, "--plot", ".png")):
        if target is not None:
            check_target(target, suffix, name)
    fit = Fit(epochs, batch_size, optimizer, step_size, decay, stop=stop)  # type: ignore[arg-type]
    network = load_module(model, state)
    train, held = (tuple(like_weights(network, part) for part in read_examples(path)) for path in (data, validation))
    found = tune_rates(
        network,
        train,
        held,
        loss,
        fit=fit,
        scan=_numbers(scan),
        split="factorial" if split else None,
        sites=None if sites is None else _words(sites),
        groups=[] if groups is None else _words(groups),
        repeats=repeats,
        engine=engine,
        store=store,
        seed=seed,
    )
    if out is not None:
        found.save(out)
    if plot is not None:
        with replacing(plot) as partial:
            save(found.plot(), partial)
    print(found.to_json() if as_json else found)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in _words(text)]
    except ValueError as problem:
        raise ValueError(f"--scan must be rates with commas between them, such as 0,0.1,0.3, got {text!r}") from problem
