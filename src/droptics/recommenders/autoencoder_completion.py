"""AutoencoderCompletion: ratings predicted by one regression per user on kernels between items, or the other way."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from droptics.arguments import Amount, Bytes, Finite, Seed, Size, check_parameters, checked_fields
from droptics.arrays import Array
from droptics.recommenders import saving
from droptics.recommenders.ids import Lookup, pair_columns
from droptics.recommenders.item_kernel import Kernel
from droptics.recommenders.rating_model import RatingModel
from droptics.recommenders.ratings import Compressed, Observations, Source, observations

_RIDGES = (0.2, 0.3, 0.45, 0.7)
_SHARES = (0.3, 0.7, 1.5)
_ENTRIES = 20_000  # ratings whose leave-one-out errors choose the constants


@dataclass(frozen=True)
@checked_fields
class KernelPoint:
    """One pair of constants and the root mean square leave-one-out error of the sampled ratings."""

    ridge: float
    implicit: float
    rmse: float


class AutoencoderCompletion(RatingModel):
    """A linear autoencoder for ratings whose loss sees observed cells only, solved exactly, one row at a time.

    What mean and biases leave of a user's ratings is regressed on a kernel between items made of everybody else's
    residuals and of who rated what (`droptics.recommenders.item_kernel` has the formulas). `side="item"` exchanges
    users and items. The constants that are not given are chosen by exact leave-one-out on a sample of rows.

    Args:
        side: "user" regresses each user's ratings, "item" each item's.
        ridge: Ridge of each regression, ratings in units of their residual standard deviation; None chooses it.
        implicit: Weight tau of who rated what; None chooses it.
        bias_ridge: Ridge of the biases.
        clip: Clip predictions to the range of the training ratings (True) or to a pair (low, high).
        dtype: "float32" or "float64".
        memory: Bytes that the three square arrays over the columns may take.
        seed: Of the rows that choose the constants.

    After `fit`: `ridge_`, `implicit_`, `points_` (every `KernelPoint` tried), `mean_`, `user_biases_`, `item_biases_`.
    Cost sum_u n_u^3 / 3, in 3 items^2 numbers.

    >>> import numpy as np
    >>> users, items = np.divmod(np.arange(600), 20)
    >>> model = AutoencoderCompletion(ridge=0.3, implicit=0.3).fit((users, items, 3.0 + (users % 2) * (items % 3)))
    >>> bool(abs(model.predict([1], [2])[0] - 5.0) < 0.5)
    True
    """

    def __init__(
        self,
        side: Literal["user", "item"] = "user",
        ridge: Size | None = None,
        implicit: Amount | None = None,
        *,
        bias_ridge: Amount = 5.0,
        clip: bool | tuple[Finite, Finite] | None = False,
        dtype: Literal["float32", "float64"] = "float32",
        memory: Bytes = 1 << 32,
        seed: Seed = 0,
    ) -> None:
        self.side, self.ridge, self.implicit, self.bias_ridge = side, ridge, implicit, bias_ridge
        self.clip, self.dtype, self.memory, self.seed = clip, dtype, memory, seed

    def fit(self, ratings: Source, y: Any = None) -> AutoencoderCompletion:
        """Fit to ratings; sources as in `DropoutCompletion.fit`."""
        self._check()
        source = ratings if y is None else (*pair_columns(ratings), y)
        data = observations(source, np.float64, self.memory)
        by_user = self.side == "user"
        users, items, left, deviation = residuals(data, self.bias_ridge, by_user)
        columns = len(data.items) if by_user else len(data.users)
        if (need := self.need(columns)) > self.memory:
            raise ValueError(f"memory: {columns} columns need {need} bytes, more than the {self.memory} allowed")
        kernel = Kernel(left, columns, self.dtype)
        self.points_: list[KernelPoint] = []
        ridge, implicit = self._chosen(kernel, deviation)
        coefficients = [kernel.coefficients(row, implicit, ridge) for row in range(left.rows)]
        self.ridge_, self.implicit_ = ridge, implicit
        self._fits = Compressed(left.starts, left.columns, np.concatenate(coefficients))
        self._targets, self._kernel = np.asarray(left.values, self.dtype), kernel.matrix(implicit)
        self._deviation, self.mean_ = deviation, data.mean
        self.user_biases_, self.item_biases_ = users, items
        self._users, self._items, self.range_ = data.users, data.items, (data.low, data.high)
        self._by_user = by_user
        return self

    def need(self, columns: int) -> int:
        """Bytes of the three square arrays over so many columns (items, or users with side="item")."""
        return 3 * columns**2 * int(np.dtype(self.dtype).itemsize)

    def _chosen(self, kernel: Kernel, unit: float) -> tuple[float, float]:
        """Constants with the least leave-one-out error over sampled rows."""
        if self.ridge is not None and self.implicit is not None:
            return float(self.ridge), float(self.implicit)
        ridges = _RIDGES if self.ridge is None else (float(self.ridge),)
        shares = _SHARES if self.implicit is None else (float(self.implicit),)
        counts = kernel.table.counts
        able = np.random.default_rng(self.seed).permutation(np.flatnonzero(counts > 1))
        if not len(able):
            raise ValueError("choosing constants needs rows with two ratings; give ridge and implicit instead")
        rows = able[: 1 + int(np.searchsorted(np.cumsum(counts[able]), _ENTRIES))]
        for implicit in shares:
            squares = np.zeros(len(ridges))
            for row in rows:
                squares += [error @ error for error in kernel.left_out(int(row), implicit, ridges)]
            errors = unit * np.sqrt(squares / counts[rows].sum())
            self.points_ += [KernelPoint(r, implicit, float(e)) for r, e in zip(ridges, errors, strict=True)]
        best = min(self.points_, key=lambda point: point.rmse)
        return best.ridge, best.implicit

    def _predicted(self, users: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.float64]:
        result = np.full(len(users), self.mean_)
        result += np.where(users >= 0, self.user_biases_[users], 0) + np.where(items >= 0, self.item_biases_[items], 0)
        both = np.flatnonzero((users >= 0) & (items >= 0))
        rows, columns = (users, items) if self._by_user else (items, users)
        both = both[np.argsort(rows[both], kind="stable")]
        for group in np.split(both, np.flatnonzero(np.diff(rows[both])) + 1):
            if len(group):
                result[group] += self._deviation * self._regressed(int(rows[group[0]]), columns[group])
        return result

    def _regressed(self, row: int, columns: Array) -> Array:
        """f_u(j) of one row; for a rated column, whose kernel would hold the row itself, y - ridge alpha."""
        part = slice(int(self._fits.starts[row]), int(self._fits.starts[row + 1]))
        chosen, alpha = self._fits.columns[part], self._fits.values[part]
        found = self._kernel[np.ix_(columns, chosen)] @ alpha
        place = np.minimum(np.searchsorted(chosen, columns), len(chosen) - 1)
        known = chosen[place] == columns
        found[known] = (self._targets[part] - self.ridge_ * alpha)[place[known]]
        return found

    def _rated(self, user: int) -> tuple[Array, Array]:
        rows = np.repeat(np.arange(self._fits.rows), self._fits.counts)
        if self._by_user:
            return np.asarray(self._fits.columns[rows == user]).astype(np.int64), self._targets[rows == user]
        mine = self._fits.columns == user
        return rows[mine], self._targets[mine]

    def _check(self) -> None:
        check_parameters(self)
        self._check_clip()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one safetensors file, without pickle."""
        self._fitted()
        arrays = {
            "kernel": self._kernel,
            "starts": self._fits.starts,
            "columns": self._fits.columns,
            "coefficients": self._fits.values,
            "targets": self._targets,
            "user_biases": self.user_biases_,
            "item_biases": self.item_biases_,
            **saving.pack_ids("user_ids", self._users.ids),
            **saving.pack_ids("item_ids", self._items.ids),
        }
        facts = {
            "kind": type(self).__name__,
            "parameters": self.get_params(),
            "points": [vars(point) for point in self.points_],
            "fitted": [self.ridge_, self.implicit_, self.mean_, self._deviation, self._by_user],
            "range": self.range_,
        }
        saving.write(path, arrays, facts)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> AutoencoderCompletion:
        """Read a model that `save` wrote."""
        arrays, facts = saving.read(path)
        if facts["kind"] != cls.__name__:
            raise ValueError(f"{path} holds a {facts['kind']}, load it with {facts['kind']}.load")
        model = cls(**facts["parameters"])
        model.ridge_, model.implicit_, model.mean_, model._deviation, model._by_user = facts["fitted"]
        model.points_ = [KernelPoint(**point) for point in facts["points"]]
        model._kernel, model._targets = arrays["kernel"], arrays["targets"]
        model._fits = Compressed(arrays["starts"], arrays["columns"], arrays["coefficients"])
        model.user_biases_, model.item_biases_ = arrays["user_biases"], arrays["item_biases"]
        model._users, model._items = (Lookup(saving.unpack_ids(name, arrays)) for name in ("user_ids", "item_ids"))
        model.range_ = tuple(facts["range"])
        return model


def residuals(data: Observations, ridge: float, by_user: bool) -> tuple[Array, Array, Compressed, float]:
    """Biases of users and items, what they leave of the ratings (by user or by item), and its standard deviation.

    Biases and deviation are in units of the ratings, the residuals in units of the deviation.
    """
    table = data.by_user
    rows, columns, y = np.repeat(np.arange(table.rows), table.counts), np.asarray(table.columns), table.values
    users, items = np.zeros(len(data.users)), np.zeros(len(data.items))
    for _ in range(15):  # the two ridges contract: 15 rounds leave nothing to see in the error
        users = np.bincount(rows, y - items[columns], len(users)) / (table.counts + ridge)
        items = np.bincount(columns, y - users[rows], len(items)) / (data.by_item.counts + ridge)
    side = data.by_user if by_user else data.by_item
    mine, others = (users, items) if by_user else (items, users)
    left = side.values - np.repeat(mine, side.counts) - others[side.columns]
    deviation = float(np.sqrt(np.mean(left**2))) or 1.0
    found = Compressed(side.starts, np.asarray(side.columns), left / deviation)
    return data.scale * users, data.scale * items, found, data.scale * deviation
