"""What a claim on data compares: moments that merge and convert, estimates that are shifted, norms by definition."""

from __future__ import annotations

import copy
import math
from fractions import Fraction

import torch
from torch import Tensor

from droptics.data import Entries, Moments, Sample, average
from droptics.estimates import Bound, Estimate, PlainEstimate
from droptics.evidence.claims import Comparison, compare
from droptics.models import TwoLayerLinear
from droptics.norms import k_support, nuclear, path_norm, weight_matrices, weighted_trace
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal, simplex, tensor, uniform


def data_in_full(scale: float) -> list[Comparison]:
    """Shares, moments of samples and batches, merged ones, rows with given moments, conversions, estimates, norms."""
    found: list[Comparison] = []
    weights = tensor([1.0, 2.0, 0.0, 3.0, 0.5])
    inputs, targets = normal(1, 5, 3), normal(2, 5, 2)
    whole = Sample(inputs, targets, weights)
    exact = _rational_moments(whole)
    told = Moments.of_sample(whole)
    for name, wanted in exact.items():
        found.append(compare(getattr(told, name), "==", scale * wanted, f"{name} of a sample", precision=1e-14))
    found.append(compare(told.weight, "==", scale * 6.5, "weight of a sample"))
    cut = [Sample(inputs[part], targets[part], weights[part]) for part in (slice(0, 2), slice(2, 4), slice(4, 5))]
    streams = {
        "merged": Moments.merged([Moments.of_sample(part) for part in cut]),
        "streamed": Moments.of_batches(cut),
        "two": Moments.merged(
            [
                Moments.of_sample(part)
                for part in (cut[1], Sample(inputs[[0, 1, 4]], targets[[0, 1, 4]], weights[[0, 1, 4]]))
            ]
        ),
    }
    for label, moments in streams.items():
        for name, wanted in exact.items():
            found.append(compare(getattr(moments, name), "==", scale * wanted, f"{name}, {label}", precision=1e-14))
        found.append(compare(moments.weight, "==", scale * 6.5, f"weight, {label}"))
    pairs = Moments.of_batches((inputs[i : i + 1], targets[i : i + 1]) for i in range(5))
    plain = _rational_moments(Sample(inputs, targets))
    found.append(compare(pairs.yx, "==", scale * plain["yx"], "pairs", precision=1e-14))
    found.append(compare(pairs.weight, "==", 5.0, "how many pairs"))
    rows = told.as_sample()
    again = _rational_moments(rows)
    for name, wanted in exact.items():
        found.append(compare(again[name], "==", scale * wanted, f"{name} of rows for moments", precision=1e-12))
    found.append(compare(len(rows), "==", 5, "as many rows as inputs and outputs"))
    doubled = Sample(torch.cat([inputs, inputs[:, :1]], 1), targets)
    found.append(compare(Moments.of_sample(doubled).rank or 0, "==", scale * 3, "rank of a repeated feature"))
    split = Moments.of_batches([Sample(doubled.inputs[:3], targets[:3]), Sample(doubled.inputs[3:], targets[3:])])
    found.append(compare(split.rank or 0, "==", scale * 3, "rank of a repeated feature in batches"))
    for at in (slice(0, 4), slice(4, 8)):  # a feature that is repeated in one of two batches
        partly = normal(8, 8, 3)
        partly[at, 2] = partly[at, 0]
        both = Moments.of_batches([Sample(part, part[:, :1]) for part in partly.split(4)])
        found.append(compare(both.rank or 3, "==", scale * 3, "rank of a feature that is repeated in one batch"))
    two = Moments.of_batches([Sample(doubled.inputs[:2], targets[:2])])
    found.append(compare(two.rank or 0, "==", scale * 2, "rank of two examples of a repeated feature"))
    few = Moments.merged([Moments.of_sample(Sample(inputs[:1], targets[:1])) for _ in range(2)])
    found.append(compare(few.rank or 0, "==", scale * 2, "rank of two examples"))
    found.append(compare(Moments.of_map(inputs).yy, "==", scale * inputs @ inputs.mT, "moments of a map"))
    found.append(compare(whole.shares, "==", scale * weights / 6.5, "shares"))
    found.append(compare(Sample(inputs, targets).shares, "==", scale / 5, "equal shares"))
    found.append(compare(average(inputs, weights[1:4]), "==", scale * inputs @ weights[1:4] / 5, "weighed mean"))
    found.append(compare(average(inputs, None), "==", scale * inputs.sum(1) / 3, "plain mean"))
    single = whole.to(torch.float32)
    assert single.weights is not None
    found.append(compare(single.weights, "==", scale * weights, "weights in single precision"))
    found.append(compare(float(whole.to(torch.float64) is whole), "==", 1.0, "nothing to convert"))
    wide = Sample(inputs * 1e30, targets)
    found.append(refuses(lambda: wide.to(torch.float32), "inputs must be so small that torch.float32 holds"))
    entries = Entries(torch.tensor([1, 0]), torch.tensor([0, 2]), tensor([1.0, 2.0]), (2, 3)).to(torch.float32)
    found.append(compare(entries.inputs, "==", scale * tensor([[1, 0], [0, 2]]), "places of entries"))
    found.append(compare(float(entries.rows.dtype == torch.long), "==", 1.0, "indices stay whole"))
    found.append(compare(Moments.of_map(torch.eye(2)).to(torch.float64).rounding, "==", 2.0**-23, "rounding stays"))
    return [*found, *_roundings(scale), *_sums(scale), *_norms(scale)]


