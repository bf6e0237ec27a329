"""Many sub-networks at once against separate masked copies; variable projection against dropout SGD."""

from __future__ import annotations

import copy
import time

import torch
from torch import nn

from droptics.coadaptation import coadaptation, draw, evaluate
from droptics.data import Sample
from droptics.heads.projection import variable_projection
from droptics.masks import Bernoulli
from droptics.models import LastLayer, ReLUNet
from harness import Row, compare, report

DROP = 0.5


def network(width: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, 10))


def images(count: int) -> Sample:
    """Sparse non-negative inputs of the size and norm of MNIST digits, ten classes by a random linear rule."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.rand(count, 784, generator=generator) * (torch.rand(count, 784, generator=generator) < 0.19)
    labels = (inputs @ torch.randn(784, 10, generator=generator)).argmax(1)
    return Sample(inputs, labels)


def separate_copies(net: nn.Sequential, data: Sample, kept: torch.Tensor) -> torch.Tensor:
    """One copy of the module per sub-network, with the columns of its last layer masked."""
    accuracies = []
    for mask in kept:
        clone = copy.deepcopy(net)
        with torch.no_grad():
            clone[2].weight *= mask
            accuracies.append(float((clone(data.inputs).argmax(1) == data.targets).double().mean()))
    return torch.tensor(accuracies, dtype=torch.float64)


def subnetworks(width: int, examples: int, masks: int, repeats: int) -> Row:
    net, data = network(width), images(examples)
    kept = draw(Bernoulli(DROP, width), masks, torch.Generator().manual_seed(2))
    model = LastLayer.of(net)
    results: dict[str, torch.Tensor] = {}

    def ours() -> None:
        results["ours"] = evaluate(model, data, kept).accuracies

    def alternative() -> None:
        results["copies"] = separate_copies(net, data, kept)

    fast, slow, ratio = compare(ours, alternative, repeats=repeats)
    worst = float((results["ours"] - results["copies"]).abs().max())
    name = f"{masks} sub-networks of width {width}, {examples} images"
    return Row(name, fast, slow, ratio, f"accuracies differ by at most {worst:.1g}", "against masked copies")


def digits(count: int) -> Sample:
    """Two classes that a two-layer network can fit but not by a line: the sign of a product of two projections."""
    generator = torch.Generator().manual_seed(3)
    factors = torch.rand(count, 40, generator=generator)
    inputs = torch.relu(factors @ torch.randn(40, 784, generator=generator) / 6)
    inputs = inputs / inputs.norm(dim=1, keepdim=True) * 9
    score = (factors[:, 0] - 0.5) * (factors[:, 1] - 0.5)
    return Sample(inputs, score.sign())


def objective(model: ReLUNet, data: Sample) -> float:
    features = torch.relu(data.inputs @ model.weights[0].mT)
    risk = (features @ model.weights[1].mT - data.targets).square().mean()
    noise = (model.weights[1][0].square() * features.square().mean(0)).sum()
    return float(risk + DROP / (1 - DROP) * noise)


def dropout_sgd(data: Sample, hidden: torch.Tensor, epochs: int, rate: float) -> tuple[float, ReLUNet]:
    """Dropout SGD with written-out gradients (no autograd overhead), batch 64; CPU seconds and the network."""
    generator = torch.Generator().manual_seed(4)
    V = hidden.clone()
    U = torch.randn(1, len(V), generator=generator) / len(V) ** 0.5
    start = time.process_time()
    for _ in range(epochs):
        for batch in torch.randperm(len(data), generator=generator).split(64):
            x, y = data.inputs[batch], data.targets[batch]
            active = torch.relu(x @ V.mT)
            mask = (torch.rand(active.shape, generator=generator) >= DROP) / (1 - DROP)
            dropped = active * mask
            error = 2 * (dropped @ U.mT - y) / len(batch)
            slope = (error @ U) * mask * (active > 0)
            U -= rate * error.mT @ dropped
            V -= rate * slope.mT @ x
    return time.process_time() - start, ReLUNet([V, U])


def projection(data: Sample, name: str, width: int = 256, epochs: int = 40) -> Row:
    """CPU time of each to SGD's final objective; SGD with the best of several rates for that number of epochs."""
    hidden = torch.randn(width, data.inputs.shape[1], generator=torch.Generator().manual_seed(5))
    hidden *= (2 / data.inputs.shape[1]) ** 0.5
    trained = {rate: dropout_sgd(data, hidden, epochs, rate) for rate in (0.05, 0.1)}
    values = {rate: objective(model, data) for rate, (_, model) in trained.items()}
    rate = min(values, key=lambda item: values[item] if values[item] == values[item] else float("inf"))
    seconds, model = trained[rate]
    variable_projection(data, Bernoulli(DROP, width), hidden, iterations=1)  # the first one loads SciPy's optimizers
    found = variable_projection(data, Bernoulli(DROP, width), hidden, iterations=40)
    reached = next((spent for spent, value in found.history if value <= values[rate]), float("nan"))
    agreement = f"objective {found.objective:.4f} against {values[rate]:.4f} of SGD"
    evenness = f"phi {float(coadaptation(found.model, data)):.4f} against {float(coadaptation(model, data)):.4f}"
    note = f"best rate {rate}, {epochs} epochs; after 40 iterations: {evenness}"
    return Row(name, reached, seconds, seconds / reached, agreement, note)


def mnist_pair() -> Sample | None:
    from droptics.datasets import DatasetMissing, mnist  # noqa: PLC0415 - the set may be absent

    try:
        pixels, labels = mnist()
    except DatasetMissing:
        return None
    chosen = ((labels == 4) | (labels == 7)).nonzero()[:3000, 0]
    return Sample(pixels[chosen].flatten(1).float() / 255, (labels[chosen] == 7).float() * 2 - 1)


def main() -> None:
    torch.set_num_threads(1)
    rows = [subnetworks(10_000, 200, 100, 2), subnetworks(1_000, 500, 100, 3)]
    rows.append(projection(digits(2_000), "variable projection to SGD's objective, synthetic, 256 units"))
    pair = mnist_pair()
    if pair is not None:
        rows.append(projection(pair, "variable projection to SGD's objective, MNIST 4/7, 256 units"))
    report("coadaptation", rows)


if __name__ == "__main__":
    main()
