"""Problems as named tensors: every tensor says which of its axes are features, outputs, units or examples.

A change of units or of order then acts on axes, not on families: it is written once and applies to inputs, targets,
weights and answers alike. An axis whose name starts with "/" is contravariant: it is divided where features are
multiplied. All numbers are float32 numbers, so that single and double precision can be given the same problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from cases import normal
from torch import Tensor, nn

from droptics.data import Data, Entries, Moments, Sample
from droptics.masks import Bernoulli, Block, Discrete, MaskLaw, Product, SlidingBlock
from droptics.models import (
    Autoencoder,
    Connections,
    DeepLinear,
    Factorization,
    LastLayer,
    Model,
    ReLUNet,
    TwoLayerLinear,
)

Axes = tuple[str, ...]
EXAMPLES, FEATURES, OUTPUTS = 9, 4, 3


@dataclass(frozen=True, eq=False)
class Named:
    """A tensor and the names of its last axes; what stands before them is a batch."""

    tensor: Tensor
    axes: Axes


@dataclass(frozen=True, eq=False)
class Problem:
    """A model, data and masks: weights by name, examples, and one law per masked axis."""

    family: type[Model]
    weights: dict[str, Named]
    inputs: Named
    targets: Named
    shares: Named | None
    laws: tuple[tuple[str, MaskLaw], ...]
    moments: bool = False

    def mapped(self, act: Callable[[Named], Named]) -> Problem:
        """The problem with every tensor replaced."""
        return replace(
            self,
            weights={name: act(value) for name, value in self.weights.items()},
            inputs=act(self.inputs) if self.inputs.tensor.is_floating_point() else self.inputs,
            targets=act(self.targets),
            shares=None if self.shares is None else act(self.shares),
        )

    def to(self, *kind: torch.dtype | torch.device | str) -> Problem:
        """The same numbers in another precision or elsewhere."""
        return self.mapped(lambda named: Named(named.tensor.to(*kind), named.axes))

    @property
    def model(self) -> Model:
        return BUILDERS[self.family]({name: value.tensor for name, value in self.weights.items()})

    @property
    def sample(self) -> Sample:
        return Sample(self.inputs.tensor, self.targets.tensor, None if self.shares is None else self.shares.tensor)

    @property
    def data(self) -> Data:
        if self.family is Factorization:
            rows, columns = self.inputs.tensor.unbind(1)
            shape = (self.weights["U"].tensor.shape[-2], self.weights["V"].tensor.shape[-2])
            return Entries(rows, columns, self.targets.tensor[:, 0], shape)
        return Moments.of_sample(self.sample) if self.moments else self.sample

    @property
    def masks(self) -> MaskLaw:
        laws = [law for _, law in self.laws]
        return laws[0] if len(laws) == 1 else Product(laws)

    @property
    def size(self) -> int:
        """How many numbers are added to one answer, at most: what rounding errors are multiplied by."""
        numbers = self.inputs.tensor.numel() + self.targets.tensor.numel()
        return numbers + sum(value.tensor.numel() for value in self.weights.values())

    @property
    def condition(self) -> float:
        """Condition of E x x^T scaled to unit diagonal, directions without energy aside: the same in all units."""
        if self.family is Factorization:
            return 1.0
        x = self.inputs.tensor.double().cpu()
        if self.shares is not None:
            x = x * self.shares.tensor.double().cpu().sqrt()[:, None]
        norms = x.norm(dim=0)
        x = x[:, norms > 0] / norms[norms > 0]
        values = torch.linalg.svdvals(x).square() if x.numel() else torch.ones(1)
        alive = values[values > 1e-12 * values[0]]
        return float(alive[0] / alive[-1])

    @property
    def amplitude(self) -> Tensor:
        """What the outputs and targets would be if nothing cancelled, (examples, outputs)."""
        absolute = self.mapped(lambda named: Named(named.tensor.double().cpu().abs(), named.axes))
        outputs = absolute.model.outputs(absolute.inputs.tensor).detach()
        if self.family is LastLayer:  # tanh is at most one
            head = absolute.weights["top"].tensor
            outputs = head.sum(-1) + absolute.weights["offset"].tensor + torch.zeros_like(absolute.targets.tensor)
        return outputs + absolute.targets.tensor


def _network(tensors: dict[str, Tensor]) -> nn.Module:
    top, bottom = tensors["top"], tensors["bottom"]
    network = nn.Sequential(
        nn.utils.skip_init(nn.Linear, bottom.shape[1], bottom.shape[0], bias=False, dtype=top.dtype, device=top.device),
        nn.Tanh(),
        nn.utils.skip_init(nn.Linear, top.shape[1], top.shape[0], dtype=top.dtype, device=top.device),
    )
    with torch.no_grad():
        network[0].weight.copy_(bottom)
        network[2].weight.copy_(top)
        network[2].bias.copy_(tensors["offset"])
    return network


def _numbered(tensors: dict[str, Tensor], letter: str) -> list[Tensor]:
    return [value for name, value in sorted(tensors.items()) if name.startswith(letter)]


BUILDERS: dict[type[Model], Callable[[dict[str, Tensor]], Model]] = {
    TwoLayerLinear: lambda tensors: TwoLayerLinear(tensors["U"], tensors["V"]),
    Factorization: lambda tensors: Factorization(tensors["U"], tensors["V"]),
    Connections: lambda tensors: Connections(tensors["U"], tensors["V"]),
    Autoencoder: lambda tensors: Autoencoder(tensors["U"]),
    DeepLinear: lambda tensors: DeepLinear(_numbered(tensors, "W")),
    ReLUNet: lambda tensors: ReLUNet(_numbered(tensors, "W"), _numbered(tensors, "b")),
    LastLayer: lambda tensors: LastLayer.of(_network(tensors)),
}


def _round(value: Tensor) -> Tensor:
    return value.float().double()


def inputs(count: int = EXAMPLES, seed: int = 0) -> Tensor:
    """Correlated inputs with a mean."""
    mix = torch.eye(FEATURES, dtype=torch.float64) + 0.3 * normal(FEATURES, FEATURES, seed=seed + 1)
    return _round(normal(count, FEATURES, seed=seed) @ mix + 0.4)


def linear(
    family: type[Model], law: MaskLaw, width: int, x: Tensor, outputs: int = OUTPUTS, shares: Tensor | None = None
) -> Problem:
    """Two factors, U (outputs x width) and V (features x width), on examples x and noisy targets."""
    truth = normal(x.shape[1], outputs, seed=4)
    targets = _round(x @ truth + 0.5 * normal(len(x), outputs, seed=5))
    axis = "" if family is Connections else "units"
    weights = {
        "U": Named(_round(normal(outputs, width, seed=2)), ("outputs", "/units")),
        "V": Named(_round(normal(x.shape[1], width, seed=3)), ("/features", "units")),
    }
    return Problem(
        family,
        weights,
        Named(x, ("examples", "features")),
        Named(targets, ("examples", "outputs")),
        None if shares is None else Named(_round(shares), ("examples",)),
        ((axis, law),),
    )


def deep(laws: tuple[MaskLaw, ...], x: Tensor) -> Problem:
    """A deep linear network, one law per hidden layer."""
    sizes = [x.shape[1], *(law.size for law in laws), OUTPUTS]
    names = ["features", *(f"layer{i}" for i in range(len(laws))), "outputs"]
    weights = {
        f"W{i}": Named(_round(normal(sizes[i + 1], sizes[i], seed=20 + i)), (names[i + 1], f"/{names[i]}"))
        for i in range(len(sizes) - 1)
    }
    base = linear(TwoLayerLinear, laws[0], 2, x)
    return replace(base, family=DeepLinear, weights=weights, laws=tuple(zip(names[1:-1], laws, strict=True)))


def relu(x: Tensor, shift: float = 0.0) -> Problem:
    """A ReLU network with biases, masks on inputs and hidden units; targets are shifted."""
    weights = {
        "W0": Named(_round(normal(5, x.shape[1], seed=30)), ("layer0", "/features")),
        "W1": Named(_round(normal(OUTPUTS, 5, seed=31)), ("outputs", "/layer0")),
        "b0": Named(_round(0.3 * normal(5, seed=32)), ("layer0",)),
        "b1": Named(_round(normal(OUTPUTS, seed=33)), ("outputs",)),
    }
    laws = (
        ("features", Bernoulli(torch.linspace(0, 0.3, x.shape[1]).double(), x.shape[1])),
        ("layer0", Bernoulli(0.25, 5)),
    )
    base = linear(TwoLayerLinear, Bernoulli(0.5, 2), 2, x)
    targets = Named(_round(base.targets.tensor + shift), base.targets.axes)
    return replace(base, family=ReLUNet, weights=weights, laws=laws, targets=targets)


def last_layer(law: MaskLaw, x: Tensor) -> Problem:
    """A small network whose last layer is masked."""
    weights = {
        "bottom": Named(_round(normal(law.size, x.shape[1], seed=40)), ("units", "/features")),
        "top": Named(_round(normal(OUTPUTS, law.size, seed=41)), ("outputs", "/units")),
        "offset": Named(_round(normal(OUTPUTS, seed=42)), ("outputs",)),
    }
    base = linear(TwoLayerLinear, law, law.size, x)
    return replace(base, family=LastLayer, weights=weights)


def tied(law: MaskLaw) -> Problem:
    """A tied network on exactly isotropic inputs: the signed unit vectors."""
    basis = torch.eye(FEATURES, dtype=torch.float64)
    x = 2.0 * torch.cat([basis, -basis])
    base = linear(TwoLayerLinear, law, law.size, x, outputs=FEATURES)
    weights = {"U": Named(base.weights["V"].tensor, ("=features", "=units"))}
    return replace(base, family=Autoencoder, weights=weights)


def entries(law: MaskLaw) -> Problem:
    """A factorization read at every entry of a 4 x 3 matrix, each of them twice with different values."""
    grid = torch.cartesian_prod(torch.arange(4), torch.arange(3)).repeat(2, 1)
    base = linear(TwoLayerLinear, law, law.size, inputs())
    weights = {
        "U": Named(_round(normal(4, law.size, seed=2)), ("outputs", "/units")),
        "V": Named(_round(normal(3, law.size, seed=3)), ("", "units")),
    }
    values = Named(_round(normal(len(grid), 1, seed=50)), ("examples", "outputs"))
    return replace(base, family=Factorization, weights=weights, inputs=Named(grid, ("examples", "")), targets=values)


def _degenerate() -> Iterator[tuple[str, Tensor]]:
    """Inputs without a unique regression, exactly so in every precision."""
    x = inputs()
    dead, doubled = x.clone(), x.clone()
    dead[:, 2] = 0
    doubled[:, 3] = 2 * x[:, 1]
    yield "dead", dead
    yield "doubled", doubled
    yield "few", inputs(3)


def problems() -> dict[str, Problem]:
    """The registry: every family, every kind of law, and inputs that are degenerate."""
    x, many = inputs(), torch.linspace(0.1, 0.7, 5).double()
    atoms = Discrete(normal(6, 5, seed=13) + 2, torch.arange(1, 7).double() / 21)
    found = {
        "two-layer": linear(TwoLayerLinear, Bernoulli(0.4, 5), 5, x),
        "two-layer/weighted": linear(TwoLayerLinear, Bernoulli(0.4, 5), 5, x, shares=torch.linspace(1, 3, len(x))),
        "two-layer/never": linear(TwoLayerLinear, Bernoulli(0.0, 2), 2, x),
        "two-layer/narrow": linear(TwoLayerLinear, Bernoulli(0.1, 2), 2, x),
        "two-layer/one": linear(TwoLayerLinear, Bernoulli(0.1, 1), 1, x, outputs=1),
        "two-layer/rare": linear(TwoLayerLinear, Bernoulli(1e-9, 5), 5, x),
        "two-layer/almost-all": linear(TwoLayerLinear, Bernoulli(1 - 1e-6, 5), 5, x),
        "two-layer/unequal": linear(TwoLayerLinear, Bernoulli(many, 5), 5, x),
        "two-layer/block": linear(TwoLayerLinear, Block(0.3, 6, 3), 6, x),
        "two-layer/sliding": linear(TwoLayerLinear, SlidingBlock(0.2, 5, 2), 5, x),
        "two-layer/discrete": linear(TwoLayerLinear, atoms, 5, x),
        "connections": linear(Connections, Bernoulli(0.2, 5 * FEATURES), 5, x),
        "connections/narrow": linear(Connections, Bernoulli(0.0, FEATURES), 1, x),
        "deep": deep((Bernoulli(0.2, 3), Bernoulli(0.3, 5)), x),
        "deep/one": deep((Bernoulli(0.2, 4),), x),
        "tied": tied(Bernoulli(0.3, 3)),
        "entries": entries(Bernoulli(0.3, 4)),
        "relu": relu(x),
        "relu/shifted": relu(x, 1000.0),
        "last-layer": last_layer(Bernoulli(0.3, 4), x),
        "last-layer/block": last_layer(Block(0.3, 4, 2), x),
    }
    for label, degenerate in _degenerate():
        found[f"two-layer/{label}"] = linear(TwoLayerLinear, Bernoulli(0.3, 5), 5, degenerate)
        found[f"connections/{label}"] = linear(Connections, Bernoulli(0.2, 3 * FEATURES), 3, degenerate)
        found[f"deep/{label}"] = deep((Bernoulli(0.2, 3), Bernoulli(0.3, 4)), degenerate)
    return found
