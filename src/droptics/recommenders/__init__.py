"""Recommenders: dropout matrix completion as an estimator, with the classical alternatives on the same kernels."""

from droptics.recommenders.answers import Errors, Recommendations, UnboundedPredictions, UnknownIds
from droptics.recommenders.autoencoder import ChoicePoint, Contributions, DropoutAutoencoder
from droptics.recommenders.autoencoder_completion import AutoencoderCompletion, KernelPoint
from droptics.recommenders.completion import Completion
from droptics.recommenders.diagnosis import Diagnosis, diagnose
from droptics.recommenders.dropout_completion import DropoutCompletion, default_drop
from droptics.recommenders.implicit import ImplicitDropoutCompletion
from droptics.recommenders.left_out import LeaveOneOut
from droptics.recommenders.local import LocalAutoencoder
from droptics.recommenders.metrics import HeldOutUsers, Mean, Ranking, hold_out_users, ranking
from droptics.recommenders.ranker import Ranker, against_popularity
from droptics.recommenders.ratings import DuplicateRatings
from droptics.recommenders.ridge import RidgeCompletion
from droptics.recommenders.selection import DropoutCompletionCV, PathPoint
from droptics.recommenders.stacked import StackedCompletion, StackedRanker

__all__ = ["Completion", "DropoutCompletion", "DropoutCompletionCV", "RidgeCompletion", "default_drop"]  # by factors
__all__ += ["AutoencoderCompletion", "KernelPoint", "LeaveOneOut", "StackedCompletion"]  # other predictions of ratings
__all__ += ["ChoicePoint", "DropoutAutoencoder", "ImplicitDropoutCompletion", "LocalAutoencoder"]  # rankings
__all__ += ["Ranker", "StackedRanker"]
__all__ += ["HeldOutUsers", "Mean", "Ranking", "against_popularity", "hold_out_users", "ranking"]  # how good they are
__all__ += ["Contributions", "Diagnosis", "Errors", "PathPoint", "Recommendations", "diagnose"]  # answers
__all__ += ["DuplicateRatings", "UnboundedPredictions", "UnknownIds"]  # warnings
