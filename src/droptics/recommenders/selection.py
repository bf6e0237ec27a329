"""DropoutCompletionCV: the rate and the width chosen on held-out ratings, along a path with warm starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from droptics.arguments import Count, DropRate, Probability, Seed, check_parameters, checked_fields
from droptics.datasets import Ratings
from droptics.plots import lines
from droptics.progress import tracked
from droptics.recommenders.answers import Errors
from droptics.recommenders.completion import Completion
from droptics.recommenders.dropout_completion import DropoutCompletion, default_drop
from droptics.recommenders.estimator import Estimator, clone
from droptics.recommenders.ids import pair_columns
from droptics.recommenders.ratings import Source, observations, triple

# Multiples of the default strength, strong to weak: each fit starts from a smoother solution.
PATH = (4.0, 2.8, 2.0, 1.4, 1.0, 0.7, 0.5, 0.35)


@dataclass(frozen=True)
@checked_fields
class PathPoint:
    """One fit of the path: its width and rate, strength = lam / width, errors, and the sweeps it took."""

    width: int
    drop: float
    strength: float
    train_rmse: float
    holdout_rmse: float
    sweeps: int


class DropoutCompletionCV(Estimator):
    """Dropout matrix completion with rate and width chosen by the error on a held-out split.

    For every width the rates are tried from strong to weak, each fit starting where the last one ended. The best pair
    is fitted again to all ratings. The best strength lam / width hardly depends on the width, because it multiplies
    one and the same norm of the product: `plot` shows it.

    Args:
        widths: Numbers of factors to try.
        drops: Rates to try; None takes multiples of the default strength, so that all widths share lam / width.
        holdout: Share of the ratings held out.
        estimator: A `DropoutCompletion` with all other options.
        refit: Fit the best pair to all ratings; without it the best model of the path is kept.
        seed: Of the split.

    After `fit`: `best_width_`, `best_drop_`, `points_` (one `PathPoint` per fit) and `best_estimator_`, to which
    `predict`, `recommend`, `evaluate` and `score` are passed on.
    """

    def __init__(
        self,
        widths: Count | Sequence[Count] = (30,),
        drops: Sequence[DropRate] | None = None,
        *,
        holdout: Probability = 0.1,
        estimator: DropoutCompletion | None = None,
        refit: bool = True,
        seed: Seed = 0,
    ) -> None:
        self.widths, self.drops, self.holdout = widths, drops, holdout
        self.estimator, self.refit, self.seed = estimator, refit, seed

    def fit(self, ratings: Source, y: Any = None) -> DropoutCompletionCV:
        """Choose width and rate, then fit to all ratings; sources as in `DropoutCompletion.fit`."""
        check_parameters(self)
        template = DropoutCompletion() if self.estimator is None else self.estimator
        widths = [int(width) for width in np.atleast_1d(self.widths)]
        if not widths:
            raise ValueError("widths must name at least one width, got none")
        everything = Ratings(*triple(ratings if y is None else (*pair_columns(ratings), y)))
        kept, held = everything.split(self.holdout, self.seed)
        mean = None if template.center else 0.0
        data = observations(kept, np.dtype(template.dtype).type, template.memory, mean)
        self.points_: list[PathPoint] = []
        best: tuple[float, Any] = (np.inf, None)
        for width in widths:
            model = clone(template).set_params(width=width, warm_start=True)
            for drop in tracked(self._rates(width, data.count), f"rates at width {width}", "fit"):
                model.set_params(drop=drop).fit_observations(data)
                point = _point(model, held)
                self.points_.append(point)
                if point.holdout_rmse < best[0]:
                    best = point.holdout_rmse, (point, clone(model), model.__dict__.copy())
        found, model, state = best[1]
        self.best_width_, self.best_drop_ = found.width, found.drop
        self.best_estimator_: Completion = model.set_params(warm_start=template.warm_start)
        if self.refit:
            self.best_estimator_.fit(everything)
        else:
            self.best_estimator_.__dict__.update(state)
        return self

    def _rates(self, width: int, count: int) -> list[float]:
        if self.drops is not None:
            if not len(self.drops):
                raise ValueError("drops must name at least one rate, got none")
            return sorted(map(float, self.drops), reverse=True)
        base = default_drop(width, count)
        strengths = (multiple * base / (1 - base) for multiple in PATH)
        return [strength / (1 + strength) for strength in strengths]

    def predict(self, rows: Any, columns: Any = None, unknown: str = "warn") -> NDArray[np.float64]:
        """Predictions of the best model."""
        return self.best_estimator_.predict(rows, columns, unknown)

    def recommend(self, row: Any, count: int = 10, exclude_seen: bool = True) -> Any:
        """Recommendations of the best model."""
        return self.best_estimator_.recommend(row, count, exclude_seen)

    def evaluate(self, ratings: Source, unknown: str = "warn") -> Errors:
        """Errors of the best model."""
        return self.best_estimator_.evaluate(ratings, unknown)

    def score(self, ratings: Source, y: Any = None) -> float:
        """Minus the root mean square error of the best model."""
        return self.best_estimator_.score(ratings, y)

    def best_points(self) -> dict[int, PathPoint]:
        """For every width its best point; their `strength` (lam / width) is nearly constant."""
        fits = groupby(self.points_, key=lambda point: point.width)
        return {width: min(mine, key=lambda point: point.holdout_rmse) for width, mine in fits}

    def plot(self) -> Any:
        """Training and held-out error against lam / width (or against the rate, where rates were given)."""
        by_rate = self.drops is not None
        series: dict[str, list[float]] = {}
        axis: list[float] = []
        for width, fits in groupby(self.points_, key=lambda point: point.width):
            mine = list(fits)
            axis = [point.drop if by_rate else point.strength for point in mine]
            series[f"width {width}, held out"] = [point.holdout_rmse for point in mine]
            series[f"width {width}, training"] = [point.train_rmse for point in mine]
        label = "drop" if by_rate else "lam / width"
        return lines(axis, series, xlabel=label, ylabel="RMSE", title="Error along the path")


def _point(model: DropoutCompletion, held: Ratings) -> PathPoint:
    drop, last = model.drop_, model.history_[-1]
    held_out = model.evaluate(held, unknown="ignore").rmse
    return PathPoint(model.width, drop, drop / (1 - drop) / model.width, last.rmse, held_out, last.sweep)
