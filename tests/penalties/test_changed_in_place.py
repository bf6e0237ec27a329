"""How far rounding moved an answer is computed when it is asked for, and not from other numbers than the answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from cases import entries, normal, weighted_sample

from droptics.data import Moments
from droptics.envelopes import envelope, induced
from droptics.masks import Bernoulli
from droptics.models import Factorization, ReLUNet, TwoLayerLinear
from droptics.penalties import Enumerate, criterion, penalty


def two_layers() -> tuple[Any, Any]:
    return TwoLayerLinear(normal(3, 5), normal(4, 5)), weighted_sample()


def population() -> tuple[Any, Any]:
    return TwoLayerLinear(normal(3, 5), normal(4, 5)), Moments.of_sample(weighted_sample())


def rectified() -> tuple[Any, Any]:
    return ReLUNet([normal(5, 4), normal(3, 5)]), weighted_sample()


def factors() -> tuple[Any, Any]:
    return Factorization(normal(6, 3), normal(5, 3)), entries()


CASES = [
    *((two_layers, part) for part in ("inputs", "targets", "weights")),
    *((population, part) for part in ("xx", "yx", "yy")),
    *((rectified, part) for part in ("inputs", "targets", "weights")),
    *((factors, part) for part in ("values", "rows")),
]


@pytest.mark.parametrize(("make", "part"), CASES)
def test_nothing_is_known_of_an_answer_whose_data_were_changed(make: Callable[[], tuple[Any, Any]], part: str) -> None:
    model, data = make()
    law = Bernoulli(0.3, model.units)
    answers = [penalty(model, data, law), criterion(model, data, law)]
    if make in (two_layers, population):
        answers += [induced(model, data, law), envelope(model, data, law)]
    answers.append(penalty(model, data, law, Enumerate()))
    values = [float(one.value) for one in answers]
    getattr(data, part).mul_(2)
    assert [float(one.error) for one in answers] == [math.inf] * len(answers)
    assert all(float(one.lower) == -math.inf and float(one.upper) == math.inf for one in answers)
    assert [float(one.value) for one in answers] == values
    for again in (penalty(model, data, law), criterion(model, data, law)) if part != "rows" else ():
        assert 0 < float(again.error) < math.inf
