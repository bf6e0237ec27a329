"""A convex solver as the oracle: least values of convex programs, known up to what the solver itself leaves open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Unsolved(Exception):
    """The solver did not reach its own tolerance: no oracle for this instance."""


@dataclass(frozen=True)
class Least:
    """The least value lies between `value - open` and `value`, which a feasible point has."""

    value: float
    open: float


def _solved(program: Any) -> tuple[float, float]:
    """The dual value, and by how much the solver's conditions are violated, relative to one plus the value."""
    data, chain, inverse = program.get_problem_data("CLARABEL", solver_opts={})
    raw = chain.solve_via_data(program, data, solver_opts={})
    if str(raw.status) != "Solved":
        raise Unsolved(str(raw.status))
    program.unpack_results(raw, chain, inverse)
    return float(raw.obj_val_dual), (raw.r_prim + raw.r_dual) * (1 + abs(raw.obj_val))


def _least(value: float, dual: float, violated: float) -> Least:
    return Least(value, abs(value - dual) + violated)


def nuclear_regression(rows: Array, targets: Array, strength: float) -> Least:
    """min over Z of ||targets - rows Z^T||^2 + strength ||Z||_*^2, targets of unit energy."""
    import cvxpy

    x, y = rows.astype(np.float64), targets.astype(np.float64)
    z = cvxpy.Variable((y.shape[1], x.shape[1]))
    value = cvxpy.sum_squares(y - x @ z.T) + strength * cvxpy.square(cvxpy.normNuc(z))
    dual, violated = _solved(cvxpy.Problem(cvxpy.Minimize(value)))
    found = z.value.astype(np.longdouble)
    reached = np.square(targets - rows @ found.T).sum()
    reached += strength * np.linalg.svd(z.value, compute_uv=False).sum() ** 2
    return _least(float(reached), dual, violated)


def nuclear_norm(matrix: Array) -> Least:
    """The trace norm as a semidefinite program, of a matrix of unit norm."""
    import cvxpy

    z = cvxpy.Variable(matrix.shape)
    program = cvxpy.Problem(cvxpy.Minimize(cvxpy.normNuc(z)), [z == matrix.astype(np.float64)])
    dual, violated = _solved(program)
    return _least(float(program.value), dual, violated)


def k_support_regression(values: Array, k: int, strength: float) -> Least:
    """min over x of sum (values - x)^2 + strength (k-support norm of x)^2, values of unit norm.

    The norm is the least of sum x^2 / t over 0 <= t <= 1 that sum to at most k; the best x leaves strength s^2 /
    (t + strength). Both ends are worked out from what the solver found, t above and the price of their sum below: its
    own gap is ten times too small for strengths near 100.
    """
    import cvxpy

    s = values.astype(np.float64)
    x, t = cvxpy.Variable(len(s)), cvxpy.Variable(len(s))
    spread = sum(cvxpy.quad_over_lin(x[i], t[i]) for i in range(len(s)))
    shared = cvxpy.sum(t) <= k
    program = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(s - x) + strength * spread), [t >= 0, t <= 1, shared])
    _solved(program)
    squares, price = np.square(values) * strength, np.longdouble(max(float(shared.dual_value), 0.0))
    found = np.clip(t.value.astype(np.longdouble), 0, 1)
    found *= min(1.0, k / max(found.sum(), np.longdouble(1e-300)))
    reached = (squares / (found + strength)).sum() if strength > 0 else np.longdouble(0)
    asked = np.clip(np.sqrt(squares / max(price, np.longdouble(1e-300))) - strength, 0, 1)
    below = ((squares / (asked + strength)).sum() if strength > 0 else 0) + price * (asked.sum() - k)
    return Least(float(reached), float(reached - below))


def regression(rows: Array, targets: Array) -> Least:
    """min over W of ||targets - rows W||^2, columns of rows and targets of unit norm."""
    import cvxpy

    x, y = rows.astype(np.float64), targets.astype(np.float64)
    w = cvxpy.Variable((x.shape[1], y.shape[1]))
    dual, violated = _solved(cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(y - x @ w))))
    reached = np.square(targets - rows @ w.value.astype(np.longdouble)).sum()
    return _least(float(reached), dual, violated)
