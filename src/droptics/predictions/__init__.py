"""How sure a masked model is: exact moments of its predictions, and what follows from them."""

from droptics.predictions.affine import Affine
from droptics.predictions.approximations import Closure
from droptics.predictions.calibration import (
    Calibration,
    calibration,
    conformal_factor,
    expected_calibration_error,
    fit_noise,
)
from droptics.predictions.classes import Classes
from droptics.predictions.densities import Density
from droptics.predictions.predictive import predictive
from droptics.predictions.results import Predictive

__all__ = [
    "Affine",
    "Calibration",
    "Classes",
    "Closure",
    "Density",
    "Predictive",
    "calibration",
    "conformal_factor",
    "expected_calibration_error",
    "fit_noise",
    "predictive",
]
