"""What a claim on leading eigenvectors compares of inverse iteration, for which a full decomposition would stand in."""

from __future__ import annotations

import numpy as np

from droptics.evidence.claims import Comparison, compare
from droptics.linalg.leading import _factor, _solve, _vectors
from droptics.papers.instances import normal


def inverse_iteration(scale: float) -> list[Comparison]:
    """Solutions of shifted systems, and vectors of values that are far apart or near each other."""
    found: list[Comparison] = []
    for size, value in ((5, 0.3), (6, -2.0), (9, 1.0)):
        diagonal, beside = normal(size, size).numpy(), normal(size + 1, size - 1).numpy()
        parts = np.empty((5, size))
        _factor(diagonal, beside, value, 1e-300, parts)
        dense = np.diag(diagonal - value) + np.diag(beside, 1) + np.diag(beside, -1)
        x = np.arange(1.0, size + 1)
        solved = np.linalg.solve(dense, x)
        largest = _solve(parts, x)
        found.append(compare(largest, "==", scale * np.abs(solved).max(), f"largest of {size}"))
        found.append(compare(x * largest, "==", scale * solved, f"solved, {size}"))
    for factor in (1.0, 1e-9, 1e9):
        diagonal, beside = factor * normal(1, 40).numpy(), factor * normal(2, 39).numpy()
        dense = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
        every, rows = np.linalg.eigvalsh(dense)[::-1][:5].copy(), np.empty((5, 40))
        rest = _vectors(diagonal, beside, every, rows)
        found.append(compare(rest, "<=", 4e-15, f"no need of another route, {factor}", precision=0.0))
        found.append(
            compare(rows @ dense @ rows.T / factor, "==", scale * np.diag(every) / factor, f"its rows, {factor}")
        )
        top = np.abs(diagonal).max() + 2 * np.abs(beside).max()
        left = np.abs(dense @ rows.T - rows.T * every).max() / top
        found.append(compare(rest, "==", scale * left + (scale - 1), f"its residual, {factor}", precision=1e-14))
    return [*found, *_near_each_other(scale)]


def _near_each_other(scale: float) -> list[Comparison]:
    """Vectors of values that share all digits, eight, or three: each at right angles to all before it."""
    found: list[Comparison] = []
    tridiagonal = {"pairs": (np.abs(np.arange(-20.0, 21.0)), np.ones(40))}  # Wilkinson's, whose values come in pairs
    for link in (1e-14, 1e-8, 1e-3):
        diagonal, beside = np.tile(normal(3, 10).numpy(), 4), np.tile([*normal(4, 9).numpy(), link], 4)[:-1]
        tridiagonal[f"four blocks, {link}"] = diagonal, beside
    for name, (diagonal, beside) in tridiagonal.items():
        dense = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
        every, rows = np.linalg.eigvalsh(dense)[::-1][:9].copy(), np.empty((9, len(diagonal)))
        rest = _vectors(diagonal, beside, every, rows)
        found.append(compare(rest, "<=", 4e-15, f"no need of another route, {name}", precision=0.0))
        found.append(compare(rows @ rows.T, "==", scale * np.eye(9), f"right angles, {name}", precision=1e-13))
        left = dense @ rows.T - rows.T * every
        found.append(compare(np.abs(left).max(), "<=", 1e-13, f"residuals, {name}", precision=0.0))
    return found
