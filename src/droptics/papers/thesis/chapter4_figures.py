"""Figures and tables of chapter 4: matrix completion, co-adaptation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from scipy import stats

from droptics import plots
from droptics.evidence.claims import compare
from droptics.evidence.engines import Row
from droptics.evidence.figures import Cell, Expectation, Figure, Scale
from droptics.papers.columns import column, curve, distinct, mean
from droptics.papers.thesis import chapter4_completion as completion
from droptics.papers.thesis import chapter4_experiments as experiments

SOURCE = "Mianjy thesis"


RUNS = 10
MORE = 0.5  # beyond the printed rates, at the narrowest and the widest


def completion_cell(*, method: str, **parameters: Any) -> list[Row]:
    """One curve of plain or dropout SGD, or one row of alternating least squares; printed numbers (ml-10m) beside."""
    rows = completion.als_row(**parameters) if method == "als" else completion.sgd_curve(**parameters)
    last, best = rows[-1], min(rows, key=lambda row: row["test_rmse"])
    found: list[Row] = []
    for row in rows:
        iterate = "last" if row is last else "best" if row is best else ""
        printed = completion.printed_value(row["method"], row["width"], row["drop"], iterate)
        found.append({name: value for name, value in row.items() if name != "seconds"} | {"printed": printed})
    return found


def completion_cells(scale: Scale, widths: Sequence[int]) -> list[Cell]:
    """SGD at every width and rate, and ours beside it."""
    more: Sequence[float] = ()
    if scale == "smoke":
        data, widths, rates, size = "ml-100k", (10,), [0.0, 0.4, 0.7], {"epochs": 12}
    else:
        data, rates, size = completion.available_set("paper"), [0.0, *completion.DROPS], {"epochs": 100, "runs": RUNS}
        more = (MORE,) if len(widths) > 1 else ()
    cuda = torch.cuda.is_available()  # SGD takes a GPU where there is one; the manifest says so
    # the step per rating is 2 rate / batch: the smaller sets need the larger one
    shared = {"method": "sgd", "name": data, "rate": 1.0 if data == "ml-10m" else 10.0} | size
    cells = [
        Cell(f"{data} width={width} drop={drop:g}", {"width": width, "drop": drop} | shared, gpu=cuda)
        for width in widths
        for drop in (*rates, *(more if width in (widths[0], widths[-1]) else ()))
    ]
    ours = [
        Cell(
            f"{data} width={width} ALS{' with biases' * biases}",
            {"method": "als", "name": data, "width": width, "drop": None, "biases": biases},
        )
        for width in widths
        for biases in (False, True)
    ]
    return cells + ours


def _last(rows: Sequence[Row], name: str, **where: Any) -> float:
    return float(column(rows, name, **where)[-1])


def _apart(rows: Sequence[Row], name: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """By how much two means over runs differ, with the interval of 95 %; nothing where there is one run."""
    deviation = f"{name.removesuffix('_rmse')}_sd"
    pairs = [(_last(rows, name, **where), column(rows, deviation, **where)) for where in (one, other)]
    if not all(found for _, found in pairs):
        return ""
    runs = int(_last(rows, "runs", **one))
    error = math.sqrt(sum(float(found[-1]) ** 2 for _, found in pairs) / runs)
    half = float(stats.t.ppf(0.975, runs - 1)) * error
    return f" (difference {pairs[0][0] - pairs[1][0]:.4f} +- {half:.4f}, {runs} runs)"


def _best_of(rows: Sequence[Row], width: int, rates: Sequence[float] | None = None) -> tuple[float, dict[str, Any]]:
    """The least test error of dropout SGD at a width, over given rates or all, and where it is."""
    drops = [drop for drop in distinct(rows, "drop", width=width, method="dropout SGD") if not rates or drop in rates]
    places = [{"width": width, "method": "dropout SGD", "drop": drop} for drop in drops]
    return min(((_last(rows, "test_rmse", **place), place) for place in places), key=lambda found: found[0])


def table_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """Dropout at its best printed rate beats plain SGD; whether that rate grows with the width, and wider is better."""
    found, rates = [], completion.DROPS if scale == "paper" else None
    for width in distinct(rows, "width", method="plain SGD"):
        plain = {"width": width, "method": "plain SGD"}
        end, (best, place) = _last(rows, "test_rmse", **plain), _best_of(rows, width, rates)
        label = f"width {width}: best dropout against plain SGD at the end{_apart(rows, 'test_rmse', place, plain)}"
        found.append(Expectation(compare(best, "<", end, label)))
        ours = _last(rows, "test_rmse", width=width, method="ALS")
        found.append(Expectation(compare(ours, "<", end, f"width {width}: least squares against plain SGD")))
        ours = _last(rows, "test_rmse", width=width, method="ALS with biases")
        label = f"width {width}: least squares with biases against dropout SGD"
        found.append(Expectation(compare(ours, "<", best, label)))
        if scale == "paper":
            early = _last(rows, "best_rmse", **plain)  # of every run for itself
            label = f"width {width}: best dropout against the best iterate of plain SGD"
            found.append(Expectation(compare(best, "<", early, label)))
    return [*found, *_along_widths(rows)] if scale == "paper" else found


def _along_widths(rows: Sequence[Row]) -> list[Expectation]:
    """How the best rate and the best error go with the width, from the narrowest to the widest."""
    widths = sorted(distinct(rows, "width", method="dropout SGD"))
    (narrow, low), (wide, high) = (_best_of(rows, width, completion.DROPS) for width in (widths[0], widths[-1]))
    nexts = [
        _best_of(rows, place["width"], [drop for drop in completion.DROPS if drop != place["drop"]])[1]
        for place in (low, high)
    ]
    leads = " and".join(_apart(rows, "test_rmse", one, two) for one, two in zip((low, high), nexts, strict=True))
    note = "On MovieLens 1M the largest printed rate is the best at every width, and wider is not better."
    label = f"best rate, widest against narrowest; each against the next best:{leads}"
    found = [
        Expectation(compare(high["drop"], ">", low["drop"], label), reproduced=False, note=note),
        Expectation(
            compare(wide, "<", narrow, f"best RMSE, widest against narrowest{_apart(rows, 'test_rmse', high, low)}"),
            reproduced=False,
            note=note,
        ),
    ]
    for value, place in ((narrow, low), (wide, high)):
        beyond = place | {"drop": MORE}
        label = (
            f"width {place['width']}: rate {MORE} against the best printed{_apart(rows, 'test_rmse', beyond, place)}"
        )
        found.append(Expectation(compare(_last(rows, "test_rmse", **beyond), "<", value, label)))
    return found


def table_draw(rows: Sequence[Row], path: Path) -> None:
    """Test error against the rate, one curve per width, ours and printed; and all methods against the width."""
    widths = distinct(rows, "width", method="plain SGD")
    every = [set(distinct(rows, "drop", width=width, method="dropout SGD")) for width in widths]
    drops = [0.0, *sorted(set.intersection(*every))]

    def sgd(name: str, width: int) -> tuple[list[float], list[float]]:
        kinds = ["dropout SGD" if drop else "plain SGD" for drop in drops]
        found = [
            _last(rows, name, width=width, drop=drop, method=kind) for drop, kind in zip(drops, kinds, strict=True)
        ]
        return list(drops), found

    ours = {f"width {width}": sgd("test_rmse", width) for width in widths}
    items = [plots.Panel(f"SGD on {rows[0]['set']}", "drop probability", "test RMSE", ours)]
    if all(width in completion.WIDTHS for width in widths):
        printed = {f"width {width}": sgd("printed", width) for width in widths}
        items.append(plots.Panel("as printed (MovieLens 10M)", "drop probability", "test RMSE", printed))
    best = [_last(rows, "best_rmse", width=width, method="plain SGD") for width in widths]
    marks = {
        "plain SGD, last": [ours[f"width {width}"][1][0] for width in widths],
        "plain SGD, best iterate": best,
        "dropout SGD, best rate": [min(ours[f"width {width}"][1][1:]) for width in widths],
        "ALS": [_last(rows, "test_rmse", width=width, method="ALS") for width in widths],
        "ALS with biases": [_last(rows, "test_rmse", width=width, method="ALS with biases") for width in widths],
    }
    points = {name: (widths, values) for name, values in marks.items()}
    items.append(plots.Panel("all methods", "width", "test RMSE", {}, marks=points))
    plots.save(plots.panels(items), path)


def curves_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """The generalization gap falls with the rate; plain SGD fits the training set best."""
    found = []
    for width in distinct(rows, "width", method="dropout SGD"):
        drops = sorted(distinct(rows, "drop", width=width, method="dropout SGD"))
        plain = {"width": width, "method": "plain SGD"}
        places = [plain, *({"width": width, "method": "dropout SGD", "drop": drop} for drop in drops)]
        for earlier, later in pairwise(places):
            label = f"width {width}: gap falls up to drop {later['drop']:g}{_apart(rows, 'gap', later, earlier)}"
            gaps = (_last(rows, "gap", **place) for place in (later, earlier))
            found.append(Expectation(compare(next(gaps), "<", next(gaps), label)))
        train, other = (_last(rows, "train_rmse", **place) for place in (plain, places[-1]))
        apart = _apart(rows, "train_rmse", plain, places[-1])
        label = f"width {width}: plain SGD has the least training error{apart}"
        found.append(Expectation(compare(train, "<", other, label)))
    return found


def curves_draw(rows: Sequence[Row], path: Path) -> None:
    """Training error, test error and gap by epoch."""
    items = []
    for name, label in (("train_rmse", "training RMSE"), ("test_rmse", "test RMSE"), ("gap", "generalization gap")):
        series = {}
        for method in ("plain SGD", "dropout SGD"):
            for drop in distinct(rows, "drop", method=method):
                series[f"p = {drop:g}"] = curve(rows, "epoch", name, method=method, drop=drop)
        items.append(plots.Panel(label, "epoch", label, series))
    plots.save(plots.panels(items), path)


RATES = (0.0, 0.25, 0.5, 0.75)


def coadaptation_cells(scale: Scale) -> list[Cell]:
    """Every width and rate, with and without symmetrization; 50 runs of each as in the thesis, on a GPU."""
    if scale == "smoke":
        small = {"width": 64, "symmetrized": True, "examples": 600, "epochs": 10}
        return [Cell(f"width=64 drop={drop:g}", {"drop": drop} | small) for drop in (0.0, 0.5)]
    return [
        Cell(
            f"width={width} drop={drop:g} {'symmetrized' if kind else 'raw'} 50 runs",
            {"width": width, "drop": drop, "symmetrized": kind, "runs": 50, "bounds": False, "device": "cuda"},
            gpu=True,
        )
        for kind in (True, False)
        for width in (16, 64, 256, 1024)
        for drop in RATES
    ]


def coadaptation_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """Dropout makes flows more equal, alpha and the gap smaller; plain SGD by itself does not equalize."""
    found = []
    for kind in distinct(rows, "symmetrized"):
        for width in distinct(rows, "width"):
            where = {"width": width, "symmetrized": kind}
            name = f"width {width}, {'symmetrized' if kind else 'raw'}"
            rates = sorted(distinct(rows, "drop", **where))
            for low, high in pairwise(rates):
                phi, alpha = (
                    [mean(column(rows, item, drop=drop, **where)) for drop in (low, high)] for item in ("phi", "alpha")
                )
                step = f"{name}, drop {high:g} against {low:g}"
                found.append(Expectation(compare(phi[1], ">", phi[0], f"{step}: phi (equality of flows)")))
                found.append(Expectation(compare(alpha[1], "<", alpha[0], f"{step}: alpha / sqrt n")))
            if scale == "paper":  # the short run has hardly moved from its start and has one width
                found += _gaps_and_start(rows, where, rates, name)
    return found + (_with_width(rows) if scale == "paper" else [])


def _gaps_and_start(
    rows: Sequence[Row], where: Mapping[str, Any], rates: Sequence[float], name: str
) -> list[Expectation]:
    gaps = [mean(column(rows, "gap", drop=drop, **where)) for drop in (rates[0], rates[-1])]
    label = f"{name}: generalization gap, drop {rates[-1]:g} against 0"
    phi, start = (mean(column(rows, item, drop=0.0, **where)) for item in ("phi", "phi_start"))
    note = "The start already has nearly equal flows, and plain SGD makes them less equal."
    fitted = mean(column(rows, "train_accuracy", drop=0.0, **where))
    short = "At rate 0.001 on the mean loss 30 epochs do not fit all examples."
    return [
        Expectation(compare(gaps[1], "<", gaps[0], label)),
        Expectation(compare(phi, ">", start, f"{name}: phi of plain SGD, end against start"), False, note),
        Expectation(compare(fitted, "==", 1.0, f"{name}: training accuracy, drop 0", precision=1e-3), False, short),
    ]


def _with_width(rows: Sequence[Row]) -> list[Expectation]:
    """At a fixed rate wider networks have a larger gap and, under dropout, less equal flows."""
    found = []
    for kind in distinct(rows, "symmetrized"):
        for drop in sorted(distinct(rows, "drop")):
            where = {"drop": drop, "symmetrized": kind}
            name = f"drop {drop:g}, {'symmetrized' if kind else 'raw'}, width 1024 against 16"
            phi, gap = ([mean(column(rows, n, width=w, **where)) for w in (1024, 16)] for n in ("phi", "gap"))
            found.append(Expectation(compare(gap[0], ">", gap[1], f"{name}: generalization gap")))
            # without dropout and without symmetrization the wider networks have the more equal flows
            as_said = drop > 0 or kind
            note = "" if as_said else "The other way round without dropout on raw images."
            found.append(Expectation(compare(phi[0], "<", phi[1], f"{name}: phi"), as_said, note))
    return found


def coadaptation_draw(rows: Sequence[Row], path: Path) -> None:
    """Phi, gap and alpha against the width (or the rate when there is one width)."""
    items = []
    widths = distinct(rows, "width")
    for kind in distinct(rows, "symmetrized"):
        for name, label in (("phi", "phi"), ("gap", "generalization gap"), ("alpha", "alpha / sqrt n")):
            drops = sorted(distinct(rows, "drop"))
            if len(widths) > 1:
                series = {
                    f"p = {drop:g}": (
                        widths,
                        [mean(column(rows, name, drop=drop, width=w, symmetrized=kind)) for w in widths],
                    )
                    for drop in drops
                }
                items.append(plots.Panel("symmetrized" if kind else "raw", "width", label, series, log="x"))
            else:
                values = [mean(column(rows, name, drop=drop, symmetrized=kind)) for drop in drops]
                items.append(plots.Panel("symmetrized" if kind else "raw", "drop", label, {label: (drops, values)}))
    plots.save(plots.panels(items), path)


FIGURES: tuple[Figure, ...] = (
    Figure(
        "thesis-tab4-1",
        f"{SOURCE}, Table 4-I",
        "MovieLens 1M: test error of plain and dropout SGD",
        "Dropout at the best rate beats plain SGD, also its best iterate; the best rate grows with the width.",
        lambda scale: completion_cells(scale, completion.WIDTHS),
        completion_cell,
        table_expects,
        table_draw,
        needs=("ml-100k",),
        takes={"paper": "Paper scale (MovieLens 10M where present, else 1M): 20 minutes on a GPU, hours on two cores."},
        objects=("recommenders.DropoutCompletion",),
    ),
    Figure(
        "thesis-fig4-1",
        f"{SOURCE}, Figure 4-1",
        "MovieLens 1M: learning curves at width 70",
        "Plain SGD overfits; the generalization gap falls as the dropout rate grows.",
        lambda scale: completion_cells(scale, (70,)),
        completion_cell,
        curves_expects,
        curves_draw,
        needs=("ml-100k",),
        takes={"paper": "Paper scale: 4 minutes on a GPU, half an hour on two cores; cells shared with Table 4-I."},
        objects=("recommenders.DropoutCompletion",),
    ),
    Figure(
        "thesis-fig4-2",
        f"{SOURCE}, Figure 4-2",
        "Co-adaptation of two-layer networks on MNIST 4 and 7",
        "Higher rates mean less co-adaptation, a smaller gap and a smaller alpha; plain SGD is biased to little "
        "co-adaptation.",
        coadaptation_cells,
        experiments.coadaptation_cell,
        coadaptation_expects,
        coadaptation_draw,
        needs=("mnist",),
        takes={"paper": "Paper scale: 1600 networks, a minute or two on a GPU."},
        objects=("coadaptation.coadaptation", "coadaptation.flows"),
    ),
)
