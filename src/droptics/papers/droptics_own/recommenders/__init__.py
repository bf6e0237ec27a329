"""Claims on recommenders."""
