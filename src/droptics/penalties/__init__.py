"""What a mask law adds to a loss, exactly or with an interval."""

from droptics.penalties.closed_form import unit_energies, unit_gram
from droptics.penalties.deep_linear import effective_strength, sub_penalties
from droptics.penalties.evaluation import risk
from droptics.penalties.methods import Certified, ClosedForm, Enumerate, Method, MonteCarlo, SecondOrder
from droptics.penalties.penalty import best_method, criterion, has_closed_form, penalty
from droptics.penalties.relu import rules as _rules  # noqa: F401 - registers its rules
from droptics.penalties.relu.criterion import relu_cost, relu_criterion
from droptics.penalties.relu.effort import Cost
from droptics.penalties.second_order import Approximation, second_order
from droptics.penalties.unit_outputs import UnitOutputs, is_linear_in_masks, unit_outputs

__all__ = ["Certified", "ClosedForm", "Enumerate", "Method", "MonteCarlo", "SecondOrder", "best_method"]
__all__ += ["Approximation", "Cost", "criterion", "penalty", "relu_cost", "relu_criterion", "risk", "second_order"]
__all__ += ["UnitOutputs", "effective_strength", "has_closed_form", "is_linear_in_masks", "sub_penalties"]
__all__ += ["unit_energies", "unit_gram", "unit_outputs"]
