"""Many trainings at once: networks of one task, each on data, weights and rates of its own, as one stack of tensors.

Plain dropout, written without the library: what it compares are answers, and no answer comes from here. Networks of a
fleet see batches at the same places of their own data and drop where one uniform number is below their own rate. On a
GPU a step is recorded once and played again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from rates_tasks import Pair, Task

DECAYS, FLOOR = (0.9, 0.999), 1e-8
CHUNK = 1000  # examples at a time without gradients


class Mask(nn.Module):
    """Dropout whose rate is a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rate", torch.zeros(()))

    def forward(self, source: Tensor) -> Tensor:
        if not self.training:
            return source
        return source * (torch.rand(source.shape, device=source.device) >= self.rate) / (1 - self.rate)


class Lookup(nn.Module):
    """An embedding whose gradient is a product, which a GPU can play again."""

    def __init__(self, before: nn.Embedding) -> None:
        super().__init__()
        self.weight = before.weight

    def forward(self, numbers: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return nn.functional.embedding(numbers, self.weight)
        every = torch.arange(len(self.weight), device=numbers.device)
        return (numbers[..., None] == every).to(self.weight.dtype) @ self.weight


class Unfolded(nn.Module):
    """A convolution that keeps the size, as a product with its patches."""

    def __init__(self, before: nn.Conv2d) -> None:
        super().__init__()
        self.weight, self.bias, self.margin = before.weight, before.bias, int(before.padding[0])

    def forward(self, source: Tensor) -> Tensor:
        side, (height, width) = self.weight.shape[-1], source.shape[-2:]
        wide = nn.functional.pad(source, (self.margin,) * 4)
        places = [(i, j) for i in range(side) for j in range(side)]
        patches = torch.stack([wide[..., i : i + height, j : j + width] for i, j in places], -3)
        found = self.weight.flatten(1) @ patches.flatten(-4, -3).flatten(-2) + self.bias[:, None]
        return found.unflatten(-1, (height, width))


def converted(module: nn.Module) -> nn.Module:
    """The same network of parts that a fleet can hold; names of weights stay."""
    for name, child in module.named_children():
        if isinstance(child, nn.Dropout):
            setattr(module, name, Mask())
        elif isinstance(child, nn.Embedding):
            setattr(module, name, Lookup(child))
        elif isinstance(child, nn.Conv2d):
            setattr(module, name, Unfolded(child))
        else:
            converted(child)
    return module


def losses_of(outputs: Tensor, targets: Tensor) -> Tensor:
    """Losses of the examples (networks, examples): squared for numbers, cross-entropy for classes."""
    if targets.is_floating_point():
        found = (outputs - targets).square()
    else:
        found = nn.functional.cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction="none")
    return found.reshape(*targets.shape[:2], -1).mean(-1)


@dataclass(frozen=True)
class Member:
    """One network: the weights that it starts from, its rate at every site."""

    weights: Mapping[str, Tensor]
    rates: Mapping[str, float]


