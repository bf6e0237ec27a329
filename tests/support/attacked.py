"""Models to attack: one whose worst case is known exactly, one of ordinary size, and defences that are none."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from droptics.data import Sample


def affine_scorer(inputs: int = 9, seed: int = 0) -> tuple[nn.Linear, Sample]:
    """A linear scorer of two classes in double precision, with examples it gets right inside the box [0, 1]."""
    generator = torch.Generator().manual_seed(seed)
    layer = nn.Linear(inputs, 1, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(1, inputs, generator=generator).double())
        layer.bias.copy_(-layer.weight.sum(1) / 2)
    points = torch.rand(40, inputs, generator=generator).double()
    labels = layer(points).detach().squeeze(1).sign()
    return layer, Sample(points, labels)


def classifier(seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[nn.Sequential, Sample]:
    """A small convolutional network on random images, labeled by itself: clean accuracy one."""
    generator = torch.Generator().manual_seed(seed)
    net = nn.Sequential(nn.Conv2d(2, 5, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(5 * 49, 5)).to(dtype)
    with torch.no_grad():
        for part in net.parameters():
            part.copy_(torch.randn(part.shape, generator=generator).to(dtype) / part[0].numel() ** 0.5)
    images = torch.rand(60, 2, 7, 7, generator=generator).to(dtype)
    with torch.no_grad():
        net[-1].bias -= net(images).mean(0)  # else one class wins everywhere, and by far
    return net, Sample(images, net(images).argmax(1))


class Quantized(nn.Module):
    """Inputs rounded to a grid: the gradient is zero, the function is that of a network close by."""

    def __init__(self, net: nn.Module, levels: int = 20) -> None:
        super().__init__()
        self.net, self.levels = net, levels

    def forward(self, inputs: Tensor) -> Tensor:
        return self.net((inputs * self.levels).round() / self.levels)


class Noisy(nn.Module):
    """Dropout that stays on in eval mode."""

    def __init__(self, net: nn.Sequential, drop: float = 0.2) -> None:
        super().__init__()
        self.body, self.head, self.drop = net[:-1], net[-1], drop

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(nn.functional.dropout(self.body(inputs), self.drop, training=True))
