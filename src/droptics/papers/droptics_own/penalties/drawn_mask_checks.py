"""What given, listed and drawn masks add to a loss, family by family and field by field, beside loops over masks."""

from __future__ import annotations

import itertools
import math
from unittest import mock

import numpy as np
import scipy.stats
import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.data import Data, Entries, Measurements, Moments, Sample
from droptics.estimates import Estimate
from droptics.evidence.claims import Comparison, compare
from droptics.linalg.sums import summands
from droptics.losses import CrossEntropy, Loss, Squared
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, MaskLaw, Product
from droptics.models import (
    Autoencoder,
    Connections,
    DeepLinear,
    Factorization,
    LinearModel,
    Model,
    ReLUNet,
    TwoLayerLinear,
)
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import moments, normal, simplex, tensor
from droptics.penalties import Certified, ClosedForm, Enumerate, MonteCarlo, SecondOrder, criterion, penalty, risk
from droptics.penalties.excess import masked_excess
from droptics.penalties.relu import sampling
from droptics.penalties.rounding import excess_scale, roundings, typical_multipliers

EPS = torch.finfo(torch.float64).eps


def drawn_masks_in_full(scale: float) -> list[Comparison]:
    """Given masks on every family, enumerations and draws on every kind of data with all that their answers say."""
    return by_parts((_given, _listed, _drawn, _rectified, _second, _unasked), scale)


def map_under(model: LinearModel, z: Tensor) -> Tensor:
    """The map (outputs, inputs) of one linear network under multipliers, written out."""
    match model:
        case Autoencoder():
            return model.U @ torch.diag(z) @ model.U.mT
        case Connections():
            rows = [[z[i * model.width + k] * model.V[i, k] for k in range(model.width)] for i in range(len(model.V))]
            return model.U @ torch.stack([torch.stack(row) for row in rows]).mT
        case TwoLayerLinear():
            return model.U @ torch.diag(z) @ model.V.mT
    assert isinstance(model, DeepLinear)
    product, used = torch.eye(model.input_size).to(z), 0
    if model.mask_inputs:
        product, used = torch.diag(z[: model.input_size]), model.input_size
    for weight in model.weights[:-1]:
        product = torch.diag(z[used : used + len(weight)]) @ weight @ product
        used += len(weight)
    return model.weights[-1] @ product


def loss_under(model: Model, data: Data, z: Tensor, loss: Loss | None = None) -> Tensor:
    """The mean loss of one model under multipliers, from the definition."""
    if isinstance(data, Moments):
        assert isinstance(model, LinearModel)
        W = map_under(model, z)
        return data.yy.trace() - 2 * (W * data.yx).sum() + (W @ data.xx * W).sum()
    if isinstance(model, Factorization):
        whole = model.U @ torch.diag(z) @ model.V.mT
        if isinstance(data, Entries):
            told = torch.stack([whole[i, j] for i, j in zip(data.rows, data.columns, strict=True)])
        else:
            assert isinstance(data, Measurements)
            told = torch.stack([(one * whole).sum() for one in data.matrices])
        return (told - data.values).square().mean()
    assert isinstance(data, Sample)
    assert isinstance(model, LinearModel)
    outputs = data.inputs @ map_under(model, z).mT
    if isinstance(loss, CrossEntropy):
        each = torch.logsumexp(outputs, -1) - outputs.gather(-1, data.targets[:, None])[:, 0]
    else:
        each = (outputs - data.targets).square().sum(-1)
    return data.shares @ each


