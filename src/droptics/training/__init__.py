"""Training: the papers' algorithms, stochastic and deterministic, many runs at once."""

from droptics.training.checkpoints import Checkpoint
from droptics.training.engines import MaxNorm
from droptics.training.guards import Diverged
from droptics.training.objectives import Dropout, Objective, Penalized, Plain
from droptics.training.records import Recording
from droptics.training.schedules import Cosine, Inverse, Staircase, log_steps
from droptics.training.train import Iterate, Run, train

__all__ = [
    "Checkpoint",
    "Cosine",
    "Diverged",
    "Dropout",
    "Inverse",
    "Iterate",
    "MaxNorm",
    "Objective",
    "Penalized",
    "Plain",
    "Recording",
    "Run",
    "Staircase",
    "log_steps",
    "train",
]
