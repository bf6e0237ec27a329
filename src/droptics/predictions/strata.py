"""Masks stratified by how many units of a site fall: none, one, or more.

Where hardly a unit is expected to fall, most independent masks say the same, and the few with several drops decide the
variance. The chances of the three strata are known, so that each gets masks of its own and is weighed by its chance:
averages stay unbiased, and what differs between strata is no longer left to luck.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

# Fewer masks than this would leave a stratum without a spread of its own.
FEWEST_MASKS = 16
# Share of the masks that is spread evenly over the strata where other sites vary, too: whatever holds the variance, its
# squared error is at most 1.25 times that of masks in proportion. A gradient may be wrong about who does.
EVENLY = 0.2


@dataclass(frozen=True)
class Strata:
    """Masks in groups, independent draws of the law given the group.

    Attributes:
        chances: Probability of every group.
        sizes: How many masks were drawn in each, in the order of the masks; at least two.
    """

    chances: tuple[float, ...]
    sizes: tuple[int, ...]

    @staticmethod
    def none(samples: int) -> Strata:
        """Independent masks."""
        return Strata((1.0,), (samples,))

    def mean(self, values: Tensor) -> Tensor:
        """Unbiased mean of values (masks, ...)."""
        return torch.tensordot(values.new_tensor(self.chances), self._means(values), dims=1)

    def covariance(self, left: Tensor, right: Tensor) -> Tensor:
        """Unbiased covariance of two such means."""
        a = self._moved(left)
        products = self._means(a.square() if left is right else a * self._moved(right))
        return torch.tensordot(products.new_tensor(self._scales), products, dims=1)

    def fourth(self, values: Tensor) -> Tensor:
        """Variance of the estimated variance of a mean, by fourth moments: c^4 / n^2 times that of S^2 in each group.

        Var S^2 = (kurtosis - 1) S^4 / n, and no less than that of a normal sample, which few values hide.
        """
        squares = self._moved(values).square()
        second = self._means(squares).square()
        least = [2 * n / max(n - 1, 1) for n in self.sizes]
        above = torch.maximum(self._means(squares.square()) - second, _column(least, second) * second)
        scales = [scale**2 / n for scale, n in zip(self._scales, self.sizes, strict=True)]
        return torch.tensordot(second.new_tensor(scales), above, dims=1)

    @property
    def shares(self) -> Tensor:
        """What every mask weighs in a mean, (masks,)."""
        return torch.cat(
            [torch.full((n,), c / n, dtype=torch.float64) for c, n in zip(self.chances, self.sizes, strict=True)]
        )

    @property
    def _scales(self) -> list[float]:
        """Variance of a weighed mean in each group over the mean square of what moves there."""
        return [chance**2 / max(n - 1, 1) for chance, n in zip(self.chances, self.sizes, strict=True)]

    def _means(self, values: Tensor) -> Tensor:
        """Of every group, (groups, ...)."""
        return torch.stack([part.mean(0) for part in values.split(self.sizes)])

    def _moved(self, values: Tensor) -> Tensor:
        """Values minus the mean of their group."""
        return torch.cat([part - part.mean(0) for part in values.split(self.sizes)])


def _column(numbers: list[float], like: Tensor) -> Tensor:
    return like.new_tensor(numbers).reshape(-1, *(1,) * (like.ndim - 1))


def count_chances(drop: Tensor) -> list[float]:
    """Probabilities that none, one, or more of independent units fall; only non-negative terms are added."""
    none, one, more = 1.0, 0.0, 0.0
    for rate in drop.tolist():
        none, one, more = none * (1 - rate), one * (1 - rate) + none * rate, more + one * rate
    return [none, one, more]


def allocate(chances: list[float], samples: int, evenly: float) -> Strata:
    """So many masks, a share of them `evenly` over the strata and the rest in proportion to their chances.

    In proportion no mean is worse than that of independent masks, whatever is averaged; a stratum has at least
    1 - evenly of the masks that it would have then, so that no squared error is more than 1 / (1 - evenly) times that
    of masks in proportion, but for masks that cannot be split. Cost: nothing is computed.
    """
    possible = [chance for chance in chances if chance > 0]
    wanted = [samples * ((1 - evenly) * chance + evenly / len(possible)) for chance in possible]
    sizes = [max(2, int(size)) for size in wanted]
    sizes[sizes.index(max(sizes))] += samples - sum(sizes)
    return Strata(tuple(possible), tuple(sizes))


def draw_counted(drop: Tensor, strata: Strata, generator: torch.Generator) -> Tensor:
    """Kept units (masks, units) of a site with strata of none (possible in float64), one, more drops; 0 and 1."""
    count, fallen = len(drop), torch.zeros(sum(strata.sizes), len(drop), dtype=torch.float64)
    if len(strata.sizes) == 1:
        return 1 - fallen
    none, one = strata.sizes[0], strata.sizes[0] + strata.sizes[1]
    odds = (drop / (1 - drop)).double()
    fallen[range(none, one), torch.multinomial(odds, one - none, replacement=True, generator=generator)] = 1.0
    # NumPy: these steps are too small for torch
    needed = np.full(len(fallen) - one, 2)
    uniform = torch.rand(len(needed), count, dtype=torch.float64, generator=generator).numpy()
    several, rates = fallen[one:].numpy(), drop.tolist()
    tail = _tails(rates)
    for unit, rate in enumerate(rates):
        # the chance of this drop given that enough are to come
        chance = rate * tail[unit + 1][np.maximum(needed - 1, 0)] / tail[unit][needed]
        several[:, unit] = uniform[:, unit] < chance
        needed = np.maximum(needed - several[:, unit].astype(int), 0)
    return 1 - fallen


def _tails(rates: list[float]) -> np.ndarray:
    """For every unit, and behind the last, the probabilities of at least 0, 1 and 2 drops from it on."""
    found = [(1.0, 0.0, 0.0)]
    for rate in reversed(rates):
        _, one, two = found[-1]
        found.append((1.0, rate + (1 - rate) * one, rate * one + (1 - rate) * two))
    return np.array(found[::-1])
