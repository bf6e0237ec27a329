"""Training: the papers' algorithms, stochastic and deterministic, many runs at once."""

from typing import TYPE_CHECKING

import lazy_loader

from droptics.training.adversarial import Adversarial, CatastrophicOverfitting, Free
from droptics.training.guards import Diverged
from droptics.training.lazy import LazyRun, lazy_norm, lazy_start, train_lazy
from droptics.training.networks import ResNet, SmallCnn
from droptics.training.objectives import Dropout, Objective, Penalized, Plain
from droptics.training.one_step import masked_step
from droptics.training.records import Recording
from droptics.training.schedules import Cosine, Inverse, Staircase, log_steps, with_previous
from droptics.training.settings import Checkpoint, MaxNorm, Settings
from droptics.training.train import Iterate, Run, train

if TYPE_CHECKING:
    from droptics.training.estimators import DropoutClassifier, DropoutRegressor

# estimators load scikit-learn, which takes longer than a short training
__getattr__, _, _ = lazy_loader.attach(__name__, submod_attrs={"estimators": ["DropoutClassifier", "DropoutRegressor"]})

__all__ = [
    "Adversarial",
    "CatastrophicOverfitting",
    "Checkpoint",
    "Cosine",
    "Diverged",
    "Dropout",
    "DropoutClassifier",
    "DropoutRegressor",
    "Free",
    "Inverse",
    "Iterate",
    "LazyRun",
    "MaxNorm",
    "Objective",
    "Penalized",
    "Plain",
    "Recording",
    "ResNet",
    "Run",
    "Settings",
    "SmallCnn",
    "Staircase",
    "lazy_norm",
    "lazy_start",
    "log_steps",
    "masked_step",
    "train",
    "train_lazy",
    "with_previous",
]
