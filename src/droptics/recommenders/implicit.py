"""ImplicitDropoutCompletion: factorization of all cells with dropout on the factors, solved without sampling."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np

from droptics.arguments import Bytes, Count, DropRate, Finite, Seed, Size, check_parameters
from droptics.arrays import Array
from droptics.recommenders import saving
from droptics.recommenders.all_cells import solve_all_cells
from droptics.recommenders.ids import Lookup, pair_columns
from droptics.recommenders.ranker import Ranker
from droptics.recommenders.ratings import Compressed, Observations, Source, observations, triple


class ImplicitDropoutCompletion(Ranker):
    """Implicit-feedback factorization with dropout on its factors, by alternating least squares over all cells.

    Minimizes over factors W (users) and H (items) of `width` d, with alpha = `unobserved` and rho = drop / (1 - drop),

        sum_observed (x_ui - <w_u, h_i>)^2 + alpha sum_all <w_u, h_i>^2 + penalty,

    the mean over dropout masks of the factors when a cell weighs [observed] + alpha. "expected" takes the penalty under
    the product of the marginals a_u = n_u + alpha items and b_i = n_i + alpha users, N = n + alpha users items,

        (rho / N) sum_k (sum_u a_u w_uk^2) (sum_i b_i h_ik^2),

    whose minimizers, rescaled, are critical points under the ridge scaled by frequency that implicit ALS uses:
    lam (sum_u a_u |w_u|^2 + sum_i b_i |h_i|^2) with lam = rho |diag(a)^1/2 W H^T diag(b)^1/2|_* / (d N)
    (droptics-frequency-ridge). "empirical" takes rho sum_cells ([observed] + alpha) sum_k w_uk^2 h_ik^2.

    A user is her row: new ones, like known ones, are scored by the exact minimizer of their row with the items fixed.

    Args:
        width: Number of factors.
        drop: Probability of dropping a factor, in [0, 1); None takes rho = width / 128, because the penalty of the best
            factors depends on rho / width (the constant was read off held-out users of MovieLens 1M).
        unobserved: Weight alpha of every cell, observed or not.
        penalty: "expected" or "empirical".
        feedback, threshold: What counts as an interaction, as in `DropoutAutoencoder`.
        sweeps: Passes over users and items.
        cg_steps: Conjugate-gradient steps per row and half-sweep; None solves every row exactly.
        dtype: "float32" or "float64".
        memory: Bytes the interactions may take before they are kept on disk.
        seed: Of the start.

    Cost of a sweep O(interactions width steps + (users + items) width^2 steps).
    """

    def __init__(
        self,
        width: Count = 128,
        drop: DropRate | None = None,
        unobserved: Size = 0.1,
        penalty: Literal["expected", "empirical"] = "expected",
        *,
        feedback: Literal["implicit", "graded"] = "implicit",
        threshold: Finite | None = None,
        sweeps: Count = 12,
        cg_steps: Count | None = 3,
        dtype: Literal["float32", "float64"] = "float32",
        memory: Bytes = 1 << 32,
        seed: Seed = 0,
    ) -> None:
        self.width, self.drop, self.unobserved, self.penalty = width, drop, unobserved, penalty
        self.feedback, self.threshold, self.sweeps, self.cg_steps = feedback, threshold, sweeps, cg_steps
        self.dtype, self.memory, self.seed = dtype, memory, seed

    def fit(self, ratings: Source, y: Any = None) -> ImplicitDropoutCompletion:
        """Fit to interactions; sources as in `DropoutCompletion.fit`."""
        check_parameters(self)
        if y is not None:
            ratings = (*pair_columns(ratings), y)
        source = ratings if self.threshold is None else self._kept(triple(ratings))
        data = observations(source, np.float64, self.memory, mean=0.0)
        tables = [self._table(side, data) for side in (data.by_user, data.by_item)]
        generator = np.random.default_rng(self.seed)
        users = np.zeros((len(data.users), self.width), self.dtype)
        items = (0.1 * generator.standard_normal((len(data.items), self.width))).astype(self.dtype)
        rho = self.width / 128 if self.drop is None else float(self.drop / (1 - self.drop))
        self._width, self._rho, self._alpha = self.width, rho, float(self.unobserved)
        self.drop_ = rho / (1 + rho)
        self._expected = self.penalty == "expected"
        marginals = [
            table.counts + self._alpha * others for table, others in zip(tables, (len(items), len(users)), strict=True)
        ]
        self._total = data.count + self._alpha * len(users) * len(items)
        for _ in range(self.sweeps):
            self._half_sweep(tables[0], items, marginals[1], users, self.cg_steps or 0)
            self._half_sweep(tables[1], users, marginals[0], items, self.cg_steps or 0)
        self.user_factors_, self.item_factors_ = users, items
        self._item_marginals = marginals[1]
        self._users, self._items, self._rows = data.users, data.items, tables[0]
        self._popularity = tables[1].counts.astype(np.float64)
        return self

    def _table(self, side: Compressed, data: Observations) -> Compressed:
        values = self._weighted(np.array(side.values) * data.scale).astype(self.dtype)
        return Compressed(side.starts, np.asarray(side.columns), values)

    def _half_sweep(self, table: Compressed, fixed: Array, marginals: Array, free: Array, steps: int) -> None:
        """Solve the rows of `free`; `marginals` are those of the rows of `fixed`."""
        wide = fixed.astype(np.float64)
        shared = self._alpha * (wide.T @ wide)
        level = self._rho * (marginals @ wide**2) / self._total if self._expected else np.zeros(self._width)
        # The row's own marginal is n_u + alpha (rows of the fixed side).
        expected = np.stack([level, self._alpha * len(fixed) * level])
        empirical = 0.0 if self._expected else self._rho
        solve_all_cells(table.starts, table.columns, table.values, fixed, shared, empirical, expected, free, steps)

    def _score(self, rows: Array) -> Array:
        free = np.zeros((len(rows), self._width), self.item_factors_.dtype)
        users, items = np.nonzero(rows)
        starts = np.concatenate([[0], np.cumsum(np.bincount(users, minlength=len(rows)))]).astype(np.int64)
        values = rows[users, items].astype(self.item_factors_.dtype)
        table = Compressed(starts, items.astype(np.int32), values)
        self._half_sweep(table, self.item_factors_, self._item_marginals, free, 0)
        return (free @ self.item_factors_.T).astype(np.float64)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model, with its interactions, to one safetensors file, without pickle."""
        self._fitted()
        arrays = {
            "user_factors": self.user_factors_,
            "item_factors": self.item_factors_,
            "item_marginals": self._item_marginals,
            "popularity": self._popularity,
            "starts": self._rows.starts,
            "columns": self._rows.columns,
            "values": self._rows.values,
            **saving.pack_ids("user_ids", self._users.ids),
            **saving.pack_ids("item_ids", self._items.ids),
        }
        fitted = [self._width, self._rho, self._alpha, self._expected, self._total]
        saving.write(path, arrays, {"kind": type(self).__name__, "parameters": self.get_params(), "fitted": fitted})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ImplicitDropoutCompletion:
        """Read a model that `save` wrote."""
        arrays, facts = saving.read(path)
        if facts["kind"] != cls.__name__:
            raise ValueError(f"{path} holds a {facts['kind']}, load it with {facts['kind']}.load")
        model = cls(**facts["parameters"])
        model._width, model._rho, model._alpha, model._expected, model._total = facts["fitted"]
        model.drop_ = model._rho / (1 + model._rho)
        model.user_factors_, model.item_factors_ = arrays["user_factors"], arrays["item_factors"]
        model._item_marginals, model._popularity = arrays["item_marginals"], arrays["popularity"]
        model._rows = Compressed(*(arrays[name] for name in ("starts", "columns", "values")))
        model._users, model._items = (Lookup(saving.unpack_ids(name, arrays)) for name in ("user_ids", "item_ids"))
        return model
