"""Refits written out as least squares, and what the claim on leave-one-out errors compares with them."""

from __future__ import annotations

from unittest import mock

import numpy as np
import scipy.linalg

from droptics.arrays import Array
from droptics.evidence.claims import Comparison, compare
from droptics.heads.leave_one_out import Whitened
from droptics.heads.ridge import DropoutRidgeCV
from droptics.papers.instances import normal, sample
from droptics.rates.exact import HeadScan


def refit(
    X: Array, Y: Array, rate: float, block: int = 1, bias: bool = True, masked: Array | None = None
) -> tuple[Array, Array]:
    """Weights (features, outputs) and offsets of least squares with rows for the penalty.

    Mean of |y_i - W x_i - b|^2, plus rate / (1 - rate) times the mean of the squared contributions of the blocks, over
    the same examples or other `masked` ones. Where that leaves weights open, those of least norm, inputs in units of
    the power of two above their root mean square.
    """
    masked = X if masked is None else masked
    units = 2.0 ** (np.floor(np.log2(np.sqrt(np.mean(X**2, 0)))) + 1)
    X, masked = X / units, masked / units
    strength = (rate / (1 - rate) * len(X) / len(masked)) ** 0.5
    features, rows = X.shape[1], [np.column_stack([X, np.full(len(X), float(bias))])]
    for first in range(0, features, block):
        part = np.zeros((len(masked), features + 1))
        part[:, first : first + block] = strength * masked[:, first : first + block]
        rows.append(part)
    aims = np.concatenate([Y, np.zeros((sum(map(len, rows[1:])), Y.shape[1]))])
    solved = np.linalg.lstsq(np.concatenate(rows), aims, rcond=None)[0]
    return solved[:-1] / units[:, None], solved[-1] * bias


def left_out(X: Array, Y: Array, rate: float, block: int = 1, bias: bool = True, forget: bool = True) -> Array:
    """Squared errors (examples, outputs) of each example by a refit to the others, that forgets it in the penalty."""
    found = []
    for left in range(len(X)):
        rest = np.delete(X, left, 0)
        W, b = refit(rest, np.delete(Y, left, 0), rate, block, bias, rest if forget else X)
        found.append((Y[left] - X[left] @ W - b) ** 2)
    return np.array(found)


def leave_one_out(forget: bool) -> list[Comparison]:
    """Leave-one-out errors of a path of rates against refits; not `forget`, their penalties are those of all."""
    found: list[Comparison] = []
    rates = [0.05, 0.4, 0.95]
    for examples, features, outputs, block, bias in (
        (9, 3, 1, 1, True),
        (12, 4, 2, 2, False),
        (5, 8, 2, 1, True),
        (7, 6, 1, 3, True),
        (2, 1, 1, 1, False),
    ):
        data = sample(examples, examples, features, outputs)
        X, Y = data.inputs.numpy(), data.targets.numpy()
        if features == 4:
            X[:, 3] = X[:, 0] - X[:, 1]
        counted = mock.Mock(side_effect=scipy.linalg.svd)
        with mock.patch("scipy.linalg.svd", counted):
            told = DropoutRidgeCV(rates, block=block, fit_intercept=bias).fit(X, Y)
        name = f"{examples} examples of {features}, blocks of {block}, bias {bias}"
        found.append(compare(counted.call_count, "==", 1, f"factorizations for {len(rates)} rates, {name}"))
        scanned = HeadScan(Whitened.of(X, Y, np.ones(examples), block, bias), None).scan(rates)
        means = []
        for rate, error, scan in zip(rates, told.loo_errors_, scanned, strict=True):
            errors = left_out(X, Y, rate, block, bias, forget)
            means.append(float(errors.mean()))
            found.append(compare(error, "==", means[-1], f"rate {rate}, {name}", precision=1e-7))
            found.append(compare(scan.losses, "==", errors.sum(1), f"as rates are tuned, {rate}, {name}", 1e-7))
        found.append(compare(told.drop_, "==", rates[int(np.argmin(means))], f"the best rate, {name}"))
        W, b = refit(X, Y, told.drop_, block, bias)
        found.append(compare(np.asarray(told.predict(X)).reshape(Y.shape), "==", X @ W + b, f"its fit, {name}", 1e-7))
    # at tiny rates five examples of eight features leave nearly nothing open
    X, Y, tiny = normal(3, 5, 8).numpy(), normal(4, 5, 1).numpy(), [1e-9, 1e-6, 1e-4]
    told_tiny = DropoutRidgeCV(tiny, fit_intercept=False).fit(X, Y[:, 0]).loo_errors_
    wanted = [left_out(X, Y, rate, 1, False, forget).mean() for rate in tiny]
    found.append(compare(told_tiny, "==", wanted, "tiny rates", 1e-7))
    # a whole weight is so many copies, of which one is left out at a time
    X, Y, counts = normal(1, 6, 3).numpy(), normal(2, 6, 1).numpy(), [1, 3, 1, 2, 1, 4]
    weighted = DropoutRidgeCV(rates).fit(X, Y[:, 0], sample_weight=counts).loo_errors_
    copies = X.repeat(counts, 0), Y.repeat(counts, 0)
    found.append(
        compare(weighted, "==", [left_out(*copies, rate).mean() for rate in rates], "weights count copies", 1e-7)
    )
    return found
