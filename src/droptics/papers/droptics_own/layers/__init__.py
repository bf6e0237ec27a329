"""Claims on layers."""
