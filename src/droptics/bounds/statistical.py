"""What the value of the dropout regularizer says about generalization: completion and two-layer ReLU networks."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from droptics.answers import checked
from droptics.arguments import Count, Examples, Finite, NonNegative, Probability, Square, check_arguments
from droptics.bounds.classical import assemble, crossing, examples_needed, tail
from droptics.checks import check_size
from droptics.data import Entries, Sample, average
from droptics.estimates import Bound
from droptics.linalg import psd_eigen
from droptics.linalg.scales import equilibrate, in_own_units
from droptics.models import Factorization, Model, ReLUNet
from droptics.penalties.evaluation import check_inputs
from droptics.penalties.grams import feature_energies, feature_gram

# Ratio of neighboring values in the grid of alphas over which the union bound is taken.
_GRID_RATIO = 2**0.25


def completion(  # parameters: the letters of the theorem, or data to read them from
    model: Factorization | None = None,
    data: Entries | None = None,
    *,
    alpha: NonNegative | None = None,
    shape: tuple[int, int] | None = None,
    examples: Examples | None = None,
    risk: NonNegative | None = None,
    confidence: Probability = 0.95,
    smoothing: NonNegative | None = None,
    trivial: Finite = 4.0,
    printed: bool = False,
) -> Bound:
    """Risk of a completed matrix from its dropout regularizer (thesis-thm11).

    For entries in [-1, 1] observed under a product law with marginals p, q, and alpha >= width * R(U, V) with R the
    expected regularizer sum_k (sum_i p_i U_ik^2)(sum_j q_j V_jk^2), with probability `confidence`:

        L(clipped U V^T) <= L_S(U, V) + 8 K sqrt(alpha d log d / n) + 4 sqrt(log(2/delta) / 2n),   d the longer side.

    K is explicit (`completion_constant`); the printed statement has 8 sqrt((2 alpha d log d + log(2/delta)/4) / n),
    which rests on K = 1, false for small matrices (thesis-thm11-constant).

    Every number may be given; a model and data fill in what is missing, with marginals mixed with the uniform law
    in proportion `smoothing` (1/2 when they come from data, 0 for plain numbers: then the non-degeneracy condition of
    `completion_condition` is assumed). An alpha read off a model is rounded up to a geometric grid and the confidence
    shared over the grid, because alpha must not depend on the data; marginals are those of the data (plug-in).
    Cost: O(1) from numbers, O((rows + columns) width + ratings) from data.
    """
    check_arguments(completion, locals())
    failure = 1.0 - float(confidence)
    if model is not None and data is not None:
        smoothing = 0.5 if smoothing is None else smoothing
        shape, examples = data.shape if shape is None else shape, len(data) if examples is None else examples
        _check_range(data.values, "values")
        if risk is None:
            risk = float((model.outputs(data.inputs).squeeze(-1) - data.values).square().mean())
        if alpha is None:
            alpha, failure = grid_alpha(completion_alpha(model, data, smoothing), failure)
    if alpha is None or shape is None or examples is None:
        raise ValueError("completion needs a model and data, or the numbers alpha, shape and examples")
    base, long = 0.0 if risk is None else risk, max(shape)
    strength = alpha * long * math.log(long)

    def parts(count: float) -> tuple[float, float]:
        if printed:
            return 8 * math.sqrt((2 * strength + math.log(2 / failure) / 4) / count), 0.0
        constant = completion_constant(shape, count, smoothing or 0.0)
        return 8 * constant * math.sqrt(strength / count), 4 * tail(count, failure / 2)

    complexity, slack = parts(examples)
    terms = {"empirical risk": base, "complexity": complexity, "confidence": slack}
    needed = crossing(lambda count: sum(parts(count)), trivial - base) if trivial > base else math.inf
    return Bound(base + complexity + slack, terms, "thesis-thm11", trivial, {"examples": needed})


def completion_constant(shape: tuple[Count, Count], examples: float = math.inf, smoothing: NonNegative = 0.0) -> float:
    """The constant K in R_n <= K sqrt(alpha d log d / n) for the weighted trace norm ball (thesis-thm20, corrected).

    Matrix Bernstein with l = log(d + d') / log d for sides d >= d': K = sqrt(2 l) + l (d'/d)^(1/4) / 3 under the
    non-degeneracy condition. With marginals mixed with the uniform law in proportion s = `smoothing` no condition is
    needed: K = sqrt(2 l) / (1 - s) + l sqrt(d' log d / n) / (3 s) (a result of our
    own). Printed with K = 1, which is false for small matrices. Cost: O(1).
    """
    check_arguments(completion_constant, locals())
    long, short = max(shape), min(shape)
    if long < 2:
        raise ValueError(f"shape must have a side of at least 2, got {shape}")
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing must lie in [0, 1), got {smoothing}")
    ratio = math.log(long + short) / math.log(long)
    if smoothing == 0:
        return math.sqrt(2 * ratio) + ratio * (short / long) ** 0.25 / 3
    range_term = ratio * math.sqrt(short * math.log(long) / examples) / (3 * smoothing)
    return math.sqrt(2 * ratio) / (1 - smoothing) + range_term


@checked
def completion_alpha(model: Factorization, data: Entries, smoothing: NonNegative = 0.5) -> float:
    """The width times R(U, V), R the expected dropout regularizer under the (smoothed) marginals of the data.

    Cost: O((rows + columns) width + ratings). Claim: thesis-thm11.
    """
    rows, columns = marginals(data, smoothing)
    return float((rows @ model.U.square() * (columns @ model.V.square())).sum()) * model.units


def completion_condition(data: Entries, smoothing: NonNegative = 0.0) -> float:
    """min_ij p_i q_j n sqrt(d d') / log d; thesis-thm11 asks for at least 1, which raw rating data never meet.

    Cost: O(ratings + rows + columns).
    """
    check_arguments(completion_condition, locals())
    rows, columns = marginals(data, smoothing)
    long, short = max(data.shape), min(data.shape)
    if long < 2:
        raise ValueError(f"data must have a side of at least 2, got {data.shape}")
    return float(rows.min() * columns.min()) * len(data) * math.sqrt(long * short) / math.log(long)


def marginals(data: Entries, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """How often each row and each column was observed, mixed with the uniform law in proportion `smoothing`."""
    if not 0 <= smoothing <= 1:
        raise ValueError(f"smoothing must lie in [0, 1], got {smoothing}")

    def share(index: Tensor, size: int) -> Tensor:
        counts = torch.bincount(index, minlength=size).to(data.values)
        return (1 - smoothing) * counts / len(data) + smoothing / size

    return share(data.rows, data.shape[0]), share(data.columns, data.shape[1])


def rademacher(  # parameters: the letters of the theorem, or data to read them from
    model: ReLUNet | None = None,
    data: Sample | None = None,
    *,
    alpha: NonNegative | None = None,
    norm: NonNegative | None = None,
    examples: Examples | None = None,
    retentivity: NonNegative | None = None,
    side: Literal["upper", "lower"] = "upper",
    symmetrized: bool = False,
) -> Bound:
    """Empirical Rademacher complexity of the two-layer ReLU networks with sum_k |u_k| a_k <= alpha.

    a_k^2 = E relu(v_k.x)^2, beta the retentivity of the data, ||X|| = `data_norm`:

        upper: 2 alpha ||X|| / (n sqrt(beta))   (thesis-thm12)        lower: alpha ||X|| / (2 n)   (thesis-thm13)

    Networks of width d with dropout regularizer at most r (without lambda) are the case alpha = sqrt(d r); their
    complexity is the same for every width, because d copies of the best unit stay in the class, so the constant 1/2
    holds for odd widths too (a result of our own). Symmetrized data have beta = 1/2.
    Cost: O(1) from numbers; from data one pass and `data_norm`.
    """
    check_arguments(rademacher, locals())
    if data is not None:
        norm = data_norm(data) if norm is None else norm
        examples = len(data) if examples is None else examples
        if model is not None and alpha is None:
            alpha = relu_alpha(model, data, symmetrized)
    if alpha is None or norm is None or examples is None:
        raise ValueError("rademacher needs a model and data, or the numbers alpha, norm and examples")
    terms = {"alpha": alpha, "data norm / examples": norm / examples, "constant": 0.5 if side == "lower" else 2.0}
    if side == "upper":
        terms["1 / sqrt(retentivity)"] = _inverse_root(retentivity, symmetrized)
    claim = "thesis-thm13" if side == "lower" else "thesis-thm12"
    value = 0.0 if 0 in (alpha, norm) else math.prod(terms.values())
    return Bound(value, terms, claim, 1.0, {"examples": examples * value * value})


def relu(  # parameters: the letters of the theorem, or data to read them from
    model: ReLUNet | None = None,
    data: Sample | None = None,
    *,
    alpha: NonNegative | None = None,
    norm: NonNegative | None = None,
    examples: Examples | None = None,
    retentivity: NonNegative | None = None,
    risk: NonNegative | None = None,
    confidence: Probability = 0.95,
    symmetrized: bool = False,
    printed: bool = False,
) -> Bound:
    """Risk of a two-layer ReLU network g = clip(f) with targets in [-1, 1] (thesis-cor2, thesis-cor3).

        retentivity: L <= L_S(g) + 16 alpha ||X|| / (n sqrt(beta)) + 12 sqrt(log(2/delta) / 2n)
        symmetrized: L <= 2 L_S'(g) + 32 sqrt(2) alpha' ||X|| / n + 24 sqrt(log(2/delta) / 2n)   (printed: 46 alpha')

    S' is the sample with random signs (or with both signs) and alpha' uses E relu(+-v.x)^2 = v^T C v / 2. Without
    `symmetrized` the retentivity must be given (`coadaptation.retentivity`); it is 0 for non-negative data, and the
    bound infinite. Numbers override what a model and data would give; an alpha read off a model is rounded up to a
    geometric grid, over which the confidence is shared. The second moments are those of the data (plug-in).
    Cost: O(1) from numbers; from data one pass and `data_norm`.
    """
    check_arguments(relu, locals())
    failure = 1.0 - float(confidence)
    if model is not None and data is not None:
        _check_range(data.targets, "targets")
        if alpha is None:
            alpha, failure = grid_alpha(relu_alpha(model, data, symmetrized), failure)
        if risk is None:
            risk = _clipped_risk(model, data, symmetrized)
    upper = rademacher(
        model, data, alpha=alpha, norm=norm, examples=examples, retentivity=retentivity, symmetrized=symmetrized
    )
    count = len(data) if examples is None and data is not None else examples
    assert count is not None  # rademacher has refused a missing number of examples
    slack = 12 * tail(count, failure / 2)  # of `squared` at M = 2, whose confidence 1 - failure may round to 1
    base = assemble(0.0 if risk is None else risk, 8 * upper.value, slack, 4.0, count, "thesis-cor2")
    if not symmetrized:
        return base
    doubled = {name: 2 * term for name, term in base.terms.items()}
    if printed:
        doubled["complexity"] *= 46 / (32 * math.sqrt(2))
    gap = doubled["complexity"] + doubled["confidence"]
    needed = examples_needed(gap, 4.0 - doubled["empirical risk"], count)
    return Bound(sum(doubled.values()), doubled, "thesis-cor3", 4.0, {"examples": needed})


@checked
def relu_alpha(model: ReLUNet, data: Sample, symmetrized: bool = False) -> float:
    """sum_k |u_k| a_k with a_k^2 = E relu(v_k.x)^2, or v_k^T C v_k / 2 for symmetrized data.

    Cost: one pass over the data. Claim: droptics-flows.
    """
    hidden, top = two_layers(model)
    check_inputs(model, data)
    products = data.inputs @ hidden.mT
    energies = feature_energies(products, data) / 2 if symmetrized else feature_energies(torch.relu(products), data)
    return float((top.abs() * energies.sqrt()).sum())


def data_norm(data: Sample, second_moment: Square | None = None) -> float:
    """sqrt(sum_i x_i^T C^+ x_i); equal to sqrt(n rank C) when C is the second moment of the same examples.

    Pass `second_moment` for the population matrix, or one estimated on other examples; O(n d^2 + d^3).
    Claim: thesis-sec4.3-norm.
    """
    check_arguments(data_norm, locals())
    if data.weights is not None or data.inputs.ndim != 2:
        raise ValueError("data must hold unweighted vectors: these bounds speak of n equally weighted examples")
    matrix = feature_gram(in_own_units(data.inputs)[0], data) if second_moment is None else second_moment
    check_size("second_moment", matrix.shape[-1], data.inputs.shape[-1], "one row and column per feature of data")
    scaled, units = equilibrate(matrix)
    values, vectors = psd_eigen(scaled)
    if second_moment is None:
        return math.sqrt(len(data) * int((values > 0).sum()))
    kept, inputs = values > 0, data.inputs / units
    outside = inputs @ vectors[:, ~kept]
    rounding = 1e3 * torch.finfo(data.dtype).eps * float(inputs.abs().max())
    if outside.numel() and float(outside.abs().max()) > rounding:
        return math.inf
    return float(((inputs @ vectors[:, kept]) / values[kept].sqrt()).square().sum().sqrt())


def grid_alpha(alpha: float, failure: float) -> tuple[float, float]:
    """Round alpha up to the grid 2^(j/4), and the share of `failure` that belongs to grid point j.

    Shares are proportional to 1 / (1 + |j|)^2, which sums to pi^2 / 3 - 1 over all whole j.
    """
    if alpha == 0 or not math.isfinite(alpha):
        return alpha, failure
    index = math.ceil(math.log(alpha) / math.log(_GRID_RATIO) - 1e-12)
    return _GRID_RATIO**index, failure / ((math.pi**2 / 3 - 1) * (1 + abs(index)) ** 2)


def two_layers(model: Model) -> tuple[Tensor, Tensor]:
    """Hidden (width, inputs) and top (width,) weights of a two-layer ReLU network with one output and no biases."""
    if not isinstance(model, ReLUNet) or len(model.weights) != 2 or model.weights[0].ndim != 2:
        raise ValueError(f"model must be one ReLUNet with two layers, got {type(model).__name__}")
    if model.output_size != 1 or any(bool((bias != 0).any()) for bias in model.biases):
        raise ValueError("model must have one output and no biases: the class of networks in this bound has none")
    return model.weights[0], model.weights[1][0]


def _inverse_root(retentivity: float | None, symmetrized: bool) -> float:
    if symmetrized:
        return math.sqrt(2.0)
    if retentivity is None:
        raise ValueError("retentivity must be given (coadaptation.retentivity(data)), or pass symmetrized=True")
    value = float(retentivity)
    if not 0 <= value <= 0.5:
        raise ValueError(f"retentivity must lie in [0, 1/2], got {value}")
    return 1 / math.sqrt(value) if value > 0 else math.inf


def _clipped_risk(model: ReLUNet, data: Sample, symmetrized: bool) -> float:
    """Squared risk of the clipped outputs; the mean over both signs of the inputs when symmetrized."""
    signs = (1, -1) if symmetrized else (1,)
    losses = [(model.outputs(sign * data.inputs).clamp(-1, 1) - data.targets).square().sum(-1) for sign in signs]
    return sum(float(average(loss, data.weights)) for loss in losses) / len(signs)


def _check_range(values: Tensor, name: str) -> None:
    if not values.is_floating_point() or float(values.abs().max()) > 1:
        raise ValueError(f"{name} of the data must be floating point in [-1, 1] for this bound; rescale them")
