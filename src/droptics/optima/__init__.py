"""Global optima in closed form, each with its certificate."""

from droptics.optima.optimum import Certificate, Optimum, certify, optimum
from droptics.optima.two_layer import optimal_factors

__all__ = ["Certificate", "Optimum", "certify", "optimal_factors", "optimum"]
