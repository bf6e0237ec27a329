"""What a claim compares: targets in other units give predictions in these units: networks and completed ratings."""

from __future__ import annotations

from typing import Any

import numpy as np

from droptics.evidence.claims import Comparison, compare
from droptics.papers.instances import normal, sample, uniform
from droptics.recommenders import DropoutCompletion
from droptics.training import DropoutRegressor


def standardized(scale: float) -> list[Comparison]:
    """Targets in other units give predictions in these units: networks and completed ratings."""
    found = []
    networks: tuple[tuple[tuple[int, ...], Any], ...] = (((4,), 0.5), ((3, 5), "estimate"))
    for seed, (hidden, noise) in enumerate(networks):
        data, new = sample(1 + seed, 24, 3, 1), normal(3 + seed, 7, 3).numpy()
        X, y = data.inputs.numpy(), data.targets.numpy()[:, 0]
        fits = [
            np.asarray(DropoutRegressor(hidden, 0.1, noise, epochs=3, seed=1 + seed).fit(X, targets).predict(new))
            for targets in (y, 8 * y + 5)
        ]
        found.append(compare(fits[1], "==", scale * fits[0] + 5, f"a network, {hidden}", precision=1e-6))
        found.append(compare(float(np.ptp(fits[0])), ">", 0.01, f"which is not constant, {hidden}"))
    users, items = np.divmod(np.flatnonzero(uniform(6, 9 * 7).numpy() < 0.6), 7)  # some of nine users' seven items
    values, pairs = normal(2, len(users)).numpy(), np.stack(np.divmod(np.arange(63), 7), 1)
    for penalty_of, biases in (("expected", True), ("empirical", True), (0.3, False)):
        filled = [
            DropoutCompletion(2, 0.3, penalty_of, biases=biases, dtype="float64", seed=1)
            .fit((users, items, given))
            .predict(pairs)
            for given in (values, 8 * values + 5)
        ]
        name = f"completed ratings, {penalty_of}, {biases}"
        found.append(compare(filled[1], "==", scale * filled[0] + 5, name, precision=1e-6))
    return found
