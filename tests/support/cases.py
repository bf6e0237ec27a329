"""Registries of models, laws and data without symmetry: all sizes differ, inputs are anisotropic, rates unequal.

Tests are products of these registries against an independent oracle; a new family or law is tested by adding it here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from droptics.data import Data, Entries, Measurements, Moments, Sample
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, MaskLaw, Product, SlidingBlock
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

INPUTS, OUTPUTS, EXAMPLES = 4, 3, 7


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Reproducible standard normal numbers."""
    generator = torch.Generator().manual_seed(seed + 1000 * len(shape) + sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def skewed_inputs(features: int = INPUTS) -> Tensor:
    """Correlated inputs of different scales with a non-zero mean."""
    mix = torch.diag(torch.linspace(0.5, 2.0, features, dtype=torch.float64)) + 0.3 * normal(features, features, seed=5)
    return normal(EXAMPLES, features, seed=6) @ mix + 0.4


def sample(outputs: int = OUTPUTS, features: int = INPUTS) -> Sample:
    return Sample(skewed_inputs(features), normal(EXAMPLES, outputs, seed=7))


def weighted_sample() -> Sample:
    return Sample(skewed_inputs(), normal(EXAMPLES, OUTPUTS, seed=7), torch.linspace(0.1, 2, EXAMPLES).double())


def singular_moments() -> Moments:
    """Inputs of rank two in four dimensions."""
    rows = normal(EXAMPLES, 2, seed=8) @ normal(2, INPUTS, seed=9)
    # the product is rounded, so that only its maker knows the rank
    return replace(Moments.of_sample(Sample(rows, normal(EXAMPLES, OUTPUTS, seed=7))), rank=2)


def entries() -> Entries:
    """Each row and column of a 6 x 5 matrix is observed a different number of times, one entry twice."""
    rows = torch.tensor([0, 0, 0, 1, 2, 2, 3, 5, 5, 5, 5])
    columns = torch.tensor([0, 1, 4, 2, 2, 3, 0, 0, 1, 2, 2])
    return Entries(rows, columns, normal(11, seed=10), (6, 5))


def measurements() -> Measurements:
    return Measurements(normal(EXAMPLES, 6, 5, seed=11), normal(EXAMPLES, seed=12))


def small_network() -> nn.Module:
    generator = torch.Generator().manual_seed(3)
    network = nn.Sequential(nn.Linear(INPUTS, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, OUTPUTS)).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return network


def laws(size: int) -> dict[str, MaskLaw]:
    """All laws on `size` units that can be enumerated."""
    found: dict[str, MaskLaw] = {
        "bernoulli": Bernoulli(0.3, size),
        "bernoulli-unequal": Bernoulli(torch.linspace(0.0, 0.8, size).double(), size),
        "one-block": Block(0.4, size, size),
        "sliding-clipped": SlidingBlock(0.2, size, 2, "clipped"),
        "discrete": Discrete(normal(9, size, seed=13) + 2, torch.arange(1, 10).double() / 45),
    }
    if size > 1:
        found["sliding-valid"] = SlidingBlock.matching(0.3, size, 2, "valid")
        found["product"] = Product([Bernoulli(0.5, 1), SlidingBlock(0.1, size - 1, 2)])
    for block in range(2, size):
        if size % block == 0:
            found[f"block-{block}"] = Block(torch.linspace(0.1, 0.6, size // block).double(), size, block)
    return found


def linear_pairs() -> Iterator[tuple[str, Model, Data]]:
    """Families whose outputs are linear in the mask, each on every kind of data it takes."""
    two_layer = TwoLayerLinear(normal(OUTPUTS, 5, seed=1), normal(INPUTS, 5, seed=2))
    tied = Autoencoder(normal(INPUTS, 3, seed=1))
    connections = Connections(normal(OUTPUTS, 2, seed=1), normal(INPUTS, 2, seed=2))
    for label, data in (
        ("sample", sample()),
        ("weighted", weighted_sample()),
        ("moments", Moments.of_sample(weighted_sample())),
        ("singular", singular_moments()),
    ):
        yield f"two-layer/{label}", two_layer, data
        yield f"connections/{label}", connections, data
    yield "width-one", TwoLayerLinear(normal(OUTPUTS, 1, seed=1), normal(INPUTS, 1, seed=2)), sample()
    yield "autoencoder/sample", tied, sample(outputs=INPUTS)
    yield "autoencoder/moments", tied, Moments.of_sample(sample(outputs=INPUTS))
    factors = Factorization(normal(6, 4, seed=1), normal(5, 4, seed=2))
    yield "factorization/entries", factors, entries()
    yield "factorization/measurements", factors, measurements()
    yield "last-layer", LastLayer.of(small_network()), sample()
    yield "last-layer/weighted", LastLayer.of(small_network()), weighted_sample()


def deep_pairs() -> Iterator[tuple[str, DeepLinear, Data, MaskLaw]]:
    """Deep linear networks with one independent law per layer."""
    weights = [normal(3, INPUTS, seed=1), normal(2, 3, seed=2), normal(4, 2, seed=3), normal(OUTPUTS, 4, seed=4)]
    plain = Product([Bernoulli(0.3, 3), Bernoulli(torch.tensor([0.1, 0.6]).double(), 2), Bernoulli(0.5, 4)])
    mixed = Product([SlidingBlock(0.2, 3, 2), Discrete(normal(3, 2) + 3, torch.ones(3).double() / 3), Block(0.3, 4, 2)])
    for label, data in (("sample", sample()), ("moments", singular_moments()), ("weighted", weighted_sample())):
        yield f"deep/{label}", DeepLinear(weights), data, plain
        yield f"deep-correlated/{label}", DeepLinear(weights), data, mixed
        inputs = Product([Bernoulli(0.2, INPUTS), *plain.laws])
        yield f"deep-inputs/{label}", DeepLinear(weights, mask_inputs=True), data, inputs
    yield "two-layers", DeepLinear([weights[0], normal(OUTPUTS, 3)]), sample(), SlidingBlock(0.3, 3, 2)


def relu_network() -> ReLUNet:
    return ReLUNet(
        [normal(3, INPUTS, seed=1), normal(2, 3, seed=2), normal(OUTPUTS, 2, seed=3)],
        [normal(3, seed=4), None, normal(OUTPUTS, seed=5)],
    )


GAUSSIAN: Callable[[int], MaskLaw] = lambda size: Gaussian(torch.linspace(0.1, 0.9, size).double(), size)  # noqa: E731
