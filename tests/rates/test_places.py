"""Places that are asked for, and losses of estimators example by example."""

from __future__ import annotations

import numpy as np
import pytest

from droptics.rates.estimators import _losses
from droptics.rates.places import Place, chosen


@pytest.mark.parametrize(
    ("patterns", "names"),
    [(None, "one two three"), (["t*"], "two three"), (["o*", "*ree"], "one three"), (["*o*", "one"], "one two")],
)
def test_a_place_is_chosen_where_one_of_the_patterns_fits(patterns: list[str] | None, names: str) -> None:
    places = [Place(name, "dropout", 0.5) for name in ("one", "two", "three")]
    assert [place.name for place in chosen(places, patterns)] == names.split()


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
