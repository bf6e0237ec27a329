"""Claims on bounds."""
