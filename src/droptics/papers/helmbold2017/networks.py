"""The networks and example distributions of the paper, with the exact values of their dropout criterion.

K inputs, width n, depth d (d - 1 hidden layers and a linear output), drop = q, keep = p = 1 - q. Every formula is
exact for masks on inputs and hidden units; `tests/papers/test_helmbold2017.py` compares each with the exact routine.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from droptics.checks import check_positive
from droptics.data import Sample
from droptics.models import ReLUNet


def full(*shape: int, value: float = 1.0) -> Tensor:
    """A constant matrix in double precision."""
    return torch.full(shape, value, dtype=torch.float64)


def two_points(inputs: Tensor, target: float = 1.0) -> Sample:
    """P_(x,y) of Definition 1: (x, y) and (0, 0) with probability one half each (helmbold2017-def1)."""
    inputs = inputs.double()
    return Sample(torch.stack([inputs, torch.zeros_like(inputs)]), torch.tensor([[target], [0.0]], dtype=torch.float64))


def one_point(inputs: Tensor, target: float = 1.0) -> Sample:
    """The single example (x, y), the distribution of the appendix."""
    return Sample(inputs.double()[None], torch.tensor([[target]], dtype=torch.float64))


# -- the worked example and its relatives -----------------------------------------------------------------------


def worked_example(target: float = 8.0) -> tuple[ReLUNet, Sample]:
    """Two inputs, two hidden units, all weights one, x = (1, -1) (helmbold2017-fig1): criterion 54, risk 64 at 1/2."""
    return ReLUNet([full(2, 2), full(1, 2)]), one_point(torch.tensor([1.0, -1.0]), target)


def worked_penalty(drop: float, target: float = 8.0) -> float:
    """Penalty of the worked example (and of x = (1, -2)): (q/p)(4 + 2 q/p) - 4 q y (helmbold2017-eq2, -thm20).

    Linear in the label; for y = 8 it falls to -10 at drop 1/2 and rises after.
    """
    odds = drop / (1 - drop)
    return odds * (4 + 2 * odds) - 4 * drop * target


def label_example(target: float) -> tuple[ReLUNet, Sample]:
    """The network of helmbold2017-thm20: x = (1, -2), without dropout silent, so the penalty depends on the label."""
    return ReLUNet([full(2, 2), full(1, 2)]), one_point(torch.tensor([1.0, -2.0]), target)


def negative_examples() -> list[tuple[str, ReLUNet, Sample, float]]:
    """The three smallest reasons for a negative penalty at drop 1/2 (helmbold2017-thm19), with their exact values.

    A negative input, a negative hidden weight, a negative hidden bias; negative output weights alone never suffice.
    """
    one = full(1, 1)
    return [
        ("input", ReLUNet([full(1, 2), one]), one_point(torch.tensor([1.0, -1.0]), 4.0), -2.0),
        (
            "hidden weight",
            ReLUNet([torch.tensor([[1.0, -1.0]]).double(), one]),
            one_point(torch.ones(2), 4.0),
            -2.0,
        ),
        ("hidden bias", ReLUNet([one, one], [-full(1), None]), one_point(torch.ones(1), 2.0), -1.0),
    ]


# -- growth with depth ------------------------------------------------------------------------------------------


def growth_network(inputs: int, width: int, depth: int, target: float) -> ReLUNet:
    """All weights (y / (K n^(d-1)))^(1/d), no biases: the output is y on x = 1 (helmbold2017-thm18)."""
    _check(inputs, width, depth)
    weight = (target / (inputs * width ** (depth - 1))) ** (1 / depth)
    return _chain(full(width, inputs, value=weight), width, depth, weight, weight)


def growth_criterion(inputs: int, width: int, depth: int, target: float, drop: float = 0.5) -> float:
    """Its criterion on the single example: y^2 ((1 + q/(pK)) (1 + q/(pn))^(d-1) - 1) (helmbold2017-thm18)."""
    odds = drop / (1 - drop)
    return target**2 * ((1 + odds / inputs) * (1 + odds / width) ** (depth - 1) - 1)


def growth_weight_decay(inputs: int, width: int, depth: int, target: float, strength: float) -> float:
    """Its weight-decay penalty: strength/2 c^2 (K n + n^2 (d - 2) + n), c the common weight (helmbold2017-thm18)."""
    weight = (target / (inputs * width ** (depth - 1))) ** (1 / depth)
    return strength / 2 * weight**2 * (inputs * width + width**2 * (depth - 2) + width)


# -- negative weights -------------------------------------------------------------------------------------------


def gadget_network(inputs: int, width: int, depth: int, drop: float = 0.5, bias: float = 0.0) -> ReLUNet:
    """First-one gadgets, layers of ones, best output weights (helmbold2017-lem9, -lem10).

    Node i of a gadget has weight +1 on input i and -1 on the inputs before it: on a 0/1 input that is not zero one
    node of each gadget fires. With an output bias b the output weights are scaled by 1 - b. K must divide n.
    """
    _check(inputs, width, depth)
    if width % inputs:
        raise ValueError(f"width must be a multiple of the inputs, got {width} and {inputs}; use {inputs} more units")
    gadget = torch.eye(inputs, dtype=torch.float64) - torch.tril(full(inputs, inputs), -1)
    keep = 1 - drop
    scale = keep * inputs / (width ** (depth - 1) * _gadget_noise(inputs, width, depth, drop))
    return _chain(gadget.repeat(width // inputs, 1), width, depth, 1.0, (1 - bias) * scale, bias)


def gadget_criterion(inputs: int, width: int, depth: int, drop: float = 0.5, bias: float = 0.0) -> float:
    """Its criterion on P_(1,1): (b^2 + t (1 - b)^2) / 2, t = 1 - (1 - q^K)/D (helmbold2017-lem10, any rate).

    D = (1 + qK/(pn)) (1 + q/(pn))^(d-2).
    """
    rest = 1 - (1 - drop**inputs) / _gadget_noise(inputs, width, depth, drop)
    return (bias**2 + rest * (1 - bias) ** 2) / 2


def gadget_best_bias(inputs: int, width: int, depth: int, drop: float = 0.5) -> float:
    """The best output bias t / (1 + t); the criterion is then half of it."""
    rest = 2 * gadget_criterion(inputs, width, depth, drop)
    return rest / (1 + rest)


def gadget_limit(inputs: int, drop: float = 0.5) -> float:
    """Criterion of gadgets with the best bias as the width grows: q^K / (2 (1 + q^K))."""
    return drop**inputs / (2 * (1 + drop**inputs))


def nor_network(inputs: int, width: int, drop: float = 0.5) -> ReLUNet:
    """Equal units relu(1 - p sum x) that fire only when every input is gone, negative output weights (depth 2).

    Better than the gadgets: its noise is 1/n instead of K/n.
    """
    _check(inputs, width, 2)
    base, value = _nor_levels(inputs, width, drop)
    first = full(width, inputs, value=-(1 - drop))
    return ReLUNet([first, full(1, width, value=-(base - value) / width)], [full(width), full(1, value=base)])


def nor_criterion(inputs: int, width: int, drop: float = 0.5) -> float:
    """Its criterion on P_(1,1): (Q + g) / (2 (1 + Q)), Q = q^K, g = kappa (1-Q)/(1-Q+2 kappa), kappa = q/(pn)."""
    gone = drop**inputs
    return (gone + _nor_noise(inputs, width, drop)) / (2 * (1 + gone))


def positive_network(inputs: int, width: int, drop: float = 0.5) -> ReLUNet:
    """The best network of depth 2 with non-negative weights on P_(1,1): equal units, equal weights."""
    _check(inputs, width, 2)
    slope, mean = _positive_slope(inputs, width, drop)
    # a kept input arrives as 1/p; the output weight is divided over the width
    first = full(width, inputs)
    head = full(1, width, value=slope * (1 - drop) / width)
    return ReLUNet([first, head], [None, full(1, value=(1 - slope * mean) / 2)])


def positive_minimum(inputs: int, width: int, drop: float = 0.5) -> float:
    """Least criterion on P_(1,1) of depth-2 networks of this width with non-negative weights (sharpens -lem16).

    se / (2 (mu^2 + 2 se)) with mu = Kp, s2 = Kpq, se = s2 + (q/p)(s2 + mu^2)/n.
    """
    mean, spread = _positive_moments(inputs, width, drop)
    return spread / (2 * (mean**2 + 2 * spread))


def positive_infimum(inputs: int, drop: float = 0.5) -> float:
    """Infimum over all widths and depths with non-negative weights: q / (2 (Kp + 2q)); 1/(2(K+2)) at drop 1/2."""
    return drop / (2 * (inputs * (1 - drop) + 2 * drop))


# -- weight decay -----------------------------------------------------------------------------------------------


def weight_decay_minimum(inputs: Tensor, strength: float) -> float:
    """Least risk + strength/2 ||weights||^2 on P_(x,1), depth 2: (1-A)^2/4 + strength A/s (helmbold2017-thm7).

    s = ||x||, A = max(0, 1 - 2 strength / s); biases are free. At 2 strength >= s the zero network is optimal.
    """
    norm = float(inputs.double().norm())
    reached = max(0.0, 1 - 2 * strength / norm) if norm > 0 else 0.0
    return (1 - reached) ** 2 / 4 + (strength * reached / norm if norm > 0 else 0.0)


def weight_decay_aversion(inputs: Tensor, strength: float) -> float:
    """Risk of the weight-decay optimum on P_(x,1): min(1/4, strength^2 / x.x); it depends on the scale of x.

    For x = 0 the two examples coincide in their inputs, the least risk is 1/4 as well, and the aversion is 0.
    """
    energy = float(inputs.double().square().sum())
    return 0.0 if energy == 0 else min(0.25, strength**2 / energy)


# -- helpers ----------------------------------------------------------------------------------------------------


def _chain(first: Tensor, width: int, depth: int, hidden: float, output: float, bias: float = 0.0) -> ReLUNet:
    middle = [full(width, width, value=hidden)] * (depth - 2)
    biases: list[Tensor | None] = [None] * (depth - 1)
    return ReLUNet([first, *middle, full(1, width, value=output)], [*biases, full(1, value=bias)])


def _check(inputs: int, width: int, depth: int) -> None:
    check_positive("inputs", inputs)
    check_positive("width", width)
    if depth < 2:
        raise ValueError(f"depth must be at least 2 (one hidden layer), got {depth}")


def _gadget_noise(inputs: int, width: int, depth: int, drop: float) -> float:
    odds = drop / (1 - drop)
    return (1 + odds * inputs / width) * (1 + odds / width) ** (depth - 2)


def _nor_noise(inputs: int, width: int, drop: float) -> float:
    kappa = drop / ((1 - drop) * width)
    alive = -math.expm1(inputs * math.log(drop))
    return kappa * alive / (alive + 2 * kappa)


def _nor_levels(inputs: int, width: int, drop: float) -> tuple[float, float]:
    """Output with at least one input kept (the bias), and with none."""
    gone = drop**inputs
    noise = _nor_noise(inputs, width, drop)
    return 1 - noise / (1 - gone), (gone + noise) / (1 + gone)


def _positive_moments(inputs: int, width: int, drop: float) -> tuple[float, float]:
    keep = 1 - drop
    mean, variance = inputs * keep, inputs * keep * drop
    return mean, variance + drop / keep * (variance + mean**2) / width


def _positive_slope(inputs: int, width: int, drop: float) -> tuple[float, float]:
    mean, spread = _positive_moments(inputs, width, drop)
    return mean / (mean**2 + 2 * spread), mean
