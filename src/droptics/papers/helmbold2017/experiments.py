"""Experiments of the paper as pure functions of their parameters and a seed; they return plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from droptics.arrays import Array
from droptics.data import Sample
from droptics.masks import Bernoulli
from droptics.masks.law import coin_batches
from droptics.models import ReLUNet
from droptics.models.relu import supermodular_slack
from droptics.papers.helmbold2017.kernels import shallow_objective, train_run
from droptics.papers.helmbold2017.networks import nor_criterion, positive_minimum, positive_network, two_points
from droptics.penalties import penalty


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


# -- minimizing the criterion of shallow networks ---------------------------------------------------------------


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


_OPTIONS = {"maxiter": 3000, "ftol": 1e-15, "gtol": 1e-10}


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


# -- section 6 --------------------------------------------------------------------------------------------------

SCALES = (0.5, 0.75, 1.0, 1.25, 1.5)


def scale_run(data_set: int, scale: float, method: str, steps: int = 100_000, seed: int = 0) -> float:
    """Training error after one run of Section 6 (helmbold2017-fig2).

    Five inputs, five hidden units, ten examples uniform in [-1, 1]^5 times `scale`, y = product of signs; `method`
    is "dropout" (rate 1/2 on inputs and hidden units), "weight decay" (strength 1/2) or "none". The examples and
    the initial weights depend on `data_set` and `seed` only, so methods and scales start alike.
    """
    if method not in ("dropout", "weight decay", "none"):
        raise ValueError(f"method must be 'dropout', 'weight decay' or 'none', got {method!r}")
    rng = np.random.default_rng([seed, data_set])
    inputs = rng.uniform(-1, 1, (10, 5))
    targets = np.sign(inputs).prod(1)
    # uniform within one over the root of the fan-in, biases included
    flat = rng.uniform(-1, 1, 5 * 5 + 5 + 5 + 1) / math.sqrt(5)
    drop, decay = 0.5 * (method == "dropout"), 0.5 * (method == "weight decay")
    return float(train_run(flat, scale * inputs, targets, 5, drop, decay, steps, int(rng.integers(2**62))))


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
