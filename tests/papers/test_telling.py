"""Comparisons of values: a control moves numbers, and nothing else."""

import numpy as np
import pytest

from droptics.papers.droptics_own.telling import refuses, same


@pytest.mark.parametrize("value", [3, 2.5, np.array([1.0, 2.0])])
def test_a_control_moves_numbers(value):
    assert same(value, value, "").holds
    assert not same(value, value, "", 1.1).holds
    assert same(1.1 * value, value, "", 1.1).holds


@pytest.mark.parametrize("value", ["a", True, None, [1, 2], ("a", 1), {"a": 1}])
def test_words_and_lists_stay_what_they_are(value):
    assert same(value, value, "", 1.1).holds
    assert not same(value, "other", "", 1.1).holds


def test_another_reason_is_no_refusal():
    assert refuses(lambda: int("a"), "invalid literal").holds
    assert not refuses(lambda: int("a"), "out of range").holds
    assert not refuses(lambda: int("1"), "invalid literal").holds
