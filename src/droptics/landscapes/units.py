"""Points of a landscape in units in which nothing is large or small: signs of curvatures do not depend on them."""

from __future__ import annotations

import torch

from droptics.data import Data, Moments
from droptics.landscapes.derivatives import to_chain
from droptics.linalg.scales import equilibrate, powers_of_two
from droptics.models import Autoencoder, DeepLinear, Model, TwoLayerLinear
from droptics.optima.objectives import precise

# Rounds of balancing where both layers of a node move.
ROUNDS = 20


def in_own_units(model: Model, data: Data) -> tuple[Model, Moments]:
    """The same point where inputs and targets have size one and the two layers of every hidden node the same norm.

    A linear change of the weights under which the criterion stays, up to the square of the units of the targets, so
    that signs of curvatures stay too. All factors are powers of two. A tied network has no such freedom.
    """
    model, moments = precise(model, Moments.of(data.to(torch.float64)))
    assert isinstance(moments, Moments)
    if isinstance(model, Autoencoder):
        return model, moments
    xx, units = equilibrate(moments.xx)
    size = float(powers_of_two(torch.trace(moments.yy).sqrt()))
    layers = to_chain(model, model.tensors)
    # what a feature that is always zero is multiplied by plays no part
    used = torch.where(moments.xx.diagonal() > 0, units, 0.0)
    layers[0], layers[-1] = layers[0] * used, layers[-1] / size
    # between two nodes both move: several rounds where there are several hidden layers
    for i in [*range(len(layers) - 1)] * (1 if len(layers) == 2 else ROUNDS):
        into, out = layers[i].norm(dim=1), layers[i + 1].norm(dim=0)
        alive = (into > 0) & (out > 0)
        factors = powers_of_two(torch.where(alive, out, 1.0).sqrt() / torch.where(alive, into, 1.0).sqrt())
        layers[i], layers[i + 1] = layers[i] * factors[:, None], layers[i + 1] / factors
    scaled = Moments(xx, moments.yx / units / size, moments.yy / size**2, 1.0, moments.rounding, moments.rank)
    if isinstance(model, DeepLinear):
        return DeepLinear(layers, model.mask_inputs), scaled
    return TwoLayerLinear(layers[1], layers[0].mT), scaled
