"""The image networks of chapter 6: a PreAct ResNet-18 and a small stand-in for machines without a GPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class PreActBlock(nn.Module):
    """Two 3 x 3 convolutions, each after normalization and ReLU, added to a shortcut of the activated input."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        straight = stride == 1 and inputs == outputs
        self.shortcut = None if straight else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        """Feature maps (n, outputs, height / stride, width / stride)."""
        active = torch.relu(self.norm1(images))
        aside = images if self.shortcut is None else self.shortcut(active)
        result: Tensor = self.conv2(torch.relu(self.norm2(self.conv1(active)))) + aside
        return result


def preact_resnet18(classes: int = 10, width: int = 64) -> nn.Module:
    """PreAct ResNet-18 for 32 x 32 color images: four stages of two blocks, 11.2 million weights at width 64."""
    stages: list[nn.Module] = [nn.Conv2d(3, width, 3, 1, 1, bias=False)]
    before = width
    for stage in range(4):
        after = width * 2**stage
        for block in range(2):
            stages.append(PreActBlock(before, after, 2 if stage and not block else 1))
            before = after
    head = (nn.BatchNorm2d(before), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))
    return nn.Sequential(*stages, *head)


def small_cnn(classes: int = 10, width: int = 8) -> nn.Module:
    """Three strided convolutions and a linear layer, for smoke runs on 32 x 32 color images."""
    layers: list[nn.Module] = []
    before = 3
    for after in (width, 2 * width, 4 * width):
        layers += [nn.Conv2d(before, after, 3, 2, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))
