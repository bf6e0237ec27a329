"""Families from outside and derived ones, limits of methods and of laws, and answers whose arguments change later."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from droptics.data import Entries, Measurements, Moments, Sample
from droptics.envelopes import envelope, induced
from droptics.envelopes.deep_linear import input_root, spectrum
from droptics.equalization import balance, equalize, imbalance
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy, Logistic, Squared
from droptics.masks import Bernoulli, Block, Gaussian, MaskLaw, Product
from droptics.models import Autoencoder, Connections, DeepLinear, Factorization, Model, ReLUNet, TwoLayerLinear
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import fails, refuses, same
from droptics.papers.instances import moments, normal, simplex, tensor
from droptics.penalties import (
    Certified,
    ClosedForm,
    Enumerate,
    MonteCarlo,
    SecondOrder,
    best_method,
    criterion,
    effective_strength,
    has_closed_form,
    is_linear_in_masks,
    penalty,
    relu_criterion,
    unit_energies,
    unit_gram,
)


class Derived(TwoLayerLinear):
    """Two layers under another name."""


@dataclass(frozen=True, eq=False)
class Quadratic(Model):
    """A family from outside, sum_j z_j <w_j, x>^2 for weights (..., inputs, units), which states no rule."""

    weights: Tensor

    @property
    def units(self) -> int:
        """One for each column."""
        return self.weights.shape[-1]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The weights."""
        return (self.weights,)

    @property
    def batch_shape(self) -> torch.Size:
        """That of the weights."""
        return self.weights.shape[:-2]

    def outputs(self, inputs: Tensor, multipliers: Tensor | None = None) -> Tensor:
        """One output, from the definition."""
        squares = (inputs @ self.weights).square()
        return (squares if multipliers is None else squares * multipliers).sum(-1, keepdim=True)


class Stated(Quadratic):
    """The same, which states its Gram matrix and nothing else."""


@unit_gram.register
def _(model: Stated, data: Sample) -> Tensor:
    squares = (data.inputs @ model.weights).square()
    return (squares * data.shares[:, None]).mT @ squares


def from_outside(scale: float) -> list[Comparison]:
    """What rules say about other families, and what is refused."""
    return by_parts((_families, _refused), scale)


def edges_of_penalties(scale: float) -> list[Comparison]:
    """What is tiny, and what changes later."""
    return by_parts((_tiny, _changed), scale)


def observed_factors(scale: float) -> list[Comparison]:
    """What is observed unevenly or nearly cancels."""
    return by_parts((_observed, _members, _cancelling), scale)


