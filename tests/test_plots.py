"""Pictures are drawn without a display, and leave no trace in pyplot."""

import io
from itertools import pairwise

import matplotlib.image
import matplotlib.pyplot as plt
import numpy as np
import pytest

from droptics import plots
from droptics.papers.mianjy2018.figures import contours


def read(png):
    assert png.startswith(b"\x89PNG")
    return matplotlib.image.imread(io.BytesIO(png))


def test_pictures_have_ink_and_pyplot_knows_nothing_of_them():
    before = plt.get_fignums()
    band = {"a": ([0.5, 1.5], [1.5, 2.5])}
    figures = [
        plots.lines(
            [1, 2], {"a": [1, 2], "b": [2, 1]}, xlabel="x", ylabel="y", log="xy", bands=band, levels={"l": 1.5}
        ),
        plots.bars({"a": [1, 2], "b": [3, 4]}, ["p", "q"], ylabel="y"),
    ]
    for figure in figures:
        image = read(plots.as_png(figure))
        assert np.ptp(image) > 0.5
    assert plt.get_fignums() == before
    assert plots.as_data_uri(plots.as_png(figures[0])).startswith("data:image/png;base64,")


def test_curves_carry_the_series_bands_and_levels():
    axes = plots.lines(
        [1, 10],
        {"a": [1, 2], "b": [2, 1]},
        xlabel="x",
        ylabel="y",
        title="t",
        log="x",
        bands={"b": ([1.5, 0.5], [2.5, 1.5])},
        levels={"floor": 1.5},
    ).axes[0]
    curves = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert list(curves) == ["a", "b", "floor"]
    assert list(curves["a"]) == [1, 2]
    assert set(curves["floor"]) == {1.5}
    assert len(axes.collections) == 1
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "linear")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b", "floor"]
    alone = plots.lines([1, 2], {"a": [1, 2]}, xlabel="x", ylabel="y", log="y").axes[0]
    assert alone.get_legend() is None
    assert (alone.get_xscale(), alone.get_yscale()) == ("linear", "log")


def test_axes_stand_in_rows():
    """From left to right, then from top to bottom; a figure of six is as large as they are."""
    figure = plots.new_figure(columns=3, rows=2)
    places = [axes.get_subplotspec() for axes in figure.axes]
    wanted = [(row, column) for row in range(2) for column in range(3)]
    assert [(place.rowspan.start, place.colspan.start) for place in places] == wanted
    assert figure.get_size_inches().tolist() == pytest.approx([18.0, 7.2])


def test_more_curves_than_colors_start_over():
    names = [f"c{i}" for i in range(len(plots.COLORS) + 1)]
    axes = plots.lines([0, 1], {name: [0, 1] for name in names}, xlabel="x", ylabel="y").axes[0]
    colors = [line.get_color() for line in axes.lines]
    assert colors == [*plots.COLORS, plots.COLORS[0]]


def test_bars_of_a_group_stand_side_by_side():
    axes = plots.bars({"a": [1, 2], "b": [3, 4]}, ["p", "q"], ylabel="y").axes[0]
    places = sorted((bar.get_x(), bar.get_width(), bar.get_height()) for bar in axes.patches)
    assert [round(height) for _, _, height in places] == [1, 3, 2, 4]
    for (left, width, _), (right, _, _) in pairwise(places):
        assert left + width <= right + 1e-9
    assert [label.get_text() for label in axes.get_xticklabels()] == ["p", "q"]
    assert axes.get_legend() is not None
    single = plots.bars({"a": [1, 2]}, ["p", "q"], ylabel="y").axes[0]
    assert single.get_legend() is None
    assert [bar.get_x() + bar.get_width() / 2 for bar in single.patches] == pytest.approx([0, 1])


def test_a_landscape_marks_its_critical_points_and_runs():
    axis = np.linspace(-1, 1, 9)
    values = (axis[:, None] ** 2 + axis**2).tolist()
    points = {"global minimum": [(0.0, 0.0)], "strict saddle": [(0.5, -0.5), (-0.5, 0.5)], "odd": [(1.0, 1.0)]}
    figure = plots.landscape(axis.tolist(), values, points, [[(1.0, 1.0), (0.5, 0.25), (0.0, 0.0)]], title="t")
    axes = figure.axes[0]
    found = {
        item.get_label(): np.asarray(item.get_offsets()).tolist()
        for item in axes.collections
        if not item.get_label().startswith("_")
    }
    assert found == {
        "global minimum": [[0.0, 0.0]],
        "strict saddle": [[0.5, -0.5], [-0.5, 0.5]],
        "odd": [[1.0, 1.0]],
    }
    assert [line.get_xydata().tolist() for line in axes.lines] == [[[1.0, 1.0], [0.5, 0.25], [0.0, 0.0]]]
    assert np.ptp(read(plots.as_png(figure))) > 0.5


