"""What a claim on derivatives compares: exact answers beside their formulas, by every way torch differentiates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd import forward_ad

from droptics.data import Sample
from droptics.envelopes import envelope, induced
from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli, Block, Product
from droptics.models import DeepLinear, ReLUNet, TwoLayerLinear
from droptics.papers.instances import coin_masks, normal, tensor, uniform
from droptics.penalties import SecondOrder, criterion, penalty
from droptics.transforms import opaque

Function = Callable[..., Tensor]


@dataclass(frozen=True)
class _Answer:
    """An answer of the library, the same written out, and what both depend on."""

    told: Function
    written: Function
    leaves: tuple[Tensor, ...]
    duals: bool = True  # dual numbers without torch.func are refused where not


def _moment(X: Tensor, weights: Tensor) -> Tensor:
    return (weights[:, None] * X).mT @ X / weights.sum()


def _size(map_of: Tensor, X: Tensor, weights: Tensor) -> Tensor:
    """||M C^1/2||_* for the second moment C of the weighted inputs."""
    return torch.linalg.svdvals(map_of @ ((weights / weights.sum()).sqrt()[:, None] * X).mT).sum()


def _beside(map_of: Tensor, X: Tensor, weights: Tensor, odds: Tensor, rates: Tensor) -> Tensor:
    """||M C^1/2||_*^2 / (1 / odds + sum (1 - rate) / rate), also for odds of zero."""
    rest = ((1 - rates) / rates).sum()
    return (_size(map_of, X, weights).square() * odds / (1 + odds * rest)).sum()


def _criterion(U: Tensor, V: Tensor, X: Tensor, Y: Tensor, weights: Tensor, rates: Tensor) -> Tensor:
    shares, hidden = weights / weights.sum(), X @ V
    error = shares @ (hidden @ U.mT - Y).square().sum(1)
    return error + (rates / (1 - rates) * U.square().sum(0) * (shares @ hidden.square())).sum()


def _deep(layers: Sequence[Tensor], X: Tensor, weights: Tensor, rates: Sequence[Tensor]) -> Tensor:
    """The second moment behind every layer, its diagonal raised by the masks, less the energy of the plain map."""
    A, B, D = layers
    C = _moment(X, weights)
    moved = C
    for weight, rate in zip((A, B), rates, strict=True):
        moved = weight @ moved @ weight.mT
        moved = moved + torch.diag(rate / (1 - rate) * moved.diagonal())
    W = D @ B @ A
    return ((D @ moved) * D).sum() - ((W @ C) * W).sum()


def _blocks(U: Tensor, V: Tensor, X: Tensor, weights: Tensor, rates: Tensor) -> Tensor:
    """Outputs of all units of a block move together."""
    moved = torch.einsum("nbj,obj->nbo", (X @ V).unflatten(1, (2, 2)), U.unflatten(1, (2, 2)))
    return (weights / weights.sum()) @ (moved.square().sum(2) @ (rates / (1 - rates)))


def _relu(V: Tensor, U: Tensor, X: Tensor, Y: Tensor, rates: Tensor) -> Tensor:
    """Mean over all masks of hidden units, which stay at 1 / (1 - rate)."""
    masks = torch.stack([kept for kept, _ in coin_masks([0.0] * 3)])
    chances = torch.where(masks > 0, 1 - rates, rates).prod(1)
    outputs = (masks[:, None] / (1 - rates) * (X @ V.mT).relu()) @ U.mT
    return chances @ (outputs - Y).square().sum(2).mean(1)


def _answers() -> dict[str, _Answer]:
    U, V, X, Y, weights = normal(1, 3, 5), normal(2, 4, 5), normal(3, 6, 4), normal(4, 6, 3), 0.2 + uniform(5, 6)
    rates = tensor([0.1, 0.5, 0.3, 0.6, 0.2])

    def two(U: Tensor, V: Tensor, X: Tensor, rates: Tensor) -> tuple[TwoLayerLinear, Sample, Bernoulli]:
        return TwoLayerLinear(U, V), Sample(X, Y, weights), Bernoulli(rates, 5)

    def deep(A: Tensor, B: Tensor, D: Tensor, X: Tensor, *rates: Tensor) -> tuple[DeepLinear, Sample, Product]:
        masks = Product([Bernoulli(rate, width) for rate, width in zip(rates, (5, 2), strict=True)])
        return DeepLinear([A, B, D]), Sample(X, Y, weights), masks

    def hidden(V: Tensor, U: Tensor, X: Tensor, Y: Tensor, rates: Tensor) -> Tensor:
        masks = Product([Bernoulli(0.0, 2), Bernoulli(rates, 3)])  # rates before the last layer are constants
        return criterion(ReLUNet([V, U]), Sample(X, Y), masks).value

    three = V.mT, normal(6, 2, 5), normal(7, 3, 2)
    each = rates, tensor([0.4, 0.7])
    same = tensor(0.3), tensor(0.6)
    small = normal(8, 3, 2), normal(9, 2, 3), normal(10, 2, 2), normal(11, 2, 2), rates[:3]
    return {
        "criterion": _Answer(
            lambda U, V, X, Y, rates: criterion(TwoLayerLinear(U, V), Sample(X, Y, weights), Bernoulli(rates, 5)).value,
            lambda U, V, X, Y, rates: _criterion(U, V, X, Y, weights, rates),
            (U, V, X, Y, rates),
        ),
        "deep penalty": _Answer(
            lambda *leaves: penalty(*deep(*leaves)).value,
            lambda A, B, D, X, *rates: _deep((A, B, D), X, weights, rates),
            (*three, X, *each),
        ),
        "induced": _Answer(
            lambda *leaves: induced(*two(*leaves)).value,
            lambda U, V, X, rates: _size(U @ V.mT, X, weights).square() / ((1 - rates) / rates).sum(),
            (U, V, X, rates),
        ),
        "envelope beside a unit that never falls": _Answer(
            lambda U, V, X, one, rest: envelope(*two(U, V, X, torch.cat([one, rest]))).value,
            lambda U, V, X, one, rest: _beside(U @ V.mT, X, weights, one / (1 - one), rest),
            (U, V, X, tensor([0.0]), rates[1:]),
        ),
        "deep envelope": _Answer(
            lambda *leaves: envelope(*deep(*leaves)).value,
            lambda A, B, D, X, a, b: (
                ((1 + a / (1 - a) / 5) * (1 + b / (1 - b) / 2) - 1) * _size(D @ B @ A, X, weights).square()
            ),
            (*three, X, *same),
        ),
        "second order": _Answer(
            lambda U, V, rates: (
                penalty(TwoLayerLinear(U, V), Sample(X, Y, weights), Block(rates, 4, 2), SecondOrder(check=None)).value
            ),
            lambda U, V, rates: _blocks(U, V, X, weights, rates),
            (U[:, :4], V[:, :4], tensor([0.3, 0.3])),  # rates alike, for which eigenvectors have no derivative
        ),
        "second order of unequal strengths": _Answer(
            lambda U, V, rates: (
                penalty(TwoLayerLinear(U, V), Sample(X, Y, weights), Block(rates, 4, 2), SecondOrder(check=None)).value
            ),
            lambda U, V, rates: _blocks(U, V, X, weights, rates),
            (U[:, :4], V[:, :4], tensor([0.02, 0.9])),
        ),
        "ReLU": _Answer(hidden, _relu, small, duals=False),
        "opaque": _Answer(
            lambda a, b: opaque(_pair, a, b).sum(), lambda a, b: _pair(a, b).sum(), (normal(12, 3, 2), normal(13, 4, 3))
        ),
    }


def _pair(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([(b @ a).square().sum(), a.pow(3).sum() * b.prod()])


def derivatives(scale: float) -> list[Comparison]:
    """Backward, forward along all and along each, by torch.func and by dual numbers, of batches along any axis."""
    found: list[Comparison] = []
    for name, answer in _answers().items():
        leaves = answer.leaves
        ways = tuple(normal(20 + i, leaf.numel()).reshape(leaf.shape) for i, leaf in enumerate(leaves))
        free = [leaf.clone().requires_grad_() for leaf in leaves]
        slopes = torch.autograd.grad(answer.written(*free), free)
        along = torch.stack([(slope * way).sum() for slope, way in zip(slopes, ways, strict=True)])
        places = tuple(range(len(leaves)))
        found.append(compare(answer.told(*leaves), "==", scale * answer.written(*leaves), name))
        told, mapped = torch.autograd.grad(answer.told(*free), free), torch.func.grad(answer.told, places)(*leaves)
        for i in places:
            found.append(compare(told[i], "==", slopes[i], f"slope {i}, {name}", precision=1e-8))
            found.append(compare(mapped[i], "==", slopes[i], f"slope {i} by a transform, {name}", precision=1e-8))
            if answer.duals:
                found.append(compare(_dual(answer, ways, {i}), "==", along[i], f"along {i}, {name}", precision=1e-8))
        change = torch.func.jvp(answer.told, leaves, ways)[1]
        found.append(compare(change, "==", along.sum(), f"along all by a transform, {name}", precision=1e-8))
        if answer.duals:
            change = _dual(answer, ways, {*places})
            found.append(compare(change, "==", along.sum(), f"along all, {name}", precision=1e-8))
        found += _batches(name, answer)
    return found


def _dual(answer: _Answer, ways: tuple[Tensor, ...], moved: set[int]) -> Tensor:
    """How fast an answer changes where some of its leaves are dual numbers."""
    with forward_ad.dual_level():
        pairs = zip(answer.leaves, ways, strict=True)
        given = [forward_ad.make_dual(leaf, way) if i in moved else leaf for i, (leaf, way) in enumerate(pairs)]
        change = forward_ad.unpack_dual(answer.told(*given)).tangent
    return torch.zeros(()) if change is None else change


def _batches(name: str, answer: _Answer) -> list[Comparison]:
    """The first leaf batched along each of its axes, beside a second one along another."""
    found: list[Comparison] = []
    first, second, *rest = answer.leaves
    several = [(first + normal(k, *first.shape), second - normal(k, *second.shape)) for k in (30, 31)]
    wanted = torch.stack([answer.written(*pair, *rest) for pair in several])
    slopes = torch.stack([torch.func.grad(answer.written)(*pair, *rest) for pair in several])
    for one, other in ((0, 2), (1, 0), (2, 1)) if len(answer.leaves) == 2 else ((2, 1),):
        given = torch.stack([a for a, _ in several], one), torch.stack([b for _, b in several], other)
        axes = (one, other, *[None] * len(rest))
        label = f"batch along {one} and {other}, {name}"
        told = torch.func.vmap(answer.told, in_dims=axes)(*given, *rest)
        found.append(compare(told, "==", wanted, label))
        told = torch.func.vmap(torch.func.grad(answer.told), in_dims=axes)(*given, *rest)
        found.append(compare(told, "==", slopes, f"slopes of a {label}", precision=1e-8))
    return found
