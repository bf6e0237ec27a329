"""Claims on optima."""
