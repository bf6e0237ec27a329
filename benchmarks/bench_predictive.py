"""Predictions under masks: one exact pass against repeated ones, and what sampling gains where passes are needed.

Errors are against the exact answer, or a reference of many controlled masks. "Gain" is how many plain passes one of
ours is worth at equal time: the ratio of squared errors times the ratio of times. Networks have fixed random weights,
or were trained here, as their rows say. `passes` compares with torch-uncertainty where that is installed.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from bench_step import resnet50_body
from droptics.datasets import mnist
from droptics.layers import VarianceHead
from droptics.masks import Bernoulli, Product
from droptics.models import ReLUNet
from droptics.penalties import MonteCarlo
from droptics.predictions import controls, predictive
from droptics.predictions.modules import read_module
from droptics.predictions.sampling import sampled_moments
from harness import Row, clock, compare, merge, report

RECORDS = Path(__file__).parent / "results"


def seeded(module: nn.Module, gain: float = 1.0, seed: int = 0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim > 1:
                fan = parameter[0].numel()
                parameter.copy_(gain * torch.randn(parameter.shape, generator=generator) * math.sqrt(2 / fan))
    return module


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


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


class OwnClass(nn.Sequential):
    """The same network as a class that others wrote, which is run twice when it is first met."""


class OwnForward(nn.Module):
    """The same network as people write it: layers as attributes, the rest as functions."""

    def __init__(self, net: nn.Sequential) -> None:
        super().__init__()
        self.first, self.second, self.hidden, self.head = net[0], net[3], net[7], net[10]

    def forward(self, images: Tensor) -> Tensor:
        maps = nn.functional.max_pool2d(torch.relu(self.first(images)), 2)
        maps = nn.functional.max_pool2d(torch.relu(self.second(maps)), 2)
        features = torch.relu(self.hidden(maps.flatten(1)))
        return self.head(nn.functional.dropout(features, 0.5, self.training))


def trained_lenet() -> tuple[nn.Module, Tensor]:
    """One epoch on 5000 digits, and 100 others to look at, half of them noisy."""
    images, labels = mnist()
    digits = images[:5100].float().unsqueeze(1) / 255
    torch.manual_seed(0)
    net = lenet().train()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(0.5)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    for some in torch.arange(5000).split(50):
        loss = nn.functional.cross_entropy(net(digits[some]), labels[some])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    shown = digits[5000:].clone()
    shown[50:] += 0.5 * normal(50, 1, 28, 28)
    return net.eval(), shown


def head_masks(net: nn.Module, images: Tensor, count: int = 40_000) -> tuple[Tensor, Tensor, Tensor]:
    """E softmax, entropy and mutual information from many masks of the head alone."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        features = net.eval()[:-2](images)
        total, inside = 0.0, 0.0
        for _ in range(count // 100):
            masks = Bernoulli(0.5, features.shape[-1]).multipliers(100, generator).float()
            drawn = torch.softmax(net[-1](features * masks[:, None]), -1).double()
            total, inside = total + drawn.sum(0), inside + torch.special.entr(drawn).sum(-1).sum(0)
    return measures(total / count, inside / count)


def measures(probabilities: Tensor, inside: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    entropy = torch.special.entr(probabilities).sum(-1)
    return probabilities, entropy, entropy - inside


def head_only() -> list[Row]:
    rows = []
    networks = {"random weights": (lenet(), normal(100, 1, 28, 28)), "trained": trained_lenet()}
    for name, (net, images) in networks.items():
        told = told_by(net, images)
        fifty = torch.softmax(passes(net, images, 50), -1)
        others = measures(fifty.mean(0), torch.special.entr(fifty).sum(-1).mean(0))
        truth = head_masks(net, images)
        said = "errors of E softmax / entropy / mutual information "
        said += f"{errors_of(told, truth)}, of 50 passes {errors_of(others, truth)}"
        for kind, module in (("", net), (", own class", OwnClass(*net)), (", own forward", OwnForward(net))):
            ours, eager = partial(told_by, module, images), partial(evaluated, module, images)
            label = f"LeNet, {name}{kind}, 100 images, head 0.5: mean, variance, classes"
            one = compare(ours, eager, repeats=25)
            said_one = f"{1 / one[2]:.3f} plain passes; {said}"
            rows.append(Row(f"{label}, against one pass", *one, said_one))
            rows.append(Row(f"{label}, against 50 passes", *compare(ours, partial(passes, module, images, 50)), said))
    return rows


def told_by(net: nn.Module, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    with torch.no_grad():
        found = predictive(net, images).classes()
    return found.probabilities.value, found.entropy.value, found.mutual_information.value


def evaluated(net: nn.Module, images: Tensor) -> Tensor:
    with torch.no_grad():
        return net.eval()(images)


def against_passes() -> list[Row]:
    """mc_dropout of torch-uncertainty on the same network and seed: the same passes, and their error against time."""
    label = "MC dropout of torch-uncertainty, trained LeNet, 100 images"
    try:
        from torch_uncertainty.methods import mc_dropout  # noqa: PLC0415 - optional, and slow to load
    except ImportError:
        return [Row(label, None, None, None, "", "not measured: pip install 'torch-uncertainty[cpu]'")]
    net, images = trained_lenet()
    exact = predictive(net, images).variance.value.detach()
    truth = head_masks(net, images)
    ours = errors_of(told_by(net, images), truth)
    rows = []
    for count in (10, 50, 200, 1000):
        wrapped = mc_dropout(net, num_estimators=count, on_batch=False).eval()

        def others(wrapped=wrapped) -> Tensor:
            with torch.no_grad():
                torch.manual_seed(0)
                return wrapped(images)

        logits = others().unflatten(0, (count, -1))
        torch.manual_seed(0)
        same = bool(torch.equal(logits, passes(net, images, count))) if count <= 50 else None
        drawn = torch.softmax(logits, -1)
        found = errors_of(measures(drawn.mean(0), torch.special.entr(drawn).sum(-1).mean(0)), truth)
        spread = float((logits.var(0) / exact - 1).abs().mean())
        said = f"errors {found}, ours {ours}; its variance is off by {spread:.1%}, ours is exact"
        said += "" if same is None else f"; bit for bit the passes of one seed: {'yes' if same else 'no'}"
        times = compare(partial(told_by, net, images), others, repeats=3 if count <= 50 else 1)
        rows.append(Row(f"{label}, {count} passes", *times, said))
    return rows


def errors_of(values: tuple[Tensor, ...], truth: tuple[Tensor, ...]) -> str:
    return " / ".join(f"{float((value - true).abs().mean()):.1e}" for value, true in zip(values, truth, strict=True))


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
    """As torch starts it, trained, and with weights of twice torch's scale, whose attention is all but a choice."""
    rows, tokens = [], normal(8, 6, 32)
    for rate in (0.1, 0.3):
        torch.manual_seed(0)
        networks = {"torch's weights": Encoder(rate), "trained": trained_encoder(rate)}
        for name, network in {**networks, "weights twice as large": seeded(Encoder(rate))}.items():
            label = f"transformer encoder, {name}, all sites {rate}, T = 64"
            row = gain_row(label, network, tokens, 64, 3000, 8)
            with torch.no_grad():
                head = read_module(network, tokens).plain().variance() / reference(network, tokens, 3000)[1]
            rows.append(replace(row, agreement=f"{row.agreement}; the head holds {float(head.mean()):.0%}"))
    return rows


def mlp(rate: float) -> nn.Module:
    layers = [nn.Dropout(rate), nn.Linear(8, 50), nn.ReLU(), nn.Dropout(rate), nn.Linear(50, 50), nn.ReLU()]
    return seeded(nn.Sequential(*layers, nn.Dropout(rate), nn.Linear(50, 1)))


def two_hidden() -> list[Row]:
    return [
        gain_row(f"MLP 8-50-50-1, inputs and hidden {rate}, T = 128", mlp(rate), normal(50, 8), 128, 20_000, 80)
        for rate in (0.05, 0.2, 0.5)
    ]


class Waves(nn.Module):
    """An activation whose slope says nothing about where it goes."""

    def forward(self, values: Tensor) -> Tensor:
        return torch.sin(6 * values)


def guard(seed: int = 0, which: str = "36 networks") -> list[Row]:
    """Squared error of the variance with controls that the guard weighs over that without any, network by network."""
    ratios: dict[str, list[float]] = {}
    kinds = {"ReLU": nn.ReLU, "tanh": nn.Tanh, "waves": Waves}
    for kind, activation in kinds.items():
        for rate in (0.02, 0.05, 0.2, 0.5):
            for inputs in (8, 12, 40):
                layers = [nn.Dropout(rate), nn.Linear(inputs, 50), activation(), nn.Dropout(rate), nn.Linear(50, 30)]
                whole = nn.Sequential(*layers, activation(), nn.Dropout(rate), nn.Linear(30, 1))
                net = seeded(whole, seed=seed).double()
                name = f"{kind}, {inputs} inputs, rate {rate}"
                for part, value in _harm(net, normal(16, inputs, seed=seed + 1).double()).items():
                    ratios.setdefault(part, []).append(value)
                    print(f"   {name}, {part}: {value:.3f}", flush=True)
    return [
        Row(
            f"guard: squared error of the variance, {part} over plain masks, {which}, T = 64",
            None,
            None,
            1 / statistics.median(found),
            f"ratios {min(found):.3f} to {max(found):.3f}, median {statistics.median(found):.3f}; "
            f"{sum(value > 1.25 for value in found)} above 1.25; 48 repetitions each",
            "the ratio is the gain; repetitions share their seeds",
        )
        for part, found in ratios.items()
    ]


def _harm(net: nn.Module, inputs: Tensor, samples: int = 64, repeats: int = 48) -> dict[str, float]:
    problem = read_module(net, inputs).conditional()
    wide = sampled_moments(problem, MonteCarlo(20_000, seed=10**6))[1].value.detach()
    errors = {}
    usual = controls.FEW_DROPS
    for part, (few, controlled) in {"plain": (0.0, False), "controls": (0.0, True), "both": (usual, True)}.items():
        controls.FEW_DROPS = few
        with torch.no_grad():
            found = [sampled_moments(problem, MonteCarlo(samples, seed=s), controlled)[1].value for s in range(repeats)]
        errors[part] = float(torch.stack([(one / wide - 1).square().mean() for one in found]).mean())
    controls.FEW_DROPS = usual
    return {
        "controls": errors["controls"] / errors["plain"],
        "controls and stratified masks": errors["both"] / errors["plain"],
    }


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


def _covered(name: str, count: int, call: Callable, wanted: tuple[Tensor, Tensor], repeats: int = 400) -> Row:
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


PARTS = {
    "head": head_only,
    "transformer": transformers,
    "mlp": two_hidden,
    "density": density,
    "passes": against_passes,
    "coverage": coverage,
    "guard": guard,
    # weights and inputs of seeds 11 and 12: none of them was looked at while the rule was chosen
    "fresh": partial(guard, 11, "36 fresh networks"),
}


def table() -> str:
    """Everything recorded, a column for each kind of machine; where nothing is compared, what was found."""
    files = {
        "aarch64": RECORDS / "predictive.json",
        "x86_64": RECORDS / "x86_64" / "predictive.json",
        "GPU": RECORDS / "predictive_gpu.json",
    }
    found: dict[str, dict[str, dict]] = {}
    for machine, file in files.items():
        rows = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else []
        for row in rows:
            found.setdefault(row["workload"], {})[machine] = row
    lines = [f"| workload | {' | '.join(files)} | what was found |", "| --- " * (len(files) + 2) + "|"]
    for workload in sorted(found):
        rows = found[workload]
        cells = [_ratio(rows.get(machine)) for machine in files]
        words = [f"{machine}: {row['agreement'] or row['note']}" for machine, row in rows.items()]
        lines.append(f"| {' | '.join([workload, *cells, '; '.join(words)])} |")
    return "\n".join(lines)


def _ratio(row: dict | None) -> str:
    if row is None:
        return ""
    return "measured" if row["ratio"] is None else f"{row['ratio']:.3g}x"


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "--table" in sys.argv:
        print(table())
        sys.exit()
    if "--gpu" in sys.argv:
        report("predictive_gpu", variance_head(), "cuda")
        sys.exit()
    for name in sys.argv[1:] or PARTS:
        merge("predictive", PARTS[name]())
