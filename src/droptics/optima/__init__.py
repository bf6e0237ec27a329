"""Global optima in closed form, each with its certificate."""

from droptics.optima.optimum import Certificate, Optimum, certify, optimum

__all__ = ["Certificate", "Optimum", "certify", "optimum"]
