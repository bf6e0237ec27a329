"""What the claim on users held out compares: where every rating stands, and metrics by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np

from droptics.evidence.claims import Comparison, compare
from droptics.recommenders import hold_out_users, ranking


def held_out(position: int) -> list[Comparison]:
    """Every rating of users held out stands in one part, none is without a known and a hidden one; metrics by hand."""
    pairs = [(user, item) for user in range(30) for item in range(1 + user % 5)]
    users, items = (np.array(column) for column in zip(*pairs, strict=True))
    rated = sorted((user, item, 7.0 * user + item) for user, item in pairs)
    found: list[Comparison] = []
    for seed, fold_in in itertools.product(range(3), (0.05, 0.5, 0.9)):
        parts = hold_out_users((users, items, 7.0 * users + items), share=0.4, fold_in=fold_in, seed=seed)
        held = set(parts.known.users.tolist())
        together = sorted(one for part in parts for one in zip(part.users, part.items, part.values, strict=True))
        name = f"seed {seed}, {fold_in} known"
        found += [
            compare(float(together == rated), "==", 1.0, f"every rating once, {name}"),
            compare(float(held == set(parts.hidden.users.tolist())), "==", 1.0, f"known and hidden ratings, {name}"),
            compare(float(bool(held & set(parts.train.users.tolist()))), "==", 0.0, f"training and held out, {name}"),
            compare(float(len(held)), "==", 12.0, f"users held out, {name}"),
        ]
    # one relevant item, of rank r: its gain beside that of rank one, which is 1
    lone = ranking(np.tile(-np.arange(12.0), (12, 1)), None, np.eye(12), at=[12]).users["ndcg@12"]
    wanted = [math.log2(position + 1) / math.log2(position + rank) for rank in range(1, 13)]
    found.append(compare(lone, "==", wanted, "the gain of every rank"))
    scores, relevant = np.array([[5.0, 4.0, 3.0, 2.0, 1.0]]), np.array([[0, 1, 0, 1, 1]])
    judged = ranking(scores, None, relevant, at=[2, 4])
    gains = [1 / math.log2(position + rank) for rank in range(1, 5)]
    return [
        *found,
        compare(judged.users["ndcg@2"], "==", gains[1] / (gains[0] + gains[1]), "ndcg@2"),
        compare(judged.users["ndcg@4"], "==", (gains[1] + gains[3]) / sum(gains[:3]), "ndcg@4"),
    ]
