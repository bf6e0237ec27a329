"""What recommenders answer with, and what they warn of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray


class UnknownIds(UserWarning):
    """Some users or items were not in the training ratings; they are predicted from the mean and the known biases."""


class UnboundedPredictions(UserWarning):
    """The penalty leaves predictions of pairs that nobody rated free, and they leave the range of the ratings."""


class Recommendations(NamedTuple):
    """Item ids and their predicted ratings, best first."""

    items: NDArray[Any]
    scores: NDArray[Any]


@dataclass(frozen=True)
class Errors:
    """Errors on held-out ratings: root mean square, mean absolute, how many, and how many had an unknown id."""

    rmse: float
    mae: float
    count: int
    unknown: int
