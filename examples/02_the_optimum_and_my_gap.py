"""The optimum and my gap: the best any two-layer linear network of this width can do, and how far mine is from it."""

import torch

from droptics import Bernoulli, Moments, Penalized, Sample, TwoLayerLinear, certify, optimum, train

generator = torch.Generator().manual_seed(0)
inputs = torch.randn(300, 12, generator=generator, dtype=torch.float64)
targets = inputs @ torch.randn(12, 6, generator=generator, dtype=torch.float64) / 3
data, masks = Moments.of_sample(Sample(inputs, targets)), Bernoulli(drop=0.5, size=8)

best = optimum(TwoLayerLinear, data, masks)
print(f"least training loss {best.objective:.6f}, proved bound {best.bound:.6f}, rank {best.rank}, {best.claim}")

start = TwoLayerLinear(
    0.3 * torch.randn(6, 8, generator=generator, dtype=torch.float64),
    0.3 * torch.randn(12, 8, generator=generator, dtype=torch.float64),
)
for steps in (10, 100, 1000):
    run = train(start, data, Penalized(masks), steps=steps, step_size=0.05)
    print(f"after {steps:>4} steps: {certify(run.model, data, masks).relative_gap:.2%} above the optimum")
