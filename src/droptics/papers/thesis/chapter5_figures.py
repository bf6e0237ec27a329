"""Figures of chapter 5: the linear upper bound, and sub-networks against the full network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from droptics import plots
from droptics.evidence.claims import compare
from droptics.evidence.engines import Row
from droptics.evidence.figures import Cell, Expectation, Figure, Scale, column, curve, distinct
from droptics.papers.thesis import chapter5_experiments as experiments

SOURCE = "Mianjy thesis"


def line_cell(*, points: int) -> list[Row]:
    """The logistic loss in base two and the line 1 - z / ln 2, on [-4, 1]."""
    rows: list[Row] = []
    for i in range(points):
        z = -4 + 5 * i / (points - 1)
        rows.append({"z": z, "loss": math.log2(1 + math.exp(-z)), "line": 1 - z / math.log(2)})
    return rows


def line_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """The line is above the loss for negative z."""
    gaps = [row["line"] - row["loss"] for row in rows if row["z"] <= 0]
    return [
        Expectation(compare(min(gaps), ">=", 0.0, "line minus loss for z <= 0")),
        Expectation(compare(gaps[-1], "==", 0.0, "equality at zero")),
    ]


def line_draw(rows: Sequence[Row], path: Path) -> None:
    """Loss and line."""
    series = {"log2(1 + e^-z)": curve(rows, "z", "loss"), "1 - z / ln 2": curve(rows, "z", "line")}
    plots.save(plots.panels([plots.Panel("Linear upper bound", "z", "loss", series)]), path)


def subnetwork_cells(scale: Scale) -> list[Cell]:
    """Networks of several widths and rates."""
    small = scale == "smoke"
    size: dict[str, Any] = {"epochs": 5.0, "rate": 0.05}
    if small:
        size = {
            "examples": 1000,
            "tests": 400,
            "epochs": 3.0,
            "subnetworks": 20,
            "records": 5,
            "rate": 0.1,
            "gain": 2.45,
        }
    widths, drops = ([20, 200], [0.5]) if small else ([100, 1000, 10_000], [0.2, 0.5, 0.8])
    return [
        Cell(f"width={width} drop={drop:g}", {"width": width, "drop": drop} | size)
        for width in widths
        for drop in drops
    ]


def _gap(rows: Sequence[Row], other: str, width: int, drop: float) -> float:
    """Mean distance of the full network's accuracy from that of sub-networks over the second half of training."""
    full, part = (column(rows, name, width=width, drop=drop) for name in ("full", other))
    gaps = [abs(a - b) for a, b in zip(full, part, strict=True)]
    return sum(gaps[len(gaps) // 2 :]) / len(gaps[len(gaps) // 2 :])


def _expects(other: str, rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    found = []
    widths = sorted(distinct(rows, "width"))
    for drop in distinct(rows, "drop"):
        narrow, wide = _gap(rows, other, widths[0], drop), _gap(rows, other, widths[-1], drop)
        label = f"drop {drop:g}: distance to {other} sub-networks, width {widths[-1]} against {widths[0]}"
        if scale == "paper":  # a short run on few images is too noisy for the ordering
            found.append(Expectation(compare(wide, "<", narrow, label, precision=1e-6)))
        label = f"drop {drop:g}: distance to {other} sub-networks at width {widths[-1]}"
        found.append(Expectation(compare(wide, "<=", 0.15 if scale == "smoke" else 0.05, label)))
    return found


def visited_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """Wide networks and the sub-networks that training visits are equally good."""
    return _expects("visited", rows, scale)


def unvisited_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """So are random sub-networks that were never trained."""
    return _expects("unvisited", rows, scale)


def _draw(other: str, rows: Sequence[Row], path: Path) -> None:
    items = []
    for drop in distinct(rows, "drop"):
        for width in distinct(rows, "width"):
            where = {"width": width, "drop": drop}
            series: dict[str, Sequence[Sequence[float]]] = {"full network": curve(rows, "step", "full", **where)}
            if other == "visited":
                series["visited sub-networks"] = curve(rows, "step", "visited", **where)
            else:
                steps, middle = curve(rows, "step", "unvisited", **where)
                low, high = column(rows, "unvisited_low", **where), column(rows, "unvisited_high", **where)
                series["random sub-networks"] = (steps, middle, low, high)
            items.append(plots.Panel(f"width {width}, rate {drop:g}", "step", "test accuracy", series, log="x"))
    plots.save(plots.panels(items), path)


def visited_draw(rows: Sequence[Row], path: Path) -> None:
    """Accuracy of the full network and of the visited sub-networks."""
    _draw("visited", rows, path)


def unvisited_draw(rows: Sequence[Row], path: Path) -> None:
    """Accuracy of the full network and the range of random sub-networks."""
    _draw("unvisited", rows, path)


FIGURES: tuple[Figure, ...] = (
    Figure(
        "thesis-fig5-1",
        f"{SOURCE}, Figure 5-1",
        "A line above the logistic loss",
        "log(1 + e^-z) is below 1 - z/ln 2 for negative z.",
        lambda scale: [Cell("line", {"points": 101})],
        line_cell,
        line_expects,
        line_draw,
        takes={"paper": "Seconds."},
        objects=("losses.Logistic",),
    ),
    Figure(
        "thesis-fig5-2",
        f"{SOURCE}, Figure 5-2",
        "Full network and visited sub-networks",
        "The sub-networks that dropout visits are as good as the full network once it is wide.",
        subnetwork_cells,
        experiments.subnetwork_cell,
        visited_expects,
        visited_draw,
        needs=("mnist",),
        takes={"paper": "Paper scale: nine networks on MNIST, about an hour on two cores, minutes on a GPU."},
        objects=("coadaptation.evaluate", "coadaptation.draw"),
    ),
    Figure(
        "thesis-fig5-3",
        f"{SOURCE}, Figure 5-3",
        "Full network and random sub-networks",
        "Random sub-networks that were never visited approach the full network as the width grows.",
        subnetwork_cells,
        experiments.subnetwork_cell,
        unvisited_expects,
        unvisited_draw,
        needs=("mnist",),
        takes={"paper": "Cells shared with Figure 5-2."},
        objects=("coadaptation.evaluate", "coadaptation.draw"),
    ),
)
