"""Penalties of losses of a margin: outputs linear in the mask under the logistic loss and cross-entropy.

The loss of one margin, two classes, is exact by Fourier (`fourier`); of more classes it has bounds (`certified`).
"""

from __future__ import annotations

import torch

from droptics.data import Data, Sample, average
from droptics.errors import NoClosedForm
from droptics.estimates import Estimate
from droptics.losses import CrossEntropy, Logistic, Loss, Squared, binary_margin, check_labels
from droptics.masks import MaskLaw
from droptics.models import Factorization, LastLayer, LinearModel, Model
from droptics.penalties.certified import certified
from droptics.penalties.factors import Moves, has_factors
from droptics.penalties.fourier import MOST, logistic_penalties, needed_nodes
from droptics.penalties.methods import Certified
from droptics.penalties.rounding import in_double
from droptics.penalties.unit_outputs import is_linear_in_masks


def has_margin(model: Model, masks: MaskLaw, loss: Loss, data: Data | None) -> bool:
    """Whether the loss is that of one margin, exact by Fourier; with data, by so many nodes as are taken."""
    if not (is_binary(model, loss) and is_linear_in_masks(model) and has_factors(masks)):
        return False
    return data is None or needed_nodes(margin_of(moves_of(model, data, loss)[0]), masks) <= MOST


def is_binary(model: Model, loss: Loss) -> bool:
    """Whether the loss is that of one margin: the logistic one, or cross-entropy of two classes."""
    match model:
        case LinearModel():
            outputs = model.output_size
        case LastLayer():
            outputs = model.head.out_features
        case _:
            outputs = 1 if isinstance(model, Factorization) else 0
    return (isinstance(loss, Logistic) and outputs == 1) or (isinstance(loss, CrossEntropy) and outputs == 2)


def moves_of(model: Model, data: Data, loss: Loss) -> tuple[Moves, Sample]:
    """Outputs and what units add to them in float64, and the examples; labels are checked, and play no other part."""
    if not isinstance(data, Sample):
        raise ValueError(f"data must be a Sample for {type(loss).__name__}, got {type(data).__name__}")
    double, known = in_double(model, data)
    assert isinstance(known, Sample)
    moves = Moves.of(double, known.inputs)
    if isinstance(loss, CrossEntropy):
        check_labels(known.targets, moves.offset.shape[-1])
    else:
        binary_margin(moves.offset, known.targets)
    return moves, known


def margin_of(moves: Moves) -> Moves:
    """The margin as the only output; the label does not matter, because the mean does not move."""
    pair = moves.offset.shape[-1] > 1
    return moves.along(moves.head.new_tensor([[1.0, -1.0]])) if pair else moves


def logistic_penalty(model: Model, data: Data, masks: MaskLaw, loss: Loss) -> Estimate:
    """Exact by Fourier for the loss of one margin (droptics-logistic)."""
    if not is_binary(model, loss) or not is_linear_in_masks(model):
        bounded = "Certified(), " if isinstance(loss, CrossEntropy) and is_linear_in_masks(model) else ""
        raise NoClosedForm(
            f"no closed form for {type(loss).__name__} here, only for squared loss and for two classes whose "
            f"outputs are linear in the mask; use {bounded}SecondOrder(), Enumerate() or MonteCarlo()"
        )
    moves, known = moves_of(model, data, loss)
    moves = margin_of(moves)
    nodes = needed_nodes(moves, masks)
    if nodes > MOST:
        raise NoClosedForm(
            f"the margins of this model spread so far that their Fourier integral takes {nodes:.3g} nodes, more than "
            f"{MOST}; use Certified(), Enumerate() or MonteCarlo()"
        )
    return _integrated(moves, known, masks, int(nodes), model.dtype)


def _integrated(moves: Moves, sample: Sample, masks: MaskLaw, nodes: int, dtype: torch.dtype) -> Estimate:
    values, errors = logistic_penalties(moves, masks, nodes)
    weights = None if sample.weights is None else sample.weights.double()
    value = average(values, weights)
    # the mean over examples is done in blocks
    steps = (8 + 2 * len(sample) ** 0.5) * torch.finfo(torch.float64).eps + torch.finfo(dtype).eps
    error = average(errors, weights) + steps * value.detach().abs()
    return Estimate.exact(value.to(dtype), f"exact by Fourier, {nodes} nodes", 2, error.to(dtype))


def certified_penalty(model: Model, data: Data, masks: MaskLaw, method: Certified, loss: Loss) -> Estimate:
    """Two-sided bounds, exact for two classes whose margins do not spread too far."""
    if not isinstance(loss, CrossEntropy | Logistic):
        exact = "ClosedForm(), which is exact" if isinstance(loss, Squared) else "Enumerate() or MonteCarlo()"
        raise NoClosedForm(f"Certified() bounds CrossEntropy() and Logistic(), got {type(loss).__name__}; use {exact}")
    moves, known = moves_of(model, data, loss)
    if moves.offset.shape[-1] <= 2:
        nodes = needed_nodes(margin_of(moves), masks)
        if nodes <= MOST:
            return _integrated(margin_of(moves), known, masks, int(nodes), model.dtype)
    if isinstance(loss, Logistic):  # the softmax of (f, 0)
        moves = moves.along(moves.head.new_tensor([[1.0], [0.0]]))
    return certified(moves, known, masks, method.condition, model.dtype)
