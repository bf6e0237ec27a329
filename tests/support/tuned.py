"""Small networks and data for the tuning of rates, at module level so that other processes find them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

RATES = (0.0, 0.2, 0.5)


def perceptron() -> nn.Module:
    """Odd sizes, three sites, the weights of seed 3."""
    layers = [nn.Dropout(0.5), nn.Linear(7, 13), nn.ReLU(), nn.Dropout(0.3), nn.Linear(13, 9), nn.Tanh()]
    return seeded(nn.Sequential(*layers, nn.Dropout(0.1), nn.Linear(9, 3)))


def seeded(module: nn.Module, seed: int = 3) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / max(parameter.shape[-1], 2) ** 0.5)
    return module


def data(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Three classes that the first inputs tell, with noise."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 7, generator=generator)
    return inputs, (inputs[:, :3] + 0.5 * torch.randn(count, 3, generator=generator)).argmax(1)


def flipped(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """The sign of the first of eleven inputs, wrong for every tenth example."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 11, generator=generator)
    return inputs, ((inputs[:, 0] > 0) ^ (torch.rand(count, generator=generator) < 0.1)).long()


def plain_fit(module: nn.Module, data: tuple[Tensor, Tensor], seed: int) -> None:
    """A loop as people write it."""
    search = torch.optim.SGD(module.parameters(), lr=0.1)
    for step in range(6):
        search.zero_grad()
        batch = slice(step % 2 * 20, step % 2 * 20 + 20)
        nn.functional.cross_entropy(module(data[0][batch]), data[1][batch]).backward()
        search.step()


class Branching(nn.Module):
    """Control flow by data, which torch.func.vmap refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(7, 8), nn.Dropout(0.4), nn.Linear(8, 3)
        seeded(self)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.drop(self.first(inputs).relu())
        return self.last(hidden if float(hidden.detach().sum()) > -1 else hidden * 2)


class Everything(nn.Module):
    """Attention, recurrent, channel, alpha and functional dropout in one module."""

    def __init__(self, rate: float = 0.3) -> None:
        super().__init__()
        self.attention_dropout = rate
        self.lstm = nn.LSTM(4, 6, num_layers=2, dropout=0.2, batch_first=True)
        self.heads = nn.MultiheadAttention(6, 2, dropout=0.15, batch_first=True)
        self.maps, self.alpha, self.last = nn.Dropout1d(0.25), nn.AlphaDropout(0.1), nn.Linear(6, 3)
        seeded(self)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden, _ = self.lstm(inputs)
        hidden, _ = self.heads(hidden, hidden, hidden)
        rate = self.attention_dropout if self.training else 0.0
        hidden = nn.functional.scaled_dot_product_attention(hidden, hidden, hidden, dropout_p=rate)
        return self.last(self.alpha(self.maps(hidden).mean(1)))


class Pooled(nn.Module):
    """Sequences of any length, (examples, length, 7)."""

    def __init__(self) -> None:
        super().__init__()
        self.net = perceptron()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.net(inputs.mean(1))
