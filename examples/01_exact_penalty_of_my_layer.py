"""Exact penalty of my layer: what does dropout before the last layer of a torch network add to its squared loss?"""

import torch
from torch import nn

from droptics import Bernoulli, Block, Enumerate, LastLayer, MonteCarlo, Sample, penalty, risk

torch.manual_seed(0)
network = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 2))
data = Sample(torch.randn(200, 10), torch.randn(200, 2))
layer = LastLayer.of(network)

print("Each law three ways: closed form, all masks listed, random masks with an interval.")
print(f"loss without dropout   {float(risk(layer, data).detach()):.6f}")
for name, masks in (("dropout", Bernoulli(0.5, 16)), ("DropBlock, blocks of 4", Block(0.5, 16, 4))):
    print(f"{name:<22}", penalty(layer, data, masks))
    print(f"{'':<22}", penalty(layer, data, masks, Enumerate()))
    print(f"{'':<22}", penalty(layer, data, masks, MonteCarlo(2000)))

# The number is differentiable: this is a deterministic regularizer for the whole network.
penalty(layer, data, Bernoulli(0.5, 16)).value.backward()
print("gradient reaches the first layer:", float(network[0].weight.grad.norm()) > 0)