def _roundings(scale: float) -> list[Comparison]:
    """What second moments say of their rounding bounds it, in units of the features; ranks that are known of parts."""
    found: list[Comparison] = []
    units = tensor([1.0, 1e-6, 1e5])
    inputs, targets = (normal(5, 6, 3) * units).float(), (normal(6, 6, 2) * 1e3).float()
    whole = Sample(inputs, targets, uniform(7, 6).float())
    assert whole.weights is not None
    parts = [Sample(inputs[k::2], targets[k::2], whole.weights[k::2]) for k in (0, 1)]
    # one example counts little, with numbers so large that it decides
    X, Y = (torch.cat([1e9 * part[:1], part[1:]]).double() for part in (inputs, targets))
    counts = tensor([3e-13, 0.7, 1.3, 0.2, 5.1, 0.9])
    far, cut = Sample(X, Y, counts), [Sample(X[at], Y[at], counts[at]) for at in (slice(0, 1), slice(1, 6))]
    alike = Sample(torch.full((200, 1), 0.1).double(), torch.full((200, 1), 0.3).double())  # sums err to one side
    for label, data, told, eps in (
        ("single", whole, Moments.of_sample(whole), 2.0**-23),
        ("single, merged", whole, Moments.merged([Moments.of_sample(part) for part in parts]), 4 * 2.0**-23),
        ("double", whole, Moments.of_sample(whole.to(torch.float64)), 0.0),
        ("double, in batches", whole, Moments.of_batches(parts), 0.0),
        ("examples that are alike", alike, Moments.of_sample(alike), 0.0),
        ("a light part first", far, Moments.of_batches(cut), 0.0),
        ("a light part last", far, Moments.of_batches(cut[::-1]), 0.0),
    ):
        exact = _rational_moments(data)
        sizes = exact["xx"].diagonal().sqrt(), exact["yy"].diagonal().sqrt()
        for name, rows, columns in (("xx", 0, 0), ("yx", 1, 0), ("yy", 1, 1)):
            off = (getattr(told, name).double() - exact[name]) / (sizes[rows][:, None] * sizes[columns])
            found.append(compare(off.abs() / told.rounding, "<=", 1.0, f"rounding of {name}, {label}"))
        if eps:
            found.append(compare(told.rounding / eps, "==", scale, f"what is told of it, {label}"))
        else:
            found.append(compare(told.rounding / 2.0**-52, "<=", 200.0, f"little is told of it, {label}"))
    square = torch.eye(2).double()
    for given, kept in ((0.0, 2.0**-52), (1e-20, 2.0**-52), (1e-5, 1e-5)):
        told = Moments(square, square, 2 * square, rounding=given)
        found.append(compare(told.rounding / kept, "==", scale, f"a rounding of {given}"))
    single = [Moments.of_sample(Sample(inputs[k : k + 1], targets[k : k + 1])) for k in range(4)]
    for count, rank in ((1, 1), (2, 2), (3, 3), (4, 3)):
        found.append(compare(Moments.merged(single[:count]).rank or 0, "==", scale * rank, f"rank of {count} examples"))
    unknown = Moments(square, square, 2 * square)
    for pair in ((unknown, Moments.of_map(square)), (Moments(square, square, 2 * square, rank=2), unknown)):
        found.append(compare(float(Moments.merged(pair).rank is None), "==", 1.0, "one rank that is not known"))
    return found


