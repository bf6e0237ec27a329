"""What the claim on families compares: outputs under masks written out, batches, and what does not fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli, Product, SlidingBlock
from droptics.models import (
    Autoencoder,
    Connections,
    DeepLinear,
    Factorization,
    LastLayer,
    LinearModel,
    Model,
    ReLUNet,
    Site,
    TwoLayerLinear,
)
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.predictions.moment_checks import moments_of
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal, tensor, uniform
from droptics.penalties import ClosedForm, Enumerate
from droptics.predictions import predictive

EXAMPLES = 6
# Masks (masks, examples, units) to outputs (masks, examples, outputs).
Written = Callable[[Tensor], Tensor]


@torch.no_grad()
def masked_families(scale: float) -> list[Comparison]:
    """Outputs of every family under masks of every shape, in batches too; sizes; what does not fit."""
    return by_parts((_two_layers, _layers, _entries, _modules, _batches, _misfits, _foreign), scale)


def _under(model: Model, inputs: Tensor, written: Written, name: str, scale: float) -> list[Comparison]:
    """Outputs without a mask, under one for all examples, one for each, a list, and a list for each."""
    masks = 2 * uniform(41, 3, EXAMPLES, model.units)
    each, shared = written(masks), written(masks[:, :1].expand_as(masks))
    plain = written(torch.ones_like(masks))[0]
    return [
        compare(model.outputs(inputs), "==", scale * plain, f"{name}, no mask"),
        compare(model.outputs(inputs, masks[0, 0]), "==", scale * shared[0], f"{name}, one mask"),
        compare(model.outputs(inputs, masks[1]), "==", scale * each[1], f"{name}, one for each example"),
        compare(model.outputs(inputs, masks[:, :1]), "==", scale * shared, f"{name}, a list of masks"),
        compare(model.outputs(inputs, masks), "==", scale * each, f"{name}, a list for each example"),
    ]


def _mapped(model: LinearModel, matrix: Tensor, name: str, scale: float) -> list[Comparison]:
    """The matrix, its sizes, and what every column of it is: the output of one input alone."""
    alone = model.outputs(torch.eye(model.input_size).double())
    return [
        compare(model.matrix(), "==", scale * matrix, f"{name}, its matrix"),
        compare(alone, "==", scale * matrix.mT, f"{name}, one input alone"),
        same((model.output_size, model.input_size), tuple(matrix.shape), f"{name}, its sizes", scale),
    ]


def _two_layers(scale: float) -> list[Comparison]:
    """Untied, tied and DropConnect networks: a sum over inputs and units, each weight written out."""
    U, V, tied, X = normal(1, 3, 5), normal(2, 4, 5), normal(3, 4, 2), normal(4, EXAMPLES, 4)
    few = Connections(normal(5, 3, 2), normal(6, 4, 2))

    def connected(z: Tensor) -> Tensor:
        return torch.einsum("ok,mnik,ik,ni->mno", few.U, z.unflatten(-1, (4, 2)), few.V, X)

    found = _under(TwoLayerLinear(U, V), X, lambda z: torch.einsum("ok,mnk,ik,ni->mno", U, z, V, X), "untied", scale)
    found += _mapped(TwoLayerLinear(U, V), torch.einsum("ok,ik->oi", U, V), "untied", scale)
    own = Autoencoder(tied)
    found += _under(own, X, lambda z: torch.einsum("ok,mnk,ik,ni->mno", tied, z, tied, X), "tied", scale)
    found += _mapped(own, torch.einsum("ok,ik->oi", tied, tied), "tied", scale)
    found += _under(few, X, connected, "connections", scale)
    found += _mapped(few, torch.einsum("ok,ik->oi", few.U, few.V), "connections", scale)
    units = [TwoLayerLinear(U, V).units, own.units, few.units, few.width]
    found.append(same(units, [5, 2, 8, 2], "units", scale))
    found.append(same((own.untied.U is tied, own.untied.V is tied), (True, True), "untied, both layers", scale))
    return found


def _layers(scale: float) -> list[Comparison]:
    """Chains of layers, masked from the inputs or from the first hidden layer on, and ReLU networks."""
    found: list[Comparison] = []
    X, biases = normal(4, EXAMPLES, 4), [normal(8, 2), None, normal(9, 3)]
    weights = [normal(5, 2, 4), normal(6, 5, 2), normal(7, 3, 5)]

    def chain(z: Tensor, first: bool) -> Tensor:
        parts = list(z.split([4, 2, 5] if first else [2, 5], -1))
        start = parts.pop(0) * X if first else X.expand(len(z), *X.shape)
        return torch.einsum("dc,mnc,cb,mnb,ba,mna->mnd", weights[2], parts[1], weights[1], parts[0], weights[0], start)

    def rectified(z: Tensor) -> Tensor:
        value = X.expand(len(z), *X.shape)
        for k, (weight, bias, part) in enumerate(zip(weights, biases, z.split([4, 2, 5], -1), strict=True)):
            value = torch.einsum("ba,mna->mnb", weight, part * value) + (0.0 if bias is None else bias)
            value = value.clamp_min(0.0) if k < 2 else value
        return value

    for first in (False, True):
        model, name = DeepLinear(weights, mask_inputs=first), f"deep, inputs {first}"
        found += _under(model, X, lambda z, first=first: chain(z, first), name, scale)  # type: ignore[misc]
        found += _mapped(model, torch.einsum("dc,cb,ba->da", *weights[::-1]), name, scale)
        sizes = (model.hidden_sizes, model.layer_units, model.units)
        told = ((2, 5), (4, 2, 5), 11) if first else ((2, 5), (2, 5), 7)
        found.append(same(sizes, told, f"layers of {name}", scale))
    net = ReLUNet(weights, biases)
    found += _under(net, X, rectified, "ReLU", scale)
    found.append(same((net.layer_units, net.units), ((4, 2, 5), 11), "layers of ReLU", scale))
    found.append(same((net.input_size, net.output_size), (4, 3), "sizes of ReLU", scale))
    bare = ReLUNet(weights)
    found.append(compare(torch.cat(bare.biases), "==", torch.zeros(10), "biases that are not given"))
    found.append(same(len(net.tensors) + len(model.tensors), 9, "tensors", scale))
    return found


def _entries(scale: float) -> list[Comparison]:
    """A factored matrix, looked up entry by entry and measured."""
    U, V = normal(1, 5, 3), normal(2, 4, 3)
    model, looks = Factorization(U, V), normal(3, EXAMPLES, 5, 4)
    pairs = torch.tensor([[0, 1], [4, 3], [2, 0], [4, 0], [1, 1], [2, 0]])
    found = [same((model.shape, model.units), ((5, 4), 3), "sizes of a factorization", scale)]
    found.append(compare(model.matrix(), "==", scale * torch.einsum("rk,ck->rc", U, V), "a factorization, its matrix"))

    def each(z: Tensor) -> Tensor:
        terms = torch.stack([U[row] * V[column] for row, column in pairs.tolist()])
        return torch.einsum("mnk,nk->mn", z, terms)[..., None]

    def measured(z: Tensor) -> Tensor:
        return torch.einsum("nrc,rk,ck,mnk->mn", looks, U, V, z)[..., None]

    for kind in (torch.int64, torch.uint8):
        found += _under(model, pairs.to(kind), each, f"entries, {kind}", scale)
    return found + _under(model, looks, measured, "measurements", scale)


def _modules(scale: float) -> list[Comparison]:
    """The last layer of a module, and a layer inside it; the module's own dropout is off, its modes are put back."""
    found: list[Comparison] = []
    first, last, X = linear_head(1, 4, 5), linear_head(3, 5, 3), normal(5, EXAMPLES, 4)
    bare = nn.Linear(5, 3, bias=False).double().requires_grad_(False)
    bare.weight.copy_(last.weight)
    hidden = torch.tanh(X @ first.weight.mT + first.bias)
    for name, head, bias in (("with a bias", last, last.bias), ("without", bare, torch.zeros(3).double())):
        module = nn.Sequential(first, nn.Tanh(), nn.Dropout(0.5), head).train()
        module[1].training = False

        def written(z: Tensor, bias: Tensor = bias) -> Tensor:
            return torch.einsum("ok,mnk,nk->mno", last.weight, z, hidden) + bias

        model = LastLayer.of(module)
        found += _under(model, X, written, f"last layer {name}", scale)
        found.append(compare(model.features(X), "==", scale * hidden, f"its features, {name}"))
        found.append(same((model.units, len(model.tensors)), (5, 1 + (head is last)), f"its sizes, {name}", scale))
        found += _under(Site.of(module, "1", X), X, written, f"site {name}", scale)
        flags = [part.training for part in module.modules()]
        found.append(same(flags, [True, True, False, True, True], f"modes, {name}", scale))
    return found


