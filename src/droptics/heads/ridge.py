"""Dropout on the inputs of a linear model is ridge regression in the metric of the data; scikit-learn estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from droptics.arguments import Count, DropRate, Rates, check_parameters
from droptics.arrays import Array
from droptics.heads.leave_one_out import Whitened


class _DropoutLinear(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """What both estimators share: reading the data, predicting."""

    block: int
    fit_intercept: bool

    def _read(self, X: Any, y: Any, sample_weight: Any, least: int) -> Whitened:
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=least)
        if X.shape[1] % self.block:
            raise ValueError(f"block must divide the number of features, got {self.block} and {X.shape[1]} features")
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not weights.any():  # scikit-learn before 1.8 lets this through
            raise ValueError("sample_weight must contain at least one non-zero number")
        self._single_output = y.ndim == 1
        targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        return Whitened.of(X, targets, weights, self.block, self.fit_intercept)

    def _keep(self, whitened: Whitened, strength: float) -> None:
        coefficients = whitened.coefficients(strength)
        intercept = whitened.target_mean - coefficients @ whitened.input_mean
        single = 0 if self._single_output else slice(None)
        self.coef_, self.intercept_ = coefficients[single], intercept[single]
        self.objective_ = whitened.objective(strength)
        self._strength = strength

    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predictions for examples X, without masks, which is their mean over masks.

        With `return_std` also their standard deviation under the masks of the training, sqrt(lambda sum of the squared
        contributions of the blocks) (droptics-predictive): how much the prediction rests on single inputs. It is not
        the deviation of an observation, which scatters around it too.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        mean = np.asarray(X @ self.coef_.T + self.intercept_)
        if not return_std:
            return mean
        blocks, weights = X.reshape(len(X), -1, self.block), np.atleast_2d(self.coef_)
        parts = np.einsum("nbi,kbi->nkb", blocks, weights.reshape(len(weights), -1, self.block))
        spread = np.sqrt(self._strength * np.square(parts).sum(-1))
        return mean, spread[:, 0] if mean.ndim == 1 else spread


class DropoutRidge(_DropoutLinear):
    """Linear regression trained with dropout on its inputs, to the end and without sampling (droptics-head).

    Minimizes the expected squared loss when every input (every block of `block` consecutive inputs) is dropped with
    probability `drop` and the kept ones are divided by 1 - drop: mean |y - W x - b|^2 plus lambda times the mean of the
    squared contributions of the blocks, lambda = drop / (1 - drop). Unlike ordinary ridge it does not depend on the
    units of the inputs. `drop=0` is least squares; where that is not unique, the limit of small rates.

    Args:
        drop: Probability of dropping an input.
        block: Number of consecutive inputs that share one coin; must divide the number of features.
        fit_intercept: Whether to fit a bias; it is never dropped.

    Attributes:
        coef_: Weights, (features,) or (outputs, features).
        intercept_: Bias, a number or (outputs,).
        objective_: The criterion at its minimum, summed over outputs.

    Cost: one thin SVD, O(n features min(n, features)).

    >>> X = np.array([[1.0], [1.0]])
    >>> float(DropoutRidge(drop=0.5, fit_intercept=False).fit(X, [2.0, 2.0]).coef_[0])
    1.0
    """

    def __init__(self, drop: DropRate = 0.5, *, block: Count = 1, fit_intercept: bool = True) -> None:
        self.drop = drop
        self.block = block
        self.fit_intercept = fit_intercept

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> DropoutRidge:
        """Fit to examples X (n, features) and targets y (n,) or (n, outputs)."""
        check_parameters(self)
        self._keep(self._read(X, y, sample_weight, 1), float(self.drop) / (1 - float(self.drop)))
        return self


class DropoutRidgeCV(_DropoutLinear):
    """DropoutRidge with the rate of least exact leave-one-out error (droptics-loo).

    The whole path of rates costs one SVD and a few products per rate; the error equals that of n refits per rate,
    each of which forgets its example in the penalty too. Sample weights count copies: of an example of weight two one
    copy is left out at a time, so that weights and repeated examples give the same answer; a weight below one is left
    out as a whole.

    Args:
        drops: Rates to compare; 0.05, 0.10, ..., 0.95 by default.
        block: Number of consecutive inputs that share one coin; must divide the number of features.
        fit_intercept: Whether to fit a bias; it is never dropped.

    Attributes:
        drop_: The chosen rate (the smallest one on ties).
        drops_: The rates that were compared.
        loo_errors_: Mean squared leave-one-out error of every rate, averaged over outputs.
        coef_, intercept_, objective_: Those of DropoutRidge at the chosen rate.
    """

    def __init__(self, drops: Rates | None = None, *, block: Count = 1, fit_intercept: bool = True) -> None:
        self.drops = drops
        self.block = block
        self.fit_intercept = fit_intercept

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> DropoutRidgeCV:
        """Fit to examples X (n, features) and targets y (n,) or (n, outputs), n >= 2."""
        check_parameters(self)
        rates = np.linspace(0.05, 0.95, 19) if self.drops is None else np.atleast_1d(np.asarray(self.drops, float))
        whitened = self._read(X, y, sample_weight, 2)
        errors = whitened.leave_one_out([rate / (1 - rate) for rate in rates])
        self.drops_ = rates
        self.loo_errors_ = np.array([whitened.weights @ (error**2).mean(1) for error in errors])
        self.drop_ = float(min(zip(self.loo_errors_, rates, strict=True))[1])
        self._keep(whitened, self.drop_ / (1 - self.drop_))
        return self
