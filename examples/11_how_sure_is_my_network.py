"""How sure is my network? What MC dropout converges to, without repeating the passes.

A network is trained with dropout before its last layer. Its predictions get an exact standard deviation from one pass,
compared with what repeated passes say; the noise of the observations is fitted on held-out data.
"""

import torch
from torch import nn

from droptics import predictive
from droptics.layers import VarianceHead
from droptics.predictions import calibration, fit_noise

torch.manual_seed(0)
inputs = 4 * torch.rand(600, 1) - 2
targets = torch.sin(3 * inputs) + 0.1 * torch.randn(600, 1)
body = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.ReLU())
network = nn.Sequential(body, nn.Dropout(0.1), nn.Linear(64, 1))
optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
for _ in range(300):
    loss = (network(inputs[:400]) - targets[:400]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

held, wanted = inputs[400:500], targets[400:500]
exact = predictive(network, held)  # reads the network's own dropout
print("how:", exact.variance.method)
with torch.no_grad():
    passes = torch.stack([network(held) for _ in range(50)])
    network.eval()
gap = (passes.var(0) / exact.variance.value - 1).abs().mean()
print(f"50 passes with dropout left on miss the variance by {gap:.0%} on average")

noise = fit_noise(exact, wanted)
scores = calibration(predictive(network, inputs[500:]), targets[500:], noise)
print(f"noise {noise:.3f}; nominal 90 % intervals hold {scores.coverage[1]:.0%} of new observations")

sure = nn.Sequential(body, VarianceHead(network[2], 0.1))  # deploy this: (mean, variance) in one pass
mean, variance = sure(torch.tensor([[0.5], [5.0]]))
print("standard deviation inside and far outside the data:", [round(v, 3) for v in variance.sqrt().flatten().tolist()])