def _families() -> list[tuple[str, Model, Data]]:
    known, X, Y = moments(1, 2, 3), normal(2, 7, 3), normal(3, 7, 2)
    data = Sample(X, Y, 3 * simplex(4, 7))
    square = moments(5, 3, 3)
    deep = [normal(6, 2, 3), normal(7, 2, 2), normal(8, 2, 2)]
    rows, columns = torch.tensor([0, 1, 1, 0]), torch.tensor([2, 0, 1, 1])
    factors = Factorization(normal(9, 2, 4), normal(10, 3, 4))
    one: list[tuple[str, Model, Data]] = [
        ("two layers", TwoLayerLinear(normal(9, 2, 4), normal(10, 3, 4)), known),
        ("weights", Connections(normal(9, 2, 2), normal(10, 3, 2)), known),
        ("deep", DeepLinear(deep), known),
        ("deep, masked inputs", DeepLinear(deep, mask_inputs=True), known),
    ]
    return [
        *one,
        *((f"{name}, examples", model, data) for name, model, _ in one),
        ("tied", Autoencoder(normal(9, 3, 4)), square),
        ("entries", factors, Entries(rows, columns, normal(11, 4), (2, 3))),
        ("matrices", factors, Measurements(normal(12, 5, 2, 3), normal(13, 5))),
    ]


