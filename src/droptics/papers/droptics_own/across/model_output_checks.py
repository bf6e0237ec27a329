"""What a claim on model families compares: outputs under masks of every shape, entry by entry, and what models tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from droptics.evidence.claims import Comparison, compare
from droptics.models import (
    Autoencoder,
    Connections,
    DeepLinear,
    Factorization,
    LastLayer,
    Model,
    ReLUNet,
    Site,
    TwoLayerLinear,
)
from droptics.models.modules import is_plain_linear, linear_layer
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal, uniform

EXAMPLES = 3
# Outputs of one network for one example under one mask.
Single = Callable[[Any, Sequence[float]], Tensor]


def model_outputs(scale: float) -> list[Comparison]:
    """Outputs of all families by sums over units, layers in front of a head, and sizes that models tell."""
    return [*_families(scale), *_batches(scale), *_told(scale), *_heads(scale), *_copies(scale)]


def _chain(weights: Sequence[Tensor], biases: Sequence[Tensor] | None, masks: Sequence[int], bend: bool) -> Single:
    """Layer by layer; `masks` are how many multipliers fall on what each layer takes in."""

    def outputs(x: Any, z: Sequence[float]) -> Tensor:
        value, start = list(x), 0
        for number, (weight, count) in enumerate(zip(weights, masks, strict=True)):
            if count:
                value = [entry * z[start + k] for k, entry in enumerate(value)]
                start += count
            value = [sum(row[k] * entry for k, entry in enumerate(value)) for row in weight]
            if biases is not None:
                value = [entry + biases[number][k] for k, entry in enumerate(value)]
            if bend and number < len(weights) - 1:
                value = [max(entry, 0 * entry) for entry in value]
        return torch.stack(value)

    return outputs


def _singles() -> list[tuple[str, Model, Tensor, Single]]:
    """A network of every family, inputs, and its outputs for one of them."""
    U, V, x = normal(1, 2, 3), normal(2, 4, 3), normal(3, EXAMPLES, 4)
    W = [normal(4, 3, 4), normal(5, 2, 3), normal(6, 2, 2)]
    b = [normal(7, 3), normal(8, 2), normal(9, 2)]
    cells, seen = torch.tensor([[1, 0], [0, 3], [1, 2]]), normal(10, EXAMPLES, 2, 4)

    def connected(x: Any, z: Sequence[float]) -> Tensor:
        hidden = [sum(x[i] * V[i, k] * z[3 * i + k] for i in range(4)) for k in range(3)]
        return torch.stack([sum(U[o, k] * hidden[k] for k in range(3)) for o in range(2)])

    def entry(cell: Any, z: Sequence[float]) -> Tensor:
        return sum((U[cell[0], k] * V[cell[1], k] * z[k] for k in range(3)), torch.zeros(()))[None]

    def measured(matrix: Any, z: Sequence[float]) -> Tensor:
        terms = (matrix[i, j] * U[i, k] * V[j, k] * z[k] for i in range(2) for j in range(4) for k in range(3))
        return sum(terms, torch.zeros(()))[None]

    return [
        ("two layers", TwoLayerLinear(U, V), x, _chain([V.mT, U], None, (0, 3), False)),
        ("tied", Autoencoder(V), x, _chain([V.mT, V], None, (0, 3), False)),
        ("connections", Connections(U, V), x, connected),
        ("chain", DeepLinear(W), x, _chain(W, None, (0, 3, 2), False)),
        ("chain from its inputs", DeepLinear(W, True), x, _chain(W, None, (4, 3, 2), False)),
        ("network", ReLUNet(W, b), x, _chain(W, b, (4, 3, 2), True)),
        ("entries", Factorization(U, V), cells, entry),
        ("measurements", Factorization(U, V), seen, measured),
    ]


def _families(scale: float) -> list[Comparison]:
    """One mask for all, one for each, several for all, several for each, and none."""
    found: list[Comparison] = []
    for name, model, inputs, single in _singles():
        units = model.units
        plain = torch.stack([single(x, [1.0] * units) for x in inputs])
        found.append(compare(model.outputs(inputs), "==", scale * plain, f"{name}, no mask"))
        for lead in ((), (EXAMPLES,), (2, 1), (2, EXAMPLES)):
            z = 2 * uniform(11, *lead, units)
            each = z.expand(*lead[:-1], EXAMPLES, units)
            rows = [single(x, mask.tolist()) for some in each.reshape(-1, EXAMPLES, units)
                    for x, mask in zip(inputs, some, strict=True)]  # fmt: skip
            wanted = torch.stack(rows).reshape(*lead[:-1], EXAMPLES, -1)
            found.append(compare(model.outputs(inputs, z), "==", scale * wanted, f"{name}, masks {lead}"))
        many = torch.ones(units + 1)
        found.append(refuses(partial(model.outputs, inputs, many), "one multiplier per unit", f"{name}, too many"))
        if isinstance(model, (TwoLayerLinear, Autoencoder, Connections, DeepLinear)):
            found.append(compare(inputs @ model.matrix().mT, "==", scale * plain, f"{name}, its matrix"))
    factors = Factorization(normal(1, 2, 3), normal(2, 4, 3))
    cells = torch.cartesian_prod(torch.arange(2), torch.arange(4))
    found.append(compare(factors.outputs(cells).reshape(2, 4), "==", scale * factors.matrix(), "all entries"))
    return found


def _batches(scale: float) -> list[Comparison]:
    """Networks side by side, some weights common to all, are those alone, under a mask for each or for all."""
    found: list[Comparison] = []
    U, V, W = normal(1, 2, 2, 3), normal(2, 4, 3), normal(4, 2, 3, 4)
    last, b = normal(5, 2, 3), [normal(7, 2, 3), normal(8, 2)]
    x, cells = normal(3, EXAMPLES, 4), torch.tensor([[1, 0], [0, 3], [1, 2]])
    cases: tuple[tuple[str, Model, Any, Tensor], ...] = (
        ("two layers", TwoLayerLinear(U, V), lambda i: TwoLayerLinear(U[i], V), x),
        ("tied", Autoencoder(normal(9, 2, 4, 3)), lambda i: Autoencoder(normal(9, 2, 4, 3)[i]), x),
        ("connections", Connections(U, V), lambda i: Connections(U[i], V), x),
        ("chain", DeepLinear([W, last], True), lambda i: DeepLinear([W[i], last], True), x),
        ("network", ReLUNet([W, last], b), lambda i: ReLUNet([W[i], last], [b[0][i], b[1]]), x),
        ("entries", Factorization(U, V), lambda i: Factorization(U[i], V), cells),
        ("measurements", Factorization(U, V), lambda i: Factorization(U[i], V), normal(10, EXAMPLES, 2, 4)),
    )
    for name, both, alone, inputs in cases:
        found.append(same(tuple(both.batch_shape), (2,), f"how many, {name}", scale))
        for z in (None, 2 * uniform(11, both.units), 2 * uniform(12, 2, 1, both.units)):
            told = both.outputs(inputs, z)
            for i in range(2):
                one = alone(i).outputs(inputs, z if z is None or z.ndim == 1 else z[i])
                label = f"{name}, {i}, {None if z is None else tuple(z.shape)}"
                found.append(compare(told[i], "==", scale * one, label))
    return found


def _told(scale: float) -> list[Comparison]:
    """Units, inputs, outputs, hidden sizes and weights."""
    found: list[Comparison] = []
    sizes = {
        "two layers": (3, 4, 2, 2),
        "tied": (3, 4, 4, 1),
        "connections": (12, 4, 2, 2),
        "chain": (5, 4, 2, 3),
        "chain from its inputs": (9, 4, 2, 3),
        "network": (9, 4, 2, 6),
        "entries": (3, 4, 2, 2),
        "measurements": (3, 4, 2, 2),
    }
    for name, model, _, _ in _singles():
        any_model: Any = model
        told = (model.units, any_model.input_size, any_model.output_size, len(model.tensors))
        found.append(same(told, sizes[name], f"sizes, {name}", scale))
        found.append(same(tuple(model.batch_shape), (), f"one alone, {name}"))
        if isinstance(model, DeepLinear):
            found.append(same(model.hidden_sizes, (3, 2), f"hidden, {name}", scale))
        if isinstance(model, Factorization):
            found.append(same(model.shape, (2, 4), f"shape, {name}", scale))
    return found


def _heads(scale: float) -> list[Comparison]:
    """The last of several linear layers under masks, in evaluation; its output changed, or none, or two of them."""
    found: list[Comparison] = []
    x, V, W = normal(3, EXAMPLES, 4), normal(1, 3, 4), normal(2, 2, 3)
    offsets = normal(4, 3), normal(5, 2)
    for bias in (True, False):
        body, head = linear_layer(V, offsets[0]), linear_layer(W, offsets[1] if bias else None)
        module = nn.Sequential(body, nn.Tanh(), nn.Dropout(0.5), head).train()
        last, site = LastLayer.of(module), Site.of(module, "1", x)
        hidden = torch.tanh(x @ V.mT + offsets[0])
        for lead in ((), (EXAMPLES,), (2, 1), (2, EXAMPLES)):
            z = 2 * uniform(6, *lead, 3)
            wanted = (hidden * z) @ W.mT + (offsets[1] if bias else 0.0)
            found.append(compare(last.outputs(x, z).detach(), "==", scale * wanted, f"a head, {lead}, bias {bias}"))
            found.append(compare(site.outputs(x, z).detach(), "==", scale * wanted, f"a site, {lead}, bias {bias}"))
        found.append(compare(last.features(x).detach(), "==", scale * hidden, f"its features, bias {bias}"))
        named = LastLayer.of(nn.Sequential(body, nn.Tanh(), head), "2")
        found.append(compare(named.outputs(x).detach(), "==", scale * last.outputs(x).detach(), "by its name"))
        found.append(same([part.training for part in module.modules()], [True] * 5, "modes stay", scale))
        found.append(same((last.units, len(last.tensors)), (3, 1 + bias), "what it tells", scale))

        def twice(value: Tensor, body: nn.Module = body, head: nn.Module = head) -> Tensor:
            return head(torch.tanh(body(value))) + head(body(value))

        for name, wrong, words in (
            ("another sum", _Written(body, head, lambda y: y + 1), "does not end the module"),
            ("in place", _Written(body, head, lambda y: y.mul_(2)), "does not end the module"),
            ("twice", _Called(body, head, twice), "it ran 2 times"),
            ("never", _Called(body, head, torch.tanh), "it ran 0 times"),
        ):
            found.append(refuses(partial(LastLayer(wrong, head).features, x), words, name))
        for name, call, count in (("twice", twice, 2), ("never", torch.tanh, 0)):
            odd: Any = _Called(body, head, call)
            found.append(refuses(partial(Site(odd, head, (2,)).outputs, x), f"it ran {count} times", f"site, {name}"))
    return found


class _Written(nn.Module):
    """A head whose output is changed afterwards."""

    def __init__(self, body: nn.Module, head: nn.Linear, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.head, self.change = body, head, change

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return self.change(self.head(torch.tanh(self.body(x))))


class _Called(nn.Module):
    """Two layers, called as a function says."""

    def __init__(self, body: nn.Module, head: nn.Linear, call: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.head, self.call = body, head, call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(x)


def _copies(scale: float) -> list[Comparison]:
    """A layer made of weights holds copies and draws nothing; plain is a layer into which nobody has a hand."""
    found: list[Comparison] = []
    weight, bias = normal(1, 2, 3), normal(2, 2)
    state = torch.get_rng_state()
    layer = linear_layer(weight.mT.contiguous().mT, bias)
    found.append(same(torch.equal(state, torch.get_rng_state()), True, "nothing is drawn", scale))
    wanted = normal(3, 4, 3) @ weight.mT + bias
    weight.zero_(), bias.zero_()
    found.append(compare(layer(normal(3, 4, 3)).detach(), "==", scale * wanted, "copies of the weights"))
    patched, hooked, other = (linear_layer(normal(1, 2, 3)) for _ in range(3))
    vars(patched)["forward"] = torch.relu
    hooked.register_forward_hook(lambda *_: None)
    told = [is_plain_linear(part) for part in (layer, patched, hooked)]
    found.append(same(told, [True, False, False], "plain", scale))
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        found.append(same(is_plain_linear(other), False, "a hook behind every module", scale))
    finally:
        handle.remove()
    found.append(same(is_plain_linear(other), True, "and none", scale))
    found.append(same(is_plain_linear(_Bent(3, 2)), False, "a kind of its own", scale))
    return found


class _Bent(nn.Linear):
    pass
