"""What the claim on dropped connections compares: penalties over all masks of weights, searches over factors."""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.data import Moments
from droptics.envelopes import induced
from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli
from droptics.models import Connections
from droptics.optima import optimum
from droptics.papers.instances import coin_masks, descend, expected_error, factorizations, moments, normal, tensor
from droptics.penalties import penalty


def drop_connect_optimum(scale: float) -> list[Comparison]:
    """Optimum under DropConnect against descent, and the least penalty of a map against its formula.

    The least penalty is searched over all factors of the map; penalties are sums over all masks of the weights. The
    factors of an optimum attain it, and its bound is tight at widths that hold the solution. Beside an input without
    energy factors of the identity come near it, and none has it.
    """
    found, identity = [], torch.eye(2, dtype=torch.float64)
    idle, even = Moments(tensor([[1.0, 0.0], [0.0, 0.0]]), 0 * identity, 0 * identity), Bernoulli(0.5, 4)
    for near in (0.1, 1e-3):
        U = tensor([[1.0, 1.0], [near, -near]])
        near_one = Connections(U, torch.linalg.inv(U).mT)
        found.append(compare(near_one.U @ near_one.V.mT, "==", identity, f"the identity, {near}"))
        found.append(compare(induced(near_one, idle, even), "==", scale * 0.5, f"idle input, {near}"))
        found.append(compare(penalty(near_one, idle, even), "==", scale * (1 + near**2) / 2, f"of a pair, {near}"))
    shapes_of = ((2, 3, 2, 0.4), (3, 2, 3, 0.7), (2, 3, 1, 0.5), (2, 3, 1, 0.0))
    for seed, (outputs, inputs, width, rate) in enumerate(shapes_of):
        data, masks = moments(seed, outputs, inputs), Bernoulli(rate, inputs * width)
        model, label = Connections(normal(seed, outputs, width), normal(seed + 1, inputs, width)), f"{inputs}-{width}"
        sizes, B, odds = data.xx.diagonal().sqrt(), model.U @ model.V.mT, rate / (1 - rate)

        def added(U: Tensor, V: Tensor, data: Moments = data, odds: float = odds) -> Tensor:
            return odds * (U.square().sum(0) * (data.xx.diagonal() @ V.square())).sum()

        def error(U: Tensor, V: Tensor, data: Moments = data) -> Tensor:
            B = U @ V.mT
            return torch.trace(data.yy) - 2 * (B * data.yx).sum() + ((B @ data.xx) * B).sum()

        drawn = (
            (model.U @ (kept.reshape(inputs, width) / (1 - rate) * model.V).mT, chance)
            for kept, chance in coin_masks([rate] * (inputs * width))
        )
        over_masks = expected_error(drawn, data) - float(error(model.U, model.V))
        found.append(compare(added(model.U, model.V), "==", over_masks, f"all masks, {label}"))
        found.append(compare(penalty(model, data, masks), "==", over_masks, f"penalty, {label}"))
        stated = scale * odds / width * torch.linalg.svdvals(B * sizes).sum() ** 2
        factors, shapes = factorizations(B, width)
        least, _ = descend(lambda A, C, f=factors, g=added: g(*f(A, C)), shapes, starts=2)
        found.append(compare(least, "==", stated, f"least of all factors, {label}", precision=1e-6))
        found.append(compare(induced(model, data, masks), "==", stated, f"library, {label}"))
        found.append(compare(penalty(model, data, masks), ">=", stated / scale, f"this pair, {label}"))
        value, _ = descend(lambda U, V, f=error, g=added: f(U, V) + g(U, V), [model.U.shape, model.V.shape], starts=2)
        ours = optimum(Connections, data, masks)
        found.append(compare(ours.objective, "==", scale * value, f"objective, {label}", precision=1e-5))
        found.append(compare(ours.bound, "<=", value, f"bound below descent, {label}", precision=1e-7))
        paid = penalty(ours.model, data, masks)
        found.append(compare(paid, "==", scale * induced(ours.model, data, masks).value, f"attained, {label}"))
        if width >= outputs or not rate:
            found.append(compare(ours.bound, "==", scale * ours.objective, f"tight, {label}"))
    return found
