"""My own mask law: dropout by whole channels of unequal width, four members and nothing else."""

import torch

from droptics import MaskLaw, Moments, MonteCarlo, TwoLayerLinear, optimum, penalty


class Channels(MaskLaw):
    """A channel falls as a whole with probability drop."""

    def __init__(self, drop: float, widths: list[int]) -> None:
        self.drop, self.channel = drop, torch.arange(len(widths)).repeat_interleave(torch.tensor(widths))

    @property
    def size(self) -> int:
        return len(self.channel)

    @property
    def mean(self) -> torch.Tensor:
        return torch.full((self.size,), 1 - self.drop, dtype=torch.float64)

    @property
    def covariance(self) -> torch.Tensor:
        return (self.channel[:, None] == self.channel).double() * self.drop * (1 - self.drop)

    def sample(self, count: int, generator: torch.Generator) -> torch.Tensor:
        kept = torch.rand(count, int(self.channel[-1]) + 1, generator=generator) >= self.drop
        return kept[:, self.channel].double()


masks = Channels(0.3, [1, 2, 3])
data = Moments.of_map(torch.diag(torch.tensor([3.0, 2.0, 1.0], dtype=torch.float64)))
generator = torch.Generator().manual_seed(0)
network = TwoLayerLinear(
    torch.randn(3, 6, generator=generator, dtype=torch.float64),
    torch.randn(3, 6, generator=generator, dtype=torch.float64),
)
print("penalty, closed form :", penalty(network, data, masks))
print("penalty, random masks:", penalty(network, data, masks, MonteCarlo(4000)))
best = optimum(TwoLayerLinear, data, masks)
print(f"best network found {best.objective:.4f}, no network of this width gets below {best.bound:.4f}")
