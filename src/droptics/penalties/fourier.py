r"""The logistic penalty exactly, as one integral of a characteristic function.

For a margin m with mean c, log(2 cosh(m / 2)) = log 2 + int_0^inf (1 - cos(m t)) / (t sinh(pi t)) dt, and the rest of
log(1 + e^-m) is linear. So the penalty does not depend on the label and is

    E log(1 + e^-m) - log(1 + e^-c) = int_0^inf Re[e^(ict) (1 - phi(t))] / (t sinh(pi t)) dt,

with phi the characteristic function of m - c, a product over independent units. The midpoint rule of step 2 pi / L
errs, by Poisson summation, by at most (E e^m + E e^-m) e^-L / (1 - e^-L): both means are closed forms, so L is known.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from droptics.masks import MaskLaw
from droptics.penalties.factors import Factor, Moves, factors

# Error of the integral that is accepted, aliasing and cut alike.
TOLERANCE = 1e-14
# Nodes beyond which the integral is refused: margins of several thousand.
MOST = 2**14
# Elements of the largest intermediate tensor.
ROOM = 2**19


def logistic_penalties(moves: Moves, masks: MaskLaw, nodes: int) -> tuple[Tensor, Tensor]:
    """Penalties (..., n) of the margin that `moves` describes by its only output, and bounds of their errors."""
    count = moves.features.shape[-2]
    step = max(1, ROOM // (moves.elements * nodes))
    length = 2 * math.pi * nodes / (-math.log(TOLERANCE) / math.pi)
    found = []
    for start in range(0, count, step):
        outputs, contributions = moves.part(start, min(start + step, count))
        found.append(_integral(outputs, factors(masks, contributions), nodes, length))
    values, errors = (torch.cat(part, -1) for part in zip(*found, strict=True))
    return values, errors


def margin_penalties(outputs: Tensor, parts: list[Factor], tolerance: float, most: int) -> tuple[Tensor, Tensor] | None:
    """The same for margins of mean `outputs` (..., 1) that move by `parts`; None beyond `most` nodes."""
    cut = -math.log(tolerance) / math.pi
    with torch.no_grad():
        size = float(_log_sizes(outputs, parts).max())
    nodes = math.ceil(cut * (size - math.log(tolerance)) / (2 * math.pi)) if math.isfinite(size) else most + 1
    return None if nodes > most else _integral(outputs, parts, nodes, 2 * math.pi * nodes / cut)


def _integral(outputs: Tensor, parts: list[Factor], nodes: int, length: float) -> tuple[Tensor, Tensor]:
    width = 2 * math.pi / length
    times = width * (torch.arange(nodes, dtype=outputs.dtype, device=outputs.device) + 0.5)
    weights = width / (times * torch.sinh(math.pi * times))
    phases = torch.polar(torch.ones_like(outputs * times), outputs * times)
    characteristic = math.prod(part.characteristic(times) for part in parts)
    value = ((phases * (1 - characteristic)).real * weights).sum(-1)
    with torch.no_grad():
        aliased = torch.exp(_log_sizes(outputs, parts) - length) / -math.expm1(-length)
        end = nodes * width
        cut = 4 / (math.pi * end) * math.exp(-math.pi * end) / -math.expm1(-2 * math.pi * end)
        # roundings of the product count with the sum of all weights, about L / 4, those of the angles with their size
        steps = (sum(part.count for part in parts) + 16) * torch.finfo(outputs.dtype).eps
        reach = outputs.abs().squeeze(-1) + 2 * sum(part.reach for part in parts)
        rounded = steps * (2 + float(weights.sum())) + (steps + 16 * torch.finfo(outputs.dtype).eps) * 2 * reach
    return value, aliased + cut + rounded


def needed_nodes(moves: Moves, masks: MaskLaw) -> float:
    """Nodes of the midpoint rule that reach the tolerance for every example."""
    with torch.no_grad():
        count = moves.features.shape[-2]
        step = max(1, ROOM // moves.elements)
        sizes = []
        for start in range(0, count, step):
            outputs, contributions = moves.part(start, min(start + step, count))
            sizes.append(float(_log_sizes(outputs, factors(masks, contributions)).max()))
    length = max(sizes) - math.log(TOLERANCE)
    return math.ceil(-math.log(TOLERANCE) / math.pi * length / (2 * math.pi)) if math.isfinite(length) else math.inf


def _log_sizes(outputs: Tensor, parts: list[Factor]) -> Tensor:
    """log(E e^m + E e^-m), (..., n)."""
    ends = outputs.new_tensor([[1.0], [-1.0]])
    cumulants = sum(part.along(ends).cumulant() for part in parts)
    return torch.logsumexp((outputs.unsqueeze(-2) * ends).squeeze(-1) + cumulants, -1)
