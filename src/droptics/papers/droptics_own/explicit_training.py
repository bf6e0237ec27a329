"""Dropout with and without noise: how fast each reaches the same expected criterion, as pure functions.

One network (a hidden ReLU layer, dropout, a linear head) with squared loss is trained from the same start: with
nn.Dropout and with ExplicitDropout by the same stochastic gradient, and with the explicit objective by L-BFGS on the
hidden layer while the head is solved in closed form at every step.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from droptics.data import Sample
from droptics.layers import ExplicitDropout
from droptics.masks import Bernoulli
from droptics.models import LastLayer
from droptics.penalties import criterion


@dataclass(frozen=True)
class Race:
    """Size of the problem and budget; `rate` is the first step size of the stochastic runs (cosine to zero)."""

    examples: int = 300
    inputs: int = 10
    width: int = 32
    drop: float = 0.5
    epochs: int = 200
    batch: int = 50
    rate: float = 0.05
    momentum: float = 0.9
    passes: int = 300


@dataclass(frozen=True)
class Course:
    """The exact expected criterion after every epoch (or pass over the data), and the seconds spent training."""

    method: str
    criterion: list[float]
    seconds: float

    def epochs_to(self, target: float) -> float:
        """Epochs until the criterion is at most `target`; infinity when it never is."""
        return next((epoch + 1.0 for epoch, value in enumerate(self.criterion) if value <= target), math.inf)


def planted(race: Race, seed: int) -> Sample:
    """Standard normal inputs, targets of a random tanh network plus a tenth of noise, standardized."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(race.examples, race.inputs, generator=generator, dtype=torch.float64)
    first = torch.randn(race.inputs, 8, generator=generator, dtype=torch.float64) / math.sqrt(race.inputs)
    last = torch.randn(8, 1, generator=generator, dtype=torch.float64)
    targets = torch.tanh(2 * inputs @ first) @ last
    targets = targets + 0.1 * torch.randn(race.examples, 1, generator=generator, dtype=torch.float64)
    return Sample(inputs, (targets - targets.mean()) / targets.std())


def fresh(race: Race, seed: int) -> tuple[nn.Linear, nn.Linear]:
    """The hidden layer and the head at the start; the global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Linear(race.inputs, race.width).double(), nn.Linear(race.width, 1).double()


def expected_criterion(hidden: nn.Linear, head: nn.Linear, sample: Sample, drop: float) -> float:
    """Exact mean loss under dropout: risk plus penalty of the last layer."""
    with torch.no_grad():
        model = LastLayer.of(nn.Sequential(hidden, nn.ReLU(), head))
        return float(criterion(model, sample, Bernoulli(drop, model.units)).value)


def stochastic(race: Race, explicit: bool, seed: int) -> Course:
    """Stochastic gradient with momentum, with nn.Dropout or with ExplicitDropout; same start and same batches."""
    sample = planted(race, seed)
    hidden, head = fresh(race, seed)
    layer: nn.Module = ExplicitDropout(race.drop, head) if explicit else nn.Dropout(race.drop)
    net = nn.Sequential(hidden, nn.ReLU(), layer, head)
    optimizer = torch.optim.SGD(net.parameters(), lr=race.rate, momentum=race.momentum)
    steps = race.epochs * -(-race.examples // race.batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    order = torch.Generator().manual_seed(seed + 1)
    values: list[float] = []
    seconds = 0.0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed + 2)
        for _ in range(race.epochs):
            start = time.perf_counter()
            for chosen in torch.randperm(race.examples, generator=order).split(race.batch):
                loss = (net(sample.inputs[chosen]) - sample.targets[chosen]).square().sum(-1).mean()
                if isinstance(layer, ExplicitDropout):
                    loss = loss + layer.penalty
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
            seconds += time.perf_counter() - start
            values.append(expected_criterion(hidden, head, sample, race.drop))
    return Course("explicit, SGD" if explicit else "dropout, SGD", values, seconds)


def solved_head(features: Tensor, targets: Tensor, drop: float) -> tuple[Tensor, Tensor]:
    """The head that minimizes the expected criterion for given features: ridge with the energies as weights."""
    center, mean = features.mean(0), targets.mean(0)
    centered = features - center
    count = len(features)
    energies = features.square().mean(0) * drop / (1 - drop)
    gram = centered.mT @ centered / count + torch.diag(energies)
    # a unit that never fires has no energy and no use: its weight is zero
    gram = gram + torch.diag((energies == 0).to(gram))
    weight = torch.linalg.solve(gram, centered.mT @ (targets - mean) / count).mT
    return weight, mean - weight @ center


def deterministic(race: Race, seed: int) -> Course:
    """L-BFGS on the hidden layer, the head solved exactly at every evaluation; one evaluation is one epoch."""
    sample = planted(race, seed)
    hidden, _ = fresh(race, seed)
    optimizer = torch.optim.LBFGS(
        hidden.parameters(),
        max_iter=race.passes,
        max_eval=race.passes,
        history_size=30,
        tolerance_grad=1e-9,
        tolerance_change=1e-14,
        line_search_fn="strong_wolfe",
    )
    values: list[float] = []

    def closure() -> float:
        optimizer.zero_grad()
        features = torch.relu(hidden(sample.inputs))
        weight, bias = solved_head(features.detach(), sample.targets, race.drop)
        # the head is optimal, so its own change does not matter to first order
        energy = features.square().mean(0) @ weight.square().sum(0) * race.drop / (1 - race.drop)
        loss = (features @ weight.mT + bias - sample.targets).square().sum(-1).mean() + energy
        loss.backward()
        values.append(min(float(loss.detach()), values[-1] if values else math.inf))
        return float(loss.detach())

    start = time.perf_counter()
    optimizer.step(closure)
    return Course("explicit, L-BFGS with the head solved", values, time.perf_counter() - start)


def compared(race: Race, seed: int = 0, slack: float = 0.02) -> list[dict[str, float | str]]:
    """Final criterion, and epochs and seconds until the criterion nn.Dropout ends with (times 1 + slack) is reached.

    The slack covers what the mask noise and the local minimum it led to leave in that end value (1 to 2 %).
    """
    courses = [stochastic(race, False, seed), stochastic(race, True, seed), deterministic(race, seed)]
    target = (1 + slack) * courses[0].criterion[-1]
    rows: list[dict[str, float | str]] = []
    for course in courses:
        epochs = course.epochs_to(target)
        rows.append(
            {
                "method": course.method,
                "criterion at the end": course.criterion[-1],
                "epochs": epochs,
                "seconds": course.seconds * epochs / len(course.criterion),
            }
        )
    return rows
