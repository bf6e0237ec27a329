"""Tables of chapter 6: robust errors of adversarially trained networks on two digits and on color images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from droptics import plots
from droptics.data import Sample
from droptics.datasets import cifar10
from droptics.evidence.claims import compare
from droptics.evidence.engines import Row
from droptics.evidence.figures import Cell, Expectation, Figure, Scale
from droptics.evidence.rows import column, distinct, mean
from droptics.papers.thesis import chapter6_experiments as experiments
from droptics.papers.thesis.chapter4_experiments import two_classes
from droptics.papers.thesis.chapter6_color import cifar_run

SOURCE = "Mianjy thesis"


def digits_cell(*, training: str, seed: int, examples: int | None = None, **options: Any) -> list[Row]:
    """One training on MNIST 0 and 1 and its error under every attack."""
    data, test = two_classes("mnist", (0, 1), examples=examples)
    errors = experiments.binary_run(data, test, training, seed=seed, **options)
    return [{"training": training, "seed": seed, "attack": name, "error": value} for name, value in errors.items()]


def digits_cells(scale: Scale) -> list[Cell]:
    """Every training and seed."""
    small: dict[str, Any] = {"examples": 400, "epochs": 4, "train_steps": 5, "test_steps": 20}
    trainings = ("standard", "R-PGD-2") if scale == "smoke" else experiments.TRAININGS
    seeds = range(1) if scale == "smoke" else range(10)
    return [
        Cell(f"{name} seed={seed}", {"training": name, "seed": seed} | (small if scale == "smoke" else {}))
        for name in trainings
        for seed in seeds
    ]


def _error(rows: Sequence[Row], training: str, attack: str) -> float:
    return mean(column(rows, "error", training=training, attack=attack))


def digits_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """Sign attacks do not see the reflection; raw PGD does; adversarial training helps."""
    found = []
    trainings = distinct(rows, "training")
    for training in trainings:
        for attack in ("FGSM", "BIM"):
            ours, plain = (_error(rows, training, name) for name in (f"R-{attack}", attack))
            found.append(Expectation(compare(ours, "==", plain, f"{training}: R-{attack} against {attack}")))
        label = f"{training}: R-PGD-2 against PGD-2"
        stronger = compare(_error(rows, training, "R-PGD-2"), ">=", _error(rows, training, "PGD-2"), label)
        found.append(Expectation(stronger))
    hardened, open_to = (_error(rows, name, "normalized PGD-2") for name in ("R-PGD-2", "standard"))
    if scale == "paper":  # a few epochs on few images are not enough to harden a network
        found.append(Expectation(compare(hardened, "<", open_to, "adversarial training lowers the robust error")))
        for training, reproduced in (("PGD-2", True), ("PGD-inf", False)):
            pairs = [
                (_error(rows, f"R-{training}", name), _error(rows, training, name)) for name in experiments.ATTACKS
            ]
            label = f"attacks under which R-{training} training beats {training} training, of nine"
            note = "" if reproduced else "The two differ by less than the deviation between runs."
            wins = sum(ours < plain for ours, plain in pairs)
            found.append(Expectation(compare(wins, "==", 9, label), reproduced=reproduced, note=note))
    return found


def digits_draw(rows: Sequence[Row], path: Path) -> None:
    """Bars: robust error by attack for each training."""
    attacks = [name for name in experiments.ATTACKS if column(rows, "error", attack=name)]
    groups = {name: [_error(rows, name, attack) for attack in attacks] for name in distinct(rows, "training")}
    short = [name.replace("normalized ", "n-").replace("R-", "R-\n") for name in attacks]
    plots.save(plots.bars(groups, short, ylabel="robust test error"), path)


def color_cell(
    *,
    reflected: bool,
    radius: float,
    steps: int,
    seed: int,
    examples: int | None = None,
    tests: int | None = None,
    **options: Any,
) -> list[Row]:
    """One adversarial training on CIFAR-10; on the GPU where there is one."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    parts = []
    for split, count in (("train", examples), ("test", tests)):
        images, labels = cifar10(split=split)
        parts.append(Sample((images[:count].float() / 255).to(device), labels[:count].to(device)))
    result = cifar_run(*parts, reflected=reflected, radius=radius, steps=steps, seed=seed, **options)
    return [
        {
            "training": "R-PGD" if reflected else "PGD",
            "radius": radius,
            "steps": steps,
            "seed": seed,
            "robust": result["robust accuracy"],
            "standard": result["standard accuracy"],
        }
    ]


def color_cells(scale: Scale) -> list[Cell]:
    """Plain and reflected adversarial training at several radii."""
    if scale == "smoke":
        small: dict[str, Any] = {"examples": 200, "tests": 60, "network": "small", "epochs": 1, "augment": False}
        small |= {"test_steps": 3, "restarts": 1, "batch": 50, "radius": 4 / 255, "steps": 2, "seed": 0}
        return [Cell("R-PGD" if kind else "PGD", {"reflected": kind} | small) for kind in (False, True)]
    large: dict[str, Any] = {"steps": 5, "seed": 0, "epochs": 6, "batch": 256, "precision": "bfloat16"}
    large |= {"tests": 1000, "test_steps": 20, "restarts": 3}
    return [
        Cell(
            f"{'R-PGD' if kind else 'PGD'} radius={radius}/255",
            {"reflected": kind, "radius": radius / 255} | large,
            gpu=True,
        )
        for radius in (2, 4, 8, 16)
        for kind in (False, True)
    ]


def color_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """Robust accuracy is below standard accuracy; the two trainings are close."""
    found = []
    for row in rows:
        label = f"{row['training']} at {255 * row['radius']:.0f}/255: robust against standard accuracy"
        found.append(Expectation(compare(row["robust"], "<=", row["standard"], label)))
    if scale == "paper":
        for radius in distinct(rows, "radius"):
            plain, other = (column(rows, "robust", radius=radius, training=name)[0] for name in ("PGD", "R-PGD"))
            label = f"{255 * radius:.0f}/255: R-PGD training against PGD training"
            found.append(Expectation(compare(other, ">=", plain - 0.02, label)))
    return found


def color_draw(rows: Sequence[Row], path: Path) -> None:
    """Bars: robust accuracy by radius."""
    radii = distinct(rows, "radius")
    names = distinct(rows, "training")
    groups = {name: [mean(column(rows, "robust", radius=radius, training=name)) for radius in radii] for name in names}
    plots.save(plots.bars(groups, [f"{255 * radius:.0f}/255" for radius in radii], ylabel="robust accuracy"), path)


FIGURES: tuple[Figure, ...] = (
    Figure(
        "thesis-tab6-1",
        f"{SOURCE}, Table 6-I",
        "Robust error on two digits, five trainings by nine attacks",
        "Reflection makes PGD stronger as an attack and as a training; FGSM and BIM are unchanged by it.",
        digits_cells,
        digits_cell,
        digits_expects,
        digits_draw,
        needs=("mnist",),
        takes={"paper": "Paper scale: 50 trainings, one to three minutes each on one core."},
        objects=("attacks.Pgd", "attacks.Reflected", "training.Adversarial"),
    ),
    Figure(
        "thesis-tab6-2",
        f"{SOURCE}, Table 6-II",
        "Robust accuracy on CIFAR-10",
        "Training with the reflected loss gives comparable or better robust accuracy at several radii.",
        color_cells,
        color_cell,
        color_expects,
        color_draw,
        needs=("cifar10",),
        takes={"paper": "Eight trainings of a PreAct ResNet-18 of six epochs, two minutes each on a GPU."},
        objects=("attacks.Pgd", "attacks.Reflected"),
    ),
)
