"""What claims on the networks of the figures and on fitted estimators compare: layers and masks written out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor, nn
from torch.nn import functional

from droptics.arrays import Array
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy
from droptics.masks import Bernoulli, Product
from droptics.models import ReLUNet
from droptics.papers.droptics_own.predictions.moment_checks import network_masks
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, sample, simplex, tensor
from droptics.training import (
    Dropout,
    DropoutClassifier,
    DropoutRegressor,
    train,
)
from droptics.training.networks import Residual, ResNet, SmallCnn


def small_networks(scale: float) -> list[Comparison]:
    """Networks of the figures are their layers one after the other, with weights of the stated variance."""
    found: list[Comparison] = []
    images = normal(1, 3, 2, 9, 9).float()
    small: Any
    deep: Any
    small, deep = SmallCnn(2, 5, 7, 3, seed=4), ResNet(2, 4, 6, (2, 1), 4, seed=3)
    for pictures in (images, normal(5, 2, 2, 28, 28).float(), normal(6, 2, 2, 12, 20).float()):
        value = pictures
        for layer in small.body:
            value = functional.conv2d(value, layer.weight, layer.bias, stride=2, padding=1).clamp_min(0)
        quarters = torch.stack([value[..., up, left].mean((-2, -1)) for up, left in _quarters(*value.shape[-2:])], -1)
        features = quarters.flatten(1) @ small.reduce.weight.mT + small.reduce.bias
        wanted_outputs, label = scale * features @ small.head.weight.mT, f"convolutions to {tuple(value.shape[-2:])}"
        for told_outputs in (small.train()(pictures), small.eval()(pictures)):
            found.append(compare(told_outputs, "==", wanted_outputs, label, precision=1e-5))

    def normed(values: Tensor, groups: int) -> Tensor:
        parts = values.reshape(len(values), groups, -1)
        parts = (parts - parts.mean(-1, keepdim=True)) / (parts.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
        return parts.reshape(values.shape)

    value = normed(functional.conv2d(images, deep.stem.weight, padding=1), 1).clamp_min(0)
    for block in deep.stages:
        assert isinstance(block, Residual)
        stride = block.first.stride[0]
        groups = max(1, min(8, block.first.out_channels // 4))
        inner = normed(functional.conv2d(value, block.first.weight, stride=stride, padding=1), groups).clamp_min(0)
        added = normed(functional.conv2d(inner, block.second.weight, padding=1), groups)
        short = value
        if isinstance(block.shortcut, nn.Conv2d):
            short = functional.conv2d(value, block.shortcut.weight, stride=stride)
        value = (short + added).clamp_min(0)
    features = value.mean((-2, -1)) @ deep.reduce.weight.mT + deep.reduce.bias
    wanted_outputs = scale * features @ deep.head.weight.mT
    for told_outputs in (deep.train()(images), deep.eval()(images)):
        found.append(compare(told_outputs, "==", wanted_outputs, "residual blocks", precision=1e-4))
    for blocks, base, channels, strides in (
        ((2, 1), 8, (8, 8, 16), (1, 1, 2)),
        ((1, 1, 1), 16, (16, 32, 64), (1, 2, 2)),
        ((1, 2, 1, 1), 4, (4, 8, 8, 16, 32), (1, 2, 1, 2, 2)),
    ):
        other: Any = ResNet(3, 4, 6, blocks, base)
        told = [(block.first.out_channels, block.first.stride[0]) for block in other.stages]
        doubling = [(scale * count, step) for count, step in zip(channels, strides, strict=True)]
        found.append(compare(told, "==", doubling, f"channels and strides of {blocks}"))
        norms = [other.stem_norm, *(norm for block in other.stages for norm in (block.first_norm, block.second_norm))]
        groups_of = [norm.num_groups for norm in norms]
        wanted_groups = [max(1, min(8, count // 4)) for count in (base, *np.repeat(channels, 2).tolist())]
        found.append(compare(groups_of, "==", scale * tensor(wanted_groups), f"groups of {blocks}"))
        sizes = [base, *channels]
        between = [a * b * (9 + (a != b)) + 9 * b * b + 4 * b for a, b in itertools.pairwise(sizes)]
        weights = 3 * base * 9 + 2 * base + sum(between) + (channels[-1] + 1) * 6 + 6 * 4
        told_weights = sum(part.numel() for part in other.parameters())
        found.append(compare(told_weights, "==", scale * weights, f"weights of {blocks}"))
    return found + _drawn_weights(scale)


def _quarters(height: int, width: int) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of the four quarters of an image; those of an odd size share its middle."""
    ends = ([slice((size + 1) // 2), slice(size // 2, size)] for size in (height, width))
    return itertools.product(*ends)


def _drawn_weights(scale: float) -> list[Comparison]:
    """Sizes of the strided network, means and mean squares of all weights times their fan-in, biases of zero."""
    found: list[Comparison] = []
    wide: Any
    told = [tuple(layer.weight.shape) for layer in (*SmallCnn(2, 5, 7, 3).body, SmallCnn(2, 5, 7, 3).reduce)]
    wanted = [(3, 2, 3, 3), (6, 3, 3, 3), (12, 6, 3, 3), (7, 48)]
    found.append(same(told, wanted, "layers of strided convolutions", scale))
    told_weights = sum(part.numel() for part in SmallCnn(2, 5, 7, 3).parameters())
    wanted_weights = (9 * 2 + 1) * 3 + (9 * 3 + 1) * 6 + (9 * 6 + 1) * 12 + (48 + 1) * 7 + 7 * 5
    found.append(same(told_weights, wanted_weights, "weights of strided convolutions", scale))
    wide, blocks_of_one = SmallCnn(3, 50, 400, 16, seed=1), ResNet(3, 50, 400, seed=2)
    convolutions = [layer for layer in blocks_of_one.modules() if isinstance(layer, nn.Conv2d)]
    linear = (wide.reduce, wide.head, blocks_of_one.reduce, blocks_of_one.head)
    for layer, gain in [(layer, 2.0) for layer in (*wide.body, *convolutions)] + [(layer, 1.0) for layer in linear]:
        weight = layer.weight.detach().double()
        fan = weight[0].numel()
        error = 5 * (2 / weight.numel()) ** 0.5
        found.append(
            compare(weight.square().mean() * fan / gain, "==", scale, f"variance, gain {gain}", precision=error)
        )
        # the mean square is the variance where the mean is zero
        middle, error = weight.mean() * (fan / gain) ** 0.5, 5 * weight.numel() ** -0.5
        found.append(compare(middle, "==", 0.0, f"mean, gain {gain}", precision=error))
        if layer.bias is not None:
            found.append(compare(layer.bias, "==", 0.0, "biases"))
    return found


def fitted_estimators(scale: float) -> list[Comparison]:
    """A fitted regressor predicts mean, spread, quantiles and log densities of all masked networks with noise."""
    found: list[Comparison] = []
    X = 2 * normal(1, 30, 2).numpy() + 1
    y = 3 * np.sin(X[:, 0]) + X[:, 1] + 0.2 * normal(2, 30).numpy()
    inputs = torch.from_numpy((X - X.mean(0)) / X.std(0))
    for noise in (0.4, "estimate"):
        fitted = DropoutRegressor((3,), 0.2, noise, epochs=3, seed=2).fit(X, y)
        outputs, chances = network_masks(fitted.network_, inputs, [[0.2] * 2, [0.2] * 3])
        values = outputs[..., 0]
        mean = chances @ values
        variance = chances @ (values - mean).square()
        told, spread = fitted.predict(X, return_std=True)
        sigma = fitted.noise_
        if noise != "estimate":
            found.append(compare(sigma, "==", scale * 0.4, "the noise given"))
        found.append(compare(told, "==", scale * mean, f"means, noise {noise}"))
        found.append(compare(spread, "==", scale * (variance + sigma**2).sqrt(), f"deviations, noise {noise}"))
        near = torch.from_numpy(y)
        logs = torch.logsumexp(chances.log()[:, None] - 0.5 * ((near - values) / sigma) ** 2, 0)
        wanted = (logs - math.log(sigma) - 0.5 * math.log(2 * math.pi)).mean()
        found.append(compare(fitted.score(X, y), "==", scale * wanted, f"log density, noise {noise}", precision=1e-6))
        low, high = fitted.interval(X, 0.8)
        for end, share in ((low, 0.1), (high, 0.9)):
            below = chances @ torch.special.ndtr((torch.from_numpy(end) - values) / sigma)
            found.append(compare(below, "==", scale * share, f"quantile {share}, noise {noise}", precision=1e-5))
    found += [*_never_changing(scale, X, y), *_held_out(scale, X, y)]
    labels = np.array(["b", "a", "c"])[np.arange(30) % 3]
    classifier = DropoutClassifier((3,), 0.3, epochs=2, seed=1).fit(X, labels)
    shares = classifier.predict_proba(X)
    outputs, chances = network_masks(classifier.network_, inputs, [[0.3] * 2, [0.3] * 3])
    wanted = torch.einsum("t,tnk->nk", chances, torch.softmax(outputs, -1))
    found.append(compare(shares, "==", scale * wanted, "probabilities of classes", precision=1e-6))
    best = np.array(["a", "b", "c"])[shares.argmax(1)]
    found.append(compare(float((classifier.predict(X) == best).all()), "==", 1.0, "the most probable class"))
    # batches of one network: weighed cross-entropy under given masks
    data = Sample(normal(3, 5, 3), torch.arange(5) % 2, weights=simplex(4, 5))
    net = ReLUNet([normal(5, 4, 3), normal(6, 2, 4)], [normal(7, 4), normal(8, 2)])
    law = Product([Bernoulli(0.2, 3), Bernoulli(0.4, 4)])
    run = train(net, data, Dropout(law, CrossEntropy()), steps=1, step_size=0.1, keep=(0,), decay=0.3)
    z = run.iterates[0].multipliers
    assert z is not None
    assert isinstance(run.model, ReLUNet)
    leaves = [part.clone().requires_grad_() for part in (*net.weights, *net.biases)]
    hidden = torch.relu((data.inputs * z[..., :3]) @ leaves[0].mT + leaves[2]) * z[..., 3:]
    each = functional.cross_entropy(hidden @ leaves[1].mT + leaves[3], data.targets, reduction="none")
    slopes = torch.autograd.grad(each @ data.shares, leaves)
    for new, old, slope in zip((*run.model.weights, *run.model.biases), leaves, slopes, strict=True):
        move = slope + (0.3 * old.detach() if old.ndim == 2 else 0.0)  # offsets do not decay
        found.append(compare(new, "==", old.detach() - scale * 0.1 * move, "weighed cross-entropy under masks"))
    assert len(sample(1, 2, 2, 1))
    return found


def _held_out(scale: float, X: Array, y: Array) -> list[Comparison]:
    """The noise is the likeliest on a tenth that is held out, by the seed; the network has not seen its targets."""
    fitted = DropoutRegressor((3,), 0.2, epochs=3, seed=2).fit(X, y)
    held = np.random.default_rng(2).permutation(30)[:3]
    outputs, chances = network_masks(
        fitted.network_, torch.from_numpy((X[held] - X.mean(0)) / X.std(0)), [[0.2] * 2, [0.2] * 3]
    )
    errors = torch.from_numpy(y[held]) - outputs[..., 0]

    def against(log: float) -> float:
        return -float(torch.logsumexp(chances.log()[:, None] - 0.5 * (errors / math.exp(log)) ** 2 - log, 0).sum())

    likeliest = math.exp(minimize_scalar(against, bounds=(-7, 5), method="bounded", options={"xatol": 1e-10}).x)
    other = y.copy()
    other[held] = y[np.roll(held, 1)]  # of the same mean and deviation
    again = DropoutRegressor((3,), 0.2, epochs=3, seed=2).fit(X, other)
    return [
        compare(fitted.noise_, "==", scale * likeliest, "noise of a tenth", precision=1e-5),
        compare(again.predict(X), "==", scale * np.asarray(fitted.predict(X)), "trained on the others"),
        compare(again.noise_, "!=", fitted.noise_, "though their noise is another"),
    ]


def _never_changing(scale: float, X: Array, y: Array) -> list[Comparison]:
    """Columns and targets of equal numbers, whether their mean rounds (thirty times .1) or not (.125)."""
    found: list[Comparison] = []
    new = 2 * normal(9, 7, 2).numpy()
    for level in (0.1, 0.125):
        fitted = DropoutRegressor((3,), 0.2, 0.4, epochs=3, seed=2).fit(np.c_[X, np.full(30, level)], y)
        inputs = torch.from_numpy(np.c_[(new - X.mean(0)) / X.std(0), np.full(7, 0.75)])
        outputs, chances = network_masks(fitted.network_, inputs, [[0.2] * 3, [0.2] * 3])
        told = fitted.predict(np.c_[new, np.full(7, level + 0.75)])
        found.append(compare(told, "==", scale * chances @ outputs[..., 0], f"a column of {level}"))
    flat = [DropoutRegressor((3,), 0.2, 0.4, epochs=3, seed=2).fit(X, np.full(30, level)) for level in (0.1, 0.125)]
    moves = [np.asarray(one.predict(new)) - level for one, level in zip(flat, (0.1, 0.125), strict=True)]
    found.append(compare(moves[0], "==", scale * moves[1], "equal targets", precision=1e-6))
    return found
