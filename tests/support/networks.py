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


def drawn_inputs(*shape: int) -> torch.Tensor:
    """Normal numbers in float64, the same every time."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def drawn_weights(module: nn.Module) -> nn.Module:
    """The module in float64 with normal weights of size 0.6, the same every time."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.6 * torch.randn(parameter.shape, generator=generator))
    return module.double()
