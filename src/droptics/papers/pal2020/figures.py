"""Figures of Pal, Lane, Vidal and Haeffele 2020."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from droptics import plots
from droptics.evidence.claims import compare
from droptics.evidence.engines import Row
from droptics.evidence.figures import Cell, Expectation, Figure, Scale
from droptics.papers.columns import column, curve, distinct
from droptics.papers.mianjy2018.figures import on_average
from droptics.papers.pal2020 import experiments, image_experiments
from droptics.papers.registry import named_cells

SOURCE = "Pal, Lane, Vidal, Haeffele 2020 (CVPR, with supplement)"


def _only(table: dict[str, dict[str, Any]], drops: Sequence[float]) -> list[Cell]:
    chosen = {name: cell for name, cell in table.items() if cell.get("drop", 0.5) in drops}
    return named_cells(chosen or table)


def _late(rows: Sequence[Row], name: str, **where: Any) -> float:
    """Mean of the last quarter of a column."""
    values = column(rows, name, **where)
    tail = values[-max(1, len(values) // 4) :]
    return float(sum(tail) / len(tail))


def dropblock_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """The stochastic loss follows the deterministic objective, which approaches the global minimum."""
    found = []
    for drop in distinct(rows, "drop"):
        noise = 0.25 if scale == "smoke" else 0.1
        stochastic, exact = (_late(rows, name, drop=drop) for name in ("stochastic", "deterministic"))
        found.append(
            Expectation(compare(stochastic, "==", exact, f"drop={drop:g}: stochastic against exact", precision=noise))
        )
        limit = 1.25 if scale == "smoke" else 1.05
        last = column(rows, "ratio", drop=drop)[-1]
        found.append(Expectation(compare(last, "<=", limit, f"drop={drop:g}: objective over the global minimum")))
        found.append(Expectation(compare(last, ">=", 1.0, f"drop={drop:g}: never below it")))
        found.append(on_average(rows, f"drop={drop:g}", drop=drop))
    return found


def dropblock_draw(rows: Sequence[Row], path: Path) -> None:
    """Stochastic and deterministic curves with the minimum, one panel per rate."""
    items = []
    for drop in distinct(rows, "drop"):
        series = {
            "stochastic": curve(rows, "step", "stochastic", drop=drop),
            "deterministic": curve(rows, "step", "deterministic", drop=drop),
        }
        levels = {"global minimum": column(rows, "bound", drop=drop)[0]}
        items.append(plots.Panel(f"theta = {1 - drop:g}", "step", "objective", series, levels, "y"))
    plots.save(plots.panels(items), path)


def dropconnect_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """Stochastic equals deterministic with the corrected formula; the printed one fails on correlated inputs."""
    found = []
    for drop in distinct(rows, "drop"):
        for correlation in distinct(rows, "correlation"):
            where = {"drop": drop, "correlation": correlation}
            if not column(rows, "step", **where):
                continue
            name = f"drop={drop:g}, input correlation {correlation:g}"
            exact, printed = _late(rows, "deterministic", **where), _late(rows, "printed", **where)
            noise = 0.25 if scale == "smoke" else 0.1
            stochastic = _late(rows, "stochastic", **where)
            found.append(Expectation(compare(stochastic, "==", exact, f"{name}: stochastic", precision=noise)))
            found.append(on_average(rows, name, **where))
            # correlated inputs have directions of little variance, which are learned late
            limit = 1.1 if scale == "smoke" or correlation else 1.05
            for trained in ("deterministic", "dropout"):
                best = column(rows, "optimum_dropout" if trained == "dropout" else "optimum_dropconnect", **where)[0]
                label = f"{name}: {'Dropout' if trained == 'dropout' else 'DropConnect'} over its optimum at the end"
                found.append(Expectation(compare(column(rows, trained, **where)[-1], "<=", limit * best, label)))
            same = compare(printed, "==", exact, f"{name}: DropConnect is Dropout (printed formula)", precision=0.1)
            note = "The printed theorem is true only for uncorrelated inputs." if correlation else ""
            found.append(Expectation(same, reproduced=correlation == 0, note=note))
    return found


def dropconnect_draw(rows: Sequence[Row], path: Path) -> None:
    """One panel per rate and correlation."""
    items = []
    for drop in distinct(rows, "drop"):
        for correlation in distinct(rows, "correlation", drop=drop):
            where = {"drop": drop, "correlation": correlation}
            names = {
                "stochastic": "DropConnect, stochastic",
                "deterministic": "DropConnect, exact",
                "printed": "printed formula",
                "dropout": "Dropout, exact",
            }
            series = {label: curve(rows, "step", name, **where) for name, label in names.items()}
            title = f"theta = {1 - drop:g}, correlation {correlation:g}"
            items.append(plots.Panel(title, "step", "objective", series, log="y"))
    plots.save(plots.panels(items, columns=2), path)


def sliding_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """With the corrected rate the sliding scheme follows the grid; without it the objective is far larger."""
    last = {scheme: column(rows, "smoothed", scheme=scheme)[-1] for scheme in distinct(rows, "scheme")}
    best = {scheme: column(rows, "optimum", scheme=scheme)[0] for scheme in last}
    keep = column(rows, "keep", scheme="sliding")[0]
    noise = 0.3 if scale == "smoke" else 0.1
    # the uncorrected rate keeps a unit in 32, so that its steps are smallest and it is farthest from its end
    limits = {scheme: 1.25 if scale == "smoke" else 1.1 if scheme == "uncorrected" else 1.05 for scheme in last}
    return [
        Expectation(compare(keep, "==", 0.5, "share of units that the corrected rate keeps")),
        Expectation(
            compare(last["sliding"], "==", last["grid"], "sliding against grid at the end", precision=noise),
            note="With theta' = theta^(1/r) in place of the printed formula.",
        ),
        Expectation(compare(best["uncorrected"], ">", 1.2 * best["grid"], "uncorrected rate: larger optimum")),
        *(on_average(rows, scheme, scheme=scheme) for scheme in last),
        *(
            Expectation(
                compare(
                    column(rows, "objective", scheme=scheme)[-1],
                    "<=",
                    limits[scheme] * best[scheme],
                    f"{scheme}: objective against the optimum at the end",
                )
            )
            for scheme in last
        ),
    ]


def sliding_draw(rows: Sequence[Row], path: Path) -> None:
    """All schemes in one panel."""
    series = {scheme: curve(rows, "step", "smoothed", scheme=scheme) for scheme in distinct(rows, "scheme")}
    plots.save(
        plots.panels([plots.Panel("DropBlock on a grid and sliding", "step", "objective", series, log="y")]), path
    )


def last_layer_expects(rows: Sequence[Row], scale: Scale) -> list[Expectation]:
    """The objective falls towards the lower bound and never below it."""
    found = []
    for dataset in distinct(rows, "dataset"):
        values = column(rows, "objective", dataset=dataset, kind="objective")
        bound = column(rows, "bound", dataset=dataset)[0]
        found.append(Expectation(compare(values[-1], "<", values[0], f"{dataset}: the objective falls")))
        found.append(Expectation(compare(min(values), ">=", bound, f"{dataset}: the lower bound holds")))
        if scale == "paper":
            found.append(Expectation(compare(values[-1], "<=", 1.05 * bound, f"{dataset}: close to the bound")))
            trained, predicted = (
                column(rows, name, dataset=dataset, kind="spectrum") for name in ("trained", "predicted")
            )
            worst = max(abs(a - b) for a, b in zip(trained, predicted, strict=True)) / max(predicted)
            found.append(Expectation(compare(worst, "<=", 0.1, f"{dataset}: largest error of a singular value")))
    return found


def last_layer_draw(rows: Sequence[Row], path: Path) -> None:
    """Objective on the left, singular values on the right, one row per data set."""
    items = []
    for dataset in distinct(rows, "dataset"):
        where = {"dataset": dataset, "kind": "objective"}
        series = {"deterministic": curve(rows, "step", "objective", **where)}
        levels = {"lower bound": column(rows, "bound", dataset=dataset)[0]}
        items.append(plots.Panel(dataset, "step", "objective", series, levels, "y"))
        where["kind"] = "spectrum"
        spectra = {name: curve(rows, "index", name, **where) for name in ("trained", "predicted")}
        items.append(plots.Panel(dataset, "index", "singular value of the predictions", spectra))
    plots.save(plots.panels(items, columns=2), path)


FIGURES: tuple[Figure, ...] = (
    Figure(
        "pal2020-fig1",
        f"{SOURCE}, Figure 1",
        "DropBlock training and the closed form",
        "Stochastic DropBlock training is equivalent to the deterministic objective and reaches its global minimum.",
        lambda scale: _only(experiments.dropblock_cells(scale), (0.5,)),
        experiments.dropblock_cell,
        dropblock_expects,
        dropblock_draw,
        takes={"paper": "Paper scale: 60,000 steps, under a minute on one core."},
        objects=("training.train", "optima.optimum", "masks.Block"),
    ),
    Figure(
        "pal2020-fig2",
        f"{SOURCE}, Figure 2",
        "A network's last layer against the lower bound",
        "On MNIST and CIFAR-10 the objective of a ResNet approaches the lower bound, its spectrum the predicted one.",
        lambda scale: named_cells(image_experiments.last_layer_cells(scale), gpu=torch.cuda.is_available()),
        image_experiments.last_layer_cell,
        last_layer_expects,
        last_layer_draw,
        needs=("mnist", "cifar10"),
        takes={"paper": "Paper scale: 6,000 steps of a ResNet with 20 layers, minutes on a GPU, hours on two cores."},
        objects=("models.LastLayer", "training.train"),
    ),
    Figure(
        "pal2020-fig3",
        f"{SOURCE}, Figure 3",
        "DropConnect and Dropout",
        "DropConnect training is equivalent to its deterministic objective and to Dropout.",
        lambda scale: _only(experiments.dropconnect_cells(scale), (0.5,)),
        experiments.dropconnect_cell,
        dropconnect_expects,
        dropconnect_draw,
        takes={"paper": "Paper scale: 3,000 steps, about a minute on one core."},
        objects=("models.Connections", "training.train"),
    ),
    Figure(
        "pal2020-fig4",
        f"{SOURCE}, Figure 4",
        "DropBlock on a grid and as first proposed",
        "The original sliding DropBlock behaves like the grid version when the rate is adjusted.",
        lambda scale: named_cells(experiments.sliding_cells(scale)),
        experiments.sliding_cell,
        sliding_expects,
        sliding_draw,
        takes={"paper": "Paper scale: 60,000 steps for each of four schemes, minutes on one core."},
        objects=("masks.SlidingBlock", "training.train"),
    ),
    Figure(
        "pal2020-fig5",
        f"{SOURCE}, Figure 5 (supplement)",
        "DropBlock training at other rates",
        "The same as Figure 1 at other retain probabilities.",
        lambda scale: _only(experiments.dropblock_cells(scale), (0.2, 0.8)),
        experiments.dropblock_cell,
        dropblock_expects,
        dropblock_draw,
        takes={"paper": "Paper scale: 60,000 steps for each rate, a minute on one core."},
        objects=("training.train", "masks.Block"),
    ),
    Figure(
        "pal2020-fig6",
        f"{SOURCE}, Figure 6 (supplement)",
        "DropConnect at other rates",
        "The same as Figure 3 at other retain probabilities.",
        lambda scale: _only(experiments.dropconnect_cells(scale), (0.2, 0.8)),
        experiments.dropconnect_cell,
        dropconnect_expects,
        dropconnect_draw,
        takes={"paper": "Paper scale: 3,000 steps for each rate, minutes on one core."},
        objects=("models.Connections", "training.train"),
    ),
)
