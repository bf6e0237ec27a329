"""Searches over the small networks of helmbold2017: least criteria, rates that raise the penalty, scales."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from droptics.arrays import Array
from droptics.checks import as_float_tensor, check_size
from droptics.data import Sample
from droptics.masks import Bernoulli
from droptics.masks.coins import coin_batches
from droptics.models import ReLUNet
from droptics.papers.helmbold2017.experiments import SCALES, scale_run
from droptics.papers.helmbold2017.kernels import shallow_objective
from droptics.papers.helmbold2017.networks import nor_criterion, positive_minimum, positive_network, two_points
from droptics.penalties import penalty

_OPTIONS = {"maxiter": 3000, "ftol": 1e-15, "gtol": 1e-10}


def penalty_by_rate(model: ReLUNet, sample: Sample, drops: Sequence[float]) -> list[float]:
    """The exact penalty at every rate; it need not grow with the rate, nor be positive."""
    return [float(penalty(model, sample, Bernoulli(drop, model.units)).value.detach()) for drop in drops]


def non_monotone_share(networks: int, drops: Sequence[float], seed: int = 0) -> dict[str, float]:
    """Share of random networks (two inputs, two hidden units) whose penalty is not monotone in the rate.

    Weights, biases, input and label are standard normal. "negative" counts those that go below zero somewhere,
    "positive and not monotone" those that never do.
    """
    generator = torch.Generator().manual_seed(seed)
    falls, negative, both = 0, 0, 0
    for _ in range(networks):
        first, second, hidden, output, inputs, target = (
            torch.randn(*shape, generator=generator, dtype=torch.float64)
            for shape in ((2, 2), (1, 2), (2,), (1,), (1, 2), (1, 1))
        )
        path = penalty_by_rate(ReLUNet([first, second], [hidden, output]), Sample(inputs, target), drops)
        size = max(map(abs, path))
        steps = np.diff([0.0, *path])
        wavy = bool(steps.min() < -1e-9 * size and steps.max() > 1e-9 * size)
        below = min(path) < -1e-9 * size
        falls += wavy
        negative += below
        both += wavy and not below
    return {
        "not monotone": falls / networks,
        "negative": negative / networks,
        "positive and not monotone": both / networks,
    }


def least_slack(model: ReLUNet, triples: int, seed: int = 0) -> float:
    """Smallest supermodular slack over random points and non-negative steps (helmbold2017-def11, -lem12)."""
    generator = torch.Generator().manual_seed(seed)
    shape = (triples, model.input_size)
    points = torch.randn(shape, generator=generator, dtype=torch.float64)
    first, second = (torch.rand(shape, generator=generator, dtype=torch.float64) * 2 for _ in range(2))
    return float(supermodular_slack(model, points, first, second).min())


@dataclass(frozen=True)
class Minimum:
    """The best network found for a distribution.

    Attributes:
        criterion: Its exact dropout criterion.
        risk: Its risk without dropout.
        start: The kind of start it came from.
        model: The network.
    """

    criterion: float
    risk: float
    start: str
    model: ReLUNet


def masked_rows(sample: Sample, drop: float) -> tuple[Array, Array, Array]:
    """Every example under every input mask (zero inputs need none): rows, targets and probabilities."""
    rows, targets, chances = [], [], []
    for inputs, target in zip(sample.inputs, sample.targets[:, 0], strict=True):
        rates = drop * (inputs != 0).double()
        for masks, weights in coin_batches(rates, 2**16):
            rows.append(inputs * masks / (1 - rates))
            targets.append(target.expand(len(masks)))
            chances.append(weights / len(sample))
    return torch.cat(rows).numpy(), torch.cat(targets).numpy(), torch.cat(chances).numpy()


def least_criterion(  # parameters: the problem, and how hard to search
    sample: Sample,
    width: int,
    drop: float = 0.5,
    nonnegative: bool = False,
    starts: int = 20,
    seed: int = 0,
    structured: bool = True,
) -> Minimum:
    """Least criterion found over networks of depth 2, by L-BFGS-B from structured and 2 `starts` random starts.

    Structured starts mix units that fire when all inputs are gone (NOR), equal positive units and first-one
    gadgets, in every proportion: random starts alone miss the best networks (at two inputs and four units in all of
    300 tries). `nonnegative` keeps weights, not biases, at or above zero.
    """
    inputs = sample.inputs.shape[1]
    arguments = (*masked_rows(sample, drop), width, drop / (1 - drop), 0.0)
    bounds = None
    if nonnegative:
        limits = ((0.0, None), (None, None), (0.0, None), (None, None))
        sizes = (width * inputs, width, width, 1)
        bounds = [limit for limit, size in zip(limits, sizes, strict=True) for _ in range(size)]
    found = [
        (minimize(shallow_objective, start, arguments, "L-BFGS-B", True, bounds=bounds, options=_OPTIONS), name)
        for name, start in _starts(inputs, width, drop, nonnegative, starts, seed)[0 if structured else -2 * starts :]
    ]
    best, name = min(found, key=lambda pair: float(pair[0].fun))
    model = unflattened(best.x, inputs, width)
    risk = float((model.outputs(sample.inputs) - sample.targets).square().mean())
    return Minimum(float(best.fun), risk, name, model)


def unflattened(flat: Array, inputs: int, width: int) -> ReLUNet:
    """The network of depth 2 whose parameters are (first, hidden bias, last, output bias), flattened."""
    first, hidden_bias, last, bias = torch.from_numpy(flat.copy()).split([width * inputs, width, width, 1])
    return ReLUNet([first.reshape(width, inputs), last[None]], [hidden_bias, bias])


def _starts(inputs: int, width: int, drop: float, nonnegative: bool, count: int, seed: int) -> list[tuple[str, Array]]:
    """Named starts: mixtures of unit kinds (slightly perturbed, so that copies can part) and random ones."""
    rng = np.random.default_rng(seed)
    keep = 1 - drop
    equal = positive_network(inputs, width, drop)
    kinds: list[tuple[str, Array, float, float]] = [("positive", np.ones(inputs), 0.0, float(equal.weights[1][0, 0]))]
    if not nonnegative:
        kinds.append(("nor", np.full(inputs, -keep), 1.0, -0.8 / width))
        for i in range(inputs):
            row = np.where(np.arange(inputs) < i, -1.0, np.where(np.arange(inputs) == i, 1.0, 0.0))
            kinds.append((f"gadget {i}", row, 0.0, 0.5 * keep))
    found = []
    for mixture in _mixtures(len(kinds), width, limit=60):
        rows, biases, heads, name = [], [], [], []
        for kind, many in zip(kinds, mixture, strict=True):
            rows += [kind[1]] * many
            biases += [kind[2]] * many
            heads += [kind[3]] * many
            if many:
                name.append(f"{many} {kind[0]}")
        flat = np.concatenate([np.concatenate(rows), biases, heads, [0.5]])
        found.append((", ".join(name), flat + 0.02 * rng.standard_normal(len(flat))))
    for _ in range(count):
        found.append(("random", rng.standard_normal(width * (inputs + 2) + 1) * 0.7))
        signs = rng.integers(-1, 2, (width, inputs)).ravel()
        corner = np.concatenate([signs, rng.integers(-1, 2, width), rng.choice([-0.5, 0.5], width), [0.5]])
        found.append(("random corners", corner + 0.1 * rng.standard_normal(len(corner))))
    if nonnegative:
        weights = np.r_[: width * inputs, width * (inputs + 1) : width * (inputs + 2)]
        for _, flat in found:
            flat[weights] = np.abs(flat[weights])
    return found


def _mixtures(kinds: int, width: int, limit: int) -> list[tuple[int, ...]]:
    """Ways to share `width` units among kinds, at most `limit` of them, evenly spread over all."""
    if kinds == 1:
        return [(width,)]
    found = [(head, *rest) for head in range(width + 1) for rest in _mixtures(kinds - 1, width - head, 10**9)]
    return found[:: max(1, -(-len(found) // limit))]


def where_negative_weights_win(
    inputs: int, widths: Sequence[int], drop: float = 0.5, starts: int = 20, seed: int = 0
) -> list[dict[str, float]]:
    """For every width: least criterion with non-negative weights (exact and found), and without the constraint.

    "gain" is how much lower the unconstrained optimum is; it is zero where no negative weight is needed
    (helmbold2017-thm8, sharpened).
    """
    sample = two_points(torch.ones(inputs))
    rows = []
    for width in widths:
        exact = positive_minimum(inputs, width, drop)
        constrained = least_criterion(sample, width, drop, True, starts, seed).criterion
        free = least_criterion(sample, width, drop, False, starts, seed)
        rows.append(
            {
                "width": float(width),
                "positive, exact": exact,
                "positive, found": constrained,
                "free, found": free.criterion,
                "nor, exact": nor_criterion(inputs, width, drop),
                "gain": exact - min(free.criterion, exact),
                "most negative weight": float(min(weight.min() for weight in free.model.weights)),
            }
        )
    return rows


def dropout_aversion(sample: Sample, width: int, drop: float = 0.5, starts: int = 20, seed: int = 0) -> Minimum:
    """The best network under dropout; its risk is the dropout aversion where the least risk is zero (-def2)."""
    return least_criterion(sample, width, drop, False, starts, seed)


def weight_decay_optimum(
    inputs: Tensor, strength: float, width: int = 3, starts: int = 30, seed: int = 0
) -> tuple[float, float]:
    """Least risk + strength/2 ||weights||^2 found on P_(x,1), and the risk there (checks helmbold2017-thm7)."""
    sample = two_points(inputs)
    features = len(inputs)
    rng = np.random.default_rng(seed)
    targets, chances = sample.targets[:, 0].numpy(), np.full(2, 0.5)
    arguments = (sample.inputs.numpy(), targets, chances, width, 0.0, strength)
    found = [
        minimize(
            shallow_objective,
            rng.standard_normal(width * (features + 2) + 1),
            arguments,
            "L-BFGS-B",
            True,
            options=_OPTIONS,
        )
        for _ in range(starts)
    ]
    best = min(found, key=lambda result: float(result.fun))
    model = unflattened(best.x, features, width)
    return float(best.fun), float((model.outputs(sample.inputs) - sample.targets).square().mean())


def scale_experiment(
    data_sets: int = 10, steps: int = 100_000, scales: Sequence[float] = SCALES, seed: int = 0
) -> list[dict[str, float]]:
    """Mean training error and its standard error by scale for the three methods; one row per scale."""
    rows = []
    for scale in scales:
        row = {"scale": scale}
        for method in ("dropout", "weight decay", "none"):
            errors = [scale_run(data_set, scale, method, steps, seed) for data_set in range(data_sets)]
            row[method] = float(np.mean(errors))
            row[f"{method}, standard error"] = float(np.std(errors, ddof=1) / math.sqrt(data_sets))
        rows.append(row)
    return rows


def rescale_layers(model: ReLUNet, factors: Sequence[float]) -> ReLUNet:
    """Layer j times factors[j] > 0, its bias times the product of the factors so far (helmbold2017-thm5).

    Every masked output is multiplied by the product of all factors, so that factors of product one leave the
    dropout criterion as it is, whatever they do to the size of the weights.
    """
    check_size("factors", len(factors), len(model.weights), "one factor per layer")
    if not all(math.isfinite(factor) and factor > 0 for factor in factors):
        raise ValueError(f"factors must be positive: a ReLU only commutes with those, got {list(factors)}")
    products = itertools.accumulate(factors, lambda a, b: a * b)
    return ReLUNet(
        [factor * weight for factor, weight in zip(factors, model.weights, strict=True)],
        [product * bias for product, bias in zip(products, model.biases, strict=True)],
    )


def rescale_inputs(model: ReLUNet, factors: Tensor) -> ReLUNet:
    """The network that does to factors * x what this one does to x, under every mask (helmbold2017-thm4).

    The columns of the first weights are divided by the factors, which must not be zero and may be negative.
    """
    scale = as_float_tensor(factors, "factors", 1)
    check_size("factors", len(scale), model.input_size, "one factor per input")
    if bool((scale == 0).any()):
        raise ValueError("factors must not be zero: an input that is erased cannot be restored by its weights")
    return ReLUNet([model.weights[0] / scale, *model.weights[1:]], model.biases)


def rescale_outputs(model: ReLUNet, factor: float) -> ReLUNet:
    """Every masked output times the factor: last weights and bias scaled (helmbold2017-thm6)."""
    if not math.isfinite(factor):
        raise ValueError(f"factor must be finite, got {factor}")
    return ReLUNet([*model.weights[:-1], factor * model.weights[-1]], [*model.biases[:-1], factor * model.biases[-1]])


def supermodular_slack(model: ReLUNet, points: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """f(x) + f(x + s + t) - f(x + s) - f(x + t) for steps s, t >= 0, one row per triple (helmbold2017-def11).

    Non-negative for every triple when all weights are non-negative (helmbold2017-lem12); a negative entry proves
    that the network computes something no network with non-negative weights can.
    """
    if bool((first < 0).any()) or bool((second < 0).any()):
        raise ValueError("first and second must be steps with non-negative entries")
    ends = model.outputs(points) + model.outputs(points + first + second)
    return ends - model.outputs(points + first) - model.outputs(points + second)
