"""Figures of chapter 3: spectra and equalization gaps of deep linear networks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from droptics import plots
from droptics.evidence.claims import compare
from droptics.evidence.engines import Row
from droptics.evidence.figures import Expectation, Figure, Scale
from droptics.papers.columns import column, curve, distinct
from droptics.papers.registry import named_cells
from droptics.papers.thesis import chapter3_experiments as experiments

SOURCE = "Mianjy thesis"


def _rank(values: Sequence[float]) -> int:
    return sum(value > 0.01 * max(values) for value in values)


def spectrum_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """Shrinkage grows and rank falls with the rate; the trained rank stays below the optimum's."""
    drops = sorted(distinct(rows, "drop", exact=True))
    sums = [sum(column(rows, "trained", drop=drop, exact=True)) for drop in drops]
    ranks = [_rank(column(rows, "trained", drop=drop, exact=True)) for drop in drops]
    found = []
    for i in range(1, len(drops)):
        pair = f"drop {drops[i - 1]:g} to {drops[i]:g}"
        found.append(Expectation(compare(sums[i], "<", sums[i - 1], f"{pair}: sum of singular values falls")))
        found.append(Expectation(compare(ranks[i], "<=", ranks[i - 1], f"{pair}: rank does not grow")))
    middle = drops[len(drops) // 2]
    best = _rank(column(rows, "optimum", drop=middle, exact=True))
    label = f"drop {middle:g}: rank of the trained network against the optimum's"
    note = "Training from small weights stops in local minima of lower rank."
    return [*found, Expectation(compare(ranks[len(drops) // 2], "<=", best, label), note=note)]


def spectrum_draw(rows: Sequence[Row], path: Path) -> None:
    """Singular values of the trained network, the optimum and the envelope for some rates."""
    drops = sorted(distinct(rows, "drop", exact=True))
    items = []
    for drop in drops[:: max(1, len(drops) // 6)]:
        where = {"drop": drop, "exact": True}
        series = {name: curve(rows, "index", name, **where) for name in ("target", "trained", "optimum", "envelope")}
        items.append(plots.Panel(f"dropout rate {drop:g}", "index", "singular value", series))
    plots.save(plots.panels(items), path)


def gap_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """All gaps fall; higher orders more slowly; the map shrinks to its optimal norm."""
    found = []
    orders = distinct(rows, "order", exact=True)
    for order in orders:
        values = column(rows, "gap", order=order, exact=True)
        name = "total gap" if order == 0 else f"gap of order {order}"
        found.append(Expectation(compare(values[-1], "<", 0.2 * values[0], f"{name}: end against start")))
    if scale == "paper":
        # on the way: at the end all of them are zero up to rounding
        first, highest = (column(rows, "gap", order=order, exact=True) for order in (orders[1], orders[-1]))
        small = next(i for i, gap in enumerate(first) if gap < 1e-3)
        label = "the highest order is the slowest: its gap when that of order 1 is below 0.001"
        found.append(Expectation(compare(highest[small], ">", 10 * first[small], label)))
        norm, best = column(rows, "map_norm", exact=True)[-1], column(rows, "map_norm_optimum", exact=True)[-1]
        found.append(Expectation(compare(norm, "==", best, "norm of the map", precision=1e-2)))
    return found


def gap_draw(rows: Sequence[Row], path: Path) -> None:
    """Gaps along training, exact descent and sampled masks."""
    items = []
    for exact in distinct(rows, "exact"):
        series = {}
        for order in distinct(rows, "order", exact=exact):
            steps, gaps = curve(rows, "step", "gap", order=order, exact=exact)
            series["total" if order == 0 else f"order {order}"] = (
                [s + 1 for s in steps],
                [max(g, 1e-12) for g in gaps],
            )
        title = "exact gradients" if exact else "sampled masks"
        items.append(plots.Panel(title, "step", "equalization gap", series, log="xy"))
    plots.save(plots.panels(items, columns=2), path)


FIGURES: tuple[Figure, ...] = (
    Figure(
        "thesis-fig3-2",
        f"{SOURCE}, Figure 3-2",
        "Spectra of deep linear networks trained with dropout",
        "A higher dropout rate shrinks the spectrum more and gives a lower rank.",
        lambda scale: named_cells(experiments.spectrum_cells(scale)),
        experiments.spectrum_cell,
        spectrum_expects,
        spectrum_draw,
        takes={"paper": "Paper scale: 19 rates, 41 starts, 16,000 steps: about half an hour on two cores."},
        objects=("training.train", "optima.optimum"),
    ),
    Figure(
        "thesis-fig3-3",
        f"{SOURCE}, Figure 3-3",
        "The equalization gap during training",
        "The gap between the regularizer and its lower bound decreases steadily during training.",
        lambda scale: named_cells(experiments.gap_cells(scale)),
        experiments.gap_cell,
        gap_expects,
        gap_draw,
        takes={"paper": "Paper scale: 31 starts, 40,000 steps: minutes on one core."},
        objects=("training.train", "penalties.sub_penalties"),
    ),
)