class Fleet:
    """Networks of a task, as many as members; `train` may be called again with other members, as many."""

    def __init__(self, task: Task, parts: Sequence[Pair], owners: Sequence[int], device: torch.device) -> None:
        """`parts` are training data by number, `owners` says which of them each network has."""
        self.task, self.device, self.count = task, device, len(owners)
        self.module = converted(task.network()).to(device)
        self.inputs = torch.stack([parts[i][0] for i in owners]).to(device)
        self.targets = torch.stack([parts[i][1] for i in owners]).to(device)
        own = dict(self.module.named_parameters())
        self.weights = {name: value.detach().expand(self.count, *value.shape).clone() for name, value in own.items()}
        self.first = {name: torch.zeros_like(value) for name, value in self.weights.items()}
        self.second = {name: torch.zeros_like(value) for name, value in self.weights.items()}
        self.rates = {site: torch.zeros(self.count, device=device) for site in task.sites}
        size, fit = self.inputs.shape[1], task.fit
        if size % fit.batch_size:
            raise ValueError("batches of a fleet must all have one size")
        self.steps = size // fit.batch_size * fit.epochs
        self.order = torch.zeros(self.steps, fit.batch_size, dtype=torch.long, device=device)
        self.step = torch.zeros((), dtype=torch.long, device=device)
        self.graph: Any = None

    def outputs(self, weights: Mapping[str, Tensor], inputs: Tensor, training: bool) -> Tensor:
        self.module.train(training)

        def forward(own: dict[str, Tensor], rates: dict[str, Tensor], given: Tensor) -> Tensor:
            state = {**own, **{f"{site}.rate": rate for site, rate in rates.items()}}
            return functional_call(self.module, state, (given,))

        return vmap(forward, randomness="same")(dict(weights), self.rates, inputs)

    def advance(self) -> None:
        """One step of Adam for all; everything happens in place."""
        fit = self.task.fit
        index = self.order.index_select(0, self.step[None])[0]
        weights = {name: value.detach().requires_grad_() for name, value in self.weights.items()}
        outputs = self.outputs(weights, self.inputs.index_select(1, index), training=True)
        total = losses_of(outputs, self.targets.index_select(1, index)).mean(1).sum()
        slopes = torch.autograd.grad(total, list(weights.values()))
        with torch.no_grad():
            self.step += 1
            done = self.step.float()
            scales = [1 - decay**done for decay in DECAYS]
            for (name, weight), slope in zip(self.weights.items(), slopes, strict=True):
                first, second = self.first[name], self.second[name]
                first.lerp_(slope, 1 - DECAYS[0])
                second.mul_(DECAYS[1]).addcmul_(slope, slope, value=1 - DECAYS[1])
                weight.sub_(fit.step_size / scales[0] * first / ((second / scales[1]).sqrt() + FLOOR))

    def begin(self, members: Sequence[Member], seed: int) -> None:
        """Put everything to its start."""
        with torch.no_grad():
            for name, value in self.weights.items():
                value.copy_(torch.stack([member.weights[name] for member in members]))
            for values in (self.first, self.second):
                for value in values.values():
                    value.zero_()
            for site, rate in self.rates.items():
                rate.copy_(torch.tensor([member.rates[site] for member in members]))
            draw = torch.Generator().manual_seed(seed)
            orders = [torch.randperm(self.inputs.shape[1], generator=draw) for _ in range(self.task.fit.epochs)]
            self.order.copy_(torch.cat(orders).reshape(self.order.shape))
            self.step.zero_()
        torch.manual_seed(seed)

    def record(self, members: Sequence[Member], seed: int) -> None:
        """Record a step, where there is a GPU."""
        self.begin(members, seed)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.advance()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.advance()

    def train(self, members: Sequence[Member], seed: int, looks: Mapping[int, Any] | None = None) -> None:
        """Train members to the end; `looks` are functions without arguments that are called after some steps."""
        if self.device.type == "cuda" and self.graph is None:
            self.record(members, seed)
        self.begin(members, seed)
        for step in range(1, self.steps + 1):
            if self.graph:
                self.graph.replay()
            else:
                self.advance()
            if looks and step in looks:
                looks[step]()

    def evaluated(self, parts: Sequence[Pair], owners: Sequence[int]) -> Tensor:
        """Losses (networks, examples) without dropout on held data, by number; what is not finite is infinite."""
        found = []
        inputs, targets = ([part[i].to(self.device) for part in parts] for i in (0, 1))
        with torch.no_grad():
            for start in range(0, len(targets[0]), CHUNK):
                cut = slice(start, start + CHUNK)
                outputs = self.outputs(self.weights, torch.stack([inputs[i][cut] for i in owners]), training=False)
                found.append(losses_of(outputs, torch.stack([targets[i][cut] for i in owners])))
        return torch.cat(found, 1).double().nan_to_num(torch.inf, torch.inf, torch.inf)


def start(task: Task, seed: int, device: torch.device) -> dict[str, Tensor]:
    """Weights of the task's network from a seed."""
    torch.manual_seed(seed)
    return {name: value.detach().to(device) for name, value in task.network().named_parameters()}
