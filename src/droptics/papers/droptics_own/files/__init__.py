"""Claims on files: what is written beside what is read."""
