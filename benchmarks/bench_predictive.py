"""Predictions under masks: one exact pass against repeated ones, and what sampling gains where passes are needed.

Errors are against the exact answer, or a reference of many controlled masks. "Gain" is how many plain passes one of
ours is worth at equal time: the ratio of squared errors times the ratio of times. Networks have fixed random weights.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from bench_step import resnet50_body
from droptics.layers import VarianceHead
from droptics.masks import Bernoulli, Product
from droptics.models import ReLUNet
from droptics.penalties import MonteCarlo
from droptics.predictions import predictive
from harness import Row, clock, compare, merge, report


def seeded(module: nn.Module, gain: float = 1.0) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim > 1:
                fan = parameter[0].numel()
                parameter.copy_(gain * torch.randn(parameter.shape, generator=generator) * math.sqrt(2 / fan))
    return module


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def lenet() -> nn.Module:
    body = [nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2)]
    end = [nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Dropout(0.5), nn.Linear(500, 10)]
    return seeded(nn.Sequential(*body, *end))


class Encoder(nn.Module):
    """Two transformer layers, mean over tokens, dropout before the head."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, rate, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.drop, self.head = nn.Dropout(rate), nn.Linear(32, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.drop(self.layers(tokens).mean(1)))


def passes(module: nn.Module, inputs: Tensor, count: int) -> Tensor:
    """Plain MC dropout: `count` passes in training mode."""
    module.train()
    with torch.no_grad():
        return torch.stack([module(inputs) for _ in range(count)])


def head_only() -> list[Row]:
    net, images = lenet(), normal(100, 1, 28, 28)

    def ours() -> object:
        with torch.no_grad():
            found = predictive(net, images)
            return found, found.classes()

    def plain() -> object:
        with torch.no_grad():
            return net.eval()(images)

    found, told = ours()
    with torch.no_grad():
        features = net.eval()[:-2](images)
        masks = Bernoulli(0.5, 500).multipliers(4000, torch.Generator().manual_seed(3)).float()
        truth = torch.stack([torch.softmax(net[-1](features * mask), -1) for mask in masks]).mean(0)
    fifty = passes(net, images, 50)
    both = told.probabilities.value, torch.softmax(fifty, -1).mean(0)
    errors = [float((value - truth).abs().mean()) for value in both]
    spread = float((fifty.var(0) / found.variance.value - 1).abs().mean())
    said = f"error of E softmax {errors[0]:.1e}, of 50 passes {errors[1]:.1e}; these miss the variance by {spread:.0%}"
    one = compare(ours, plain)
    many = compare(ours, lambda: passes(net, images, 50))
    return [
        Row("LeNet, 100 images, head 0.5: mean, variance, E softmax, mutual information against one pass", *one, said),
        Row("the same against 50 passes with dropout left on", *many, said),
    ]


def gained(
    module: nn.Module, inputs: Tensor, count: int, truth: tuple[Tensor, Tensor], repeats: int
) -> tuple[float, float, float, float]:
    """Gains of mean and variance at equal time, and the times of both."""
    errors = torch.zeros(2, 2, dtype=torch.float64)
    seconds = [0.0, 0.0]
    for seed in range(repeats):
        clock = time.process_time()
        with torch.no_grad():
            found = predictive(module, inputs, method=MonteCarlo(count, seed=seed))
        seconds[0] += time.process_time() - clock
        torch.manual_seed(seed)
        clock = time.process_time()
        drawn = passes(module, inputs, count)
        values = drawn.mean(0), drawn.var(0)
        seconds[1] += time.process_time() - clock
        for i, pair in enumerate(((found.mean.value, found.variance.value), values)):
            for j, value in enumerate(pair):
                errors[i, j] += float(((value - truth[j]) / truth[1].sqrt() ** (1 + j)).square().mean())
    ratio = errors[1] / errors[0] * (seconds[1] / seconds[0])
    return float(ratio[0]), float(ratio[1]), seconds[0] / repeats, seconds[1] / repeats


def reference(module: nn.Module, inputs: Tensor, samples: int) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        found = predictive(module, inputs, method=MonteCarlo(samples, seed=10**6))
    return found.mean.value.double(), found.variance.value.double()


def gain_row(name: str, module: nn.Module, inputs: Tensor, count: int, samples: int, repeats: int) -> Row:
    mean, variance, ours, plain = gained(module, inputs, count, reference(module, inputs, samples), repeats)
    said = f"mean x{mean:.1f}, variance x{variance:.1f} effective passes at equal time, {repeats} repetitions"
    return Row(name, ours, plain, variance, said, "the ratio is the gain of the variance")


