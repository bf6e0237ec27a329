"""Claims on penalties."""