def test_panels_fill_rows_and_hide_what_is_left():
    curve = ([1, 2], [1, 2])
    band = ([1, 2], [3, 4], [2, 3], [4, 5])
    items = [
        plots.Panel("first", "x", "y", {"a": curve, "b": band}, levels={"floor": 1.0}, log="xy"),
        plots.Panel("second", "x", "y", {"a": curve}),
        plots.Panel("third", "x", "y", {"a": curve}, marks={"points": ([1.5], [1.5])}),
        plots.Panel("fourth", "x", "y", {}),
    ]
    figure = plots.panels(items, columns=3)
    assert [axes.get_title() for axes in figure.axes] == ["first", "second", "third", "fourth", "", ""]
    assert [axes.get_visible() for axes in figure.axes] == [True] * 4 + [False] * 2
    first, second, third = figure.axes[:3]
    assert (first.get_xscale(), first.get_yscale()) == ("log", "log")
    assert len(first.collections) == 1
    assert [line.get_label() for line in first.lines] == ["a", "b", "floor"]
    assert second.get_legend() is None
    assert third.lines[1].get_linestyle() == "None"
    assert third.lines[1].get_xydata().tolist() == [[1.5, 1.5]]
    assert len(plots.panels(items[:2], columns=5).axes) == 2
    with pytest.raises(ValueError, match="at least one panel"):
        plots.panels([])


def test_contours_stand_side_by_side_with_their_marks(tmp_path):
    axis = np.linspace(0, 1, 5).tolist()
    surface = [[x * y for x in axis] for y in axis]
    marks = {"left": {"minimum": ([0.0, 0.2], [0.0, 0.4])}, "right": {"saddle": ([1.0], [1.0])}}
    figure = contours({"left": (axis, surface), "right": (axis, surface)}, marks, xlabel="u", ylabel="v")
    left, right = figure.axes
    assert [axes.get_title() for axes in figure.axes] == ["left", "right"]
    assert left.lines[0].get_xydata().tolist() == [[0.0, 0.0], [0.2, 0.4]]
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["saddle"]
    plots.save(figure, tmp_path / "picture.png")
    assert np.ptp(read((tmp_path / "picture.png").read_bytes())) > 0.5


def without_color(axes):
    """What is left of curves, points and bars when color is taken away."""
    curves = [(line.get_linestyle(), line._dash_pattern, line.get_marker()) for line in axes.lines]
    return curves + [patch.get_hatch() or "" for patch in axes.patches]


def test_eight_of_a_kind_are_told_apart_in_black_and_white():
    names = [f"c{i}" for i in range(8)]
    series = {name: [0, 1] for name in names}
    curves = plots.lines([0, 1], series, xlabel="x", ylabel="y").axes[0]
    bars = plots.bars({name: [1.0] for name in names}, ["p"], ylabel="y").axes[0]
    panel = plots.Panel("t", "x", "y", {name: ([0, 1], [0, 1]) for name in names})
    marked = plots.Panel("t", "x", "y", {}, marks={name: ([0], [1]) for name in names})
    surface = {"t": ([0.0, 1.0], [[0.0, 1.0], [1.0, 2.0]])}
    points = {"t": {name: ([0], [1]) for name in names[:3]}}
    surfaces = contours(surface, points, xlabel="x", ylabel="y").axes[0]
    for axes in (curves, bars, *plots.panels([panel, marked]).axes, surfaces):
        looks = without_color(axes)
        assert len(looks) == len(set(map(str, looks))) >= 3


def test_no_kind_of_points_is_left_out():
    """There are eight markers; a ninth kind takes the first again."""
    marks = {str(number): ([0.0], [float(number)]) for number in range(10)}
    axes = plots.panels([plots.Panel("t", "x", "y", {}, marks=marks)]).axes[0]
    assert [line.get_ydata()[0] for line in axes.lines] == [float(number) for number in range(10)]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(marks)


def test_a_flat_landscape_has_no_contours():
    axes = plots.landscape([0.0, 1.0], [[2.0, 2.0], [2.0, 2.0]], {"m": [(0.0, 1.0)]}).axes[0]
    assert axes.collections[-1].get_offsets().tolist() == [[0.0, 1.0]]
