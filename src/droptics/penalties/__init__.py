"""What a mask law adds to a loss, exactly or with an interval."""

from droptics.penalties.closed_form import effective_strength, sub_penalties, unit_energies, unit_gram
from droptics.penalties.evaluation import risk
from droptics.penalties.methods import ClosedForm, Enumerate, Method, MonteCarlo
from droptics.penalties.penalty import best_method, criterion, has_closed_form, penalty

__all__ = [
    "ClosedForm",
    "Enumerate",
    "Method",
    "MonteCarlo",
    "best_method",
    "criterion",
    "effective_strength",
    "has_closed_form",
    "penalty",
    "risk",
    "sub_penalties",
    "unit_energies",
    "unit_gram",
]
