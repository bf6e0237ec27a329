"""Critical points of the dropout criterion: where they are, of which kind, and how to leave them."""

from droptics.landscapes.derivatives import gradient, hessian, hessian_action
from droptics.landscapes.inspection import Escape, Inspection, escape, inspect
from droptics.landscapes.portraits import Portrait, portrait
from droptics.landscapes.spurious import spurious_minimum
from droptics.landscapes.tied import CriticalPoint, critical_points

__all__ = ["CriticalPoint", "Escape", "Inspection", "Portrait"]
__all__ += ["critical_points", "escape", "inspect", "portrait", "spurious_minimum"]
__all__ += ["gradient", "hessian", "hessian_action"]
