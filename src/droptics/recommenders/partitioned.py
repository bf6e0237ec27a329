"""Completion on a Dask cluster: ratings are partitioned by user, and neither they nor the user factors move.

The workers read the files; the client sees ids, counts and the item factors. With the items fixed a partition solves
its own users. With the users fixed all items take conjugate-gradient steps at once: a product with the row systems is
one local pass and a tree reduction of items x width numbers. The steps are those of `least_squares`, so that the result
is that of one machine up to the order of sums. A partition is a function of its file and of the item factors sent so
far, which the scheduler keeps (sweeps x items x width numbers): a lost worker costs the reading and the half-sweeps of
its partitions, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from droptics.arrays import Array
from droptics.clusters import connect
from droptics.recommenders.alternation import Strengths, column_sums
from droptics.recommenders.columns import apply_columns, start_columns
from droptics.recommenders.extents import Extent, unit
from droptics.recommenders.ids import Lookup, joined
from droptics.recommenders.interactions import compressed, taken
from droptics.recommenders.precision import Precision
from droptics.recommenders.ratings import (
    Compressed,
    Counted,
    Observations,
    Source,
    by_activity,
    chunked,
    compress,
    count,
    files,
    say_duplicates,
)
from droptics.recommenders.rows import block_of, parts_of, regressors_of, solve_block

Block = tuple[Array, Array, Array]


@dataclass(frozen=True, eq=False)
class Side:
    """One side of partitioned ratings: ratings of each row; of the users, the blocks and whose they are, too."""

    counts: NDArray[np.int64]
    blocks: list[Any] = field(default_factory=list)
    rows: list[Array] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Partitions:
    """What `Observations` says of ratings that stay with the workers."""

    users: Lookup
    items: Lookup
    by_user: Side
    by_item: Side
    mean: float
    low: float
    high: float
    scale: float = 1.0

    @property
    def count(self) -> int:
        """Number of distinct (user, item) pairs."""
        return int(self.by_user.counts.sum())


@dataclass(eq=False)
class Held:
    """A factor array here; that of the users lies with the workers, one result of `_solve_users` per partition."""

    array: Array
    table: Side | None = None
    parts: list[Any] = field(default_factory=list)


class Cluster:
    """Half-sweeps on the workers of a Dask cluster."""

    def __init__(self, address: Any) -> None:
        self._own = isinstance(address, str)
        if not self._own and not hasattr(address, "scheduler_info"):
            raise ValueError(
                f"engine must be the address of a Dask scheduler or a client, got {type(address).__name__}"
            )
        self.client: Any = connect(address) if self._own else address
        self._config: Any = import_module("dask").config

    def close(self) -> None:
        if self._own:
            self.client.close()

    def read(self, source: Source, dtype: Any, mean: float | None = None) -> Partitions:
        """Have the workers read files that they see under the same path, each user's ratings in one of them."""
        paths = [str(path.absolute()) for path in files(source)]
        surveys = [self.client.submit(_survey, path) for path in paths]
        found: list[tuple[Counted, Counted, Extent]] = self.client.gather(surveys)
        users, items = _joint([part[0] for part in found]), _joint([part[1] for part in found])
        total = int(users[1].sum())
        if total == 0:
            raise ValueError("ratings must hold at least one rating, got none")
        if len(users[0]) < sum(len(part[0][0]) for part in found):
            raise ValueError(f"ratings: a user occurs in more than one file of {source}; partition them by user")
        extent = _extent([(part[2], int(part[0][1].sum())) for part in found])
        middle = extent.mean(total) if mean is None else mean
        scale = unit(extent, middle, dtype)
        user_ids, item_ids = by_activity(users), by_activity(items)
        known = self._share(item_ids)
        tables = [
            self.client.submit(_load, path, survey, known, (middle, scale), dtype)
            for path, survey in zip(paths, surveys, strict=True)
        ]
        counts = self.client.gather([self.client.submit(_counts, table, len(item_ids)) for table in tables])
        kept = sum(int(part[0].sum()) for part in counts)
        if kept < total:
            say_duplicates(total - kept, total)
            if mean is None:
                shift = sum(part[2] for part in counts) / kept
                middle += scale * shift
                tables = [self.client.submit(_shifted, table, shift) for table in tables]
        rows = [user_ids(by_activity(part[0]).ids) for part in found]
        of_users = np.zeros(len(user_ids), np.int64)
        for numbers, part in zip(rows, counts, strict=True):
            of_users[numbers] = part[0]
        by_user = Side(of_users, tables, rows)
        of_items = np.sum([part[1] for part in counts], axis=0)
        return Partitions(user_ids, item_ids, by_user, Side(of_items), middle, extent.low, extent.high, scale)

    def send(self, data: Observations) -> Partitions:
        """Ratings that are here already, by blocks of users."""
        table = data.by_user
        ranges = table.blocks(2 * max(1, len(self.client.scheduler_info()["workers"])))
        blocks = [self._share(block_of(table, *edges)) for edges in ranges]
        side = Side(table.counts, blocks, [np.arange(*edges) for edges in ranges])
        extent = (data.mean, data.low, data.high, data.scale)
        return Partitions(data.users, data.items, side, Side(data.by_item.counts), *extent)

    def gram(self, source: Source, weigh: Any, memory: int, dtype: Any) -> tuple[Partitions, Precision]:
        """Interactions weighed by the workers, and the sum of their Gram matrices, over the items that keep any.

        `weigh` says of values (float64) which are kept and what they count.
        """
        data = self.read(source, np.float64, 0.0)
        blocks = [self.client.submit(_weighed, block, weigh, data.scale) for block in data.by_user.blocks]
        counts = self.client.gather([self.client.submit(_counts, block, len(data.items)) for block in blocks])
        per_item = np.sum([part[1] for part in counts], axis=0)
        chosen = np.flatnonzero(per_item)
        need = len(chosen) ** 2 * np.dtype(dtype).itemsize
        if need > memory:
            raise ValueError(f"memory: {len(chosen)} items need {need} bytes, more than the {memory} allowed")
        number = self._share(np.cumsum(per_item > 0) - 1)
        blocks = [self.client.submit(_renumbered, block, number) for block in blocks]
        per_user = np.zeros(len(data.users), np.int64)
        for numbers, part in zip(data.by_user.rows, counts, strict=True):
            per_user[numbers] = part[0]
        lower, diagonal = self._sum([self.client.submit(_gram, block, len(chosen), dtype) for block in blocks])
        side = Side(per_user, blocks, data.by_user.rows)
        kept = replace(data, items=Lookup(data.items.ids[chosen]), by_user=side, by_item=Side(per_item[chosen]))
        return kept, Precision.of(lower.T, diagonal)

    def rows(self, table: Side, users: Array) -> Compressed:
        """The rows of some users, ascending, as a table of their own."""
        mine = [np.flatnonzero(np.isin(numbers, users)) for numbers in table.rows]
        found = self.client.gather(
            [self.client.submit(_taken, block, index) for block, index in zip(table.blocks, mine, strict=True)]
        )
        owners = [numbers[index] for numbers, index in zip(table.rows, mine, strict=True)]
        every = [np.repeat(who, np.diff(part[0])) for who, part in zip(owners, found, strict=True)]
        columns, values = (np.concatenate([part[k] for part in found]) for k in (1, 2))
        return compressed(np.searchsorted(users, np.concatenate(every)), columns, values, len(users))

    def load(self, table: Any) -> Any:
        return table

    def hold(self, factors: Array) -> Held:
        return Held(factors)

    def release(self, held: Held) -> Array:
        if held.table is not None:
            for rows, part in zip(held.table.rows, held.parts, strict=True):
                held.array[rows] = self.client.submit(_factors, part).result()
        return held.array

    def solve(
        self, table: Side, fixed: Held, free: Held, strengths: Strengths, weights: Array, steps: int
    ) -> tuple[float, float] | None:
        if table.blocks:
            self._solve_users(table, fixed.array, free, strengths, weights, steps)
            return None
        return self._solve_items(table, fixed, free.array, strengths, weights, steps)

    def _solve_users(
        self, table: Side, items: Array, users: Held, strengths: Strengths, weights: Array, steps: int
    ) -> None:
        diagonals, _ = parts_of(column_sums(items, weights), strengths, weights, len(table.counts))
        shared = self._share((*regressors_of(items, strengths), diagonals))
        starts = users.parts or [self._share(users.array[rows]) if users.array.any() else None for rows in table.rows]
        users.parts = [
            self.client.submit(_solve_users, block, shared, start, steps)
            for block, start in zip(table.blocks, starts, strict=True)
        ]
        users.table = table

    def _solve_items(
        self, table: Side, users: Held, solution: Array, strengths: Strengths, weights: Array, steps: int
    ) -> tuple[float, float]:
        """Conjugate gradients for all items at once, as in `least_squares`; steps = 0 goes on until they settle.

        Their vectors lie with a worker, as the products do: only the solution comes here.
        """
        sums = self._sum([self.client.submit(_squares, part) for part in users.parts])
        diagonals, own = parts_of((sums[0], sums[1]), strengths, weights, len(solution))
        start = self._share(solution)
        passed = self._products(_start_items, users, start, strengths)
        state = self.client.submit(_descent, passed, start, table.counts, diagonals, pure=False)
        for _ in range(steps or 4 * strengths.columns):
            direction = self.client.submit(_direction, state, pure=False)
            passed = self._products(_apply_items, users, direction, strengths)
            state = self.client.submit(_descended, state, direction, passed, pure=False)
            if not self.client.submit(_moves, state, pure=False).result():
                break
        solution[:], value, penalty = self.client.submit(_reached_items, state, pure=False).result()
        return value + own, value - penalty

    def _products(self, pass_over: Any, users: Held, argument: Any, strengths: Strengths) -> Any:
        assert users.table is not None
        parts = zip(users.table.blocks, users.parts, strict=True)
        return self._tree([self.client.submit(pass_over, *part, argument, strengths, pure=False) for part in parts])

    def _tree(self, futures: list[Any]) -> Any:
        """The sum of tuples of arrays that lie with the workers, two by two; it lies with one of them."""
        while len(futures) > 1:
            pairs = [futures[at : at + 2] for at in range(0, len(futures), 2)]
            futures = [self.client.submit(_add, *pair, pure=False) if len(pair) > 1 else pair[0] for pair in pairs]
        return futures[0]

    def _sum(self, futures: list[Any]) -> Any:
        return _writable(self._tree(futures).result())

    def _share(self, data: Any) -> Any:
        """Data for the workers. As a task, not scattered: it is made again when its worker is lost."""
        with self._config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            return self.client.submit(_given, data, pure=False)


