"""Figures of Helmbold and Long 2017."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from droptics import plots
from droptics.evidence.claims import compare
from droptics.evidence.engines import Row
from droptics.evidence.figures import Cell, Expectation, Figure, Scale
from droptics.masks import Bernoulli
from droptics.papers.columns import column, curve, distinct, mean
from droptics.papers.helmbold2017 import experiments, networks
from droptics.penalties import criterion, risk

SOURCE = "Helmbold, Long 2017 (JMLR 18)"
METHODS = ("dropout", "weight decay", "none")


def worked_cell(*, target: float) -> list[Row]:
    """Exact criterion, risk and penalty of the network of Figure 1 at rates from 0 to .9."""
    model, sample = networks.worked_example(target)
    plain = float(risk(model, sample))
    rows: list[Row] = []
    for step in range(19):
        drop = step / 20
        value = float(criterion(model, sample, Bernoulli(drop, model.units)))
        rows.append({"target": target, "drop": drop, "criterion": value, "risk": plain, "penalty": value - plain})
    return rows


def worked_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """54, 64 and -10."""
    where = {"target": 8.0, "drop": 0.5}
    printed = {"criterion": 54.0, "risk": 64.0, "penalty": -10.0}
    return [Expectation(compare(column(rows, name, **where)[0], "==", value, name)) for name, value in printed.items()]


def worked_draw(rows: Sequence[Row], path: Path) -> None:
    """The penalty as a function of the rate for several labels."""
    series = {f"y = {y:g}": curve(rows, "drop", "penalty", target=y) for y in distinct(rows, "target")}
    panel = plots.Panel("Penalty of the network of Figure 1", "drop probability", "penalty", series, {"zero": 0.0})
    plots.save(plots.panels([panel]), path)


def scale_cell(*, scale: float, data_sets: int, steps: int) -> list[Row]:
    """Training errors of all methods on all data sets at one scale of the inputs."""
    return [
        {
            "scale": scale,
            "method": method,
            "data_set": data_set,
            "error": experiments.scale_run(data_set, scale, method, steps),
        }
        for data_set in range(data_sets)
        for method in METHODS
    ]


def scale_cells(scale: Scale) -> list[Cell]:
    """One cell per scale of the inputs."""
    size = {"data_sets": 4, "steps": 4000} if scale == "smoke" else {"data_sets": 10, "steps": 100_000}
    return [Cell(f"scale={value:g}", {"scale": value, **size}) for value in experiments.SCALES]


def _means(rows: Sequence[Row], method: str) -> list[float]:
    return [mean(column(rows, "error", method=method, scale=scale)) for scale in distinct(rows, "scale")]


def scale_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """Dropout does not depend on the scale of the inputs, weight decay does."""
    dropout, decay, none = (_means(rows, method) for method in METHODS)
    spread = max(dropout) / min(dropout)
    return [
        Expectation(compare(spread, "<=", 1.4 if scale == "smoke" else 1.15, "dropout: largest over smallest error")),
        Expectation(compare(decay[0], ">", 1.2 * decay[-1], "weight decay: error at scale .5 against 1.5")),
        Expectation(compare(max(none), "<", min(dropout), "without either the error is smallest")),
    ]


def scale_draw(rows: Sequence[Row], path: Path) -> None:
    """Mean training error against the scale of the inputs."""
    scales = distinct(rows, "scale")
    series = {method: (scales, _means(rows, method)) for method in METHODS}
    plots.save(plots.panels([plots.Panel("Section 6", "scale of the inputs", "training error", series)]), path)


FIGURES: tuple[Figure, ...] = (
    Figure(
        "helmbold2017-fig1",
        f"{SOURCE}, Figure 1",
        "A network whose dropout penalty is negative",
        "With x = (1,-1), y = 8 and all weights one the criterion is 54, the risk 64.",
        lambda scale: [Cell(f"y={y:g}", {"target": y}) for y in (0.0, 4.0, 8.0)],
        worked_cell,
        worked_expects,
        worked_draw,
        takes={"paper": "Seconds at either scale."},
        objects=("penalties.criterion", "models.ReLUNet"),
    ),
    Figure(
        "helmbold2017-fig2",
        f"{SOURCE}, Figure 2",
        "Training error against the scale of the inputs",
        "The training error under dropout does not change with the scale of the inputs, under weight decay it does.",
        scale_cells,
        scale_cell,
        scale_expects,
        scale_draw,
        takes={"paper": "Paper scale: 150 runs of 100,000 steps, under a minute on one core."},
        objects=("penalties.criterion",),
    ),
)
