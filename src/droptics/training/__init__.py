"""Training: the papers' algorithms, stochastic and deterministic, many runs at once."""

from typing import TYPE_CHECKING

import lazy_loader

from droptics.training.checkpoints import Iterate
from droptics.training.guards import Diverged
from droptics.training.lazy import LazyRun, lazy_norm, lazy_start, train_lazy
from droptics.training.networks import ResNet, SmallCnn
from droptics.training.objectives import CatastrophicOverfitting, Dropout, Objective, Penalized, Plain
from droptics.training.one_step import masked_step
from droptics.training.records import Recording
from droptics.training.schedules import Cosine, Inverse, Staircase, log_steps, with_previous
from droptics.training.settings import Checkpoint, MaxNorm, Settings
from droptics.training.train import Run, train

if TYPE_CHECKING:
    from droptics.training.adversarial import Adversarial, Free
    from droptics.training.estimators import DropoutClassifier, DropoutRegressor

# attacks, and scikit-learn of the estimators, take longer to load than a short training takes
_LATER = {"adversarial": ["Adversarial", "Free"], "estimators": ["DropoutClassifier", "DropoutRegressor"]}
__getattr__, _, _ = lazy_loader.attach(__name__, submod_attrs=_LATER)

__all__ = ["Adversarial", "CatastrophicOverfitting", "Dropout", "Free", "Objective", "Penalized", "Plain"]  # objectives
__all__ += ["Checkpoint", "Cosine", "Inverse", "MaxNorm", "Recording", "Settings", "Staircase"]  # settings
__all__ += ["log_steps", "with_previous"]  # steps to record
__all__ += ["Diverged", "Iterate", "Run", "masked_step", "train"]  # the loop
__all__ += ["LazyRun", "lazy_norm", "lazy_start", "train_lazy"]  # lazy networks
__all__ += ["DropoutClassifier", "DropoutRegressor", "ResNet", "SmallCnn"]  # estimators and networks