def _batches(scale: float) -> list[Comparison]:
    """A batch of networks is each network: outputs, matrices, and the moments of their predictions over all masks."""
    found: list[Comparison] = []
    X, rates = normal(4, EXAMPLES, 4), tensor([0.2, 0.0, 0.6])
    coins, blocks = Bernoulli(rates, 3), SlidingBlock(0.3, 3, 2)
    two = Product([coins, Bernoulli(tensor([0.5, 0.1]), 2)])
    three = Product([Bernoulli(tensor([0.4, 0.0, 0.1, 0.3]), 4), *two.laws])
    U, V = normal(1, 2, 2, 3), normal(2, 4, 3)
    layers = [normal(3, 2, 3, 4), normal(5, 2, 3), normal(6, 2, 2, 2)]
    offsets = [normal(8, 2, 3), normal(9, 2), normal(10, 2, 2)]
    cases: tuple[tuple[str, Callable[[Any], Model], Any], ...] = (
        ("untied", lambda k: TwoLayerLinear(U[k], V), coins),
        ("untied, blocks", lambda k: TwoLayerLinear(U[k], V), blocks),
        ("tied", lambda k: Autoencoder(normal(7, 2, 4, 3)[k]), coins),
        ("connections", lambda k: Connections(U[k, ..., :1], V[:, :1]), Bernoulli(tensor([0.2, 0.5, 0.0, 0.4]), 4)),
        ("deep", lambda k: DeepLinear([layers[0][k], layers[1], layers[2][k]]), two),
        ("deep, at its end", lambda k: DeepLinear([layers[0][0], layers[1], layers[2][k]]), two),
        (
            "ReLU",
            lambda k: ReLUNet([layers[0][k], layers[1], layers[2][k]], [offsets[0][k], offsets[1], offsets[2][k]]),
            three,
        ),
    )
    for name, build, law in cases:
        both = build(slice(None))
        found.append(same(both.batch_shape, torch.Size([2]), f"shape of a batch, {name}", scale))
        masks, chances = (torch.cat(part) for part in zip(*law.atom_batches(1024), strict=True))
        each = [build(k) for k in range(2)]
        for k, one in enumerate(each):
            if isinstance(both, LinearModel) and isinstance(one, LinearModel):
                found.append(compare(both.matrix()[k], "==", scale * one.matrix(), f"matrices, {name}"))
            found.append(compare(both.outputs(X)[k], "==", scale * one.outputs(X), f"outputs of a batch, {name}"))
        listed = [moments_of(one.outputs(X, masks[:, None]), chances) for one in each]
        truth = [torch.stack(part) for part in zip(*listed, strict=True)]
        for method in (ClosedForm(), Enumerate()):
            told = predictive(both, X, law, method)
            for part, wanted in zip((told.mean, told.variance, told.covariance), truth, strict=True):
                found.append(compare(part.value, "==", scale * wanted, f"moments of a batch, {name}, {method}"))
    return found