def _families(scale: float) -> list[Comparison]:
    """Derived families answer as what they are derived from; others by what they state, batches included."""
    found: list[Comparison] = []
    X, Y, labels = normal(1, 6, 3), normal(2, 6, 1), torch.arange(6) % 3
    data, law = Sample(X, Y, 2 * simplex(3, 6)), Bernoulli(tensor([0.2, 0.5, 0.3, 0.6]), 4)
    weights = normal(4, 2, 3, 4)
    linear: tuple[Model, ...] = (
        Derived(normal(5, 3, 4), normal(6, 3, 4)),
        Autoencoder(normal(5, 3, 4)),
        Connections(normal(5, 3, 4), normal(6, 3, 4)),
        Factorization(normal(5, 3, 4), normal(6, 3, 4)),
    )
    others: tuple[Model, ...] = (DeepLinear([X, X.mT]), ReLUNet([X, X.mT]), Quadratic(weights), Stated(weights))
    for model in (*linear, *others):
        known = any(model is one for one in linear)
        found.append(same(is_linear_in_masks(model), known, f"linear in masks, {type(model).__name__}", scale))
    wide = Derived(normal(5, 3, 20), normal(6, 3, 20))
    told = best_method(wide, Sample(X, labels), Bernoulli(0.3, 20), CrossEntropy())
    found.append(same(told, Certified(), f"best method of a derived family: {told}", scale))
    plain = TwoLayerLinear(wide.U, wide.V)
    for call in (penalty, induced, envelope):
        pair = [call(one, moments(7, 3, 3), Bernoulli(0.3, 20)).value for one in (wide, plain)]
        found.append(compare(pair[0], "==", scale * pair[1], f"{call.__name__} of a derived family"))
    signed = (wide.U.mT @ wide.U) * (wide.V.mT @ moments(7, 3, 3).xx @ wide.V)
    found.append(compare(unit_gram(wide, moments(7, 3, 3)), "==", scale * signed, "Gram matrix of a derived family"))
    leaf, ways = normal(5, 3, 4).requires_grad_(), normal(8, 4, 4)
    other, seen = normal(6, 3, 4), Sample(X, normal(2, 6, 3), data.weights)
    moved = (seen.shares[:, None] * (X @ other)).mT @ (X @ other)
    told_slopes = torch.autograd.grad((ways * unit_gram(Derived(leaf, other), seen)).sum(), leaf)[0]
    wanted = torch.autograd.grad((ways * (leaf.mT @ leaf) * moved).sum(), leaf)[0]
    found.append(compare(told_slopes, "==", scale * wanted, "slopes of a Gram matrix"))
    told_slopes = torch.autograd.grad((ways[0] * unit_energies(Derived(leaf, other), seen)).sum(), leaf)[0]
    wanted = 2 * leaf.detach() * ways[0] * moved.diagonal()
    found.append(compare(told_slopes, "==", scale * wanted, "slopes of energies"))
    batch, none = Stated(weights), Quadratic(weights)
    squares = (X @ weights).square()
    gram = torch.einsum("n,bni,bnj->bij", data.shares, squares, squares)
    found.append(compare(unit_gram(batch, data), "==", scale * gram, "a Gram matrix from outside"))
    energies = torch.diagonal(gram, dim1=1, dim2=2)
    found.append(compare(unit_energies(batch, data), "==", scale * energies, "its energies"))
    wanted = (law.relative_variance * energies).sum(1)
    found.append(compare(penalty(batch, data, law), "==", scale * wanted, "penalty by it"))
    pairs = Block(0.3, 4, 2)
    wanted = (pairs.characteristic * gram).sum((1, 2))
    found.append(compare(penalty(batch, data, pairs), "==", scale * wanted, "and of correlated units"))
    for masks in (law, pairs):
        listed = penalty(none, data, masks, Enumerate())
        found.append(compare(listed, "==", penalty(batch, data, masks).value * scale, f"enumerated, {masks}"))
    found.append(same(best_method(none, data, law), Enumerate(), "a family that states nothing", scale))
    found.append(same(best_method(batch, data, law), ClosedForm(), "one that states its Gram matrix", scale))
    for question, words in (
        (lambda: penalty(none, data, law), "the outputs of Quadratic are not known to be linear"),
        (lambda: induced(none, data, law), "the induced penalty of Quadratic is not known"),
        (lambda: envelope(none, data, law), "the convex envelope of Quadratic is not known"),
        (lambda: equalize(none, data, law), "no equalized network is known for Quadratic"),
    ):
        found += [refuses(question, words), compare(fails(question), "==", 1.0, f"no closed form: {words}")]
    return found


