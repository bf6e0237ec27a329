"""Places that are asked for, losses of estimators example by example, numbers beside tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from droptics.losses import CrossEntropy
from droptics.rates.copies import Problem, train_copies
from droptics.rates.estimators import _losses
from droptics.rates.examples import Examples
from droptics.rates.fits import Fit
from droptics.rates.places import Place, chosen, set_rates


@pytest.mark.parametrize(
    ("patterns", "names"),
    [(None, "one two three"), (["t*"], "two three"), (["o*", "*ree"], "one three"), (["*o*", "one"], "one two")],
)
def test_a_place_is_chosen_where_one_of_the_patterns_fits(patterns: list[str] | None, names: str) -> None:
    places = [Place(name, "dropout", 0.5) for name in ("one", "two", "three")]
    assert [place.name for place in chosen(places, patterns)] == names.split()


def test_layers_that_hold_their_rate_are_set_whatever_was_seen_before() -> None:
    parts = {
        "attention": nn.MultiheadAttention(4, 2, 0.1),
        "memory": nn.LSTM(3, 4, 2, dropout=0.1),
        "drop": nn.Dropout(),
    }
    module = nn.ModuleDict(parts)
    rates = {
        "attention.attention_dropout": 0.2,
        "memory.lstm": 0.3,
        "drop": 0.4,
        "drop.dropout": 0.4,
        "nowhere.else": 0.5,
    }
    assert set_rates(module, rates, {}) == ["nowhere.else"]
    assert [parts["attention"].dropout, parts["memory"].dropout, parts["drop"].p] == [0.2, 0.3, 0.4]


class Classifier:
    classes_ = np.array([3, 7, 10])

    def predict_proba(self, inputs: np.ndarray) -> np.ndarray:
        return inputs / inputs.sum(1, keepdims=True)


def test_losses_of_a_classifier_are_those_of_its_own_labels() -> None:
    inputs, labels = np.arange(1.0, 13).reshape(4, 3), np.array([7, 3, 10, 3])
    shares = [2 / 6, 4 / 15, 9 / 24, 10 / 33]
    np.testing.assert_allclose(_losses(Classifier(), (inputs, labels), "data").numpy(), -np.log(shares), rtol=1e-15)


class Regressor:
    def predict(self, inputs: np.ndarray) -> np.ndarray:
        return 2 * inputs


@pytest.mark.parametrize("outputs", [1, 3])
def test_losses_of_a_regressor_are_sums_of_squares(outputs: int) -> None:
    inputs = np.arange(4.0 * outputs).reshape(4, outputs).squeeze()
    targets = inputs**2
    wanted = ((targets - 2 * inputs) ** 2).reshape(4, -1).sum(1)
    np.testing.assert_allclose(_losses(Regressor(), (inputs, targets), "data").numpy(), wanted, rtol=1e-15)


class Scaled(nn.Module):
    """Takes a number beside its examples."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layer = nn.Linear(3, 2).double()

    def forward(self, value: torch.Tensor, factor: float) -> torch.Tensor:
        return self.layer(factor * value)


def test_a_population_takes_numbers_beside_its_tensors() -> None:
    value, labels = torch.randn(9, 3, generator=torch.Generator().manual_seed(1)).double(), torch.arange(9) % 2
    examples = Examples.of([{"value": value, "factor": 1.5, "labels": labels}], "train", torch.device("cpu"))
    problem = Problem(Scaled(), examples, examples, examples, CrossEntropy(), Fit(1, 9, "sgd", 0.1, looks=1), {})
    rows = train_copies(problem, [{"a": 0.1}, {"a": 0.2}], 1, "population")
    module = Scaled()
    nn.functional.cross_entropy(module(value, 1.5), labels).backward()
    with torch.no_grad():
        for parameter in module.parameters():
            assert parameter.grad is not None
            parameter.sub_(0.1 * parameter.grad)
        wanted = nn.functional.cross_entropy(module(value, 1.5), labels, reduction="none")
    for row in rows:
        np.testing.assert_allclose(row["losses"], wanted.numpy(), rtol=1e-12)
