"""Claims on linear algebra and where it is used."""
