"""Tables of chapter 6: robust errors of adversarially trained networks on two digits and on color images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from droptics import plots
from droptics.data import Sample
from droptics.datasets import cifar10
from droptics.evidence.claims import Relation, compare
from droptics.evidence.engines import Row
from droptics.evidence.figures import Cell, Expectation, Figure, Scale
from droptics.papers.columns import column, distinct, mean
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
        relation: Relation = ">" if scale == "paper" else ">="
        stronger = compare(_error(rows, training, "R-PGD-2"), relation, _error(rows, training, "PGD-2"), label)
        ties = scale == "paper" and training == "PGD-2"
        note = "After this training both attacks succeed about equally often." if ties else ""
        found.append(Expectation(stronger, reproduced=not ties, note=note))
    hardened, open_to = (_error(rows, name, "R-PGD-2") for name in ("R-PGD-2", "standard"))
    if scale == "paper":  # a few epochs on few images are not enough to harden a network
        found.append(Expectation(compare(hardened, "<", open_to, "adversarial training lowers the robust error")))
        for training in ("PGD-2", "PGD-inf"):
            printed = [name for name in experiments.ATTACKS if not name.startswith("normalized")]  # that one is ours
            wins = sum(_error(rows, f"R-{training}", name) < _error(rows, training, name) for name in printed)
            label = f"attacks under which R-{training} training beats {training} training, of eight"
            note = "The two differ by less than the deviation between runs."
            found.append(Expectation(compare(wins, "==", len(printed), label), reproduced=False, note=note))
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
    parts = color_sample("train", examples), color_sample("test", tests)
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


def color_sample(split: Literal["train", "test"], count: int | None = None) -> Sample:
    """The first CIFAR-10 images of a split, pixels from 0 to 1; on the GPU where there is one."""
    images, labels = (part[:count].to("cuda" if torch.cuda.is_available() else "cpu") for part in cifar10(split=split))
    return Sample(images.float() / 255, labels)


def color_cells(scale: Scale) -> list[Cell]:
    """Plain and reflected adversarial training at several radii."""
    if scale == "smoke":
        small: dict[str, Any] = {"examples": 200, "tests": 60, "network": "small", "epochs": 1, "augment": False}
        small |= {"test_steps": 3, "restarts": 1, "batch": 50, "radius": 4 / 255, "steps": 2, "seed": 0}
        return [Cell("R-PGD" if kind else "PGD", {"reflected": kind} | small) for kind in (False, True)]
    large: dict[str, Any] = {"seed": 0, "epochs": 20, "batch": 128, "precision": "bfloat16"}
    large |= {"attacked": 2000, "test_steps": 50, "restarts": 2, "test_radius": 8 / 255, "step": 1 / 255}
    return [  # the cheapest cells first: a run that ends early has whole columns of the table
        Cell(
            f"{'R-PGD' if kind else 'PGD'} steps={steps} radius={radius}/255",
            {"reflected": kind, "radius": radius / 255, "steps": steps} | large,
            gpu=True,
        )
        for steps in STEPS
        for radius in RADII
        for kind in (False, True)
    ]


STEPS, RADII = (2, 4, 16, 32), (2, 4, 8, 16)
# (robust, standard) accuracy in percent by radius, training and steps 2, 4, 16, 32
TABLE_6_2: dict[tuple[int, str], tuple[tuple[float, float], ...]] = {
    (2, "PGD"): ((14.182, 91.254), (20.702, 90.424), (21.014, 90.132), (20.848, 90.09)),
    (2, "R-PGD"): ((14.338, 91.208), (20.726, 90.384), (20.958, 90.06), (20.746, 89.992)),
    (4, "PGD"): ((17.764, 90.748), (30.344, 88.736), (37.564, 86.65), (37.304, 86.572)),
    (4, "R-PGD"): ((17.162, 90.114), (30.34, 88.826), (37.4, 86.734), (37.374, 86.522)),
    (8, "PGD"): ((20.064, 90.478), (34.21, 87.746), (48.916, 78.402), (48.936, 77.926)),
    (8, "R-PGD"): ((20.1, 90.564), (34.19, 87.852), (48.792, 78.382), (48.828, 77.982)),
    (16, "PGD"): ((16.19, 85.908), (21.524, 86.816), (48.722, 68.37), (45.292, 58.526)),
    (16, "R-PGD"): ((15.986, 89.708), (21.362, 86.83), (48.742, 68.456), (44.778, 58.486)),
}


def color_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """Both accuracies within three points of the print, and the two trainings within two points of each other."""
    found = []
    if scale == "smoke":
        for row in rows:
            label = f"{row['training']} at {255 * row['radius']:.0f}/255: robust against standard accuracy"
            found.append(
                Expectation(compare(row["robust"], "<=", row["standard"], label), printed="smaller in every cell")
            )
        return found
    for row in rows:
        radius, place = round(255 * row["radius"]), f"steps={row['steps']} radius={255 * row['radius']:.0f}/255"
        if row["steps"] in STEPS:
            printed = TABLE_6_2[radius, row["training"]][STEPS.index(row["steps"])]
            for name, value in zip(("robust", "standard"), printed, strict=True):
                label = f"{row['training']} {place}: {name} accuracy in percent"
                comparison = compare(100 * row[name], "==", value, label, precision=0.0, scale=1.0)
                near = replace(comparison, precision=3 / max(1.0, abs(comparison.left), abs(comparison.right)))
                found.append(Expectation(near, printed=f"{value}"))
        if row["training"] == "R-PGD":
            plain = column(rows, "robust", radius=row["radius"], steps=row["steps"], training="PGD")
            if plain:
                label = f"{place}: R-PGD beside PGD, difference of robust accuracy"
                found.append(Expectation(compare(abs(row["robust"] - plain[0]), "<=", 0.02, label)))
    return found


def color_draw(rows: Sequence[Row], path: Path) -> None:
    """Bars: robust accuracy by radius."""
    radii = distinct(rows, "radius")
    kinds = sorted({(row["steps"], row["training"]) for row in rows})
    groups = {
        f"{name}, {steps} steps": [
            mean(column(rows, "robust", radius=radius, training=name, steps=steps)) for radius in radii
        ]
        for steps, name in kinds
    }
    figure = plots.bars(groups, [f"{255 * radius:.0f}/255" for radius in radii], ylabel="robust accuracy")
    figure.axes[0].set_xlabel("radius in training")
    plots.save(figure, path)


FIGURES: tuple[Figure, ...] = (
    Figure(
        "thesis-tab6-1",
        f"{SOURCE}, Table 6-I",
        "Robust error on two digits, five trainings by eight attacks",
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
        "Training with the reflected loss does not change standard and robust accuracy significantly.",
        color_cells,
        color_cell,
        color_expects,
        color_draw,
        needs=("cifar10",),
        takes={"paper": "32 trainings of a PreAct ResNet-18 of 20 epochs, some two hours on a GPU; cells resume."},
        objects=("attacks.Pgd", "attacks.Reflected"),
    ),
)