def _given(data: Any) -> Any:
    return data


def _survey(path: str) -> tuple[Counted, Counted, Extent]:
    return count(chunked(path)())


def _load(
    path: str, survey: tuple[Counted, Counted, Extent], items: Lookup, scaling: tuple[float, float], dtype: Any
) -> Block:
    """A file as a block, its users by their activity."""
    users = survey[0]
    total = int(users[1].sum())
    room = np.empty(total, np.int32), np.empty(total, dtype)
    table = compress(chunked(path)(), (by_activity(users), users[1]), items, scaling, room)
    return block_of(table, 0, table.rows)


def _counts(block: Block, items: int) -> tuple[Array, Array, float]:
    """Ratings of each row and of each item, and the sum of the values."""
    return np.diff(block[0]), np.bincount(block[1], minlength=items), float(block[2].sum(dtype=np.float64))


def _shifted(block: Block, shift: float) -> Block:
    return block[0], block[1], block[2] - np.asarray(shift, block[2].dtype)


def _weighed(block: Block, weigh: Any, scale: float) -> Block:
    starts, columns, values = block
    keep, weights = weigh(values * scale)
    before = np.concatenate([[0], np.cumsum(keep)]).astype(np.int64)
    return before[starts - starts[0]], columns[keep], weights[keep]