def _sums(scale: float) -> list[Comparison]:
    """Estimates to which something known is added."""
    found: list[Comparison] = []
    off = tensor(2.0)
    base = Estimate(tensor(3.0), tensor(2.5), tensor(3.75), "drawn", 7, 0.9, (tensor(1.0), tensor(5.0)), 0.125)
    moved = base.shift(off, 0.25)
    assert moved.guaranteed is not None
    eps = 5.0 * 2.0**-52
    for label, one, wanted_end in (
        ("value", moved.value, 5.0),
        ("lower", moved.lower, 4.25 - eps),
        ("upper", moved.upper, 6.0 + eps),
        ("error", moved.error, 0.375 + eps),
        ("safe lower", moved.guaranteed[0], 2.75 - eps),
        ("safe upper", moved.guaranteed[1], 7.25 + eps),
        ("cost", moved.cost, 7),
        ("confidence", moved.confidence, 0.9),
    ):
        found.append(compare(one, "==", scale * wanted_end, f"{label} of a sum", precision=1e-16))
    known = Estimate.exact(tensor(3.0), "exact", error=lambda: 0.125).shift(off, 0.25)
    for label, one, wanted_end in (("lower", known.lower, 4.625 - eps), ("upper", known.upper, 5.375 + eps)):
        found.append(compare(one, "==", scale * wanted_end, f"{label} of an exact sum", precision=1e-16))
    sure = Estimate.exact(tensor(3.0), "m", error=0.125), Estimate.exact(tensor(3.0), "m", error=1e-9)
    told = [repr(one) for one in (base, *sure, Estimate(tensor(3.0), tensor(2.5), tensor(3.5), "m", 7))]
    wanted = ["3 in [2.5, 3.75] at 90%, drawn", "3 +- 0.12, m", "3, m", "3 in [2.5, 3.5], m"]
    found.append(same(told, [f"Estimate({words})" for words in wanted], "estimates in words", scale))
    again = copy.deepcopy(known)
    found.append(compare(again.interval[0], "==", scale * known.lower, "a copy"))
    plainly = PlainEstimate.exact(2.0)
    found.append(compare([plainly.lower, plainly.upper], "==", scale * 2.0, "a plain number"))
    vacuous = [Bound(value, {}, "x", 1.0).vacuous for value in (0.5, 1.0, math.nan, 2.0)]
    found.append(compare([float(one) for one in vacuous], "==", tensor([0.0, 1, 1, 1]) * scale, "what says nothing"))
    return found


def _rational_moments(data: Sample) -> dict[str, Tensor]:
    """Weighted second moments in fractions, then rounded once."""
    shares = [Fraction(float(w)) for w in (torch.ones(len(data)) if data.weights is None else data.weights)]
    total = sum(shares)
    x, y = ([[Fraction(float(v)) for v in row] for row in part] for part in (data.inputs, data.targets))

    def mean(left: list[list[Fraction]], right: list[list[Fraction]]) -> Tensor:
        return tensor(
            [
                [
                    float(sum(s * a[i] * b[j] for s, a, b in zip(shares, left, right, strict=True)) / total)
                    for j in range(len(right[0]))
                ]
                for i in range(len(left[0]))
            ]
        )

    return {"xx": mean(x, x), "yx": mean(y, x), "yy": mean(y, y)}


def _norms(scale: float) -> list[Comparison]:
    """Norms by their definitions: sums over paths, variational forms, singular values."""
    found: list[Comparison] = []
    layers = [normal(1, 3, 2), normal(2, 2, 3), normal(3, 2, 2)]
    for power in (1.0, 2.0, 3.5):
        total = sum(
            abs(float(layers[0][j, i] * layers[1][k, j] * layers[2][o, k])) ** power
            for i in range(2)
            for j in range(3)
            for k in range(2)
            for o in range(2)
        )
        found.append(compare(path_norm(layers, power), "==", scale * total ** (1 / power), f"path norm {power}"))
    huge = [1e200 * layers[0], 1e-200 * layers[1]]
    wanted = path_norm(layers[:2])
    found.append(compare(path_norm(huge), "==", scale * wanted, "path norm of large and small layers"))
    two = TwoLayerLinear(normal(4, 2, 3), normal(5, 4, 3))
    found.append(compare(weight_matrices(two)[0], "==", scale * two.V.mT, "layers of factors"))
    matrix, rows, columns = normal(6, 3, 4), simplex(7, 3), simplex(8, 4)
    gram = torch.diag(rows.sqrt()) @ matrix @ torch.diag(columns) @ matrix.mT @ torch.diag(rows.sqrt())
    roots = torch.linalg.eigvalsh(gram).clamp_min(0).sqrt().sum()
    found.append(compare(weighted_trace(matrix, rows, columns), "==", scale * roots, "weighted trace norm"))
    square = torch.linalg.eigvalsh(matrix @ matrix.mT).clamp_min(0).sqrt().sum()
    found.append(compare(nuclear(matrix), "==", scale * square, "nuclear norm"))
    for seed, size, k in ((1, 5, 2), (2, 6, 3), (3, 4, 4), (4, 3, 5), (5, 6, 1)):
        values = normal(seed, size) * (1 + uniform(seed, size) * 4)
        found.append(compare(k_support(values, k), "==", scale * _k_support(values, k), f"k-support {size}, {k}"))
        found.append(compare(k_support(1e200 * values, k) / 1e200, "==", _k_support(values, k), "large ones"))
    found.append(compare(k_support(torch.zeros(2, 3), 2), "==", 0.0, "norm of nothing"))
    return found


def _k_support(values: Tensor, k: int) -> float:
    """Root of min {sum_i a_i^2 / t_i : 0 < t_i <= 1, sum t_i = k}, by bisection of the multiplier."""
    a = sorted((abs(float(v)) for v in values), reverse=True)
    if k >= len(a):
        return math.sqrt(sum(v * v for v in a))
    low, high = 0.0, sum(a)
    for _ in range(200):
        level = (low + high) / 2
        low, high = (level, high) if sum(min(1.0, v / level) for v in a) > k else (low, level)
    return math.sqrt(sum(v * v / min(1.0, v / high) for v in a if v > 0))
