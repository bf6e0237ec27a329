"""Claims on predictions."""
