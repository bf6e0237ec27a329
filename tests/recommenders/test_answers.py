"""Answers of a model whose ratings are a table: errors with and without times."""

from __future__ import annotations

import numpy as np
import pytest

from droptics.datasets import Ratings
from droptics.papers.droptics_own.recommenders import answer_checks


@pytest.mark.parametrize("timed", [False, True])
def test_errors_are_those_at_the_times_of_the_ratings(timed: bool) -> None:
    users, items = np.array([20, 30, 10]), np.array(["a", "c", "d"])
    values, times = np.array([3.0, 3.5, 1.0]), np.array([0.0, 1.0, 0.5])
    off = np.array([2.0, 4.0, 0.0]) - values + (times if timed else 0)
    told = answer_checks.Known(timed=timed).evaluate(Ratings(users, items, values, times))
    assert told.rmse == pytest.approx(float((off**2).mean() ** 0.5), rel=1e-14)
    assert (told.mae, told.count, told.unknown) == (pytest.approx(float(np.abs(off).mean()), rel=1e-14), 3, 0)