def _refused(scale: float) -> list[Comparison]:
    """Limits of options, laws and data under which a ReLU network has a sum, its time, and one derivative alone."""
    found: list[Comparison] = []
    net = ReLUNet([normal(1, 3, 4), normal(2, 2, 3)], [normal(3, 3), normal(4, 2)])
    X = normal(5, 6, 4)
    data, labels = Sample(X, normal(6, 6, 2)), Sample(X, torch.arange(6) % 2)
    coins, noise = Bernoulli(0.3, 4), Gaussian(0.5, 4)
    first, last = Product([noise, Bernoulli(0.2, 3)]), Product([coins, Gaussian(0.5, 3)])
    for masks, loss, known in (
        (first, Squared(), False),
        (first, CrossEntropy(), False),
        (last, Squared(), True),
        (last, CrossEntropy(), False),
        (Product([coins, Bernoulli(0.2, 3)]), CrossEntropy(), True),
        (Product([coins, Bernoulli(0.2, 3)]), Logistic(), True),
        (Block(0.3, 7, 7), Squared(), False),
    ):
        name = f"{type(masks).__name__}, {loss}"
        found.append(same(has_closed_form(net, masks, loss), known, f"closed form under {name}", scale))
        given = data if isinstance(loss, Squared) else labels
        if not isinstance(loss, Logistic):
            told = best_method(net, given, masks, loss)
            other: Any = Enumerate() if masks.support_count else MonteCarlo()
            found.append(same(told, ClosedForm() if known else other, f"best method under {name}: {told}", scale))
    law = Product([coins, Bernoulli(0.2, 3)])
    big = ReLUNet([normal(1, 3, 30), normal(2, 2, 3)])
    long, both = Sample(normal(7, 4, 30), normal(8, 4, 2)), Product([Bernoulli(0.3, 30), Bernoulli(0.2, 3)])
    weights = net.weights[0].clone().requires_grad_()

    def twice() -> Any:
        """The second derivative of the square of a criterion, most of which would be left out."""
        model = ReLUNet([weights, net.weights[1]], list(net.biases))
        (slope,) = torch.autograd.grad(criterion(model, data, law).value.square(), weights, create_graph=True)
        return torch.autograd.grad(slope.sum(), weights)

    found.append(compare(fails(twice, RuntimeError), "==", 1.0, "no second derivative"))
    for call, words in (
        (lambda: ClosedForm(seconds=0.0), "seconds must be positive"),
        (lambda: ClosedForm(seconds=-1.0), "seconds must be positive"),
        (lambda: ClosedForm(seconds=math.nan), "seconds"),
        (lambda: Certified(17), "at most 16"),
        (lambda: MonteCarlo(3), "at least 4"),
        (lambda: penalty(net, moments(9, 2, 4), law), "data must be a Sample for ReLUNet, got Moments"),
        (lambda: criterion(net, moments(9, 2, 4), law), "data must be a Sample for ReLUNet, got Moments"),
        (lambda: relu_criterion(big, long, both, ClosedForm(seconds=1e-9)), "more than the 1e-09 s allowed"),
        (lambda: penalty(big, long, both, ClosedForm(seconds=1e-9)), "more than the 1e-09 s allowed"),
        (lambda: penalty(net, data, first), "Gaussian has no finite list of masks and stands before the last"),
    ):
        found.append(refuses(call, words, f"{words}, {found[-1].label}"))
    found.append(same((Certified(16).condition, MonteCarlo(4).samples), (16, 4), "limits themselves", scale))
    single = ReLUNet([part.float() for part in net.weights], [part.float() for part in net.biases])
    each = relu_criterion(single, data.to(torch.float32), law)
    found.append(same(each.dtype, torch.float32, "criteria stay single", scale))
    wanted = torch.stack([criterion(net, Sample(X[i : i + 1], data.targets[i : i + 1]), law).value for i in range(6)])
    found.append(compare(each, "==", scale * wanted, "example by example", 1e-5))
    return found


def _tiny(scale: float) -> list[Comparison]:
    """Strengths, penalties and their bounds at tiny rates keep their digits."""
    found: list[Comparison] = []
    for drops, widths in (((1e-17, 3e-18), (5, 2)), ((1e-9, 0.0), (3, 4)), ((0.3, 0.6), (2, 7))):
        odds = [drop / (1 - drop) / width for drop, width in zip(drops, widths, strict=True)]
        wanted = sum(odds) + odds[0] * odds[1]
        told = effective_strength(widths, tensor(drops))
        found.append(compare(told / wanted, "==", scale, f"strength at {drops}", 1e-14))
    several = effective_strength((5, 2), tensor([[0.1, 0.2], [0.5, 0.0]]))
    pairs = [1 / 9 / 5 + 1 / 8 + 1 / 9 / 5 / 8, 1 / 5]
    found.append(compare(several, "==", scale * tensor(pairs), "strengths of several"))
    one = effective_strength((5, 2, 3), 0.2)
    found.append(compare(one, "==", scale * (1.05 * 1.125 * (1 + 1 / 12) - 1), "one rate for all"))
    X, labels = normal(1, 5, 3), torch.arange(5) % 13
    U, V, drop = 0.01 * normal(2, 13, 3), normal(3, 3, 3), 1e-11
    chances, parts = torch.softmax(X @ V @ U.mT, -1)[:, :, None], (X @ V)[:, None, :] * U
    # units fall one at a time: E log X is the rate times the sum of log sum_k pi_k exp(pi . g - g_k) of each
    alone = torch.log((chances * ((chances * parts).sum(1, keepdim=True) - parts).exp()).sum(1))
    two = TwoLayerLinear(U, V)
    for method in (Certified(), SecondOrder(None)):
        told_tiny = penalty(two, Sample(X, labels), Bernoulli(drop, 3), method, CrossEntropy())
        found.append(compare(told_tiny.value / (drop * alone.sum(1).mean()), "==", scale, f"tiny, {method}", 0.03))
    return found


