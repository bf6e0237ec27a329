"""Mianjy 2022, the thesis: regularization and robustness in deep learning; one pair of modules a chapter."""
