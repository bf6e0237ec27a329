"""Small image networks that end with a reduced linear layer, for last-layer dropout in real networks (pal2020-fig2).

x -> body -> linear to `width` features -> (masks) -> linear head without bias -> y. The features are not rectified,
as the capacity assumption of the lower bound needs, and the norm layers are group norms, so that the outputs of an
example depend on nothing but that example.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.arguments import Count, Seed, check_arguments


class SmallCnn(nn.Module):
    """Three strided 3 x 3 convolutions, a linear layer to `width` features, a linear head without bias."""

    def __init__(
        self, channels: Count = 1, outputs: Count = 10, width: Count = 80, base: Count = 16, seed: Seed = 0
    ) -> None:
        check_arguments(SmallCnn.__init__, locals())
        super().__init__()
        sizes = (channels, base, 2 * base, 4 * base)
        self.body = nn.ModuleList(nn.Conv2d(before, after, 3, stride=2, padding=1) for before, after in pairwise(sizes))
        self.reduce = nn.Linear(4 * base * 4, width)
        self.head = nn.Linear(width, outputs, bias=False)
        initialize(self, seed)

    def forward(self, images: Tensor) -> Tensor:
        """Outputs (n, outputs) for images (n, channels, height, width)."""
        value = images
        for layer in self.body:
            value = functional.relu(layer(value))
        return self.head(self.reduce(functional.adaptive_avg_pool2d(value, 2).flatten(1)))


class Residual(nn.Module):
    """relu(x + f(x)) with f two 3 x 3 convolutions under group norm; the shortcut is strided where f is."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.first_norm = nn.GroupNorm(_groups(after), after)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.second_norm = nn.GroupNorm(_groups(after), after)
        same = before == after and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(before, after, 1, stride=stride, bias=False)

    def forward(self, value: Tensor) -> Tensor:
        """The block's outputs."""
        inner = functional.relu(self.first_norm(self.first(value)))
        return functional.relu(self.shortcut(value) + self.second_norm(self.second(inner)))


class ResNet(nn.Module):
    """Residual stages of `blocks` blocks with doubling channels, a linear layer to `width` features, a linear head.

    blocks = (1, 1, 1) and base = 16 is a network of 8 layers with 80 thousand weights; blocks = (3, 3, 3) has the
    20 layers of the original CIFAR networks.
    """

    def __init__(
        self,
        channels: Count = 1,
        outputs: Count = 10,
        width: Count = 80,
        blocks: tuple[int, ...] = (1, 1, 1),
        base: Count = 16,
        seed: Seed = 0,
    ) -> None:
        check_arguments(ResNet.__init__, locals())
        super().__init__()
        self.stem = nn.Conv2d(channels, base, 3, padding=1, bias=False)
        self.stem_norm = nn.GroupNorm(_groups(base), base)
        sizes = [base, *(base * 2**stage for stage, count in enumerate(blocks) for _ in range(count))]
        stages = (Residual(before, after, 1 if before == after else 2) for before, after in pairwise(sizes))
        self.stages = nn.Sequential(*stages)
        self.reduce = nn.Linear(sizes[-1], width)
        self.head = nn.Linear(width, outputs, bias=False)
        initialize(self, seed)

    def forward(self, images: Tensor) -> Tensor:
        """Outputs (n, outputs) for images (n, channels, height, width)."""
        value = functional.relu(self.stem_norm(self.stem(images)))
        return self.head(self.reduce(self.stages(value).mean((-2, -1))))


def initialize(module: nn.Module, seed: int) -> None:
    """Draw all weights from one seed (normal, variance 2 / fan-in for convolutions, 1 / fan-in else); zero biases."""
    generator = torch.Generator().manual_seed(int(seed))
    with torch.no_grad():
        for layer in module.modules():
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                variance = (2.0 if isinstance(layer, nn.Conv2d) else 1.0) / layer.weight[0].numel()
                layer.weight.copy_(torch.randn(layer.weight.shape, generator=generator) * variance**0.5)
                if layer.bias is not None:
                    layer.bias.zero_()


def _groups(channels: int) -> int:
    """Groups of at least four channels each."""
    return max(1, min(8, channels // 4))
