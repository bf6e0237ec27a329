"""Words on how a figure departs from the print: they name figures, and the numbers in them are those that run."""

from __future__ import annotations

import csv
import inspect
from pathlib import Path

import pytest

from droptics.papers import figures
from droptics.papers.departures import DEPARTURES
from droptics.papers.mianjy2018 import experiments as shallow
from droptics.papers.pal2020 import experiments as structured
from droptics.papers.pal2020 import image_experiments
from droptics.papers.thesis import chapter3_experiments as deep
from droptics.papers.thesis import chapter4_experiments as relu
from droptics.papers.thesis import chapter5_figures, chapter6_experiments, chapter6_table_figures

FIGURES = {figure.id: figure for figure in figures()}
RESULTS = Path(__file__).parents[2] / "results"


def test_every_departure_is_that_of_a_figure():
    assert set(DEPARTURES) <= set(FIGURES)
    for name, words in DEPARTURES.items():
        assert FIGURES[name].departures == words
        assert all(text == text.strip() and not text.endswith(".") for text in words)


def shown(value) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


DEFAULTS = [
    ("mianjy2018-fig3", shallow.convergence_cell, ("steps", "step_size", "spread", "tau")),
    ("mianjy2018-fig2", shallow.trajectory_cell, ("steps", "runs")),
    ("pal2020-fig1", structured.dropblock_cell, ("steps", "block")),
    ("pal2020-fig4", structured.sliding_cell, ("steps", "block")),
    ("pal2020-fig3", structured.dropconnect_cell, ("steps", "batch_size")),
    ("pal2020-fig2", image_experiments.last_layer_cell, ("examples", "steps", "step_size", "batch_size", "drop")),
    ("thesis-fig3-2", deep.spectrum_cell, ("repeats", "steps", "rate", "rank", "noise", "batch_size")),
    ("thesis-fig3-3", deep.gap_cell, ("repeats", "steps", "rate", "drop", "batch_size")),
    ("thesis-fig4-2", relu.coadaptation_cell, ("batch",)),
    ("thesis-tab6-1", chapter6_experiments.binary_run, ("train_steps", "test_steps")),
]


@pytest.mark.parametrize(("name", "cell", "parameters"), DEFAULTS, ids=[name for name, _, _ in DEFAULTS])
def test_numbers_are_the_defaults_of_the_cells(name, cell, parameters):
    words = " ".join(DEPARTURES[name])
    for parameter in parameters:
        value = inspect.signature(cell).parameters[parameter].default
        assert shown(value) in words, parameter


def test_cells_that_name_their_parameters_do_as_the_words_say():
    options = chapter6_table_figures.color_cells("paper")[0].parameters
    words = " ".join(DEPARTURES["thesis-tab6-2"])
    assert f"{options['epochs']} epochs" in words
    assert f"{options['attacked']:,} images" in words
    assert (options["restarts"], options["test_steps"], options["precision"]) == (2, 50, "bfloat16")
    assert (round(255 * options["test_radius"]), round(255 * options["step"])) == (8, 1)
    seeds = {
        name: {(width, drop): (runs, more.get("tests")) for width, drop, runs, more in settings}
        for name, settings in (("visited", chapter5_figures.VISITED), ("unvisited", chapter5_figures.UNVISITED))
    }
    assert {key: runs for key, (runs, _) in seeds["visited"].items()} == {
        (100, 0.5): 2,
        (10_000, 0.5): 2,
        (100_000, 0.5): 2,
        (250_000, 0.1): 1,
        (250_000, 0.5): 1,
        (250_000, 0.7): 1,
    }
    assert {key for key, (_, tests) in seeds["visited"].items() if tests == 2000} == {(100_000, 0.5), (250_000, 0.5)}
    assert [runs for runs, _ in seeds["unvisited"].values()] == [2, 2, 2, 1]
    assert [tests for _, tests in seeds["unvisited"].values()] == [None, None, None, 2000]
    widths = {cell.parameters["width"] for cell in FIGURES["thesis-fig4-2"].cells("paper")}
    assert widths == {16, 64, 256, 1024}
    rates = {cell.parameters["rate"] for cell in FIGURES["thesis-fig4-1"].cells("paper") if "rate" in cell.parameters}
    assert rates <= {1.0, 10.0}


def test_the_stated_excess_under_raw_attacks_is_that_of_the_table_on_record():
    with (RESULTS / "thesis-tab6-1" / "table.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["attack"] == "PGD-2"]
    printed = {"standard": 0.003, "PGD-inf": 0.003, "R-PGD-inf": 0.002, "PGD-2": 0.002}  # R-PGD-2: zero
    errors = {name: [float(row["error"]) for row in rows if row["training"] == name] for name in printed}
    times = sorted(round(sum(values) / len(values) / printed[name]) for name, values in errors.items())
    assert f"{times[0]} to {times[-1]} times the print" in " ".join(DEPARTURES["thesis-tab6-1"])


def test_the_picture_of_table_6_2_names_the_trainings_that_ran(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(chapter6_table_figures.plots, "save", lambda figure, path: drawn.append(figure))
    rows = [
        {"training": name, "steps": steps, "radius": radius / 255, "robust": radius / 100}
        for name, steps, radius in (("PGD", 2, 4), ("R-PGD", 2, 4), ("PGD", 4, 8))
    ]
    chapter6_table_figures.color_draw(rows, tmp_path / "figure.png")
    texts = drawn[0].axes[0].get_legend().get_texts()
    assert [text.get_text() for text in texts] == ["PGD, 2 steps", "R-PGD, 2 steps", "PGD, 4 steps"]