def _misfits(scale: float) -> list[Comparison]:
    """Weights, biases and masks that do not fit, by name."""
    found: list[Comparison] = []
    U, V, X, far = normal(1, 3, 2), normal(2, 4, 2), normal(4, EXAMPLES, 4), normal(5, 3)
    pair = [normal(5, 3, 4), normal(6, 2, 3)]
    head = LastLayer.of(linear_head(1, 4, 2))
    for words, call in (
        ("V (columns) has size 3, expected 2", lambda: TwoLayerLinear(U, normal(2, 4, 3))),
        ("U must be a matrix", lambda: TwoLayerLinear(far, V)),
        ("U must be a matrix", lambda: Autoencoder(normal(1, 3, 0))),
        ("V is torch.float32", lambda: Factorization(U, V.float())),
        ("U must be finite", lambda: Connections(U * math.inf, V)),
        ("at least two layers", lambda: DeepLinear(pair[:1])),
        ("weights[1] (columns) has size 2, expected 3", lambda: DeepLinear([pair[0], normal(6, 2, 2)])),
        ("biases has size 1, expected 2", lambda: ReLUNet(pair, [None])),
        ("biases[0] has size 2, expected 3", lambda: ReLUNet(pair, [normal(7, 2), None])),
        ("biases[1] has size 0, expected 2", lambda: ReLUNet(pair, [None, torch.tensor(1.0).double()])),
        ("multipliers (last dimension) has size 3", lambda: TwoLayerLinear(U, V).outputs(X, far)),
        ("multipliers (last dimension) has size 3", lambda: Connections(U, V).outputs(X, far)),
        ("multipliers (last dimension) has size 3", lambda: Factorization(U, V).outputs(normal(7, 2, 3, 4), far)),
        ("multipliers (last dimension) has size 4", lambda: DeepLinear(pair).outputs(X, normal(7, 4))),
        ("multipliers (last dimension) has size 3", lambda: ReLUNet(pair).outputs(X, far)),
        ("multipliers (last dimension) has size 3", lambda: head.outputs(X, far)),
    ):
        found.append(refuses(call, words))
    return found


