"""Tables of interactions: rows taken, rows replaced, and rows as a matrix over known items."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from droptics.arrays import Array
from droptics.recommenders.ids import Lookup, joined
from droptics.recommenders.ratings import Compressed


def as_matrix(rows: Compressed, columns: int) -> Any:
    """A table as a sparse matrix."""
    return scipy.sparse.csr_matrix((rows.values, rows.columns, rows.starts), (rows.rows, columns))


def compressed(rows: Array, columns: Array, values: Array, count: int) -> Compressed:
    """`count` rows with ascending columns; of a pair that occurs twice the last value stays."""
    order = np.lexsort((np.arange(len(rows)), columns, rows))
    rows, columns, values = rows[order], columns[order], values[order]
    last = np.ones(len(rows), bool)
    last[:-1] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows[last], minlength=count))]).astype(np.int64)
    return Compressed(starts, columns[last].astype(np.int32), values[last])


def taken(rows: Compressed, index: Array) -> Compressed:
    """Some rows of a table."""
    counts = rows.counts[index]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    place = np.arange(starts[-1]) + np.repeat(rows.starts[index] - starts[:-1], counts)
    return Compressed(starts, np.asarray(rows.columns[place]), np.asarray(rows.values[place]))


def extended(lookup: Lookup, ids: Array) -> Lookup:
    """A lookup that knows these ids, too; new ones are numbered last, in sorted order."""
    fresh = np.unique(ids[lookup(ids) < 0])
    return Lookup(joined([lookup.ids, fresh])) if len(fresh) else lookup
