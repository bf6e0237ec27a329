"""The picture of a scan."""

import json
import math

import pytest

from droptics.rates.result import Cost, Point, Rates, SiteRate


def test_the_band_is_two_standard_errors_on_both_sides():
    points = tuple(
        Point("scan", {"a": rate}, loss, 0.1, loss - 1.0, error, True, 0.5, (3,), 1)
        for rate, loss, error in ((0.1, 1.4, 0.2), (0.3, 1.0, None), (0.5, 1.1, 0.05))
    )
    sites = (SiteRate("a", "dropout", 0.5, 0.3, "flat", "a"),)
    figure = Rates({"a": 0.3}, sites, points, Cost(3, 0, 1.0, False), "flat", "why", 0.3, (0.3,)).plot()
    edges = figure.axes[0].collections[0].get_paths()[0].vertices
    for rate, low, high in ((0.1, 1.0, 1.8), (0.3, 1.0, 1.0), (0.5, 1.0, 1.2)):
        heights = [float(y) for x, y in edges if abs(x - rate) < 1e-12]
        assert (min(heights), max(heights)) == pytest.approx((low, high))


def test_what_is_written_is_what_was_found_but_for_numbers_that_are_not_finite():
    points = (Point("scan", {"a": 0.3}, 1.5, 0.1, math.nan, None, True, math.inf, (3,), 1),)
    sites = (SiteRate("a", "dropout", 0.5, 0.3, "flat", "a"),)
    told = Rates({"a": 0.3}, sites, points, Cost(3, 0, 1.0, False), "flat", "why", 0.3, (0.3,)).to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert (told["rates"], told["verdict"], told["sites"][0]["rate"]) == ({"a": 0.3}, "flat", 0.3)
    assert [told["points"][0][name] for name in ("loss", "steps")] == [1.5, [3]]
    assert [value for value in told["points"][0].values() if value is None] == [None] * 3
