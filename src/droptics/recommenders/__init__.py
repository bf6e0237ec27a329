"""Recommenders: dropout matrix completion as an estimator, with the classical alternatives on the same kernels."""

from droptics.recommenders.base import Completion, Errors, Recommendations, UnknownIds
from droptics.recommenders.completion import DropoutCompletion, default_drop
from droptics.recommenders.ratings import DuplicateRatings
from droptics.recommenders.ridge import RidgeCompletion

__all__ = [
    "Completion",
    "DropoutCompletion",
    "DuplicateRatings",
    "Errors",
    "Recommendations",
    "RidgeCompletion",
    "UnknownIds",
    "default_drop",
]