def _renumbered(block: Block, number: Array) -> Block:
    return block[0], number[block[1]].astype(np.int32), block[2]


def _gram(block: Block, items: int, dtype: Any) -> tuple[Array, Array]:
    """What `Precision` holds of a block, its array transposed: that is how it is contiguous."""
    precision = Precision(items, dtype)
    starts, columns, values = _writable(block)
    precision.add(Compressed(starts, columns, values))
    return precision.array.T, precision.diagonal


def _taken(block: Block, index: Array) -> Block:
    found = taken(Compressed(*block), index)
    return found.starts, found.columns, found.values


def _solve_users(block: Block, shared: Any, start: Any, steps: int) -> tuple[Array, Any]:
    """Factors of a block's users, and their `column_sums`."""
    starts, columns, values = _writable(block)
    regressors, offsets, diagonals = _writable(shared)
    if start is None:
        rows = np.zeros((len(starts) - 1, diagonals.shape[1]), regressors.dtype)
    else:
        rows = np.array(start[0] if isinstance(start, tuple) else start)
    solve_block((starts, columns, values), regressors, offsets, rows, diagonals, steps)
    return rows, column_sums(rows, np.diff(starts))


def _factors(solved: tuple[Array, Any]) -> Array:
    return solved[0]


def _squares(solved: tuple[Array, Any]) -> Any:
    return solved[1]