def _given(scale: float) -> list[Comparison]:
    """What each of some masks adds to the mean loss, for single models and batches of them; what fits in one call."""
    found: list[Comparison] = []
    for name, model, data in _families():
        z = torch.cat([normal(20, 3, model.units), 2.0 * (normal(21, 4, model.units) > 0)])
        evaluate, plain, room = masked_excess(model, data, Squared())
        ones = torch.ones(model.units).double()
        clean = loss_under(model, data, ones)
        wanted = torch.stack([loss_under(model, data, one) - clean for one in z])
        found.append(compare(evaluate(z), "==", scale * wanted, f"given masks, {name}", 1e-12))
        found.append(compare(plain, "==", scale * clean, f"without masks, {name}", 1e-12))
        found.append(compare(risk(model, data), "==", scale * clean, f"risk, {name}", 1e-12))
        if isinstance(data, Moments):
            count, outputs = len(data.xx), len(data.yy)
        else:
            assert isinstance(data, (Sample, Entries, Measurements))
            count, outputs = len(data), data.targets.shape[-1]
        wide = max(model.units, outputs)
        found.append(compare(room, "==", scale * (2**22 // (count * wide)), f"masks in one call, {name}"))
    known = moments(1, 2, 3)
    data = Sample(normal(2, 7, 3), normal(3, 7, 2), simplex(4, 7))
    labels = Sample(data.inputs, torch.arange(7) % 2, data.weights)
    for family, units in ((TwoLayerLinear, 4), (Connections, 12)):
        U, V, z = normal(14, 5, 2, 4), normal(15, 5, 3, 4), normal(16, 3, units)
        batch = family(U, V)
        found.append(compare(torch.cat(batch.tensors, -2), "==", scale * torch.cat([U, V], -2), "weights as given"))
        for one, loss in ((known, Squared()), (data, Squared()), (labels, CrossEntropy())):
            evaluate, plain, _ = masked_excess(batch, one, loss)
            singles = [family(*pair) for pair in zip(U, V, strict=True)]
            clean = torch.stack([loss_under(model, one, torch.ones(units).double(), loss) for model in singles])
            wanted = torch.stack([torch.stack([loss_under(model, one, row, loss) for model in singles]) for row in z])
            title = f"a batch of {family.__name__}, {type(one).__name__}, {loss}"
            found.append(compare(evaluate(z), "==", scale * (wanted - clean), title, 1e-12))
            found.append(compare(plain, "==", scale * clean, f"{title}, without masks", 1e-12))
        # one mask for every example, and one for each
        each = normal(17, 7, units)
        one_by_one = torch.stack([x @ map_under(singles[2], row).mT for x, row in zip(data.inputs, each, strict=True)])
        told = singles[2].outputs(data.inputs, each)
        found.append(compare(told, "==", scale * one_by_one, f"a mask for each, {family.__name__}", 1e-12))
        shared = data.inputs @ map_under(singles[2], each[0]).mT
        for shape in ((units,), (1, units)):
            told = singles[2].outputs(data.inputs, each[0].reshape(shape))
            found.append(compare(told, "==", scale * shared, f"one mask, {family.__name__}, {shape}", 1e-12))
    return found


def _listed(scale: float) -> list[Comparison]:
    """Sums over all masks, where the first order counts, and everything else that such an answer says."""
    found: list[Comparison] = []
    for name, model, data in _families():
        law: MaskLaw = Bernoulli(0.2 + 0.3 * torch.arange(model.units).double() / model.units, model.units)
        correlated: list[MaskLaw] = [Block(0.3, model.units, 2)] if "deep" in name and model.units % 2 == 0 else []
        for masks in (law, *correlated):
            told = penalty(model, data, masks, Enumerate())
            clean = loss_under(model, data, torch.ones(model.units).double())
            atoms = [
                (z, chance) for some, chances in masks.atom_batches(5) for z, chance in zip(some, chances, strict=True)
            ]
            wanted = sum(chance * (loss_under(model, data, z) - clean) for z, chance in atoms)
            kind = f"{name}, {type(masks).__name__}"
            found.append(compare(told, "==", scale * wanted, f"all masks, {kind}", 1e-12))
            room = masked_excess(model, data, Squared())[2]
            steps = roundings(model, data) + 2 * model.units + 2 * math.sqrt(room) + 1
            size = excess_scale(model, data, typical_multipliers(model, masks), Squared())
            rounding = steps * EPS * size + EPS * abs(wanted)
            found.append(compare(told.error, "==", scale * rounding, f"rounding, {kind}", 1e-9, 1e-300))
            found.append(compare(told.upper - told.lower, "==", scale * 2 * rounding, f"ends, {kind}", 0.1, 1e-300))
            found.append(compare(told.cost, "==", scale * len(atoms), f"passes, {kind}"))
            found.append(same(told.method, f"enumeration of {len(atoms)} masks", f"words, {kind}", scale))
            whole = criterion(model, data, masks, Enumerate())
            found.append(compare(whole, "==", scale * (wanted + clean), f"with the risk, {kind}", 1e-12))
    two = TwoLayerLinear(normal(9, 2, 4), normal(10, 3, 4))
    for masks, limit, words in (
        (Bernoulli(0.3, 4), 15, "masks has 16 masks, more than the limit 15 of Enumerate; use Enumerate(limit=16)"),
        (Bernoulli(0.3, 60), 99, "masks has at least 2^60 masks, more than the limit 99 of Enumerate; use ClosedForm"),
    ):
        wide = two if masks.size == 4 else TwoLayerLinear(normal(9, 2, 60), normal(10, 3, 60))
        found.append(refuses(lambda m=wide, law=masks, n=limit: penalty(m, moments(1, 2, 3), law, Enumerate(n)), words))
    found.append(compare(penalty(two, moments(1, 2, 3), Bernoulli(0.3, 4), Enumerate(16)).cost, "==", 16 * scale, "16"))
    return found


def _drawn(scale: float) -> list[Comparison]:
    """Means of drawn masks with and without their control, Student's interval, rounding, words: all fields."""
    found: list[Comparison] = []
    for name, model, data in _families():
        law = Bernoulli(0.25 + 0.3 * torch.arange(model.units).double() / model.units, model.units)
        count, confidence = 160, 0.9
        told = penalty(model, data, law, MonteCarlo(count, seed=4, confidence=confidence))
        z = law.multipliers(count, torch.Generator().manual_seed(4))
        ones = torch.ones(model.units, dtype=torch.float64, requires_grad=True)
        clean = loss_under(model, data, ones)
        (slope,) = torch.autograd.grad(clean, ones)
        values = np.array([float((loss_under(model, data, one) - clean).detach()) for one in z])
        control = ((z - 1) @ slope).numpy()
        weight = np.cov(control, values)[0, 1] / np.var(control, ddof=1)
        r = values - weight * control
        mean, r = r.mean(), r - r.mean()
        share = (r**2).sum() / ((values - values.mean()) ** 2).sum()
        quantile = scipy.stats.t.ppf((1 + confidence) / 2, count - 2)
        variance = (r**2).sum() / (count - 2)
        half = quantile * math.sqrt(variance / count) + quantile**2 / 2 * abs((r**3).mean()) / variance / count
        words = f"Monte Carlo, {count} masks, first-order control variate leaves {share:.0%} of the variance"
        found.append(compare(told, "==", scale * mean, f"mean, {name}"))
        found.append(compare(told.upper - told.lower, "==", scale * 2 * half, f"interval, {name}", 1e-7))
        found.append(compare(told.upper + told.lower, "==", scale * 2 * mean, f"its middle, {name}", 1e-7))
        found.append(compare([told.cost, told.confidence], "==", [scale * count, confidence], f"draws, {name}"))
        found.append(same(told.method, words, f"words, {name}: {told.method}", scale))
        assert told.guaranteed is not None
        truth = penalty(model, data, law, Enumerate()).value
        found.append(compare(told.guaranteed[0], "<=", truth / scale, f"guaranteed, {name}", 0.0))
        found.append(compare(told.guaranteed[1], ">=", truth * scale, f"guaranteed above, {name}", 0.0))
        whole = criterion(model, data, law, MonteCarlo(count, seed=4, confidence=confidence))
        found.append(compare(whole, "==", scale * (mean + float(clean.detach())), f"with the risk, {name}"))
        moved = torch.stack([*whole.interval, *(whole.guaranteed or ())]) - clean.detach()
        ends = torch.stack([*told.interval, *told.guaranteed])
        found.append(compare(moved, "==", scale * ends, f"all ends with the risk, {name}", 1e-8))
    found += _rounded(scale)
    # of each outcome ten draws are expected at .0625, fewer below, and none that differs at zero
    two, data, words = TwoLayerLinear(normal(9, 2, 4), normal(10, 3, 4)), moments(1, 2, 3), "the guaranteed one"
    for drop, trusted in ((0.07, True), (0.06, False), (0.97, False), (0.0, False)):
        law = Bernoulli(drop, 4)
        told = penalty(two, data, law, MonteCarlo(160, seed=1))
        title = f"160 draws at a rate of {drop}"
        found.append(same(told.method.endswith(words), not trusted, f"{title}: {told.method}", scale))
        if not trusted:
            z = law.multipliers(160, torch.Generator().manual_seed(1))
            maps = (two.U * torch.cat([z, torch.ones_like(z[:1])])[:, None]) @ two.V.mT  # the last without a mask
            losses = ((maps @ data.xx - 2 * data.yx) * maps).sum((1, 2))
            plain = losses[:-1].mean() - losses[-1]
            assert told.guaranteed is not None
            found.append(compare(told, "==", scale * plain, f"{title}, without control"))
            mine, guaranteed = torch.stack(told.interval), torch.stack(told.guaranteed)
            found.append(compare(mine, "==", guaranteed, f"{title}, its interval"))
    return found


def _rounded(scale: float) -> list[Comparison]:
    """How far rounding may have moved a mean of draws, in both precisions; batches, which go without a control."""
    found: list[Comparison] = []
    law, count = Bernoulli(tensor([0.3, 0.4, 0.5, 0.35]), 4), 300
    U, V, X, Y = normal(1, 2, 4), normal(2, 3, 4), normal(3, 9, 3), normal(4, 9, 2)
    z = law.multipliers(count, torch.Generator().manual_seed(7))
    for dtype, eps in ((torch.float64, EPS), (torch.float32, float(torch.finfo(torch.float32).eps))):
        model, data = TwoLayerLinear(U.to(dtype), V.to(dtype)), Sample(X.to(dtype), Y.to(dtype))
        told = penalty(model, data, law, MonteCarlo(count, seed=7))
        sizes, targets = X.square().mean(0).sqrt(), Y.square().mean(0).sqrt()
        grown = ((sizes @ V.abs()) * (1 + law.relative_variance).sqrt()) @ U.abs().mT
        known = float((grown * (grown + 4 * targets)).sum())
        clean = loss_under(TwoLayerLinear(U, V), Sample(X, Y), torch.ones(4).double())
        values = torch.stack([loss_under(TwoLayerLinear(U, V), Sample(X, Y), one) - clean for one in z])
        steps = 16 + 2 * (3 + 4 + 2) + summands(9, 4) + 2 * math.sqrt(count)
        rounding = steps * eps * (known + float(values.abs().mean()))
        wanted = rounding + eps * max(abs(float(told.value)), rounding)
        found.append(compare(told.error, "==", scale * wanted, f"rounding, {dtype}", 1e-4, 1e-300))
        found.append(compare(float(told.value.dtype == told.lower.dtype == dtype), "==", 1.0, f"stays {dtype}"))
        again = penalty(TwoLayerLinear(U, V), Sample(X, Y), law, MonteCarlo(count, seed=7))
        found.append(compare(told.lower, "<=", again.lower, f"outward, {dtype}", 0.0))
        found.append(compare(told.upper, ">=", again.upper, f"outward above, {dtype}", 0.0))
        found.append(compare(told, "==", scale * again.value, f"the same mean, {dtype}", 1e-5))
    pair = TwoLayerLinear(normal(5, 3, 2, 4), normal(6, 3, 3, 4))
    data = Sample(X, Y)
    told = penalty(pair, data, law, MonteCarlo(count, seed=7, confidence=0.95))
    for k in range(3):
        one = TwoLayerLinear(pair.U[k], pair.V[k])
        clean = loss_under(one, data, torch.ones(4).double())
        drawn = torch.stack([loss_under(one, data, row) - clean for row in z]).numpy()
        r = drawn - drawn.mean()
        variance, quantile = (r**2).sum() / (count - 1), scipy.stats.t.ppf(0.975, count - 1)
        half = quantile * math.sqrt(variance / count) + quantile**2 / 2 * abs((r**3).mean()) / variance / count
        found.append(compare(told.value[k], "==", scale * drawn.mean(), f"member {k}"))
        found.append(compare(told.upper[k] - told.value[k], "==", scale * half, f"interval of member {k}", 1e-7))
        found.append(compare(told.value[k] - told.lower[k], "==", scale * half, f"below, member {k}", 1e-7))
    found.append(same(told.method, f"Monte Carlo, {count} masks", "a batch has no control", scale))
    return found


def _rectified(scale: float) -> list[Comparison]:
    """ReLU networks: the last mask integrated whatever its law, all others fitted, members of a batch one by one."""
    found: list[Comparison] = []
    weights, biases = [normal(1, 4, 3), normal(2, 3, 4), normal(3, 2, 3)], [normal(4, 4), normal(5, 3), normal(6, 2)]
    data = Sample(normal(7, 6, 3), normal(8, 6, 2), 3 * simplex(9, 6))
    early = Bernoulli(tensor([0.3, 0.0, 0.45]), 3), Bernoulli(tensor([0.4, 0.2, 0.3, 0.5]), 4)
    listed = Discrete(tensor([[1.0, 0, 2], [0, 2, 1], [2, 1, 0]]), tensor([0.3, 0.5, 0.2]))
    lasts = Bernoulli(tensor([0.2, 0.5, 0.35]), 3), Block(0.4, 3, 3), listed, Gaussian(tensor([0.3, 0.1, 0.6]), 3)
    for last, (count, confidence) in itertools.product(lasts, ((200, 0.9), (55, 0.8))):
        told = penalty(ReLUNet(weights, biases), data, Product([*early, last]), MonteCarlo(count, 3, confidence))
        z = Product(early).multipliers(count, torch.Generator().manual_seed(3))
        values = _added(weights, biases, data, z, last.characteristic)
        name = f"last {type(last).__name__}, {count} draws"
        found += _fitted(scale, told, values, (z - 1)[:, [0, 2, 3, 4, 5, 6]].numpy(), name)
    # one mask at a time
    generator = torch.Generator().manual_seed(5)
    z = torch.cat([Product(early).multipliers(1, generator) for _ in range(70)])
    with mock.patch.object(sampling, "CHUNK_ELEMENTS", 1):
        told = penalty(ReLUNet(weights, biases), data, Product([*early, listed]), MonteCarlo(70, 5))
    values = _added(weights, biases, data, z, listed.characteristic)
    found += _fitted(scale, told, values, (z - 1)[:, [0, 2, 3, 4, 5, 6]].numpy(), "one at a time")
    members = [torch.stack([part, normal(10, *part.shape), 2 * part]) for part in weights]
    offsets = [torch.stack([part, part, normal(11, *part.shape)]) for part in biases]
    told = penalty(ReLUNet(members, offsets), data, Product([*early, lasts[0]]), MonteCarlo(200, 3, 0.9))
    z = Product(early).multipliers(200, torch.Generator().manual_seed(3))
    for k in range(3):
        parts = [part[k] for part in members], [part[k] for part in offsets]
        values = _added(*parts, data, z, lasts[0].characteristic)
        found += _fitted(scale, told, values, (z - 1)[:, [0, 2, 3, 4, 5, 6]].numpy(), f"member {k}", k)
    return found


def _added(weights: list[Tensor], biases: list[Tensor], data: Sample, z: Tensor, noise: Tensor) -> Array:
    """What masks on the inputs and the first layer add to the weighted loss, the last mask of this covariance."""
    clean = torch.relu(torch.relu(data.inputs @ weights[0].mT + biases[0]) @ weights[1].mT + biases[1])
    plain = (clean @ weights[2].mT + biases[2] - data.targets).square().sum(1)
    hidden = torch.relu((data.inputs * z[:, None, :3]) @ weights[0].mT + biases[0]) * z[:, None, 3:]
    last = torch.relu(hidden @ weights[1].mT + biases[1])
    fit = (last @ weights[2].mT + biases[2] - data.targets).square().sum(-1)
    spread = torch.einsum("mni,mnj,ij->mn", last, last, noise * (weights[2].mT @ weights[2]))
    found: Array = ((fit + spread - plain) @ data.shares).numpy()
    return found


def _fitted(
    scale: float, told: Estimate, values: Array, control: Array, name: str, member: int | None = None
) -> list[Comparison]:
    """Mean, Student's interval and words of draws without what least squares on the masks tell of them."""
    count, used = control.shape
    left, words = values, f"Monte Carlo, {count} masks, last layer integrated"
    fitted = values - control @ np.linalg.lstsq(control - control.mean(0), values - values.mean(), rcond=None)[0]
    r = fitted - fitted.mean()
    # eight draws for a weight, and ten that carry the variance
    used = used if count >= 8 * (used + 1) and (r**2).sum() ** 2 >= 10 * (r**4).sum() else 0
    if used:
        left, words = (
            fitted,
            f"{words}, {used} control variates leave {fitted.var() / values.var():.0%} of the variance",
        )
    r, free = left - left.mean(), count - used - 1
    quantile, variance = scipy.stats.t.ppf((1 + told.confidence) / 2, free), (r**2).sum() / free
    half = quantile * math.sqrt(variance / count) + quantile**2 / 2 * abs((r**3).mean()) / variance / count
    value, lower, upper = (one if member is None else one[member] for one in (told.value, told.lower, told.upper))
    found = [] if member is not None else [same(told.method, words, f"words, {name}: {told.method}", scale)]
    found.append(compare(value, "==", scale * left.mean(), f"mean, {name}", 1e-8))
    found.append(compare(upper - value, "==", scale * half, f"upper half, {name}", 1e-7))
    return [*found, compare(value - lower, "==", scale * half, f"lower half, {name}", 1e-7)]


def _second(scale: float) -> list[Comparison]:
    """Half the curvature in the multipliers times their covariance, by differences; its words and measured error."""
    found: list[Comparison] = []
    deep = DeepLinear([normal(6, 2, 3), normal(7, 2, 2), normal(8, 2, 2)])
    for data in (moments(1, 2, 3), Sample(normal(2, 7, 3), normal(3, 7, 2), simplex(4, 7))):
        for law in (Product([Bernoulli(0.2, 2), Bernoulli(0.4, 2)]), Block(0.3, 4, 4)):
            ones, step = torch.ones(4).double(), 1e-3
            total = 0.0
            for i, j in itertools.product(range(4), range(4)):
                a, b = step * torch.eye(4).double()[i], step * torch.eye(4).double()[j]
                corners = ((1, a + b), (-1, a - b), (-1, b - a), (1, -a - b))
                slope = sum(float(sign * loss_under(deep, data, ones + move)) for sign, move in corners)
                total += float(law.characteristic[i, j]) * slope / (4 * step**2) / 2
            bare = penalty(deep, data, law, SecondOrder(check=None))
            name = f"{type(data).__name__}, {type(law).__name__}"
            found.append(compare(bare, "==", scale * total, f"second order, {name}", 1e-5))
            found.append(compare([bare.lower, bare.upper], "==", scale * float(bare), f"a point, {name}"))
            count = len(law.directions)
            found.append(compare([bare.cost, bare.confidence], "==", [4 * count * scale, 0.0], f"cost, {name}"))
            words = f"second order ({count} second derivatives through the network)"
            found.append(same(bare.method, f"{words}, error not measured", f"words, {name}", scale))
            told = penalty(deep, data, law, SecondOrder(MonteCarlo(200, seed=3)))
            drawn = penalty(deep, data, law, MonteCarlo(200, seed=3))
            value, truth = float(bare), float(drawn)
            half = float(drawn.upper - drawn.lower) / 2
            words += f"; Monte Carlo says {truth:.6g} +- {half:.2g}, so its error is {value - truth:+.3g}"
            words += f" = {(value - truth) / abs(truth):+.1%}"
            found.append(same(told.method, words, f"measured, {name}", scale))
            assert told.guaranteed is not None
            assert drawn.guaranteed is not None
            mine = torch.stack([told.lower, told.upper, *told.guaranteed])
            other = torch.stack([drawn.lower, drawn.upper, *drawn.guaranteed])
            found.append(compare(mine, "==", scale * other, f"ends, {name}"))
            found.append(
                compare([told.cost, told.confidence], "==", [scale * (200 + 4 * count), 0.99], f"both, {name}")
            )
    return found


def _unasked(scale: float) -> list[Comparison]:
    """What methods do where nothing else is asked for: lengths of lists, draws and their confidence, time and room."""
    found: list[Comparison] = []
    for method, usual in (
        (ClosedForm(), (120.0, 2**30)),
        (Enumerate(), (2**16,)),
        (MonteCarlo(), (1000, 0, 0.99)),
        (SecondOrder(), (MonteCarlo(400, 0, 0.99),)),
        (Certified(), (0,)),
    ):
        found.append(same(tuple(vars(method).values()), usual, f"by default, {method}", scale))
    two, data = TwoLayerLinear(normal(9, 2, 4), normal(10, 3, 4)), moments(1, 2, 3)
    law = Bernoulli(tensor([0.3, 0.4, 0.5, 0.35]), 4)
    bare, drawn = penalty(two, data, law, MonteCarlo()), penalty(two, data, law, SecondOrder())
    told = [bare.cost, drawn.cost - 4 * len(law.directions), bare.confidence, drawn.confidence]
    return [*found, compare(told, "==", [1000 * scale, 400, 0.99, 0.99], "draws and confidence by default")]
