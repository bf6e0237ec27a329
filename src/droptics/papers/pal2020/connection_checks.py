"""What the claims of Pal, Lane, Vidal and Haeffele 2020 on DropConnect compare; letters as in `checks`."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from droptics.data import Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli
from droptics.models import Connections, TwoLayerLinear
from droptics.papers.instances import coin_masks, normal, sample, uniform
from droptics.papers.pal2020.checks import error, unitwise
from droptics.penalties import penalty


def drop_connect(formula: Callable[[Connections, Sample, float], Tensor]) -> list[Comparison]:
    """A formula for the DropConnect penalty against all masks of the weights; inputs plain, and after ReLUs g(X).

    The network of the library has the outputs of U (Z o V)^T / theta, its masks one for all examples or one for each.
    """
    found = []
    for seed, inputs, width, outputs, drop in (
        (2, 3, 2, 2, 0.5),
        (5, 3, 2, 2, 0.3),
        (6, 2, 4, 1, 0.8),
        (7, 4, 1, 3, 0.6),
    ):
        data = sample(seed, 5, inputs, outputs)
        if seed > 5:
            data = Sample(torch.relu(data.inputs @ normal(seed, inputs, inputs) + 0.5), data.targets)
        U, V = normal(seed, outputs, width), normal(seed + 1, inputs, width)
        plain, total = float(error(data.inputs @ V @ U.mT, data)), 0.0
        for kept, chance in coin_masks([drop] * (inputs * width)):
            masked = data.inputs @ (kept.reshape(inputs, width) / (1 - drop) * V) @ U.mT
            total += chance * float(error(masked, data))
        label = f"{inputs} inputs, width {width}, drop={drop}"
        coins = torch.stack([uniform(seed + i, inputs * width) for i in range(len(data))]).round() / (1 - drop)
        masks = coins.unflatten(1, (inputs, width)) * V
        for name, given, written in (("one mask", coins[0], masks[:1]), ("masks", coins, masks)):
            wanted = (data.inputs[:, None] @ written)[:, 0] @ U.mT
            found.append(compare(Connections(U, V).outputs(data.inputs, given), "==", wanted, f"{name}, {label}"))
        found.append(compare(formula(Connections(U, V), data, drop), "==", total - plain, label))
    return found


def of_connections(model: Connections, data: Sample, drop: float) -> Tensor:
    """The library's penalty of DropConnect."""
    return penalty(model, data, Bernoulli(drop, model.V.numel())).value


def by_connections(model: Connections, data: Sample, drop: float) -> Tensor:
    """The corrected formula: gamma sum_k ||u_k||^2 sum_i v_ik^2 ||M_i||^2 / n, M_i the rows of inputs."""
    return drop / (1 - drop) * (model.U.square().sum(0) * (data.inputs.square().mean(0) @ model.V.square())).sum()


def as_dropout(model: Connections, data: Sample, drop: float) -> Tensor:
    """The printed formula, that of dropout: gamma sum_i ||u_i||^2 ||M^T v_i||^2 / n."""
    return unitwise(TwoLayerLinear(model.U, model.V), data, drop, 1)


def uncorrelated_inputs(correlation: float) -> list[Comparison]:
    """Dropout's formula and the library's penalties against all masks of V; rows of X orthogonal but for `correlation`.

    The rows of X differ in length and are correlated in pairs; a single input has none to be correlated with.
    """
    found = []
    for seed, inputs, width, outputs, drop in ((1, 2, 3, 2, 0.4), (4, 3, 2, 1, 0.7), (6, 1, 4, 3, 0.4)):
        rows = torch.linalg.qr(normal(seed, 7, inputs)).Q
        rows = (rows + correlation * rows.roll(1, 1)) * torch.linspace(1.0, 2.0, inputs).double()
        data = Sample(rows, normal(seed + 1, 7, outputs))
        U, V = normal(seed + 2, outputs, width), normal(seed + 3, inputs, width)
        plain, total = float(error(data.inputs @ V @ U.mT, data)), 0.0
        for kept, chance in coin_masks([drop] * (inputs * width)):
            masked = (kept.reshape(inputs, width) / (1 - drop)) * V
            total += chance * float(error(data.inputs @ masked @ U.mT, data))
        label = f"{inputs} inputs, correlation {correlation}"
        units = (U.square().sum(0) * (data.inputs @ V).square().mean(0)).sum()
        found.append(compare(drop / (1 - drop) * units, "==", total - plain, f"formula of dropout, {label}"))
        dropped = penalty(TwoLayerLinear(U, V), data, Bernoulli(drop, width))
        found.append(compare(dropped, "==", drop / (1 - drop) * units, f"library, dropout, {label}"))
        ours = penalty(Connections(U, V), data, Bernoulli(drop, inputs * width))
        found.append(compare(ours, "==", total - plain, f"library, connections, {label}"))
        of_moments = penalty(Connections(U, V), Moments.of(data), Bernoulli(drop, inputs * width))
        found.append(compare(of_moments, "==", total - plain, f"library, connections, moments, {label}"))
    return found


def per_unit_ratio(share: float) -> list[Comparison]:
    """Per unit, dropout over DropConnect penalty = v^T G v / v^T diag(G) v: a Rayleigh quotient of the correlations.

    Both penalties are also averages over all masks of the unit and of its connections.
    """
    found = []
    for seed, drop in ((1, 0.3), (11, 0.6)):
        data = sample(seed, 9, 4, 2)
        G = data.inputs.mT @ data.inputs / len(data)
        scale = torch.diagonal(G).sqrt()
        values, vectors = torch.linalg.eigh(G / torch.outer(scale, scale))
        directions = torch.cat([normal(seed + 2, 4, 6), vectors / scale[:, None]], dim=1)
        for v in directions.mT:
            U, V = normal(seed + 4, 2, 1), v[:, None]
            dropped = penalty(TwoLayerLinear(U, V), data, Bernoulli(drop, 1)).value
            cut = penalty(Connections(U, V), data, Bernoulli(drop, 4)).value
            for mine, coins, name in ((dropped, 1, "dropout"), (cut, 4, "DropConnect")):
                moved = (
                    (data.inputs @ (V * (kept[:, None] / (1 - drop) - 1)), chance)
                    for kept, chance in coin_masks([drop] * coins)
                )
                masked = sum(chance * (move @ U.mT).square().sum(1).mean() for move, chance in moved)
                found.append(compare(mine, "==", masked, f"{name} over all masks"))
            found.append(compare(dropped / cut, "<=", share * values[-1], "at most the largest eigenvalue"))
            found.append(compare(dropped / cut, ">=", values[0] / share, "at least the smallest"))
            if v.equal(directions[:, -1]):
                found.append(compare(dropped / cut, "==", share * values[-1], "the largest is attained"))
            if v.equal(directions[:, 6]):
                found.append(compare(dropped / cut, "==", values[0] / share, "the smallest is attained"))
        found.append(compare(values[0], "<", 1.0, "there DropConnect adds more"))
        found.append(compare(values[-1], ">", 1.0, "there dropout adds more"))
    return found
