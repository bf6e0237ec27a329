"""A figure of our own: dropout before the last layer, with its noise and without."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from droptics import plots
from droptics.evidence.claims import compare
from droptics.evidence.engines import Row
from droptics.evidence.figures import Cell, Expectation, Figure, Scale
from droptics.papers.columns import column, distinct, mean
from droptics.papers.droptics_own.explicit_training import Race, deterministic, stochastic
from droptics.papers.thesis.chapter6_curves import FIGURES as CURVES

SLACK = 0.02  # the target is the criterion nn.Dropout ends with, and this much more


def race_cell(*, rate: float, seed: int, epochs: int) -> list[Row]:
    """The exact expected criterion along three trainings from one start, with the epochs and seconds to the target."""
    race = Race(rate=rate, epochs=epochs)
    courses = {
        "nn.Dropout, SGD": stochastic(race, False, seed),
        "ExplicitDropout, SGD": stochastic(race, True, seed),
        "exact criterion, L-BFGS, head solved": deterministic(race, seed),
    }
    target = (1 + SLACK) * courses["nn.Dropout, SGD"].criterion[-1]
    rows: list[Row] = []
    for method, course in courses.items():
        needed = course.epochs_to(target)
        for epoch, value in enumerate(course.criterion, start=1):
            if epoch in (1, 2, 3, 5, 10, 20, 50, 100, 200, len(course.criterion)):
                rows.append({"rate": rate, "seed": seed, "method": method, "epoch": epoch, "criterion": value})
        rows.append(
            {
                "rate": rate,
                "seed": seed,
                "method": method,
                "epochs to target": min(needed, 1e9),
                "final": course.criterion[-1],
            }
        )
    return rows


def race_cells(scale: Scale) -> list[Cell]:
    """Step sizes and seeds."""
    rates, seeds, epochs = ((0.05,), 2, 120) if scale == "smoke" else ((0.02, 0.05, 0.1), 5, 200)
    return [
        Cell(f"rate={rate:g},seed={seed}", {"rate": rate, "seed": seed, "epochs": epochs})
        for rate in rates
        for seed in range(seeds)
    ]


def race_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """The two stochastic trainings end together; the deterministic one needs far fewer epochs."""
    finals = [row for row in rows if "final" in row]
    found = []
    for rate in distinct(finals, "rate"):
        noisy, explicit, exact = (
            [row for row in finals if row["rate"] == rate and row["method"] == method]
            for method in distinct(finals, "method")
        )
        ratio = mean([row["final"] for row in explicit]) / mean([row["final"] for row in noisy])
        found.append(Expectation(compare(abs(ratio - 1), "<=", 0.1, f"step {rate:g}: SGD ends where dropout ends")))
        few, many = (median(row["epochs to target"] for row in group) for group in (exact, noisy))
        found.append(Expectation(compare(few, "<=", many / 3, f"step {rate:g}: epochs of L-BFGS against nn.Dropout")))
    return found


def race_draw(rows: Sequence[Row], path: Path) -> None:
    """The mean criterion against epochs, one panel per step size; the legend says how many each took to the target."""
    curves = [row for row in rows if "epoch" in row]
    finals = [row for row in rows if "final" in row]
    panels = []
    for rate in distinct(curves, "rate"):
        series = {}
        for method in distinct(curves, "method"):
            own = [row for row in curves if row["rate"] == rate and row["method"] == method]
            epochs = sorted({row["epoch"] for row in own})
            values = [mean([row["criterion"] for row in own if row["epoch"] == epoch]) for epoch in epochs]
            ends = [row for row in finals if row["rate"] == rate and row["method"] == method]
            needed = median(column(ends, "epochs to target"))
            label = f"{method}: {needed:.0f} epochs" if needed < 1e9 else f"{method}: not reached"
            series[label] = (epochs, values)
        panels.append(plots.Panel(f"step size {rate:g}", "epoch", "expected training loss", series))
    plots.save(plots.panels(panels), path)


FIGURES: tuple[Figure, ...] = (
    Figure(
        "droptics-fig1",
        "droptics",
        "Dropout before the last layer, with its noise and without",
        "Under SGD the explicit penalty ends where dropout ends; with the noise gone, L-BFGS with the head solved in "
        "closed form gets there in far fewer epochs.",
        race_cells,
        race_cell,
        race_expects,
        race_draw,
        takes={"paper": "Paper scale: 45 trainings of 200 epochs, about two minutes on one core."},
        objects=("layers.ExplicitDropout", "penalties.criterion"),
    ),
    *CURVES,
)
