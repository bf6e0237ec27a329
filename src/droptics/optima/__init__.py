"""Global optima in closed form, each with its certificate."""

from droptics.optima.deep_linear import deep_optimum
from droptics.optima.optimum import Certificate, Optimum, certify, optimum
from droptics.optima.two_layer import optimal_factors

__all__ = ["Certificate", "Optimum", "certify", "deep_optimum", "optimal_factors", "optimum"]
