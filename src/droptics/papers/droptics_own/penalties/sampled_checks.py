"""What the claim on sampled criteria compares: intervals moved by the risk, and draws of a layer."""

from __future__ import annotations

import torch
from torch import nn

from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.layers import ExplicitDropout
from droptics.losses import CrossEntropy
from droptics.masks import Bernoulli
from droptics.models import TwoLayerLinear
from droptics.papers.instances import coin_masks, normal, sample, tensor, uniform
from droptics.penalties import MonteCarlo, criterion, penalty, risk


def sampled_intervals(count: float) -> list[Comparison]:
    """The interval of a criterion is that of its penalty moved by the risk; sampled draws of a layer have its mean."""
    model, plain = TwoLayerLinear(normal(1, 2, 3), normal(2, 4, 3)), sample(3, 6, 4, 2)
    shares = uniform(7, 6) / uniform(7, 6).sum()
    data, law, found = Sample(plain.inputs, plain.targets, shares), Bernoulli(tensor([0.4, 0.1, 0.6]), 3), []
    base = shares @ (data.inputs @ model.V @ model.U.mT - data.targets).square().sum(1)
    found.append(compare(risk(model, data), "==", base, "risk"))
    for draws, seed in ((64, 5), (400, 6)):
        method = MonteCarlo(draws, seed=seed)
        whole, part = criterion(model, data, law, method), penalty(model, data, law, method)
        for end in ("value", "lower", "upper"):
            found.append(compare(getattr(whole, end), "==", getattr(part, end) + count * base, f"{end}, {draws} draws"))
    head = nn.Linear(3, 3, bias=False).double()
    head.weight = nn.Parameter(normal(4, 3, 3))
    features = normal(5, 4, 3)
    layer = ExplicitDropout(0.3, head, CrossEntropy(), "sampled", masks=3)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        layer(features.repeat_interleave(5_000, 0))
        drawn = layer.penalties.reshape(4, 5_000)
        # labels do not matter: the mean of the outputs is that without masks
        truth = -torch.logsumexp(features @ head.weight.mT, 1)
        for kept, chance in coin_masks([0.3] * 3):
            truth = truth + chance * torch.logsumexp(features * kept / 0.7 @ head.weight.mT, 1)
    error = 5 * drawn.std(1) / 5_000**0.5
    return [*found, compare((drawn.mean(1) - count * truth).abs() / error, "<=", 1.0, "mean of draws, within 5 errors")]
