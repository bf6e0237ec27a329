"""`droptics complete --rank`: which items would they like, judged on users the model never saw."""

from __future__ import annotations

from typing import Any


def rank(
    table: Any, drop: float | None, threshold: float | None, holdout: float, seed: int
) -> tuple[Any, dict[str, object]]:
    """A fitted DropoutAutoencoder on all ratings, and what there is to print about it.

    Rate and ridge are chosen on the training users, the metrics are those of the held-out users, and the model that is
    kept is fitted to everybody at that rate and ridge.
    """
    from droptics.recommenders import DropoutAutoencoder, hold_out_users

    model = DropoutAutoencoder(drop, threshold=threshold, seed=seed)
    rows: dict[str, object] = {}
    if holdout > 0:
        split = hold_out_users(table if threshold is None else _liked(table, threshold), holdout, seed=seed)
        model.fit(split.train)
        found = model.evaluate(split.known, split.hidden, unknown="ignore")
        popular = model.evaluate_popularity(split.known, split.hidden, unknown="ignore")
        rows["held-out users"] = len(found.users["mrr"])
        for name, mine, theirs in (
            ("nDCG@20", found.ndcg[20], popular.ndcg[20]),
            ("nDCG@100", found.ndcg[100], popular.ndcg[100]),
            ("Recall@20", found.recall[20], popular.recall[20]),
        ):
            rows |= {name: mine.value, f"{name} error": mine.error, f"{name} by popularity": theirs.value}
        model = DropoutAutoencoder(model.drop_, model.ridge_, threshold=threshold, seed=seed)
    model.fit(table)
    facts: dict[str, object] = {
        "interactions": int(model._rows.starts[-1]),
        "users": len(model.user_ids_),
        "items": len(model.item_ids_),
        "drop": model.drop_,
        "ridge": model.ridge_,
    }
    return model, facts | rows


def _liked(table: Any, threshold: float) -> Any:
    return table.take((table.values >= threshold).nonzero()[0])
