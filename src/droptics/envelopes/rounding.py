"""How far rounding can have moved an induced penalty or an envelope: perturbed singular values of the white map.

Whitening returns a root R of E[x x^T] + E with |E| <= eta in units in which every feature has energy one, small
directions left out counted. By Weyl's inequality the squared singular values of W R move by at most
delta = eta || |W_k| ... |W_1| D ||_F^2 with D the root mean squares of the features, a value s hence by at most
min(sqrt(delta), delta / s).
"""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.data import Data, Moments, Sample
from droptics.models import DeepLinear, Model
from droptics.penalties.rounding import input_scale

EPS = torch.finfo(torch.float64).eps


def norm_rounding(model: Model, data: Data, values: Tensor, strength: Tensor) -> Tensor:
    """Of a squared norm of the singular values, for norms of at most sqrt(strength) times the sum of the values.

    That are all but the deep ones: nuclear, k-support, and that of unequal rates. Values reported as zero may have been
    below what the precision of the model carries.
    """
    values = _all(model, values)
    moved = _moved(model, data, values) + _cut(model, values)
    root = strength.detach().to(values).sqrt()
    shift, size = root * moved.sum(-1), root * values.sum(-1)
    return 2 * size * shift + shift.square() + _last(model, values) * size.square()


def deep_rounding(model: DeepLinear, data: Data, values: Tensor, value: Tensor, noise: float) -> Tensor:
    """Of the induced penalty of a deep network, infinite where singular values may have vanished by rounding.

    It grows with every value and is homogeneous of degree two, so values known up to a factor 1 + r give it up to
    (1 + r)^2. `noise` is the largest relative variance of masks on the inputs, whose own part has no cancellation.
    """
    values = _all(model, values)
    alive = values > 0
    moved = _moved(model, data, values) * (1 + noise)
    factor = torch.where(alive, moved / torch.where(alive, values, 1.0), 0.0).amax(-1)
    fixed = value.detach().double().abs()
    count = 64 * (len(data) if isinstance(data, Sample) else 1) * model.input_size
    own = noise * count * torch.finfo(model.dtype).eps * _reach(model, data).square()
    known = (2 * factor + factor.square() + _last(model, values)) * fixed + own
    # behind a layer of zeros there was nothing that could vanish
    nothing = torch.stack([(weight == 0).flatten(-2).all(-1) for weight in model.weights]).any(0)
    return torch.where(alive.all(-1) | nothing, known, torch.inf)


def _all(model: Model, values: Tensor) -> Tensor:
    """As many values as the map can have; those in directions left out by `whiten` are zeros."""
    rank = min(min(part.shape[-2:]) for part in model.tensors)
    return torch.nn.functional.pad(values, (0, rank - values.shape[-1]))


def _moved(model: Model, data: Data, values: Tensor) -> Tensor:
    delta = (_backward_error(data) * _reach(model, data).square()).unsqueeze(-1)
    return torch.minimum(delta.sqrt(), delta / values.clamp_min(torch.finfo(values.dtype).tiny))


def _cut(model: Model, values: Tensor) -> Tensor:
    level = 4 * max(max(part.shape[-2:]) for part in model.tensors) * torch.finfo(model.dtype).eps
    return torch.where(values > 0, 0.0, level * values.amax(-1, keepdim=True))


def _backward_error(data: Data) -> float:
    """`eta`: that of an orthogonal factorization, column by column, and the directions that `whiten` leaves out."""
    precision = torch.finfo(data.dtype).eps
    if isinstance(data, Moments):
        return 64 * len(data.xx) * data.rounding
    assert isinstance(data, Sample)
    count, size = data.inputs.shape
    # units are powers of two: up to a factor 2 off
    left_out = 2 * max(16 * (size + 4) * EPS, 4 * size**0.5 * precision)
    return left_out**2 + 64 * max(count, 1) * size * EPS


def _reach(model: Model, data: Data) -> Tensor:
    if isinstance(model, DeepLinear):
        whole = DeepLinear([weight.abs().double() for weight in model.weights]).matrix()
    else:
        outgoing, incoming = model.tensors[0], model.tensors[-1]
        whole = outgoing.abs().double() @ incoming.abs().double().mT
    return torch.linalg.matrix_norm(whole * input_scale(data).double())


def _last(model: Model, values: Tensor) -> float:
    """Of the last sums, relative to the result, and of its conversion to the precision of the model."""
    return torch.finfo(model.dtype).eps + 64 * values.shape[-1] * EPS
