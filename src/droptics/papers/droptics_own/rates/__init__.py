"""Claims on rates."""
