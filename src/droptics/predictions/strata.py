"""Masks stratified by how many units of a site fall: none, one, or more.

Where hardly a unit is expected to fall, most independent masks say the same, and the few with several drops decide the
variance. The chances of the three strata are known, so that each gets masks of its own and is weighed by its chance:
averages stay unbiased, and what differs between strata is no longer left to luck.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# Fewer masks than this would leave a stratum without a spread of its own.
FEWEST_MASKS = 16


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
        parts = zip(self.chances, values.split(self.sizes), strict=True)
        return torch.stack([chance * part.mean(0) for chance, part in parts]).sum(0)

    def covariance(self, left: Tensor, right: Tensor) -> Tensor:
        """Unbiased covariance of two such means."""
        return torch.stack([scale * (a * b).sum(0) for scale, a, b in self._moved(left, right)]).sum(0)

    def fourth(self, values: Tensor) -> Tensor:
        """Variance of the estimated variance of a mean, by fourth moments: c^4 / n^2 times that of S^2 in each group.

        Var S^2 = (kurtosis - 1) S^4 / n, and no less than that of a normal sample, which few values hide.
        """
        found = []
        for (scale, a, _), n in zip(self._moved(values, values), self.sizes, strict=True):
            second = a.square().mean(0)
            above = torch.maximum(a.pow(4).mean(0) - second.square(), 2 * n / max(n - 1, 1) * second.square())
            found.append((scale * n) ** 2 * above / n)
        return torch.stack(found).sum(0)

    @property
    def shares(self) -> Tensor:
        """What every mask weighs in a mean, (masks,)."""
        return torch.cat(
            [torch.full((n,), c / n, dtype=torch.float64) for c, n in zip(self.chances, self.sizes, strict=True)]
        )

    def _moved(self, left: Tensor, right: Tensor) -> list[tuple[float, Tensor, Tensor]]:
        rows = zip(self.chances, self.sizes, left.split(self.sizes), right.split(self.sizes), strict=True)
        return [(c**2 / n / max(n - 1, 1), a - a.mean(0), b - b.mean(0)) for c, n, a, b in rows]


def count_chances(drop: Tensor) -> list[float]:
    """Probabilities that none, one, or more of independent units fall; only non-negative terms are added."""
    none, one, more = 1.0, 0.0, 0.0
    for rate in drop.tolist():
        none, one, more = none * (1 - rate), one * (1 - rate) + none * rate, more + one * rate
    return [none, one, more]


def allocate(chances: list[float], samples: int, evenly: float) -> Strata:
    """So many masks, a share of them `evenly` over the strata and the rest in proportion to their chances.

    In proportion no mean is worse than that of independent masks, whatever is averaged. Cost: nothing is computed.
    """
    possible = [chance for chance in chances if chance > 0]
    wanted = [samples * ((1 - evenly) * chance + evenly / len(possible)) for chance in possible]
    sizes = [max(2, int(size)) for size in wanted]
    sizes[sizes.index(max(sizes))] += samples - sum(sizes)
    return Strata(tuple(possible), tuple(sizes))


def draw_counted(drop: Tensor, strata: Strata, generator: torch.Generator) -> Tensor:
    """Kept units (masks, units) of a site whose strata are none, one, and more drops; zeros and ones."""
    count, fallen = len(drop), torch.zeros(sum(strata.sizes), len(drop), dtype=torch.float64)
    if len(strata.sizes) == 1:
        return 1 - fallen
    none, one = strata.sizes[0], strata.sizes[0] + strata.sizes[1]
    odds = (drop / (1 - drop)).double()
    fallen[range(none, one), torch.multinomial(odds, one - none, replacement=True, generator=generator)] = 1.0
    needed = torch.full((len(fallen) - one,), 2)
    uniform = torch.rand(len(needed), count, dtype=torch.float64, generator=generator)
    tail = _tails(drop.tolist())
    for unit, rate in enumerate(drop.tolist()):
        # the chance of this drop given that enough are to come
        chance = rate * tail[unit + 1][(needed - 1).clamp_min(0)] / tail[unit][needed]
        hit = uniform[:, unit] < chance
        fallen[one:, unit] = hit.double()
        needed = (needed - hit.long()).clamp_min(0)
    return 1 - fallen


def _tails(rates: list[float]) -> list[Tensor]:
    """For every unit the probabilities of at least 0, 1 and 2 drops from it on."""
    found = [torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)]
    for rate in reversed(rates):
        _, one, two = found[-1].tolist()
        found.append(torch.tensor([1.0, rate + (1 - rate) * one, rate * one + (1 - rate) * two], dtype=torch.float64))
    return found[::-1]