def trained_encoder(rate: float, steps: int = 400) -> nn.Module:
    """An encoder trained with its dropout on a product of two tokens plus a linear term."""
    torch.manual_seed(0)
    network = Encoder(rate).train()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    maps = torch.randn(3, 32) / math.sqrt(32)
    for _ in range(steps):
        tokens = torch.randn(64, 6, 32)
        targets = (tokens[:, 0] @ maps[0]) * (tokens[:, 1] @ maps[1]) + tokens.mean(1) @ maps[2]
        loss = (network(tokens)[:, 0] - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network


def transformers() -> list[Row]:
    rows = []
    for rate in (0.1, 0.3):
        for name, network in (("random weights", seeded(Encoder(rate))), ("trained", trained_encoder(rate))):
            label = f"transformer encoder, {name}, all sites {rate}, T = 64"
            rows.append(gain_row(label, network, normal(8, 6, 32), 64, 3000, 8))
    return rows


def mlp(rate: float) -> nn.Module:
    layers = [nn.Dropout(rate), nn.Linear(8, 50), nn.ReLU(), nn.Dropout(rate), nn.Linear(50, 50), nn.ReLU()]
    return seeded(nn.Sequential(*layers, nn.Dropout(rate), nn.Linear(50, 1)))


def two_hidden() -> list[Row]:
    return [
        gain_row(f"MLP 8-50-50-1, inputs and hidden {rate}, T = 128", mlp(rate), normal(50, 8), 128, 20_000, 10)
        for rate in (0.05, 0.2, 0.5)
    ]


def coverage() -> list[Row]:
    """Nominal 90 % intervals against exact moments (one hidden layer) or those of 30,000 controlled masks (two)."""
    rows = []
    weights = [normal(50, 10).double() / 2, normal(1, 50).double() / 5]
    for rate in (0.05, 0.2, 0.5):
        layers: list[nn.Module] = [nn.Dropout(rate), nn.Linear(8, 50), nn.ReLU(), nn.Dropout(rate), nn.Linear(50, 30)]
        net = seeded(nn.Sequential(*layers, nn.ReLU(), nn.Dropout(rate), nn.Linear(30, 1))).double()
        inputs, others = normal(16, 10).double() + 0.5, normal(16, 8).double() + 0.5
        one = ReLUNet(weights)
        law = Product([Bernoulli(rate, 10), Bernoulli(rate, 50)])
        exact = predictive(one, inputs, law)
        both = (
            ("one hidden layer", partial(predictive, one, inputs, law), (exact.mean.value, exact.variance.value)),
            ("two hidden layers", partial(predictive, net, others, None), reference(net, others, 30_000)),
        )
        for name, call, wanted in both:
            rows += [_covered(f"{name}, rate {rate}", count, call, wanted) for count in (64, 128)]
    return rows


def _covered(name: str, count: int, call: Callable, wanted: tuple[Tensor, Tensor], repeats: int = 100) -> Row:
    hits, shown = torch.zeros(2), torch.zeros(2)
    clock = time.process_time()
    with torch.no_grad():
        for seed in range(repeats):
            found = call(MonteCarlo(count, seed=seed, confidence=0.9))
            for j, (estimate, truth) in enumerate(zip((found.mean, found.variance), wanted, strict=True)):
                finite = torch.isfinite(estimate.upper)
                inside = (estimate.lower <= truth) & (truth <= estimate.upper) & finite
                hits[j] += float(inside.sum())
                shown[j] += float(finite.sum())
    total = repeats * wanted[0].numel()
    shares = [f"{float(hits[j] / shown[j]):.3f}" if shown[j] else "none" for j in (0, 1)]
    words = [f"{shares[j]} ({float(1 - shown[j] / total):.0%} withheld)" for j in (0, 1)]
    spent = (time.process_time() - clock) / repeats
    text = f"coverage of the mean {words[0]}, of the variance {words[1]}; {repeats} runs, examples share their masks"
    return Row(f"90 % intervals, {name}, T = {count}", spent, None, None, text)


def density() -> list[Row]:
    rows = []
    for rate in (0.05, 0.5):
        net = ReLUNet([normal(50, 8).double() / 2, normal(1, 50).double() / 5])
        law, inputs = Product([Bernoulli(rate, 8), Bernoulli(rate, 50)]), normal(10, 8).double()
        targets = net.outputs(inputs) + 0.5

        def ours(net=net, law=law, inputs=inputs, targets=targets) -> Tensor:
            return predictive(net, inputs, law).log_likelihood(targets, 0.3)

        def plain(net=net, law=law, inputs=inputs, targets=targets, count: int = 2000) -> Tensor:
            drawn = net.outputs(inputs, law.multipliers(count, torch.Generator().manual_seed(0))[:, None])
            logs = torch.distributions.Normal(drawn, 0.3).log_prob(targets)
            return torch.logsumexp(logs, 0) - math.log(count)

        mine, other, ratio = compare(ours, plain)
        gap = float((plain() - ours()).abs().mean())
        said = f"2000 passes miss the log density by {gap:.3f}; 10^5 passes are fifty times those timed"
        label = f"exact log density, 8-50-1, rate {rate}, 10 examples, against 10^5 passes"
        rows.append(Row(label, mine, 50 * other, 50 * ratio, said))
    return rows


def variance_head() -> list[Row]:
    """Forward passes of ResNet-50 with its head and with a variance head, in turns; GPU."""
    device = torch.device("cuda")
    body = resnet50_body().to(device, torch.bfloat16).eval()
    head = nn.Linear(2048, 1000).to(device, torch.bfloat16)
    images = torch.randn(256, 3, 224, 224, device=device, dtype=torch.bfloat16)
    both = [nn.Sequential(body, VarianceHead(head, 0.5)), nn.Sequential(body, head)]
    times: list[list[float]] = [[], []]
    with torch.inference_mode():
        for repeat in range(31):
            for side, network in enumerate(both):
                begin = clock(device)
                network(images)
                if repeat:
                    times[side].append(clock(device) - begin)
    ratio = statistics.median(ours / plain for ours, plain in zip(*times, strict=True))
    said = f"{ratio:.4f} of the plain forward pass, median of {len(times[0])} pairs in turns"
    ours, plain = (statistics.median(part) for part in times)
    return [Row("variance head behind ResNet-50, bfloat16, batch 256, GPU", ours, plain, plain / ours, said)]


PARTS = {"head": head_only, "transformer": transformers, "mlp": two_hidden, "coverage": coverage, "density": density}


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "--gpu" in sys.argv:
        report("predictive_gpu", variance_head(), "cuda")
        sys.exit()
    for name in sys.argv[1:] or PARTS:
        merge("predictive", PARTS[name]())
