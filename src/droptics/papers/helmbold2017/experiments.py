"""The experiment of section 6 as a pure function of its parameters and a seed."""

from __future__ import annotations

import math

import numpy as np

from droptics.papers.helmbold2017.kernels import train_run

SCALES = (0.5, 0.75, 1.0, 1.25, 1.5)


def scale_run(data_set: int, scale: float, method: str, steps: int = 100_000, seed: int = 0) -> float:
    """Training error after one run of Section 6 (helmbold2017-fig2).

    Five inputs, five hidden units, ten examples uniform in [-1, 1]^5 times `scale`, y = product of signs; `method`
    is "dropout" (rate 1/2 on inputs and hidden units), "weight decay" (strength 1/2) or "none". The examples and
    the initial weights depend on `data_set` and `seed` only, so methods and scales start alike.
    """
    if method not in ("dropout", "weight decay", "none"):
        raise ValueError(f"method must be 'dropout', 'weight decay' or 'none', got {method!r}")
    rng = np.random.default_rng([seed, data_set])
    inputs = rng.uniform(-1, 1, (10, 5))
    targets = np.sign(inputs).prod(1)
    # uniform within one over the root of the fan-in, biases included
    flat = rng.uniform(-1, 1, 5 * 5 + 5 + 5 + 1) / math.sqrt(5)
    drop, decay = 0.5 * (method == "dropout"), 0.5 * (method == "weight decay")
    return float(train_run(flat, scale * inputs, targets, 5, drop, decay, steps, int(rng.integers(2**62))))
