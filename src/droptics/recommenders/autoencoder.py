"""DropoutAutoencoder: a linear autoencoder with dropout on its input, exact, for "which items next?"."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from droptics.arguments import Amount, Bytes, Count, Device, DropRate, Finite, Seed, check_parameters, checked_fields
from droptics.arrays import Array
from droptics.checks import check_positive
from droptics.progress import tracked
from droptics.recommenders import saving
from droptics.recommenders.ids import Lookup, as_ids, pair_columns
from droptics.recommenders.interactions import compressed, extended, taken
from droptics.recommenders.left_out import Diagonal, LeaveOneOut, dense, leave_one_out, residuals, sample_pairs, scales
from droptics.recommenders.low_rank import LowRank
from droptics.recommenders.metrics import Mean
from droptics.recommenders.partitioned import Cluster
from droptics.recommenders.precision import Precision
from droptics.recommenders.ranker import Ranker
from droptics.recommenders.ratings import Compressed, Source, observations, triple

_DROPS = (0.2, 0.4, 0.6)
_PAIRS = 5000
_RIDGES = (3e-4, 1e-3, 3e-3)  # of the trace of the Gram matrix: the number of interactions, if each counts 1


class Contributions(NamedTuple):
    """The items of a user and how much each adds to the score of the item asked about, the largest part first."""

    items: Array
    parts: Array


@dataclass(frozen=True)
@checked_fields
class ChoicePoint:
    """One point of the choice: rate, ridge, diagonal and its exact leave-one-out criteria."""

    drop: float
    ridge: float
    left_out: LeaveOneOut
    diagonal: Diagonal = "zero"


class DropoutAutoencoder(Ranker):
    """Linear autoencoder with dropout on its input, averaged over all masks, solved in closed form.

    X is users x items: 1 where observed ("implicit") or the value ("graded"), else 0. With G = X^T X, D its diagonal
    and rho = drop / (1 - drop),

        E |X - (X o Z / (1 - drop)) W|^2 + ridge |W|^2 = |X - X W|^2 + sum_k (rho D_k + ridge) |W_k.|^2

    is least at W = I - C diag(sigma), C = (G + diag(gamma))^-1, gamma = rho D + ridge, sigma = gamma
    (droptics-autoencoder). `diagonal="zero"` counts the loss on dropped coordinates only, so that no item predicts
    itself (sigma = 1 / diag(C)); at drop 0 this is EASE. A number xi bounds the diagonal by xi.

    Rate and ridge, where not given, are chosen by taking a user out of the model and hiding one of her items, exactly
    and without a refit ("loo": mean of 1 / log2(1 + rank) of the hidden item; "squared": mean squared error of rows).

    Args:
        drop: Probability of dropping an input, in [0, 1); None chooses it.
        ridge: Ridge on all weights, in units of squared entries of X; None chooses it.
        diagonal: "zero", "free" or the largest absolute diagonal xi in [0, 1); None takes the better of zero and free
            where rate or ridge are chosen (it costs no factorization), and zero where both are given.
        feedback: "implicit" takes 1 for every observed pair (with `threshold`: for ratings of at least that),
            "graded" takes the values themselves.
        threshold: Ratings below it are left out.
        choose: "loo" or "squared".
        rank: None is exact, in one square array over the items; a number takes so many eigenvectors instead, with
            memory items x rank, and `cut_` says how far the inverse can be off (`droptics.recommenders.low_rank`).
        dtype: "float32" (enough for ranking) or "float64".
        device: A torch device ("cuda") for the factorizations, one square array there.
        engine: Address of a Dask cluster (or a client) whose workers read the files and add up Gram matrices; the
            interactions stay there, so that users are recommended to by `recommend_new`.
        memory: Bytes that the array over the items may take.
        seed: Of the pairs that are hidden for the choice.

    After `fit`: `drop_`, `ridge_`, `diagonal_`, `points_` (every `ChoicePoint` tried), `item_ids_`, `user_ids_`.
    Cost of a point: items^3 operations in one items x items array, plus O(sum of squared row lengths) once.

    >>> import numpy as np
    >>> users, items = np.divmod(np.arange(320), 8)
    >>> seen = (users % 2 == items % 2) & (users != items)
    >>> model = DropoutAutoencoder(0.3, 1.0).fit((users[seen], items[seen], np.ones(seen.sum())))
    >>> int(model.recommend(4, 1).items[0])
    4
    """

    _precision: Precision | LowRank

    def __init__(
        self,
        drop: DropRate | None = None,
        ridge: Amount | None = None,
        diagonal: Diagonal | None = None,
        *,
        feedback: Literal["implicit", "graded"] = "implicit",
        threshold: Finite | None = None,
        choose: Literal["loo", "squared"] = "loo",
        rank: Count | None = None,
        dtype: Literal["float32", "float64"] = "float32",
        device: Device | None = None,
        engine: Any = None,
        memory: Bytes = 1 << 32,
        seed: Seed = 0,
    ) -> None:
        self.device, self.engine = device, engine
        self.drop, self.ridge, self.diagonal = drop, ridge, diagonal
        self.feedback, self.threshold, self.choose = feedback, threshold, choose
        self.rank, self.dtype, self.memory, self.seed = rank, dtype, memory, seed

    def fit(self, ratings: Source, y: Any = None) -> DropoutAutoencoder:
        """Fit to interactions; sources as in `DropoutCompletion.fit`, with `y` as the third column."""
        self._check()
        if y is not None:
            ratings = (*pair_columns(ratings), y)
        if self.engine is not None:
            return self._fit_on(Cluster(self.engine), ratings)
        source = ratings if self.threshold is None else self._kept(triple(ratings))
        data = observations(source, np.float64, self.memory, mean=0.0)
        self._room(len(data.items))
        values = np.array(data.by_user.values) * data.scale
        rows = Compressed(data.by_user.starts, data.by_user.columns, self._weighted(values))
        precision = self._inverse(rows, len(data.items))
        self.points_: list[ChoicePoint] = []
        point = self._chosen(precision, rows, sample_pairs(rows, _PAIRS, self.seed) if self._open else None)
        self._users, self._items, self._rows = data.users, data.items, rows
        self._set(precision, *point)
        self._popularity = data.by_item.counts.astype(np.float64)
        return self

    @property
    def _open(self) -> bool:
        """Whether there is something to choose."""
        return self.drop is None or self.ridge is None

    def _fit_on(self, cluster: Cluster, source: Source) -> DropoutAutoencoder:
        """Fit to files that workers read; the pairs hidden for the choice are those that one machine would hide."""
        if self.rank is not None:
            raise ValueError("rank must be None with an engine: the workers add up Gram matrices")
        if not isinstance(source, (str, os.PathLike)):
            raise ValueError("ratings must be a path that the workers of the engine see")
        try:
            weigh = partial(_weigh, self.threshold, self.feedback == "implicit")
            data, precision = cluster.gram(source, weigh, self.memory, self.dtype)
            precision.device = self.device
            rows, pairs = self._none(), None
            if self._open:
                starts = np.concatenate([[0], np.cumsum(data.by_user.counts)]).astype(np.int64)
                users, places = sample_pairs(Compressed(starts, np.empty(0, np.int32), np.empty(0)), _PAIRS, self.seed)
                chosen, number = np.unique(users, return_inverse=True)
                rows, pairs = cluster.rows(data.by_user, chosen), (number, places)
        finally:
            cluster.close()
        self.points_ = []
        point = self._chosen(precision, rows, pairs)
        self._users, self._items, self._rows = Lookup(np.empty(0, np.int64)), data.items, self._none()
        self._set(precision, *point)
        self._popularity = data.by_item.counts.astype(np.float64)
        return self

    @staticmethod
    def _none() -> Compressed:
        return Compressed(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0))

    def _inverse(self, rows: Compressed, items: int) -> Precision | LowRank:
        if self.rank is not None:
            return LowRank(rows, items, self.rank, self.dtype)
        precision = Precision(items, self.dtype, self.device)
        precision.add(rows)
        return precision

    def fit_gram(self, gram: Any, item_ids: Any = None) -> DropoutAutoencoder:
        """Fit to G = X^T X itself; rate and ridge must be given, and only new users can be recommended to.

        Its diagonal is taken for the popularity of the items, which it is where every interaction counts 1.
        """
        self._check()
        if self.drop is None or self.ridge is None:
            raise ValueError("drop and ridge must be given with a Gram matrix: choosing them needs the rows")
        if self.rank is not None:
            raise ValueError("rank must be None with a Gram matrix: low rank needs the rows")
        table = np.asarray(gram, np.float64)
        if table.ndim != 2 or table.shape[0] != table.shape[1] or not np.allclose(table, table.T):
            raise ValueError(f"gram must be a symmetric matrix, got shape {table.shape}")
        self._room(len(table))
        ids = np.arange(len(table)) if item_ids is None else as_ids(item_ids)
        if len(ids) != len(table):
            raise ValueError(f"item_ids must name {len(table)} items, got {len(ids)}")
        precision = Precision(len(table), self.dtype, self.device)
        precision.array[:] = np.tril(table, -1)
        precision.diagonal[:] = np.diagonal(table)
        self._users, self._items, self.points_ = Lookup(np.empty(0, np.int64)), Lookup(ids), []
        self._rows = self._none()
        self._set(precision, float(self.drop), float(self.ridge), self.diagonal or "zero")
        self._popularity = precision.diagonal.copy()
        return self

    def partial_fit(self, ratings: Source) -> DropoutAutoencoder:
        """Add interactions of new or known users at the rate and ridge already chosen; equals a fit to all of them.

        A pair that was known takes the new value. Costs the factorization, items^3, but no pass over the known rows.
        """
        if not hasattr(self, "_popularity"):
            return self.fit(ratings)
        users, items, values = self._kept(triple(ratings))
        if not len(values):
            raise ValueError("ratings must hold at least one rating, got none")
        self._users, self._items = extended(self._users, users), extended(self._items, items)
        self._room(len(self._items))
        rows, columns = self._users(users), self._items(items)
        touched = np.unique(rows)
        old = self._rows
        mine = np.repeat(np.arange(old.rows), old.counts)
        joint = [
            np.concatenate([before, after])
            for before, after in ((mine, rows), (old.columns, columns), (old.values, self._weighted(values)))
        ]
        self._rows = compressed(joint[0], joint[1], joint[2], len(self._users))
        # what a Gram matrix or the files of workers held has a popularity, but no rows to count again
        known = len(self._popularity)
        popularity = np.bincount(self._rows.columns, minlength=len(self._items)).astype(np.float64)
        popularity[:known] += self._popularity - np.bincount(old.columns, minlength=known)
        if isinstance(self._precision, LowRank):
            self._precision = LowRank(self._rows, len(self._items), self._precision.rank, self.dtype)
        else:
            if len(self._items) > len(self._precision):
                self._precision.grow(len(self._items))
            self._precision.add(taken(old, touched[touched < old.rows]), -1.0)
            self._precision.add(taken(self._rows, touched))
        self._set(self._precision, self.drop_, self.ridge_, self.diagonal_)
        self._popularity = popularity
        return self

    def _set(self, precision: Precision | LowRank, drop: float, ridge: float, diagonal: Diagonal) -> None:
        self.drop_, self.ridge_, self.diagonal_, self._precision = drop, ridge, diagonal, precision
        self._gamma = _gamma(precision, drop, ridge)
        precision.factorize(self._gamma)
        self._scales = scales(self.diagonal_, self._gamma, precision.variances)

    def _chosen(
        self, precision: Precision | LowRank, rows: Compressed, pairs: tuple[Array, Array] | None
    ) -> tuple[float, float, Diagonal]:
        """The best point of a coarse grid, or a neighbor at half the step, by hidden pairs of these rows."""
        if pairs is None:
            return float(self.drop or 0.0), float(self.ridge or 0.0), self.diagonal or "zero"
        unit = float(precision.diagonal.sum())
        kinds: tuple[Diagonal, ...] = ("zero", "free") if self.diagonal is None else (self.diagonal,)
        tried: dict[tuple[float, float], float] = {}

        def cost(point: tuple[float, float]) -> float:
            if point not in tried:
                gamma = _gamma(precision, *point)
                precision.factorize(gamma)
                found = leave_one_out(precision, gamma, kinds, rows, pairs)
                mine = [ChoicePoint(*point, one, kind) for kind, one in zip(kinds, found, strict=True)]
                self.points_ += mine
                tried[point] = min(map(self._cost, mine))
            return tried[point]

        drops = _DROPS if self.drop is None else (float(self.drop),)
        ridges = [unit * share for share in _RIDGES] if self.ridge is None else [float(self.ridge)]
        grid = [(drop, ridge) for drop in drops for ridge in ridges]
        drop, ridge = min(tracked(grid, "rate and ridge", "fit"), key=cost)
        if self.drop is None:
            cost((round(drop - 0.1, 3), ridge)), cost((round(drop + 0.1, 3), ridge))
        if self.ridge is None:
            cost((drop, ridge * 3**-0.5)), cost((drop, ridge * 3**0.5))
        best = min(self.points_, key=self._cost)
        return best.drop, best.ridge, best.diagonal

    def _cost(self, point: ChoicePoint) -> float:
        left_out = point.left_out
        return left_out.squared.value if self.choose == "squared" else -left_out.gain.value

    def _score(self, rows: Array) -> Array:
        return rows - self._precision.times(rows) * self._scales

    @property
    def cut_(self) -> float:
        """Bound on |gamma^1/2 (C - what is used for it) gamma^1/2|: 0 for the exact inverse (`LowRank.cut` else)."""
        precision = self._fitted()._precision
        return precision.cut if isinstance(precision, LowRank) else 0.0

    def weights(self) -> Array:
        """W = I - C diag(sigma) as a matrix of its own; scoring never forms it."""
        self._fitted()
        return np.eye(len(self._items)) - self._precision.times(np.eye(len(self._items))) * self._scales

    def explain(self, user: Any, item: Any, count: int | None = None) -> Contributions:
        """Which of the user's items made this score: x_k W_kj for her items k; their sum is the score."""
        self._fitted()
        row, column = int(self._users([user])[0]), int(self._items([item])[0])
        for name, place, given in (("user", row, user), ("item", column, item)):
            if place < 0:
                raise ValueError(f"{name} {given!r} is unknown; add it with partial_fit")
        part = slice(int(self._rows.starts[row]), int(self._rows.starts[row + 1]))
        items, values = self._rows.columns[part], self._rows.values[part]
        own = self._precision.rows(np.array([column]))[0].astype(np.float64)[items]
        parts = values * ((items == column) - own * self._scales[column])
        order = np.argsort(-parts, kind="stable")[:count]
        return Contributions(self._items.ids[items[order]], parts[order])

    def leave_one_out(self, pairs: int = _PAIRS) -> LeaveOneOut:
        """How well users are ranked and predicted by the model without them; exact, with standard errors."""
        self._fitted()
        check_positive("pairs", pairs)
        chosen = sample_pairs(self._rows, pairs, self.seed)
        return leave_one_out(self._precision, self._gamma, [self.diagonal_], self._rows, chosen)[0]

    def left_out_residuals(self, users: Any) -> Array:
        """x_uj minus its prediction by the model fitted without user u, for known users and all items."""
        numbers = self._fitted()._users(users)
        if (numbers < 0).any():
            raise ValueError(f"{int((numbers < 0).sum())} of {len(numbers)} users are unknown")
        x = dense(self._rows, numbers, len(self._items))
        t = self._precision.times(x).astype(np.float64)
        rest = 1 - np.einsum("un,un->u", x, t)
        return residuals(t, rest, self._gamma, self.diagonal_, self._precision.variances)

    def _room(self, items: int) -> None:
        need = items * (self.rank or items) * np.dtype(self.dtype).itemsize
        if need > self.memory:
            raise ValueError(
                f"memory: {items} items need {need} bytes, more than the {self.memory} allowed; "
                "raise memory, pass rank=256 or leave out items with few interactions"
            )

    def _check(self) -> None:
        check_parameters(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model, with its interactions, to one safetensors file, without pickle."""
        self._fitted()
        held = self._precision
        arrays = {
            **({} if isinstance(held, LowRank) else {"array": held.array.T, "diagonal": held.diagonal}),
            "starts": self._rows.starts,
            "columns": self._rows.columns,
            "values": self._rows.values,
            "popularity": self._popularity,
            **saving.pack_ids("user_ids", self._users.ids),
            **saving.pack_ids("item_ids", self._items.ids),
        }
        points = [asdict(point) for point in self.points_]
        parameters = {name: value for name, value in self.get_params().items() if name not in saving.PLACES}
        facts = {"kind": type(self).__name__, "parameters": parameters, "drop": self.drop_, "ridge": self.ridge_}
        if isinstance(held, LowRank):  # options may have changed since the fit
            facts["low_rank"] = [held.rank, held.basis.dtype.name]
        saving.write(path, arrays, {**facts, "diagonal": self.diagonal_, "points": points})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DropoutAutoencoder:
        """Read a model that `save` wrote."""
        arrays, facts = saving.read(path)
        if facts["kind"] != cls.__name__:
            raise ValueError(f"{path} holds a {facts['kind']}, load it with {facts['kind']}.load")
        model = cls(**facts["parameters"])
        model._users, model._items = (Lookup(saving.unpack_ids(name, arrays)) for name in ("user_ids", "item_ids"))
        model._rows = Compressed(*(arrays[name] for name in ("starts", "columns", "values")))
        model.drop_, model.ridge_, model.diagonal_ = facts["drop"], facts["ridge"], facts["diagonal"]
        model.points_ = [_point(**point) for point in facts["points"]]
        if "array" not in arrays:  # eigenvectors are found again: they are larger than the interactions
            size = facts.get("low_rank", (model.rank, model.dtype))
            low = LowRank(model._rows, len(model._items), *size)
            model._set(low, model.drop_, model.ridge_, model.diagonal_)
            model._popularity = arrays.get("popularity", low.diagonal)  # older files have none
            return model
        model._precision = Precision.of(arrays["array"].T, arrays["diagonal"])
        model._gamma = _gamma(model._precision, model.drop_, model.ridge_)
        model._scales = scales(model.diagonal_, model._gamma, model._precision.variances)
        model._popularity = arrays.get("popularity", model._precision.diagonal)
        return model


def _gamma(precision: Precision | LowRank, drop: float, ridge: float) -> NDArray[np.float64]:
    """The regularizers rho D + ridge."""
    found: NDArray[np.float64] = drop / (1 - drop) * precision.diagonal + ridge
    return found


def _weigh(threshold: float | None, implicit: bool, values: Array) -> tuple[Array, Array]:
    """Which ratings are interactions, and what they count."""
    keep = np.ones(len(values), bool) if threshold is None else values >= threshold
    return keep, np.ones(len(values)) if implicit else values


def _point(drop: float, ridge: float, left_out: dict[str, Any], diagonal: Diagonal = "zero") -> ChoicePoint:
    gain, squared = (Mean(*left_out[name]) for name in ("gain", "squared"))
    return ChoicePoint(drop, ridge, LeaveOneOut(gain, squared, left_out["pairs"]), diagonal)