def _changed(scale: float) -> list[Comparison]:
    """Errors asked for after weights, inputs, targets or moments were changed in place are not known any more."""
    found: list[Comparison] = []
    law, coins = Bernoulli(0.3, 4), Product([Bernoulli(0.2, 3), Bernoulli(0.3, 4)])

    def network() -> tuple[Model, Any]:
        return TwoLayerLinear(normal(1, 2, 4), normal(2, 3, 4)), Sample(normal(3, 6, 3), normal(4, 6, 2), simplex(5, 6))

    def population() -> tuple[Model, Any]:
        return TwoLayerLinear(normal(1, 2, 4), normal(2, 3, 4)), moments(3, 2, 3)

    def rectified() -> tuple[Model, Any]:
        return ReLUNet([normal(1, 4, 3), normal(2, 2, 4)]), Sample(normal(3, 6, 3), normal(4, 6, 2), simplex(5, 6))

    def asked(model: Model, data: Any, masks: MaskLaw) -> list[Any]:
        told = [call(model, data, masks) for call in (penalty, criterion)]
        if isinstance(model, TwoLayerLinear):
            told += [call(model, data, masks) for call in (induced, envelope)]
            told.append(penalty(model, data, masks, Enumerate()))
        return told

    for make, masks in ((network, law), (population, law), (rectified, coins)):
        model, data = make()
        kept = asked(model, data, masks)
        errors = [float(one.error) for one in kept]
        found.append(compare(max(errors), "<", 1e-9, f"known, {make.__name__}", 0.0))
        changes = ["tensors", *(name for name, part in vars(data).items() if isinstance(part, Tensor))]
        for name in changes:
            model, data = make()
            kept = asked(model, data, masks)
            changed = model.tensors[-1] if name == "tensors" else getattr(data, name)
            changed.mul_(1.5)
            gone = [float(one.error) for one in kept]
            label = f"{make.__name__}, {name} changed"
            found.append(same(gone, [math.inf] * len(kept), f"not known, {label}", scale))
            found.append(same([float(one.lower) for one in kept], [-math.inf] * len(kept), f"no end, {label}", scale))
            value = float(kept[0])
            model, data = make()
            found.append(compare(value, "==", scale * float(asked(model, data, masks)[0]), f"value stays, {label}"))
    return found


def _observed(scale: float) -> list[Comparison]:
    """Balanced and equalized factors of entries seen in unequal proportions, of matrices, and of silent inputs."""
    found: list[Comparison] = []
    pairs = [(i, j) for i in range(3) for j in range(4) for _ in range((1 + 2 * (i == 1)) * (1 + 3 * (j == 2)))]
    rows, columns = torch.tensor(pairs).T
    cells = Entries(rows, columns, normal(1, len(pairs)), (3, 4))
    p, q = (torch.bincount(part).double() / len(pairs) for part in (rows, columns))
    matrices = torch.linalg.qr(normal(2, 12, 12)).Q.reshape(12, 3, 4)
    seen = Measurements(matrices, normal(3, 12))
    U, V = normal(4, 3, 5), normal(5, 4, 5)
    for name, data, left, right in (
        ("entries", cells, p.sqrt(), q.sqrt()),
        ("matrices", seen, torch.ones(3).double(), torch.full((4,), 12**-0.5, dtype=torch.float64)),
    ):
        model = Factorization(U, V)
        level = balance(model, data)
        sizes = [(left[:, None] * level.U).square().sum(0), (right[:, None] * level.V).square().sum(0)]
        found.append(compare(sizes[0], "==", scale * sizes[1], f"balanced, {name}"))
        found.append(compare(level.U @ level.V.mT, "==", scale * U @ V.mT, f"the same map, {name}"))
        values = torch.linalg.svdvals(left[:, None] * (U @ V.mT) * right)
        for law in (Bernoulli(0.3, 5), Bernoulli(tensor([0.3, 0.1, 0.2, 0.6, 0.4]), 5)):
            least = induced(model, data, law)
            even = equalize(model, data, law)
            found.append(compare(even.U @ even.V.mT, "==", scale * U @ V.mT, f"equalized map, {name}", 1e-8))
            found.append(compare(penalty(even, data, law), "==", scale * least.value, f"attained, {name}", 1e-8))
            odds = 1 / (1 / law.relative_variance).sum()
            below = odds * values.sum() ** 2
            found.append(compare(envelope(model, data, law), "==", scale * below, f"envelope, {name}"))
            found.append(compare(least, ">=", scale * below, f"above its envelope, {name}"))
    return found


