"""The rates of the library's estimators, by the same question: fits at every rate, compared example by example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from torch import Tensor
from tqdm.auto import tqdm

from droptics.heads.leave_one_out import Whitened
from droptics.heads.ridge import DropoutRidge, DropoutRidgeCV
from droptics.rates.running import Trained
from droptics.recommenders.completion import Completion
from droptics.recommenders.dropout_completion import DropoutCompletion
from droptics.recommenders.ratings import triple
from droptics.recommenders.selection import DropoutCompletionCV
from droptics.training import DropoutRegressor


def with_one_rate(estimator: BaseEstimator) -> tuple[BaseEstimator, Sequence[float] | None]:
    """What an estimator that chooses its rate fits at each of them, and the rates it names; others as they are."""
    if isinstance(estimator, DropoutRidgeCV):
        return DropoutRidge(block=estimator.block, fit_intercept=estimator.fit_intercept), estimator.drops
    if isinstance(estimator, DropoutCompletionCV):
        widths = np.atleast_1d(estimator.widths)
        if len(widths) != 1:
            raise ValueError(f"module must have one width, got widths={widths.tolist()}; tune each on its own")
        own = DropoutCompletion() if estimator.estimator is None else clone(estimator.estimator)
        return own.set_params(width=int(widths[0])), estimator.drops
    return estimator, None


def estimator_scan(
    estimator: BaseEstimator, train: Any, validation: Any, rates: Sequence[float], progress: bool | None
) -> tuple[list[Trained], str]:
    """Losses of the estimator at every rate, and how they were found.

    Without validation data a `DropoutRidge` leaves out its training examples one by one, exactly.
    """
    if "drop" not in estimator.get_params():
        raise ValueError(f"module must have a parameter called drop, {type(estimator).__name__} has none")
    if validation is None:
        if not isinstance(estimator, DropoutRidge):
            raise ValueError("validation must be data: only DropoutRidge leaves out its training examples exactly")
        return _left_out(estimator, train, rates), "exact leave-one-out"
    found = []
    for rate in tqdm(rates, desc="rates", unit="fit", disable=None if progress is None else not progress, leave=False):
        model = clone(estimator).set_params(drop=float(rate))
        model.fit(train) if isinstance(model, Completion) else model.fit(*_pair(train, "train"))
        losses, own = _losses(model, validation, "validation"), _losses(model, train, "train")
        found.append(Trained(losses[None], (float(own.mean()),), (None,)))
    return found, "fits of the estimator"


def _left_out(estimator: DropoutRidge, train: Any, rates: Sequence[float]) -> list[Trained]:
    inputs, targets = (np.asarray(value, dtype=np.float64) for value in _pair(train, "train"))
    rows = targets.reshape(len(targets), -1)
    whitened = Whitened.of(inputs, rows, np.ones(len(inputs)), estimator.block, estimator.fit_intercept)
    strengths = [rate / (1 - rate) for rate in rates]
    found = []
    for strength, errors in zip(strengths, whitened.leave_one_out(strengths), strict=True):
        own = rows - whitened.target_mean - (inputs - whitened.input_mean) @ whitened.coefficients(strength).T
        losses = torch.from_numpy(np.square(errors).sum(1))[None]
        found.append(Trained(losses, (float(np.square(own).sum(1).mean()),), (None,)))
    return found


def _pair(data: Any, name: str) -> tuple[Any, Any]:
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise ValueError(f"{name} must be a pair (X, y), got {type(data).__name__}")
    return data[0], data[1]


def _losses(model: Any, data: Any, name: str) -> Tensor:
    """One number per example: squared errors, or minus the log of what the estimator says of the target."""
    if isinstance(model, Completion):
        rows, columns, values = triple(data)
        return torch.from_numpy(np.square(np.asarray(values) - model.predict(rows, columns, "ignore")))
    inputs, targets = _pair(data, name)
    if hasattr(model, "predict_proba"):
        chances = model.predict_proba(inputs)
        place = np.searchsorted(model.classes_, np.asarray(targets))
        return torch.from_numpy(-np.log(chances[np.arange(len(place)), place].clip(np.finfo(np.float64).tiny)))
    if isinstance(model, DropoutRegressor):
        wanted = torch.from_numpy(np.asarray(targets, dtype=np.float64))[:, None]
        return -model.predictive(inputs).log_likelihood(wanted, model.noise_).reshape(len(wanted))
    errors = np.asarray(targets, dtype=np.float64) - model.predict(inputs)
    return torch.from_numpy(np.square(errors).reshape(len(errors), -1).sum(1))
