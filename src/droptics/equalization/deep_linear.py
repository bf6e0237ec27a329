"""Deep linear networks: the same map with the least penalty."""

from __future__ import annotations

import torch

from droptics.data import Data
from droptics.envelopes.deep_linear import allocation, exact_strengths, input_root, split_laws
from droptics.envelopes.deep_network import least_penalty_network
from droptics.equalization.equalization import equalize_rule
from droptics.errors import NoClosedForm
from droptics.masks import MaskLaw
from droptics.models import DeepLinear


@equalize_rule.register
def equalized_deep(model: DeepLinear, data: Data, masks: MaskLaw) -> DeepLinear:
    """A network with the map of the model and the least penalty that the map allows (droptics-deep-induced).

    At rank one it is equalized in the sense of thesis-def5; at higher rank no network with two or more hidden layers
    is. Needs E x x^T of full rank: otherwise the least penalty need not be attained.
    """
    laws, inputs = split_laws(model, masks)
    if inputs is not None or model.batch_shape:
        raise NoClosedForm("equalized networks are built for one DeepLinear model without masks on its inputs")
    strengths = exact_strengths(laws).detach()
    root = input_root(data)
    if root.singular:
        raise NoClosedForm("the second moment of the inputs is singular, so that the least penalty may not be attained")
    matrix = DeepLinear([weight.detach().double() for weight in model.weights]).matrix()
    left, values, right = torch.linalg.svd(root.down(matrix.mT).mT, full_matrices=False)
    level = 4 * max(matrix.shape) * torch.finfo(model.dtype).eps * values[:1]
    rank = min(int((values > level).sum()), *model.hidden_sizes)
    kept = values[:rank]
    shares = allocation(kept, strengths.to(kept)) if rank else kept.new_zeros(len(laws), 0)
    first, *others = least_penalty_network(left[:, :rank], kept, right[:rank], shares, laws)
    return DeepLinear([weight.to(model.dtype) for weight in (root.up(first.mT).mT, *others)])
