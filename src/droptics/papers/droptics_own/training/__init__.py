"""Claims on training."""
