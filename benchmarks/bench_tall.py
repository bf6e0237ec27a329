"""What the optimum of many examples of few inputs costs, for ten kinds of data, against a map of the same size.

A sample of 20000 x 50 is to cost what its second moments cost: at most three times `optimum_of_map` of a matrix of
20000 x 50, so every ratio is promised to be at least a third. The matrix is the same for all kinds.
"""

from __future__ import annotations

from harness import Row, compare, report  # first: it sets threads before NumPy loads

# isort: split
import sys
from functools import partial

import torch

from droptics.data import Sample
from droptics.masks import Bernoulli
from droptics.models import TwoLayerLinear
from droptics.optima import optimum, optimum_of_map

torch.set_num_threads(1)
COUNT, SIZE, MASKS = 20_000, 50, Bernoulli(1 / 3, 20)


def kinds() -> dict[str, Sample]:
    """Features that are far from centered, depend on others, or nearly do; and many outputs."""
    draw = partial(torch.randn, COUNT, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    X, Y, many = draw(SIZE), draw(SIZE), draw(300)
    place, ones = torch.arange(COUNT), torch.ones(COUNT, 1, dtype=torch.float64)
    codes = torch.nn.functional.one_hot(place % 10, 10).double()
    features = {
        "centered": X,
        "offset by 100": X + 100,
        "correlated": X[:, :1] + 1e-5 * X,
        "a zero column": torch.cat([X[:, :-1], 0 * ones], 1),
        "a repeated column": torch.cat([X[:, :-1], X[:, :1]], 1),
        "one-hot columns": torch.cat([ones, codes, X[:, :39]], 1),
        "constant": ones * X[:1],
        "40 different rows": X[place % 40],
        "powers to degree 49": torch.linspace(-1, 1, COUNT).double()[:, None] ** torch.arange(SIZE),
    }
    return {name: Sample(inputs, Y) for name, inputs in features.items()} | {"300 outputs": Sample(X, many)}


def rows(repeats: int) -> list[Row]:
    """One per kind; none of the calls is short."""
    found, samples = [], kinds()
    matrix = samples["centered"].inputs
    for name, data in samples.items():
        ask = partial(optimum, TwoLayerLinear, data, MASKS)
        answer, times = ask(), compare(ask, partial(optimum_of_map, matrix, MASKS), repeats)
        agreement = f"gap {answer.gap / answer.scale:.0e} of E|y|^2, {'' if answer.certified else 'not '}certified"
        found.append(Row(f"optimum of 20000 x 50, {name} / of a map of 20000 x 50", *times, agreement))
    return found


if __name__ == "__main__":
    quick = "--quick" in sys.argv
    report("tall-quick" if quick else "tall", rows(3 if quick else 15))
