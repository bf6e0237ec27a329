"""Global optima in closed form, each with its certificate."""

from droptics.optima import connections as _connections  # noqa: F401 - registers its rules
from droptics.optima.deep_linear import deep_optimum
from droptics.optima.krylov import optimum_of_map
from droptics.optima.last_layer import optimal_head
from droptics.optima.many import optimum_of_maps
from droptics.optima.optimum import Certificate, Optimum, certify, optimum
from droptics.optima.two_layer import optimal_factors

__all__ = ["Certificate", "Optimum", "certify", "deep_optimum", "optimal_factors", "optimal_head", "optimum"]
__all__ += ["optimum_of_map", "optimum_of_maps"]
