"""Figures of chapter 6: the reflected loss and the grid of perturbations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from droptics import plots
from droptics.evidence.claims import compare
from droptics.evidence.engines import Row
from droptics.evidence.figures import Cell, Expectation, Figure, Scale
from droptics.papers.columns import column, curve, distinct
from droptics.papers.thesis.chapter6_grid import FORMS, grid_search

SOURCE = "Mianjy thesis"


def losses_cell(*, points: int) -> list[Row]:
    """0-1 loss, cross-entropy in base two, its reflection, and that raised by one to meet the 0-1 loss, on [-3, 3]."""
    rows: list[Row] = []
    for i in range(points):
        z = -3 + 6 * i / (points - 1)
        reflected = -math.log2(1 + math.exp(z))
        rows.append(
            {
                "z": z,
                "zero_one": float(z < 0),
                "cross_entropy": math.log2(1 + math.exp(-z)),
                "reflected": reflected,
                "minorant": 1 + reflected,
            }
        )
    return rows


def losses_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """Cross-entropy above the 0-1 loss, the reflected loss below."""
    above = min(row["cross_entropy"] - row["zero_one"] for row in rows)
    below = max(row["minorant"] - row["zero_one"] for row in rows if row["z"] != 0)
    return [
        Expectation(compare(above, ">=", 0.0, "cross-entropy minus 0-1 loss")),
        Expectation(compare(below, "<=", 0.0, "reflected loss (raised by one) minus 0-1 loss")),
    ]


def losses_draw(rows: Sequence[Row], path: Path) -> None:
    """All losses in one panel."""
    names = {
        "zero_one": "0-1 loss",
        "cross_entropy": "cross-entropy",
        "reflected": "reflected",
        "minorant": "1 + reflected",
    }
    series = {label: curve(rows, "z", name) for name, label in names.items()}
    plots.save(plots.panels([plots.Panel("Losses of the margin", "y f(x)", "loss", series)]), path)


def grid_cell(*, points: int, budget: float, counts: Sequence[int]) -> list[Row]:
    """Flips among the top-k perturbations for each form of the loss."""
    found = grid_search(points, budget=budget, counts=tuple(counts))
    return [
        {"form": form, "top": top, "flips": flips, "flipping": found["flipping"], "feasible": found["feasible"]}
        for form, values in found["forms"].items()
        for top, flips in values.items()
    ]


def grid_cells(scale: Scale) -> list[Cell]:
    """The thesis' grid, or a coarse one with a slightly larger budget so that it holds flips at all."""
    if scale == "smoke":
        return [Cell("81", {"points": 81, "budget": 0.714, "counts": [5, 10, 20]})]
    return [Cell("800", {"points": 800, "budget": 0.7078, "counts": [10, 100, 1000]})]


def grid_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """The margin form finds the flips, cross-entropy does not; neither does the greedy form of the text."""
    top = max(distinct(rows, "top"))
    flips = {form: column(rows, "flips", form=form, top=top)[0] for form in FORMS}
    possible = min(top, rows[0]["flipping"])
    greedy = FORMS[1]
    found = [
        Expectation(compare(flips["margin"], "==", possible, f"margin form: flips among the top {top}")),
        Expectation(compare(flips["cross-entropy"], "<", flips["margin"], "cross-entropy finds fewer")),
    ]
    if scale == "paper":
        note = "With the log-likelihood of the best wrong class, as Section 6.5.3 has it, the loss finds none."
        label = "greedy reflected loss far more effective than cross-entropy"
        better = compare(flips[greedy], ">", flips["cross-entropy"], label)
        found.append(Expectation(better, reproduced=False, note=note))
    return found


def grid_draw(rows: Sequence[Row], path: Path) -> None:
    """Bars: flips among the top k for each form."""
    tops = distinct(rows, "top")
    groups = {form: [column(rows, "flips", form=form, top=top)[0] for top in tops] for form in FORMS}
    figure = plots.bars(groups, [f"top {top}" for top in tops], ylabel="perturbations that flip the label")
    plots.save(figure, path)


FIGURES: tuple[Figure, ...] = (
    Figure(
        "thesis-fig6-1",
        f"{SOURCE}, Figure 6-1",
        "The 0-1 loss between cross-entropy and its reflection",
        "Cross-entropy is a convex upper bound, the reflected loss a concave lower bound of the 0-1 loss.",
        lambda scale: [Cell("losses", {"points": 121})],
        losses_cell,
        losses_expects,
        losses_draw,
        takes={"paper": "Seconds."},
        objects=("attacks.Reflected",),
    ),
    Figure(
        "thesis-fig6-2",
        f"{SOURCE}, Figure 6-2",
        "Which loss ranks label-flipping perturbations first",
        "Among the top-k perturbations of a three-class example the reflected loss finds far more flips.",
        grid_cells,
        grid_cell,
        grid_expects,
        grid_draw,
        takes={"paper": "Paper scale: 800^3 points, streamed, under a minute on one core."},
        objects=("attacks.Reflected", "attacks.Margin"),
    ),
)
