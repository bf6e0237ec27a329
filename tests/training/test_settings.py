"""Options of a training: as one object, by keyword, and both."""

from dataclasses import fields
from typing import get_type_hints

import pytest
import torch
from cases import normal, sample

from droptics.masks import Bernoulli
from droptics.models import TwoLayerLinear
from droptics.training import Dropout, Settings, train
from droptics.training.settings import Options

START = TwoLayerLinear(normal(3, 5, seed=1), normal(4, 5, seed=2))
OBJECTIVE = Dropout(Bernoulli(0.3, 5))


def test_keywords_are_the_fields():
    assert list(Options.__annotations__) == [field.name for field in fields(Settings)]
    wanted, given = (get_type_hints(kind, include_extras=True) for kind in (Settings, Options))
    assert wanted == given


def test_an_object_keywords_and_both_train_the_same():
    settings = Settings(steps=5, step_size=1e-3, batch_size=2, seed=3)
    keywords = {"steps": 5, "step_size": 1e-3, "batch_size": 2, "seed": 3}
    runs = [
        train(START, sample(), OBJECTIVE, settings),
        train(START, sample(), OBJECTIVE, **keywords),
        train(START, sample(), OBJECTIVE, Settings(steps=9, step_size=1e-3, seed=3), steps=5, batch_size=2),
    ]
    for run in runs[1:]:
        assert torch.equal(run.model.U, runs[0].model.U)
        assert torch.equal(run.model.V, runs[0].model.V)
    other = train(START, sample(), OBJECTIVE, settings, seed=4)
    assert not torch.equal(other.model.U, runs[0].model.U)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"steps": 2}, r"train\(\) missing 1 required keyword-only argument: 'step_size'"),
        ({"steps": 2, "step_size": 0.1, "stepsize": 1}, r"train\(\) got an unexpected keyword argument 'stepsize'"),
    ],
)
def test_a_missing_or_unknown_option_is_named(options, text):
    with pytest.raises(TypeError, match=text):
        train(START, sample(), OBJECTIVE, **options)


def test_an_option_is_checked_where_it_enters():
    with pytest.raises(ValueError, match="steps must be a positive whole number"):
        Settings(steps=0, step_size=0.1)
