r"""How the units of a family reach its outputs: the one rule that a family linear in the mask states.

Outputs under multipliers z are f(x; z) = f(x; 0) + sum_j z_j g_j(x). A family says what g_j is; everything else is a
reading of it. Summed over examples it is the unit Gram matrix, hence the penalty; read for one example it is the
covariance of the prediction.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from droptics.answers import checked_rules
from droptics.arguments import Inputs, check_arguments
from droptics.checks import check_same_kind
from droptics.errors import NoClosedForm
from droptics.models import Autoencoder, Connections, Factorization, LastLayer, Model, TwoLayerLinear


class UnitOutputs(NamedTuple):
    """g_j(x) = features_j(x) head_j(x): what unit j adds to the outputs.

    Features are (..., examples, units), the head is (..., examples or 1, outputs, units), with 1 where the outgoing
    weights are the same for all examples.
    """

    features: Tensor
    head: Tensor

    @property
    def contributions(self) -> Tensor:
        """g_j(x) written out, (..., examples, outputs, units)."""
        return self.features.unsqueeze(-2) * self.head


@checked_rules
def unit_outputs(model: Model, inputs: Inputs) -> UnitOutputs:
    """What every unit adds to the outputs, for families linear in the mask; one rule per family (droptics-predictive).

    These are the g_j(x) of f(x; z) = sum_j z_j g_j(x). A family whose outgoing weights depend on the example
    returns features of ones and a head with all examples.

    Cost: one pass up to the masked layer.
    """
    raise NoClosedForm(
        f"the outputs of {type(model).__name__} are not known to be linear in the mask, so there is no closed form "
        "here; use Enumerate() or MonteCarlo(), or register a rule with unit_outputs.register"
    )


def is_linear_in_masks(model: Model) -> bool:
    """Whether the family has a rule, so that its outputs are known to be linear in the mask.

    Cost: nothing is computed. Claim: none, a reading of the rules.
    """
    check_arguments(is_linear_in_masks, locals())
    return unit_outputs.dispatch(type(model)) is not unit_outputs.dispatch(Model)


@unit_outputs.register
def _(model: TwoLayerLinear, inputs: Tensor) -> UnitOutputs:
    check_same_kind({"model": model.V, "inputs": inputs})
    return UnitOutputs(inputs @ model.V, model.U.unsqueeze(-3))


@unit_outputs.register
def _(model: Autoencoder, inputs: Tensor) -> UnitOutputs:
    return unit_outputs(model.untied, inputs)


# DropConnect: unit (i, k) contributes u_k V_ik x_i. The printed regularizer (pal2020-thm4.1) is that of dropout and
# differs unless the inputs are uncorrelated.
@unit_outputs.register
def _(model: Connections, inputs: Tensor) -> UnitOutputs:
    check_same_kind({"model": model.V, "inputs": inputs})
    features = (inputs.unsqueeze(-1) * model.V.unsqueeze(-3)).flatten(-2)
    head = model.U.unsqueeze(-2).expand(*model.U.shape[:-1], model.input_size, model.width).flatten(-2)
    return UnitOutputs(features, head.unsqueeze(-3))


@unit_outputs.register
def _(model: Factorization, inputs: Tensor) -> UnitOutputs:
    features = model.unit_outputs(inputs)
    return UnitOutputs(features, torch.ones(1, 1, model.units, dtype=features.dtype, device=features.device))


@unit_outputs.register
def _(model: LastLayer, inputs: Tensor) -> UnitOutputs:
    return UnitOutputs(model.features(inputs), model.head.weight.unsqueeze(-3))
