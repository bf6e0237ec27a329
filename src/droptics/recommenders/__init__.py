"""Recommenders: dropout matrix completion as an estimator, with the classical alternatives on the same kernels."""

from droptics.recommenders.answers import Errors, Recommendations, UnboundedPredictions, UnknownIds
from droptics.recommenders.base import Completion
from droptics.recommenders.completion import DropoutCompletion, default_drop
from droptics.recommenders.diagnosis import Diagnosis, diagnose
from droptics.recommenders.ratings import DuplicateRatings
from droptics.recommenders.ridge import RidgeCompletion
from droptics.recommenders.selection import DropoutCompletionCV, PathPoint

__all__ = [
    "Completion",
    "Diagnosis",
    "DropoutCompletion",
    "DropoutCompletionCV",
    "DuplicateRatings",
    "Errors",
    "PathPoint",
    "Recommendations",
    "RidgeCompletion",
    "UnboundedPredictions",
    "UnknownIds",
    "default_drop",
    "diagnose",
]
