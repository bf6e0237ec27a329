"""What the claim on sampled criteria compares: intervals moved by the risk, and draws of a layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.layers import ExplicitDropout
from droptics.losses import CrossEntropy, Logistic
from droptics.masks import Bernoulli
from droptics.models import TwoLayerLinear
from droptics.papers.instances import coin_masks, normal, sample, tensor, uniform
from droptics.penalties import Certified, ClosedForm, Enumerate, Method, MonteCarlo, criterion, penalty, risk


def _other_losses(count: float) -> list[Comparison]:
    """Of cross-entropy and logistic losses the risk is theirs, by draws and lists, in closed form and by bounds."""
    found: list[Comparison] = []
    law, X, shares = Bernoulli(tensor([0.4, 0.1, 0.6]), 3), normal(8, 5, 4), uniform(9, 5) / uniform(9, 5).sum()
    for outputs, loss in ((1, Logistic()), (2, CrossEntropy()), (3, CrossEntropy())):
        model, classes = TwoLayerLinear(normal(1, outputs, 3), normal(2, 4, 3)), torch.arange(5) % max(outputs, 2)
        given = X @ model.V @ model.U.mT
        if outputs == 1:
            labels = 2.0 * classes.double() - 1
            each = nn.functional.softplus(-labels * given[:, 0])
        else:
            labels, each = classes, given.logsumexp(1) - given[torch.arange(5), classes]
        data, base, label = Sample(X, labels, shares), shares @ each, f"{type(loss).__name__}, {outputs}"
        methods: list[Method] = [MonteCarlo(64, seed=5), Enumerate(), Certified(), *[ClosedForm()] * (outputs < 3)]
        for method in methods:
            whole, part = (ask(model, data, law, method, loss) for ask in (criterion, penalty))
            for end in ("value", "lower", "upper"):
                wanted = getattr(part, end) + count * base
                # the wider by rounding of the risk
                found.append(compare(getattr(whole, end), "==", wanted, f"{end}, {method}, {label}", 1e-11))
    return found


def sampled_intervals(count: float) -> list[Comparison]:
    """The interval of a criterion is that of its penalty moved by the risk; sampled draws of a layer have its mean."""
    model, plain = TwoLayerLinear(normal(1, 2, 3), normal(2, 4, 3)), sample(3, 6, 4, 2)
    shares = uniform(7, 6) / uniform(7, 6).sum()
    data, law, found = Sample(plain.inputs, plain.targets, shares), Bernoulli(tensor([0.4, 0.1, 0.6]), 3), []
    base = shares @ (data.inputs @ model.V @ model.U.mT - data.targets).square().sum(1)
    found.append(compare(risk(model, data), "==", base, "risk"))
    for method in (MonteCarlo(64, seed=5), MonteCarlo(400, seed=6), Enumerate(), ClosedForm()):
        whole, part = criterion(model, data, law, method), penalty(model, data, law, method)
        for end in ("value", "lower", "upper"):
            found.append(compare(getattr(whole, end), "==", getattr(part, end) + count * base, f"{end}, {method}"))
    found += _other_losses(count)
    return [*found, *_drawn(count, CrossEntropy(), 3), *_drawn(count, Logistic(), 1)]


def _drawn(count: float, loss: CrossEntropy | Logistic, outputs: int) -> list[Comparison]:
    """No label matters: a loss is a function of the outputs less a linear one, whose mean the masks leave."""
    head = nn.Linear(3, outputs).double()
    head.weight, head.bias = nn.Parameter(normal(4, outputs, 3)), nn.Parameter(normal(6, outputs))
    features = normal(5, 4, 3)
    layer = ExplicitDropout(0.3, head, loss, "sampled", masks=3)

    def above(scores: Tensor) -> Tensor:
        return scores.logsumexp(1) if outputs > 1 else nn.functional.softplus(scores[:, 0])

    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        layer(features.repeat_interleave(5_000, 0))
        drawn = layer.penalties.reshape(4, 5_000)
        truth = -above(features @ head.weight.mT + head.bias)
        for kept, chance in coin_masks([0.3] * 3):
            truth = truth + chance * above(features * kept / 0.7 @ head.weight.mT + head.bias)
    error = 5 * drawn.std(1) / 5_000**0.5
    label = f"mean of draws, within 5 errors, {type(loss).__name__}"
    return [compare((drawn.mean(1) - count * truth).abs() / error, "<=", 1.0, label)]