def _start_items(block: Block, solved: Any, solution: Array, strengths: Strengths) -> tuple[Array, Array, float]:
    regressors, offsets = regressors_of(solved[0], strengths)
    into, squares = np.zeros(solution.shape), np.zeros(solution.shape)
    (starts, columns, values), (solution,) = _writable(block), _writable((solution,))
    total = start_columns(starts, columns, values, regressors, offsets, solution, into, squares)
    return into, squares, total


def _apply_items(block: Block, solved: Any, directions: Array, strengths: Strengths) -> tuple[Array]:
    regressors, _ = regressors_of(solved[0], strengths)
    into = np.zeros(directions.shape)
    (starts, columns, _), (directions,) = _writable(block), _writable((directions,))
    apply_columns(starts, columns, regressors, directions, into)
    return (into,)


@dataclass(frozen=True, eq=False)
class _Descent:
    """Conjugate gradients for the rows of x, none of which was written to since: a lost one is made again.

    r is the residual, d the penalty, `weight` the preconditioner, p the next direction.
    """

    x: Array
    r: Array
    d: Array
    weight: Array
    p: Array
    rho: Array
    settled: Array
    active: Array
    value: float
    dtype: Any


def _descent(passed: tuple[Array, Array, float], solution: Array, counts: Array, diagonals: Array) -> _Descent:
    """Where the steps begin, from what `_start_items` gave."""
    rest, scale, value = passed
    d = diagonals[0] * scale + counts[:, None] * diagonals[1] + diagonals[2]
    x = solution.astype(np.float64)
    r = rest - d * x
    metric = d + (scale if len(diagonals) == 3 else counts[:, None] * diagonals[3])  # as in `least_squares`
    weight = np.divide(1.0, metric, out=np.zeros_like(d), where=metric > 0)
    p = weight * r
    rho = (p * r).sum(1)
    settled = rho * (counts * np.finfo(solution.dtype).eps) ** 2
    x[counts == 0] = 0.0
    return _Descent(x, r, d, weight, p, rho, settled, counts > 0, float(value + (d * x * x).sum()), solution.dtype)


def _direction(state: _Descent) -> Array:
    return state.p.astype(state.dtype)


def _descended(state: _Descent, direction: Array, passed: tuple[Array]) -> _Descent:
    """One step along the rounded direction, given its product with the row systems of the ratings."""
    p = direction.astype(np.float64)
    q = passed[0] + state.d * p
    curvature, slope = (p * q).sum(1), (p * state.r).sum(1)
    active = state.active & (curvature > 0) & (state.rho > state.settled)
    step = np.divide(slope, curvature, out=np.zeros_like(slope), where=active)
    x, r = state.x + step[:, None] * p, state.r - step[:, None] * q
    fresh = (state.weight * r * r).sum(1)
    turn = np.divide(fresh, state.rho, out=np.zeros_like(fresh), where=active)
    p = np.where(active[:, None], turn[:, None] * p + state.weight * r, 0.0)
    value = state.value - float((step * slope).sum())
    return replace(state, x=x, r=r, p=p, rho=fresh, active=active, value=value)


def _moves(state: _Descent) -> bool:
    return bool(state.active.any())


def _reached_items(state: _Descent) -> tuple[Array, float, float]:
    """The solution, the penalized sum of squares, and the penalty in it."""
    return state.x.astype(state.dtype), state.value, float((state.d * state.x**2).sum())


def _add(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a + b for a, b in zip(left, right, strict=True))


def _writable(arrays: Any) -> tuple[Array, ...]:
    """What arrives over the wire is read-only, which the compiled kernels would take for another type."""
    return tuple(np.require(array, requirements="W") for array in arrays)


def _joint(parts: list[Counted]) -> Counted:
    """Distinct ids of all parts and how often each occurs."""
    ids, place = np.unique(joined([part[0] for part in parts]), return_inverse=True)
    return ids, np.bincount(place, np.concatenate([part[1] for part in parts]), len(ids)).astype(np.int64)


def _extent(parts: list[tuple[Extent, int]]) -> Extent:
    """The extent of all parts, sums taken from the first rating of the first part."""
    first = parts[0][0].first
    total = sum(one.sum + (one.first - first) * size for one, size in parts)
    return Extent(min(one.low for one, _ in parts), max(one.high for one, _ in parts), first, total)