def _members(scale: float) -> list[Comparison]:
    """Batches are their members, and nodes that lack either side are taken away."""
    found: list[Comparison] = []
    known = moments(6, 2, 3)
    batch = TwoLayerLinear(normal(7, 2, 2, 4), normal(8, 2, 3, 4))
    for call in (induced, envelope):
        each = [
            call(TwoLayerLinear(*pair), known, Bernoulli(0.3, 4)).value for pair in zip(*batch.tensors, strict=True)
        ]
        told = call(batch, known, Bernoulli(0.3, 4))
        found.append(compare(told, "==", scale * torch.stack(each), f"{call.__name__} of a batch"))
    level = balance(batch, known)
    into = (level.V * (known.xx @ level.V)).sum(-2)
    found.append(compare(level.U.square().sum(-2), "==", scale * into, "a balanced batch"))
    nodes = TwoLayerLinear(normal(7, 2, 3) * tensor([1.0, 1.0, 0.0]), normal(8, 3, 3) * tensor([1.0, 0.0, 1.0]))
    level = balance(nodes, known)
    dead = torch.cat([level.U, level.V])[:, 1:]
    found.append(same(float(dead.abs().max()), 0.0, "nodes that lack either side", scale))
    # a map of -2^-k from nodes of norm one, all of it exact
    alone, coins = Moments.of_map(torch.ones(1, 1).double()), Bernoulli(0.3, 2)
    for left in (2.0**-20, 2.0**-27, 0.0):
        near = TwoLayerLinear(tensor([[1.0, -1.0]]), tensor([[1.0, 1.0 + left]]))
        wanted = 2 * (1 + (1 + left) ** 2) / left**2 - 1 if left else math.inf
        found.append(compare(imbalance(near, alone, coins), "==", scale * wanted, f"all but {left} cancels"))
    return found


def _cancelling(scale: float) -> list[Comparison]:
    """Maps through one unit that nearly cancel: of what rounding adds beyond rank one nothing is left."""
    found: list[Comparison] = []
    known, law = moments(6, 2, 3), Product([Bernoulli(0.3, 1), Bernoulli(0.6, 3)])
    first, second, last = normal(1, 1, 3), normal(2, 3, 1), normal(3, 2, 3)
    for left in (1.0, 1e-3, 1e-8):
        model = DeepLinear([first, second, last - (1 - left) * (last @ second) @ second.mT / second.square().sum()])
        values = spectrum(model, input_root(known))
        map_ = model.matrix() @ torch.linalg.cholesky(known.xx)
        found.append(compare(values[0], "==", scale * torch.linalg.matrix_norm(map_, 2), f"one value, {left}"))
        found.append(same(values[1:].tolist(), [0.0] * (len(values) - 1), f"no other, {left}"))
        # 1 + 3/7 and 1 + (3/2) / 3
        least = (10 / 7 * 1.5 - 1) * map_.square().sum()
        found.append(compare(induced(model, known, law), "==", scale * least, f"least penalty, {left}"))
        found.append(compare(envelope(model, known, law), "==", scale * least, f"its envelope, {left}"))
        even = equalize(model, known, law)
        found.append(compare(even.matrix(), "==", scale * model.matrix(), f"equalized, {left}", 1e-7))
        found.append(compare(penalty(even, known, law), "==", scale * least, f"attained, {left}", 1e-7))
    return found
