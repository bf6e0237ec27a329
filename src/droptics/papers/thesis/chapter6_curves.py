"""Robust error against the radius on two digits: the curve is flat under a weak attack and climbs under a good one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from droptics import plots
from droptics.evidence.claims import compare
from droptics.evidence.engines import Row
from droptics.evidence.figures import Cell, Expectation, Figure, Scale
from droptics.papers.columns import column, curve, distinct
from droptics.papers.thesis import chapter6_experiments as experiments
from droptics.papers.thesis.chapter4_experiments import two_classes

RADII = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)


def curves_cell(
    *, training: str, seed: int, radii: Sequence[float], examples: int | None = None, **options: Any
) -> list[Row]:
    """One training on MNIST 0 and 1 and its error at every radius under three attacks."""
    data, test = two_classes("mnist", (0, 1), examples=examples)
    found = experiments.robustness_curves(data, test, radii, seed=seed, trainings=(training,), **options)
    return [
        {"training": training, "seed": seed, "attack": row["attack"], "radius": radius, "error": error}
        for row in found
        for radius, error in zip(row["radii"], row["errors"], strict=True)
    ]


def curves_cells(scale: Scale) -> list[Cell]:
    """One network without and two with adversarial training."""
    if scale == "smoke":
        small = {"examples": 300, "epochs": 2, "train_steps": 4, "test_steps": 20, "radii": [0.0, 2.0, 4.0], "seed": 0}
        return [Cell("standard", {"training": "standard"} | small)]
    trainings = ("standard", "PGD-2", "R-PGD-2")
    return [Cell(name, {"training": name, "radii": list(RADII), "seed": 0}) for name in trainings]


def curves_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """Curves rise; the raw attack is the weakest; adversarial training lowers the curve."""
    found = []
    for training in distinct(rows, "training"):
        errors = {name: column(rows, "error", training=training, attack=name) for name in distinct(rows, "attack")}
        strong = errors["normalized"]
        fall = max(before - after for before, after in pairwise(strong))
        found.append(Expectation(compare(fall, "<=", 0.005, f"{training}: largest fall of the curve")))
        for strongest in ("normalized", "raw, reflected"):
            lead = max(a - b for a, b in zip(errors["raw"], errors[strongest], strict=True))
            label = f"{training}: largest lead of the raw attack over the one that is {strongest}"
            found.append(Expectation(compare(lead, "<=", 0.01, label)))
    if scale == "paper":
        at = {"radius": 2.0, "attack": "normalized"}
        (plain,) = column(rows, "error", training="standard", **at)
        flat = column(rows, "error", training="standard", attack="raw")[-1]
        steep = column(rows, "error", training="standard", attack="normalized")[-1]
        found.append(Expectation(compare(flat, "<", steep / 10, "standard, largest radius: raw against normalized")))
        for training in ("PGD-2", "R-PGD-2"):
            (hardened,) = column(rows, "error", training=training, **at)
            found.append(Expectation(compare(hardened, "<", plain, f"error at radius 2: {training} against standard")))
    return found


def curves_draw(rows: Sequence[Row], path: Path) -> None:
    """One panel per training, one curve per attack."""
    panels = [
        plots.Panel(
            f"{training} training",
            "l2 radius",
            "robust test error",
            {name: curve(rows, "radius", "error", training=training, attack=name) for name in distinct(rows, "attack")},
        )
        for training in distinct(rows, "training")
    ]
    plots.save(plots.panels(panels), path)


FIGURES: tuple[Figure, ...] = (
    Figure(
        "droptics-fig2",
        "droptics",
        "Robust error against the radius",
        "With raw gradients a saturated loss hardly moves and the network looks robust at every radius; reflected, or "
        "with normalized steps, the same attack finds what is there.",
        curves_cells,
        curves_cell,
        curves_expects,
        curves_draw,
        needs=("mnist",),
        takes={"paper": "Paper scale: three trainings of 20 epochs, minutes on one core each."},
        objects=("attacks.Pgd", "attacks.Reflected"),
    ),
)
