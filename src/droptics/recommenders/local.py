"""LocalAutoencoder: the autoencoder for catalogs whose square array fits nowhere, one small exact solve per item."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy

from droptics.arguments import Amount, Bytes, Count, DropRate, Finite, check_parameters
from droptics.arrays import Array
from droptics.recommenders.ids import pair_columns
from droptics.recommenders.interactions import as_matrix
from droptics.recommenders.ranker import Ranker
from droptics.recommenders.ratings import Compressed, Source, observations, triple

_RIDGE = 5e-4


class LocalAutoencoder(Ranker):
    """A linear autoencoder with dropout on its input and a zero diagonal, each item predicted by a few others.

    With G = X^T X, D its diagonal, rho = drop / (1 - drop) and S the `neighbors` items that occur most often together
    with item j,

        w_j = (G_SS + diag(rho D_S + ridge))^-1 G_Sj

    minimizes the dropout loss of `DropoutAutoencoder` over weights on S alone; with all other items in S it is its
    solution (droptics-autoencoder). Rate and ridge are not chosen here: take those that `DropoutAutoencoder` chooses
    on the items with most interactions.

    Args:
        neighbors: Items that may predict an item.
        drop: Probability of dropping an input, in [0, 1).
        ridge: Ridge on all weights; None takes 5e-4 of the interactions, near what leave-one-out chose on MovieLens 1M.
        feedback, threshold: What counts as an interaction, as in `DropoutAutoencoder`.
        memory: Bytes the interactions may take before they are kept on disk.

    Cost items neighbors^3 / 3, in the pairs of items that occur together and items x neighbors numbers.

    >>> import numpy as np
    >>> users, items = np.divmod(np.arange(320), 8)
    >>> seen = (users % 2 == items % 2) & (users != items)
    >>> model = LocalAutoencoder(3).fit((users[seen], items[seen], np.ones(seen.sum())))
    >>> int(model.recommend(4, 1).items[0])
    4
    """

    def __init__(
        self,
        neighbors: Count = 500,
        drop: DropRate = 0.4,
        ridge: Amount | None = None,
        *,
        feedback: Literal["implicit", "graded"] = "implicit",
        threshold: Finite | None = None,
        memory: Bytes = 1 << 32,
    ) -> None:
        self.neighbors, self.drop, self.ridge = neighbors, drop, ridge
        self.feedback, self.threshold, self.memory = feedback, threshold, memory

    def fit(self, ratings: Source, y: Any = None) -> LocalAutoencoder:
        """Fit to interactions; sources as in `DropoutCompletion.fit`, with `y` as the third column."""
        check_parameters(self)
        if y is not None:
            ratings = (*pair_columns(ratings), y)
        source = ratings if self.threshold is None else self._kept(triple(ratings))
        data = observations(source, np.float64, self.memory, mean=0.0)
        rows = Compressed(
            data.by_user.starts,
            np.asarray(data.by_user.columns),
            self._weighted(np.array(data.by_user.values) * data.scale),
        )
        table = as_matrix(rows, len(data.items))
        gram = (table.T @ table).tocsr()
        diagonal = gram.diagonal()
        ridge = _RIDGE * float(diagonal.sum()) if self.ridge is None else float(self.ridge)
        gamma = self.drop / (1 - self.drop) * diagonal + ridge
        self._weights: Any = scipy.sparse.vstack([self._solved(gram, gamma, j) for j in range(len(gamma))]).T.tocsr()
        self._users, self._items, self._rows = data.users, data.items, rows
        self._popularity = data.by_item.counts.astype(np.float64)
        return self

    def _solved(self, gram: Any, gamma: Array, item: int) -> Any:
        """The weights of one item, as a sparse row."""
        part = slice(gram.indptr[item], gram.indptr[item + 1])
        others, together = gram.indices[part], gram.data[part]
        others, together = others[others != item], together[others != item]
        most = np.sort(np.argsort(-np.abs(together), kind="stable")[: self.neighbors])
        chosen, target = others[most], together[most]
        if len(chosen):
            system = gram[chosen][:, chosen].toarray() + np.diag(gamma[chosen])
            try:
                target = scipy.linalg.cho_solve(scipy.linalg.cho_factor(system, overwrite_a=True), target)
            except scipy.linalg.LinAlgError:
                raise ArithmeticError("a local Gram matrix is singular: use a larger ridge or drop") from None
        return scipy.sparse.csr_matrix((target, (np.zeros(len(chosen), np.int64), chosen)), (1, len(gamma)))

    def _score(self, rows: Array) -> Array:
        found: Array = rows @ self._weights
        return found

    def weights(self) -> Any:
        """W as a sparse matrix, column j for item j."""
        return self._fitted()._weights
