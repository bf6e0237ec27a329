"""An answer on rates as data, and the picture of its scan."""

import json
import math

import pytest

from droptics.rates.result import Cost, Gap, Point, Rates, SiteRate, Split


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


def test_the_rate_of_a_point_is_that_of_its_first_site():
    assert Point("path", {"b": 0.2, "a": 0.4, "c": 0.1}, 1.0, 0.1, 0.0, 0.1, True, 0.5, (3,), 1).rate == 0.2


def test_what_is_written_is_what_was_found_but_for_numbers_that_are_not_finite():
    points = (Point("scan", {"a": 0.3}, 1.5, 0.1, math.nan, None, True, math.inf, (3,), 1),)
    sites = (SiteRate("a", "dropout", 0.5, 0.3, "flat", "a"),)
    told = Rates({"a": 0.3}, sites, points, Cost(3, 0, 1.0, False), "flat", "why", 0.3, (0.3,)).to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert (told["rates"], told["verdict"], told["sites"][0]["rate"]) == ({"a": 0.3}, "flat", 0.3)
    assert [told["points"][0][name] for name in ("loss", "steps")] == [1.5, [3]]
    assert [value for value in told["points"][0].values() if value is None] == [None] * 3


def answer(**parts) -> Rates:
    points = (Point("scan", {"a": 0.3}, 1.5, 0.1, 0.0, 0.0, True, 0.7, (3, None), 2),)
    sites = (SiteRate("a", "dropout", 0.5, 0.3, "flat", "a", 0.1, 0.2),)
    whole = {"gap": Gap(0.5, 1.5, 0.25, 0.1), "split": Split(True, "why", 0.1, 0.2), "constant": 2.0}
    whole |= {"skipped": {"b": "by hand"}, "notes": ("one", "two")}
    return Rates({"a": 0.3}, sites, points, Cost(3, 1, 1.0, True), "flat", "why", 0.3, (0.3,), **whole | parts)


@pytest.mark.parametrize("lacks", [(), ("gap",), ("split",), ("gap", "split"), ("gap", "split", "constant")])
def test_every_part_is_read_back_with_and_without_the_others(lacks, tmp_path):
    found = answer(**dict.fromkeys(lacks))
    assert Rates.from_dict(found.to_dict()) == found
    assert Rates.from_dict(json.loads(found.to_json())) == found
    assert Rates.load(found.save(tmp_path / "rates.json")) == found
    for schema in (0, 2, None, "1"):
        with pytest.raises(ValueError, match="schema 1"):
            Rates.from_dict(found.to_dict() | {"schema": schema})


def test_an_answer_is_saved_where_a_file_can_stand(tmp_path):
    target = answer().save(tmp_path / "new" / "rates.json")
    with pytest.raises(ValueError, match="is a folder; name a file"):
        answer().save(tmp_path)
    with pytest.raises(ValueError, match="needs a folder where"):
        answer().save(target / "more.json")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["new", "rates.json"]
    assert Rates.load(target) == answer()
