"""What can be proved about a network from its data: capacity, generalization, lazy and adversarial training."""

from droptics.bounds.adversarial import adversarial
from droptics.bounds.classical import gaussian_tail, hoeffding, martingale, squared, uniform
from droptics.bounds.lazy_training import LazySetting, active_units, initial_norm, lazy, lazy_setting
from droptics.bounds.margins import gate_margin, linear_margin
from droptics.bounds.measured import measured_rademacher
from droptics.bounds.statistical import (
    completion,
    completion_alpha,
    completion_condition,
    completion_constant,
    data_norm,
    rademacher,
    relu,
    relu_alpha,
)
from droptics.bounds.survey import surveyed

__all__ = ["LazySetting", "active_units", "adversarial", "completion", "completion_alpha", "completion_condition"]
__all__ += ["completion_constant", "data_norm", "gate_margin", "gaussian_tail", "hoeffding", "initial_norm", "lazy"]
__all__ += ["lazy_setting", "linear_margin", "martingale", "measured_rademacher", "rademacher", "relu", "relu_alpha"]
__all__ += ["squared", "surveyed", "uniform"]
