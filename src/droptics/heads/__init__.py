"""Linear heads: ridge regression with dropout, its leave-one-out errors, and variable projection."""
