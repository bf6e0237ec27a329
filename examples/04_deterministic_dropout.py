"""Deterministic dropout: ExplicitDropout minimizes the mean of the noisy loss of nn.Dropout, without the noise.

Both networks start alike and take 200 steps. Compared is the loss under dropout, averaged over all masks: the smaller
the better either reached it.
"""

import torch
from torch import nn

from droptics import ExplicitDropout

torch.manual_seed(0)
inputs = torch.randn(512, 20)
targets = torch.sin(inputs[:, :3]) + 0.1 * torch.randn(512, 3)


def trained(explicit: bool) -> nn.Module:
    torch.manual_seed(1)
    head = nn.Linear(64, 3)
    layer = ExplicitDropout(0.5, head) if explicit else nn.Dropout(0.5)
    network = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), layer, head)
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(200):
        loss = (network(inputs) - targets).square().sum(1).mean()
        if explicit:
            loss = loss + layer.penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network


for name, explicit in (("nn.Dropout", False), ("ExplicitDropout", True)):
    network = trained(explicit)
    with torch.no_grad():
        features = network[1](network[0](inputs))
        weight = network[3].weight
        clean = (network[3](features) - targets).square().sum(1).mean()
        expected = clean + (features.square().mean(0) * weight.square().sum(0)).sum()
    print(f"trained with {name:<16} mean loss under dropout, rate 0.5: {float(expected):.4f}")
