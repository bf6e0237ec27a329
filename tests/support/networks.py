"""Small networks with dropout and data for them."""

import torch
from cases import normal
from torch import nn


def seeded(module: nn.Module, seed: int = 0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / max(parameter.shape[-1], 1) ** 0.5)
    return module


def regression_net() -> nn.Module:
    return seeded(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Dropout(0.4), nn.Linear(12, 3))).double()


def regression_data(count: int = 50) -> tuple[torch.Tensor, torch.Tensor]:
    return normal(count, 6, seed=1), normal(count, 3, seed=2)