class Repeated(nn.Module):
    """Runs one layer so many times, and gives its output on as it is or in a pair."""

    def __init__(self, times: int, paired: bool = False) -> None:
        super().__init__()
        self.last, self.times, self.paired = nn.Identity(), times, paired
        self.layer: nn.Module = nn.LSTM(4, 2, batch_first=True).double() if paired else linear_head(1, 4, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        for _ in range(self.times):
            inputs = self.layer(inputs)[0] if self.paired else self.layer(inputs)
        return self.last(inputs)


def _foreign(scale: float) -> list[Comparison]:
    """Heads and sites that a module does not have or that do not stay as they are; no hook is left behind."""
    found: list[Comparison] = []
    X, inner, last = normal(4, EXAMPLES, 4), linear_head(1, 4, 4), linear_head(3, 4, 2)
    stack, doubled = nn.Sequential(inner, nn.Tanh(), last), linear_head(3, 4, 2)
    doubled.register_forward_hook(lambda _part, _given, output: 2 * output)
    own = len(doubled._forward_hooks)
    flat = nn.Sequential(nn.Flatten(0), nn.Linear(4, 2).double())
    ends, whole = "the named layer does not end the module", "must be (examples, features...)"
    cases: tuple[tuple[nn.Module, str, Callable[[Any], Any]], ...] = (
        (nn.Sequential(nn.ReLU()), "has no nn.Linear layer", LastLayer.of),
        (stack, "name must be one of the linear layers ['0', '2'], got '1'", lambda it: LastLayer.of(it, "1")),
        (stack, ends, lambda it: LastLayer.of(it, "0").features(X)),
        (nn.Sequential(inner, nn.Softmax(-1)), ends, lambda it: LastLayer.of(it).outputs(X)),
        (nn.Sequential(inner, nn.ReLU(inplace=True)), ends, lambda it: LastLayer.of(it).features(X.abs())),
        (doubled, ends, lambda it: LastLayer.of(it).features(X)),
        (linear_head(1, 4, 2), ends, lambda it: LastLayer.of(it).features(X[:, None])),
        (Repeated(2), "it ran 2 times", lambda it: LastLayer.of(it).features(X)),
        (Repeated(0), "it ran 0 times", lambda it: LastLayer.of(it).features(X)),
        (stack, "name must be one of the layers ['0', '1', '2'], got ''", lambda it: Site.of(it, "", X)),
        (stack, "name must be one of the layers", lambda it: Site.of(it, "3", X)),
        (Repeated(2), "it ran 2 times", lambda it: Site.of(it, "layer", X)),
        (Repeated(0), "it ran 0 times", lambda it: Site.of(it, "layer", X)),
        (Repeated(1, paired=True), "must return one tensor, got tuple", lambda it: Site.of(it, "layer", X[:, None])),
        (flat, whole, lambda it: Site.of(it, "0", X)),
        (stack, "multipliers (last dimension) has size 3", lambda it: Site.of(it, "1", X).outputs(X, X[0, :3])),
    )
    for module, words, call in cases:
        module.train()
        found.append(refuses(lambda call=call, module=module: call(module), words))
        hooks = sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in module.modules())
        flags = {part.training for part in module.modules()}
        left = (hooks, flags) == (own if module is doubled else 0, {True})
        found.append(same(left, True, f"nothing is left behind: {words}", scale))
    chosen = [LastLayer.of(stack).head is last, LastLayer.of(stack, "0").head is inner]
    found.append(same(chosen, [True, True], "the last linear layer, and one by its name", scale))
    return found
